//! Manifests in the format of mtree(5).
//!
//! Of its keywords `type`, `uid`, `gid`, `mode`, `link`, `device`, `time`, `contents`, `size` and `optional` count. Those that name users and groups,
//! or only check a file that is there, change nothing.

use std::collections::BTreeMap;

use uext4_ondisk::{DevNo, Timestamp};

use crate::input::path_of;

use super::rule::{Made, Rule, Target, Wrong, device, link_target, mode, number, path};

/// Keywords that change nothing.
const IGNORED: [&str; 26] = [
    "cksum",
    "flags",
    "gname",
    "ignore",
    "inode",
    "md5",
    "md5digest",
    "nlink",
    "nochange",
    "resdevice",
    "ripemd160digest",
    "rmd160",
    "rmd160digest",
    "sha1",
    "sha1digest",
    "sha256",
    "sha256digest",
    "sha384",
    "sha384digest",
    "sha512",
    "sha512digest",
    "tags",
    "uname",
    "wildcard",
    "gen",
    "all",
];

/// Values by keyword.
type Keywords = BTreeMap<Vec<u8>, Vec<u8>>;

/// The rules of a file.
///
/// # Errors
/// The number of a line that can't be, and what is wrong.
pub(super) fn parse(bytes: &[u8]) -> std::result::Result<Vec<Rule>, (usize, Wrong)> {
    let mut reader = Reader::default();
    let mut joined: Vec<u8> = Vec::new();
    let mut first = 0;
    for (i, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if joined.is_empty() {
            first = i + 1;
        }
        match line.strip_suffix(b"\\") {
            Some(part) => {
                joined.extend_from_slice(part);
                joined.push(b' ');
            }
            None => {
                joined.extend_from_slice(line);
                reader.line(first, &joined).map_err(|what| (first, what))?;
                joined.clear();
            }
        }
    }
    match joined.is_empty() {
        true => Ok(reader.rules),
        false => Err((first, "the line continues behind the end".into())),
    }
}

#[derive(Default)]
struct Reader {
    /// What `/set` gave.
    defaults: Keywords,
    /// The directory that names without a slash are in.
    dir: Vec<Vec<u8>>,
    rules: Vec<Rule>,
}

impl Reader {
    fn line(&mut self, line: usize, text: &[u8]) -> std::result::Result<(), Wrong> {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            return Ok(());
        }
        let mut words = text
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default();
        match first {
            b"/set" => self.defaults.extend(words.map(keyword)),
            b"/unset" => {
                for word in words {
                    match word {
                        b"all" => self.defaults.clear(),
                        _ => drop(self.defaults.remove(word)),
                    }
                }
            }
            b".." => {
                let above = self.dir.pop();
                above.ok_or("`..` leads out of the root")?;
            }
            _ => {
                let mut keywords = self.defaults.clone();
                keywords.extend(words.map(keyword));
                self.entry(line, &decoded(first), &keywords)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        line: usize,
        name: &[u8],
        keywords: &Keywords,
    ) -> std::result::Result<(), Wrong> {
        let has_slash = name.contains(&b'/');
        let whole = match has_slash {
            true => path(name)?,
            false => path(&[&self.dir.join(&b'/')[..], name].join(&b'/'))?,
        };
        let mut rule = Rule::new(line, Target::Path(whole));
        for (key, value) in keywords {
            let text = || {
                let wrong = |_| format!("a value is not UTF-8: {}", value.escape_ascii());
                str::from_utf8(value).map_err(wrong)
            };
            match &key[..] {
                b"uid" => rule.uid = Some(number("uid", text()?)?),
                b"gid" => rule.gid = Some(number("gid", text()?)?),
                b"mode" => rule.mode = Some(mode(text()?)?),
                b"time" => rule.mtime = Some(time(text()?)?),
                b"size" => rule.size = Some(number("size", text()?)?),
                b"optional" => rule.optional = true,
                b"type" | b"link" | b"device" | b"contents" | b"content" => {}
                other if IGNORED.iter().any(|key| key.as_bytes() == other) => {}
                other => return Err(format!("keyword `{}` is unknown", other.escape_ascii())),
            }
        }
        rule.made = made(keywords)?;
        if rule.made == Some(Made::Directory) && !has_slash && name != b"." {
            self.dir.push(name.to_vec());
        }
        self.rules.push(rule);
        Ok(())
    }
}

/// A keyword and its value, which may be missing.
fn keyword(word: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match word.iter().position(|byte| *byte == b'=') {
        Some(at) => (word[..at].to_vec(), word[at + 1..].to_vec()),
        None => (word.to_vec(), Vec::new()),
    }
}

fn made(keywords: &Keywords) -> std::result::Result<Option<Made>, Wrong> {
    let get = |key: &[u8]| keywords.get(key).map(Vec::as_slice);
    let number = || {
        let text = get(b"device").ok_or("a device needs device=")?;
        device_number(&text.escape_ascii().to_string())
    };
    Ok(Some(match get(b"type") {
        None => return Ok(None),
        Some(b"dir") => Made::Directory,
        Some(b"file") => {
            let from = get(b"contents").or(get(b"content")).map(decoded);
            Made::File(from.map(|from| path_of(&from)))
        }
        Some(b"link") => {
            let target = get(b"link").ok_or("a link needs link=")?;
            Made::Link(link_target(&decoded(target))?)
        }
        Some(b"char") => Made::Char(number()?),
        Some(b"block") => Made::Block(number()?),
        Some(b"fifo") => Made::Fifo,
        Some(b"socket") => Made::Socket,
        Some(other) => return Err(format!("type `{}` is unknown", other.escape_ascii())),
    }))
}

/// A device: `FORMAT,MAJOR,MINOR`, or the number that Linux has for it.
fn device_number(text: &str) -> std::result::Result<DevNo, Wrong> {
    let parts: Vec<&str> = text.split(',').collect();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let both = match parts[..] {
        [_, major, minor] => number(major).zip(number(minor)),
        [whole] => number(whole).map(|n| (n >> 8 & 0xfff, n & 0xff | n >> 12 & 0xf_ff00)),
        _ => None,
    };
    let (major, minor) = both.ok_or_else(|| format!("device can't be `{text}`"))?;
    let narrow = |n| u32::try_from(n).unwrap_or(u32::MAX);
    device(Some((narrow(major), narrow(minor))))
}

/// Seconds, and a number of nanoseconds behind a point.
fn time(text: &str) -> std::result::Result<Timestamp, Wrong> {
    let (sec, nsec) = text.split_once('.').unwrap_or((text, "0"));
    let nsec: u32 = number("time", nsec)?;
    match nsec < 1_000_000_000 {
        true => Ok(Timestamp::new(number("time", sec)?, nsec)),
        false => Err(format!("time can't be `{text}`")),
    }
}

/// A name without the escapes of vis(3).
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        rest = match after {
            [
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            [letter, after @ ..] => {
                out.push(match letter {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b's' => b' ',
                    b't' => b'\t',
                    b'v' => 11,
                    other => *other,
                });
                after
            }
            [] => {
                out.push(b'\\');
                &[]
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(rules: &[Rule]) -> Vec<&[u8]> {
        let path = |rule: &'_ Rule| match &rule.target {
            Target::Path(path) => path.clone(),
            Target::Glob(_) => panic!("a pattern"),
        };
        assert!(rules.iter().all(|rule| !path(rule).starts_with(b"/")));
        rules
            .iter()
            .map(|rule| match &rule.target {
                Target::Path(path) => &path[..],
                Target::Glob(_) => &[][..],
            })
            .collect()
    }

    #[test]
    fn names_are_in_the_last_directory() {
        let text = b"#mtree\n/set type=file uid=0 mode=0644\n. type=dir mode=0755\n    etc type=dir \\\n    mode=0700\n\
                     a\\040b uid=5 time=12.000000007\n..\n/unset uid\n./usr/bin/x type=link link=y\\\\z\nlast sha256digest=ab nlink=1 optional\n";
        let rules = parse(text).unwrap();
        let expected: [&[u8]; 5] = [b"", b"etc", b"etc/a b", b"usr/bin/x", b"last"];
        assert_eq!(paths(&rules), expected);
        assert_eq!((rules[1].mode, rules[1].uid), (Some(0o700), Some(0)));
        assert_eq!((rules[2].mode, rules[2].uid), (Some(0o644), Some(5)));
        assert_eq!(rules[2].mtime, Some(Timestamp::new(12, 7)));
        assert_eq!(rules[3].made, Some(Made::Link(b"y\\z".to_vec())));
        assert!(rules[3].uid.is_none() && rules[4].optional);
        assert_eq!((rules[1].line, rules[2].line), (4, 6));
    }

    #[test]
    fn devices_have_several_forms() {
        let null = DevNo { major: 1, minor: 3 };
        for text in ["linux,1,3", "native,0x1,0x3", "259", "0x103"] {
            assert_eq!(device_number(text), Ok(null), "{text}");
        }
        for wrong in ["", "1,2", "linux,1,x", "linux,5000,1"] {
            device_number(wrong).unwrap_err();
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line) in [
            ("..", 2),
            ("x type=door", 2),
            ("x uid=a", 2),
            ("x frob=1", 2),
            ("\n\nx type=char", 4),
            ("a type=dir\nx/../y uid=1", 3),
            ("x uid=1 \\", 2),
        ] {
            let error = parse(format!("#mtree\n{text}").as_bytes()).unwrap_err();
            assert_eq!(error.0, line, "{text}: {}", error.1);
        }
    }
}

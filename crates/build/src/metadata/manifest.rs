//! Manifests: lines of a pattern and what the files that it matches are given, or what is made.
//!
//! ```text
//! # Later lines count more.
//! /etc/shadow         mode=640 gid=42
//! *.sh                mode=755
//! /usr/bin/ping       xattr.security.capability=0x0100000200200000000000000000000000000000
//! /dev/null           type=char major=1 minor=3 mode=666
//! ```
//!
//! A file whose first line is `#mtree` is in the format of mtree(5) ([`super::mtree`]).

use std::path::{Path, PathBuf};

use super::mtree;
use super::rule::{Made, Rule, Target, Wrong, device, link_target, mode, number, path};
use crate::error::{MkfsError, Result};

/// Bytes of a manifest.
const BYTES_MAX: u64 = 1 << 30;

/// A manifest that was read.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub path: PathBuf,
    pub rules: Vec<Rule>,
}

impl Manifest {
    /// Reads a manifest of either format.
    ///
    /// # Errors
    /// [`MkfsError::Tree`]; [`MkfsError::Line`] names the line that can't be.
    pub fn read(path: &Path) -> Result<Manifest> {
        let bytes = super::read_file(path, BYTES_MAX)?;
        Manifest::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Manifest> {
        let first = bytes
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let rules = match first.trim_ascii() == b"#mtree" {
            true => mtree::parse(bytes),
            false => parse(bytes),
        };
        let fail = |(line, what)| MkfsError::line(path, line, what);
        Ok(Manifest {
            path: path.to_owned(),
            rules: rules.map_err(fail)?,
        })
    }

    /// An error about a line.
    pub fn wrong(&self, rule: &Rule, what: impl ToString) -> MkfsError {
        MkfsError::line(&self.path, rule.line, what.to_string())
    }
}

fn parse(bytes: &[u8]) -> std::result::Result<Vec<Rule>, (usize, Wrong)> {
    let mut rules = Vec::new();
    for (i, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let rule = str::from_utf8(line)
            .map_err(|_| "the line is not UTF-8".to_owned())
            .and_then(|line| rule(i + 1, line));
        rules.push(rule.map_err(|what| (i + 1, what))?);
    }
    Ok(rules)
}

/// What a line may say beside attributes.
#[derive(Default)]
struct Parts<'a> {
    kind: Option<&'a str>,
    major: Option<u32>,
    minor: Option<u32>,
    target: Option<String>,
    contents: Option<PathBuf>,
}

fn rule(line: usize, text: &str) -> std::result::Result<Rule, Wrong> {
    let words = words(text);
    let (pattern, values) = words.split_first().ok_or("the line is empty")?;
    let mut rule = Rule::new(line, Target::Glob((*pattern).to_owned()));
    let mut parts = Parts::default();
    for word in values {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("`{word}` is not KEY=VALUE"))?;
        let plain = unescaped(value);
        let number = || number(key, &plain);
        match key {
            "uid" => rule.uid = Some(number()?),
            "gid" => rule.gid = Some(number()?),
            "mode" => rule.mode = Some(mode(&plain)?),
            "type" => parts.kind = Some(value),
            "major" => parts.major = Some(number()?),
            "minor" => parts.minor = Some(number()?),
            "target" | "link" => parts.target = Some(plain),
            "contents" => parts.contents = Some(plain.into()),
            _ => match key.strip_prefix("xattr.") {
                Some(name) => rule.xattr(name, plain.as_bytes())?,
                None => {
                    let known = "uid, gid, mode, xattr.NAME, type, major, minor, target, contents";
                    return Err(format!("`{key}` is unknown; there is {known}"));
                }
            },
        }
    }
    rule.made = made(&parts)?;
    if rule.made.is_some() {
        rule.target = Target::Path(plain_path(pattern)?);
    }
    Ok(rule)
}

fn made(parts: &Parts<'_>) -> std::result::Result<Option<Made>, Wrong> {
    let device = || device(parts.major.zip(parts.minor));
    let made = match parts.kind {
        None | Some("char" | "block" | "file" | "link" | "dir" | "fifo") => parts.kind,
        Some(kind) => {
            let known = "char, block, fifo, dir, file and link";
            return Err(format!("type `{kind}` is unknown; there is {known}"));
        }
    };
    let is_device = matches!(made, Some("char" | "block"));
    if !is_device && (parts.major.is_some() || parts.minor.is_some()) {
        return Err("major and minor are of type=char and type=block".into());
    }
    if made != Some("link") && parts.target.is_some() {
        return Err("target is of type=link".into());
    }
    if made != Some("file") && parts.contents.is_some() {
        return Err("contents is of type=file".into());
    }
    Ok(Some(match made {
        Some("char") => Made::Char(device()?),
        Some("block") => Made::Block(device()?),
        Some("fifo") => Made::Fifo,
        Some("dir") => Made::Directory,
        Some("file") => Made::File(parts.contents.clone()),
        Some(_) => {
            let target = parts.target.as_ref().ok_or("a link needs target=")?;
            Made::Link(link_target(target.as_bytes())?)
        }
        None => return Ok(None),
    }))
}

/// The path of a file that is made, without a slash in front.
fn plain_path(pattern: &str) -> std::result::Result<Vec<u8>, Wrong> {
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '*' | '?' | '[' | '{' => return Err("type= needs a path, not a pattern".into()),
            _ => {}
        }
    }
    path(unescaped(pattern).as_bytes())
}

/// Words between spaces; a backslash keeps the letter behind it in the word.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut is_escaped) = (Vec::new(), None, false);
    for (i, letter) in text.char_indices() {
        if letter.is_ascii_whitespace() && !is_escaped {
            if let Some(start) = start.take() {
                words.push(&text[start..i]);
            }
        } else {
            start.get_or_insert(i);
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    words.extend(start.map(|start| &text[start..]));
    words
}

/// Without the backslashes that keep letters.
fn unescaped(text: &str) -> String {
    let mut letters = text.chars();
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_ondisk::DevNo;

    fn rules(text: &str) -> Result<Vec<Rule>> {
        Ok(Manifest::parse("m".as_ref(), text.as_bytes())?.rules)
    }

    #[test]
    fn lines_are_read() {
        let text = "# comment\n\n*.sh mode=0755 uid=1\nmy\\ file gid=2 xattr.user.a=b\\ c\n\
                    /dev/x type=block major=8 minor=1\n/a/l type=link target=../b\n/e xattr.user.h=0x0aFF\n";
        let rules = rules(text).unwrap();
        assert_eq!(rules[0].target, Target::Glob("*.sh".into()));
        assert_eq!((rules[0].mode, rules[0].uid), (Some(0o755), Some(1)));
        assert_eq!(rules[1].target, Target::Glob("my\\ file".into()));
        assert_eq!(rules[1].xattrs[0].2, b"b c");
        assert_eq!(rules[2].target, Target::Path(b"dev/x".to_vec()));
        let number = DevNo { major: 8, minor: 1 };
        assert_eq!(rules[2].made, Some(Made::Block(number)));
        assert_eq!(rules[3].made, Some(Made::Link(b"../b".to_vec())));
        assert_eq!(rules[4].xattrs[0].2, b"\x0a\xff");
        assert_eq!(rules[4].line, 7);
    }

    #[test]
    fn errors_name_the_line() {
        for (line, said) in [
            ("x uid", "`uid` is not KEY=VALUE"),
            ("x uid=a", "uid can't be `a`"),
            ("x mode=888", "mode can't be `888`"),
            ("x frob=1", "`frob` is unknown"),
            ("x xattr.frob.y=1", "no place in ext4"),
            ("x xattr.user.y=0x1", "pairs"),
            ("*/x type=dir", "needs a path"),
            ("/../x type=dir", "none of them `..`"),
            ("/x type=char major=1", "needs major= and minor="),
            ("/x type=block major=4096 minor=1", "up to 4095"),
            ("/x type=link", "needs target="),
            ("/x type=door", "type `door` is unknown"),
            ("/x type=dir major=1", "are of type=char"),
            ("/x contents=y", "contents is of"),
        ] {
            let error = rules(&format!("ok uid=1\n{line}\n"))
                .unwrap_err()
                .to_string();
            let place = error.strip_prefix("m: line 2: ").expect(&error);
            assert!(place.contains(said), "{error}");
        }
    }
}

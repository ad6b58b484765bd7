//! Labels of SELinux, by the lines of a file_contexts: a regular expression of whole paths, a type of file, a label.
//!
//! Source: selabel_file(5), file_contexts(5).

use std::collections::HashMap;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use uext4_ondisk::FileType;

use crate::error::{MkfsError, Result};

/// Bytes of a file of labels.
const BYTES_MAX: u64 = 64 << 20;
/// Letters that mean more than themselves in an expression.
const SPECIAL: &[u8] = b".^$?*+|[({";

/// Labels of files by their paths.
pub(crate) struct Contexts {
    /// In the order in which the last that matches counts.
    lines: Vec<Line>,
    /// Lines by the first name of their paths, where that has no special letter.
    by_name: HashMap<Vec<u8>, Vec<usize>>,
    /// The other lines.
    others: Vec<usize>,
}

struct Line {
    regex: Regex,
    kind: Option<FileType>,
    /// `None`: files keep what they have.
    label: Option<Vec<u8>>,
}

impl Contexts {
    /// Reads a file of labels.
    ///
    /// # Errors
    /// [`MkfsError::Tree`]; [`MkfsError::Line`] names the line that can't be.
    pub fn read(path: &Path) -> Result<Contexts> {
        let bytes = super::read_file(path, BYTES_MAX)?;
        Contexts::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Contexts> {
        // Expressions that match one path only count more than all others.
        let (mut exact, mut patterns) = (Vec::new(), Vec::new());
        for (i, text) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let text = text.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            let wrong = |what: String| MkfsError::line(path, i + 1, what);
            let text = str::from_utf8(text).map_err(|_| wrong("the line is not UTF-8".into()))?;
            let (expression, line) = line(text).map_err(wrong)?;
            let (literal, is_whole) = literal_start(expression);
            let list = if is_whole { &mut exact } else { &mut patterns };
            list.push((first_name(&literal, is_whole), line));
        }
        patterns.append(&mut exact);
        let mut contexts = Contexts {
            lines: Vec::new(),
            by_name: HashMap::new(),
            others: Vec::new(),
        };
        for (i, (name, line)) in patterns.into_iter().enumerate() {
            match name {
                Some(name) => contexts.by_name.entry(name).or_default().push(i),
                None => contexts.others.push(i),
            }
            contexts.lines.push(line);
        }
        Ok(contexts)
    }

    /// The label of a file whose path has a slash in front; `None` if no line has one for it.
    pub fn label(&self, path: &[u8], kind: FileType) -> Option<&[u8]> {
        let name = first_name(path, true).unwrap_or_default();
        let mut lists = [
            self.by_name.get(&name).map_or(&[][..], |list| list),
            &self.others[..],
        ];
        // Both from their ends, so that the last line that matches is found first.
        loop {
            let [a, b] = lists.map(|list| list.last().copied());
            let which = usize::from(a < b);
            let (i, rest) = lists[which].split_last()?;
            lists[which] = rest;
            let line = &self.lines[*i];
            if line.kind.is_none_or(|of| of == kind) && line.regex.is_match(path) {
                return line.label.as_deref();
            }
        }
    }
}

/// An expression, and what its line says.
fn line(text: &str) -> std::result::Result<(&str, Line), String> {
    let mut words = text.split_ascii_whitespace();
    let expression = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let (kind, label) = match rest[..] {
        [label] => (None, label),
        [kind, label] => (Some(file_type(kind)?), label),
        _ => return Err("a line has an expression, maybe a type of file, and a label".into()),
    };
    let regex = RegexBuilder::new(&format!("^(?:{expression})$"))
        .unicode(false)
        .dot_matches_new_line(true)
        .build();
    let regex = regex.map_err(|e| {
        let text = e.to_string();
        let last = text.lines().last().unwrap_or_default().to_owned();
        format!("`{expression}`: {last}")
    })?;
    let label = match label {
        "<<none>>" => None,
        _ if !label.contains(':') => return Err(format!("`{label}` is not a label")),
        // As setfilecon(3) stores it.
        _ => Some([label.as_bytes(), b"\0"].concat()),
    };
    Ok((expression, Line { regex, kind, label }))
}

fn file_type(word: &str) -> std::result::Result<FileType, String> {
    Ok(match word {
        "--" => FileType::Regular,
        "-d" => FileType::Directory,
        "-c" => FileType::CharDevice,
        "-b" => FileType::BlockDevice,
        "-p" => FileType::Fifo,
        "-l" => FileType::Symlink,
        "-s" => FileType::Socket,
        _ => {
            return Err(format!(
                "type `{word}` is unknown; there is --, -d, -c, -b, -p, -l and -s"
            ));
        }
    })
}

/// What all paths that match an expression begin with, and whether that is all of it.
fn literal_start(expression: &str) -> (Vec<u8>, bool) {
    let mut literal = Vec::new();
    if has_alternatives(expression) {
        return (literal, false);
    }
    let mut bytes = expression.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                // A class, such as `\d`.
                Some(letter) if letter.is_ascii_alphanumeric() => return (literal, false),
                Some(letter) => literal.push(letter),
                None => return (literal, false),
            },
            _ if SPECIAL.contains(&byte) => {
                // The letter before may be missing.
                if matches!(byte, b'?' | b'*' | b'{') {
                    literal.pop();
                }
                return (literal, false);
            }
            _ => literal.push(byte),
        }
    }
    (literal, true)
}

/// Whether an expression is one of several outside of all groups.
fn has_alternatives(expression: &str) -> bool {
    let (mut depth, mut in_class) = (0, false);
    let mut bytes = expression.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b']' => in_class = false,
            _ if in_class => {}
            b'[' => in_class = true,
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// The first name of a path, if it is complete: another follows, or the path `is_whole`.
fn first_name(path: &[u8], is_whole: bool) -> Option<Vec<u8>> {
    let path = path.strip_prefix(b"/")?;
    match path.iter().position(|byte| *byte == b'/') {
        Some(end) => Some(path[..end].to_vec()),
        None => is_whole.then(|| path.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts(text: &str) -> Result<Contexts> {
        Contexts::parse("c".as_ref(), text.as_bytes())
    }

    #[test]
    fn the_last_line_that_matches_counts() {
        let contexts = contexts(
            "# comment\n/.*  system_u:object_r:default_t:s0\n/etc/passwd  -- s:passwd\n/etc(/.*)?  s:etc\n\
             /etc/.*\\.sh  --  s:script\n/usr/lib(64)?/.*  s:lib\n/dev/[hs]d[a-z]  -b  s:disk\n/proc/.*  <<none>>\n\
             (/a|/b)/x  s:either\n/opt?/y  s:opt\n/one/(x)|/two/y  s:top\n",
        )
        .unwrap();
        let label = |path: &str, kind| {
            let label = contexts.label(path.as_bytes(), kind);
            label.map(|label| {
                String::from_utf8(label.strip_suffix(b"\0").unwrap().to_vec()).unwrap()
            })
        };
        let (file, dir) = (FileType::Regular, FileType::Directory);
        for (path, kind, expected) in [
            ("/", dir, "system_u:object_r:default_t:s0"),
            ("/etc", dir, "s:etc"),
            ("/etc/hosts", file, "s:etc"),
            // An exact path counts more than expressions behind it.
            ("/etc/passwd", file, "s:passwd"),
            ("/etc/passwd", dir, "s:etc"),
            ("/etc/a/x.sh", file, "s:script"),
            ("/etc/a/x.sh", dir, "s:etc"),
            ("/usr/lib/x", file, "s:lib"),
            ("/usr/lib64/x", file, "s:lib"),
            ("/dev/sda", FileType::BlockDevice, "s:disk"),
            (
                "/dev/sda",
                FileType::CharDevice,
                "system_u:object_r:default_t:s0",
            ),
            ("/b/x", file, "s:either"),
            ("/op/y", file, "s:opt"),
            ("/one/x", file, "s:top"),
            ("/two/y", file, "s:top"),
            ("/etcetera", file, "system_u:object_r:default_t:s0"),
        ] {
            assert_eq!(label(path, kind).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(label("/proc/1", dir), None);
    }

    #[test]
    fn errors_name_the_line() {
        for line in ["/x", "/x -z s:x", "/x( s:x", "/x -- -d s:x", "\u{e4} -- "] {
            let error = contexts(&format!("\n{line}\n")).map(drop).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("c: line 2: "), "{error}");
        }
    }
}

//! Files as text and as JSON.

use crate::system::paths;
use crate::{mode, time_format};
use comfy_table::Table;
use serde::Serialize;
use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::Path;
use uext4::FileKind;
use uext4::unstable::Attr;
use uext4::unstable::{printable, to_stderr};

/// A name for standard output: as it is, but on a terminal without what could control that.
pub fn name(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::io::stdout().is_terminal() {
        true => Cow::Owned(printable_bytes(bytes)),
        false => Cow::Borrowed(bytes),
    }
}

/// Bytes without what could control a terminal, whether it reads UTF-8 or single bytes.
fn printable_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.extend_from_slice(printable(&chunk.valid().replace('\n', r"\n")).as_bytes());
        for byte in chunk.invalid() {
            match byte {
                0x80..=0x9f => text.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                _ => text.push(*byte),
            }
        }
    }
    text
}

/// The path of an image in a line of text.
pub fn image(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

/// A path in an image, without what could control a terminal.
pub fn path_inside(path: &Path) -> String {
    printable(&paths::shown(path).to_string()).into_owned()
}

/// Says something on standard error, in one line.
pub fn warn(message: impl std::fmt::Display) {
    to_stderr(format_args!("uext4: {}", printable(&message.to_string())));
}

/// The letter of a kind of file in `ls -l`.
pub const fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    }
}

/// A kind of file in words.
pub const fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::CharDevice => "char-device",
        FileKind::BlockDevice => "block-device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// `drwxr-xr-x`.
pub fn mode(attr: &Attr) -> String {
    format!("{}{}", letter(attr.kind), mode::letters(attr.mode))
}

/// The bytes in hexadecimal, of a name that is not UTF-8 and so is not the same in JSON.
pub fn hex_unless_text(name: &[u8]) -> Option<String> {
    let is_text = str::from_utf8(name).is_ok();
    (!is_text).then(|| hex(name))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path as JSON has it.
#[derive(Debug, Serialize)]
pub struct PathJson {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl PathJson {
    /// This path.
    pub fn new(path: &[u8]) -> PathJson {
        PathJson {
            path: String::from_utf8_lossy(path).into_owned(),
            path_bytes: hex_unless_text(path),
        }
    }
}

/// A file as JSON has it.
#[derive(Debug, Serialize)]
pub struct FileJson {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
    ino: u64,
    generation: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    nlink: u32,
    uid: u32,
    gid: u32,
    size: u64,
    blocks: u64,
    atime: String,
    mtime: String,
    ctime: String,
    crtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rdev: Option<[u32; 2]>,
    flags: u32,
}

impl FileJson {
    /// A file under a name, and for a symbolic link its target.
    pub fn new(name: &[u8], attr: &Attr, target: Option<&[u8]>) -> FileJson {
        let is_device = matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice);
        FileJson {
            name: String::from_utf8_lossy(name).into_owned(),
            name_bytes: hex_unless_text(name),
            target: target.map(|t| String::from_utf8_lossy(t).into_owned()),
            target_bytes: target.and_then(hex_unless_text),
            ino: attr.ino,
            generation: attr.generation,
            kind: kind(attr.kind),
            mode: format!("{:04o}", attr.mode),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size,
            blocks: attr.blocks,
            atime: time_format::exact(attr.atime),
            mtime: time_format::exact(attr.mtime),
            ctime: time_format::exact(attr.ctime),
            crtime: time_format::exact(attr.crtime),
            rdev: is_device.then_some([attr.rdev_major, attr.rdev_minor]),
            flags: attr.flags,
        }
    }
}

/// Prints one JSON document.
///
/// # Errors
/// Standard output is closed.
pub fn json(document: &impl Serialize) -> anyhow::Result<()> {
    use std::io::Write;
    let text = safe(&serde_json::to_string_pretty(document)?);
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// A document as a line of JSON, with its end.
///
/// # Errors
/// The document cannot be written as JSON.
pub fn json_line(document: &impl Serialize) -> anyhow::Result<String> {
    Ok(safe(&serde_json::to_string(document)?) + "\n")
}

/// JSON without what it lets stand in a string and terminals obey.
fn safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}' => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}

/// Prints one JSON document of all operands: for one operand its own, else a list.
///
/// # Errors
/// Standard output is closed.
pub fn json_of<T>(operands: &[T], mut documents: Vec<impl Serialize>) -> anyhow::Result<()> {
    match (operands.len(), documents.pop()) {
        (1, None) => Ok(()),
        (1, Some(document)) => json(&document),
        (_, last) => {
            documents.extend(last);
            json(&documents)
        }
    }
}

/// A table as lines, without spaces around them.
pub fn table(table: &Table) -> String {
    let text = table.trim_fmt();
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// So many of them.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A number of bytes, short: `1.5 GiB`.
pub fn bytes(n: u64) -> String {
    indicatif::BinaryBytes(n).to_string()
}

#[cfg(test)]
mod tests {
    use super::printable_bytes;

    #[test]
    fn names_control_no_terminal() {
        for (name, shown) in [
            (&b"plain"[..], &b"plain"[..]),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}".as_bytes()),
            (b"a\x1b[2Jb\n\t\x7f", br"a\x1b[2Jb\n\x09\x7f"),
            ("\u{80}\u{9b}31m".as_bytes(), br"\u{80}\u{9b}31m"),
            (b"\x9b31m\x85", br"\x9b31m\x85"),
            (b"Latin \xe9", b"Latin \xe9"),
        ] {
            assert_eq!(printable_bytes(name), shown);
        }
    }
}

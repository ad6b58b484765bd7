//! What a line of a manifest says of files, and values of lines in either format.

use std::path::PathBuf;

use uext4_ondisk::{DevNo, Timestamp, XattrIndex};

use crate::xattrs::on_disk;

/// Which files a line is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Those that a pattern matches.
    Glob(String),
    /// One, by its path without a slash in front.
    Path(Vec<u8>),
}

/// A file that a line describes as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Made {
    Directory,
    /// With the data of a file of the host; without one it is empty if no source has it.
    File(Option<PathBuf>),
    Link(Vec<u8>),
    Char(DevNo),
    Block(DevNo),
    Fifo,
    Socket,
}

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub line: usize,
    pub target: Target,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mode: Option<u16>,
    pub mtime: Option<Timestamp>,
    pub xattrs: Vec<(XattrIndex, Vec<u8>, Vec<u8>)>,
    pub made: Option<Made>,
    /// Nothing is made if no source has it.
    pub optional: bool,
    /// Bytes that the file has, as the line says.
    pub size: Option<u64>,
}

/// A line that can't be, in words.
pub(super) type Wrong = String;

impl Rule {
    /// One that says nothing.
    pub(super) fn new(line: usize, target: Target) -> Rule {
        Rule {
            line,
            target,
            uid: None,
            gid: None,
            mode: None,
            mtime: None,
            xattrs: Vec::new(),
            made: None,
            optional: false,
            size: None,
        }
    }

    /// Adds an extended attribute.
    pub(super) fn xattr(&mut self, name: &str, value: &[u8]) -> std::result::Result<(), Wrong> {
        let value = match value.strip_prefix(b"0x") {
            Some(digits) => hex(digits)
                .ok_or_else(|| format!("{name}: the digits after 0x are not pairs of 0-9, a-f"))?,
            None => value.to_vec(),
        };
        let (index, rest, value) = on_disk(name.as_bytes(), &value)
            .filter(|(_, rest, _)| rest.len() <= 255)
            .ok_or_else(|| format!("attribute {name} has no place in ext4"))?;
        let (rest, value) = (rest.to_vec(), value.into_owned());
        self.xattrs.push((index, rest, value));
        Ok(())
    }
}

/// A target that a link can have.
pub(super) fn link_target(target: &[u8]) -> std::result::Result<Vec<u8>, Wrong> {
    match target.len() {
        1..=4095 if !target.contains(&0) => Ok(target.to_vec()),
        len => Err(format!(
            "the target of a link has {len} bytes, not 1 to 4095, or a zero byte"
        )),
    }
}

/// A device that the word on disk holds.
pub(super) fn device(numbers: Option<(u32, u32)>) -> std::result::Result<DevNo, Wrong> {
    match numbers {
        Some((major @ ..=0xfff, minor @ ..=0xf_ffff)) => Ok(DevNo { major, minor }),
        Some(_) => {
            Err("a device has a major number up to 4095 and a minor one up to 1048575".into())
        }
        None => Err("a device needs major= and minor=".into()),
    }
}

/// The names of a path.
pub(super) fn path(text: &[u8]) -> std::result::Result<Vec<u8>, Wrong> {
    let names = text.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = names.filter(|name| !matches!(*name, b"" | b".")).collect();
    let is_wrong = |name: &&[u8]| *name == b".." || name.len() > 255 || name.contains(&0);
    match names.iter().any(is_wrong) || text.len() > 4095 {
        true => {
            Err("a path has names of 1 to 255 bytes, none of them `..`, 4095 bytes in all".into())
        }
        false => Ok(names.join(&b'/')),
    }
}

pub(super) fn number<T: std::str::FromStr>(key: &str, text: &str) -> std::result::Result<T, Wrong> {
    text.parse().map_err(|_| format!("{key} can't be `{text}`"))
}

/// Permission bits, octal.
pub(super) fn mode(text: &str) -> std::result::Result<u16, Wrong> {
    u16::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| format!("mode can't be `{text}`; it is octal, up to 7777"))
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.chunks(2);
    pairs
        .map(|two| Some((value(&two[0])? << 4 | value(&two[1])?) as u8))
        .collect()
}

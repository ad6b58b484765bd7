//! The directives of `stat -c`.

use crate::accounts::Accounts;
use crate::{quoted, show, time_format};
use std::path::Path;
use uext4::unstable::Attr;
use uext4::{FileKind, Timestamp};

/// A file whose attributes are printed.
pub struct Subject<'a> {
    /// As it is shown.
    pub name: &'a [u8],
    pub image: &'a Path,
    pub attr: &'a Attr,
    pub target: Option<&'a [u8]>,
    pub accounts: &'a Accounts,
}

const LETTERS: &str = "%aAbBCdDfFgGhimnNorRstTuUwWxXyYzZ";

/// A part of a format.
enum Piece<'a> {
    Text(&'a str),
    Directive(&'a str, char),
}

fn pieces(format: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some((before, directive)) = rest.split_once('%') {
        pieces.push(Piece::Text(before));
        let is_option = |c: char| "-0+ #'.".contains(c) || c.is_ascii_digit();
        let letter = directive.trim_start_matches(is_option).chars().next();
        let Some(letter) = letter else {
            return Err(format!("`%{directive}` has no letter at its end"));
        };
        if !LETTERS.contains(letter) {
            return Err(format!(
                "%{letter} is not known; `uext4 stat --help` lists the letters"
            ));
        }
        let at = directive.find(letter).unwrap_or(0);
        pieces.push(Piece::Directive(&directive[..at], letter));
        rest = &directive[at + letter.len_utf8()..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// Checks a format.
///
/// # Errors
/// The directive that is none.
pub fn check(format: &str) -> Result<(), String> {
    pieces(format).map(drop)
}

/// A format with the attributes of a file.
///
/// # Errors
/// As [`check`].
pub fn expand(format: &str, subject: &Subject<'_>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for piece in pieces(format)? {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Directive(options, letter) => {
                let value = value(letter, subject).unwrap_or_default();
                out.extend(padded(options, letter, value));
            }
        }
    }
    Ok(out)
}

/// A value in its width: `-` to the left, `0` with zeros, `.N` at most N characters.
fn padded(options: &str, letter: char, mut value: Vec<u8>) -> Vec<u8> {
    let flags_end = options.find(|c: char| c.is_ascii_digit() && c != '0' || c == '.');
    let (flags, numbers) = options.split_at(flags_end.unwrap_or(options.len()));
    let (width, precision) = match numbers.split_once('.') {
        Some((width, precision)) => (width, precision.parse().ok()),
        None => (numbers, None),
    };
    if let Some(most) = precision {
        match letter {
            // So many digits of a fraction.
            'X' | 'Y' | 'Z' | 'W' => {}
            _ => value.truncate(most),
        }
    }
    if flags.contains('#') && letter == 'a' {
        value.insert(0, b'0');
    }
    let missing = width
        .parse()
        .unwrap_or(0_usize)
        .min(4096)
        .saturating_sub(value.len());
    let is_number = !"ACFGUNnmxyzw".contains(letter);
    match (flags.contains('-'), flags.contains('0') && is_number) {
        (true, _) => value.extend(std::iter::repeat_n(b' ', missing)),
        (_, true) => drop(value.splice(..0, std::iter::repeat_n(b'0', missing))),
        _ => drop(value.splice(..0, std::iter::repeat_n(b' ', missing))),
    }
    value
}

fn value(letter: char, subject: &Subject<'_>) -> Option<Vec<u8>> {
    let Subject {
        name,
        image,
        attr,
        target,
        accounts,
    } = subject;
    let unknown = || "UNKNOWN".to_owned();
    let text = match letter {
        '%' => "%".to_owned(),
        'a' => format!("{:o}", attr.mode),
        'A' => show::mode(attr),
        'b' => attr.blocks.to_string(),
        'B' => "512".to_owned(),
        'C' => "?".to_owned(),
        // An image has no device number.
        'd' | 'D' => "0".to_owned(),
        'f' => format!("{:x}", attr.kind.mode_bits() | u32::from(attr.mode)),
        'F' => kind(attr).to_owned(),
        'g' => attr.gid.to_string(),
        'G' => accounts
            .group_name(attr.gid)
            .map_or_else(unknown, str::to_owned),
        'h' => attr.nlink.to_string(),
        'i' => attr.ino.to_string(),
        'm' => return Some(image.as_os_str().as_encoded_bytes().to_vec()),
        'n' => return Some(show::name(name).into_owned()),
        'N' => match target {
            Some(target) => format!("{} -> {}", quoted::always(name), quoted::always(target)),
            None => quoted::always(name),
        },
        'o' => attr.block_size.to_string(),
        's' => attr.size.to_string(),
        't' => format!("{:x}", attr.rdev_major),
        'T' => format!("{:x}", attr.rdev_minor),
        'r' => device_number(attr).to_string(),
        'R' => format!("{:x}", device_number(attr)),
        'u' => attr.uid.to_string(),
        'U' => accounts
            .user_name(attr.uid)
            .map_or_else(unknown, str::to_owned),
        _ => {
            let (time, in_words) = time(letter, attr)?;
            match in_words {
                true => time_format::with_zone(time),
                false => time.sec.to_string(),
            }
        }
    };
    Some(text.into_bytes())
}

fn time(letter: char, attr: &Attr) -> Option<(Timestamp, bool)> {
    let time = match letter.to_ascii_lowercase() {
        'w' => attr.crtime,
        'x' => attr.atime,
        'y' => attr.mtime,
        'z' => attr.ctime,
        _ => return None,
    };
    Some((time, letter.is_ascii_lowercase()))
}

fn kind(attr: &Attr) -> &'static str {
    match attr.kind {
        FileKind::Regular if attr.size == 0 => "regular empty file",
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::CharDevice => "character special file",
        FileKind::BlockDevice => "block special file",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// The text with the escapes of `--printf` read: `\n`, `\t`, `\\`, `\NNN` in octal, and the like.
pub fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('a') => out.push('\x07'),
            Some('e') => out.push('\x1b'),
            Some('"') => out.push('"'),
            Some(digit @ '0'..='7') => {
                let mut number = digit.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    if let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) {
                        number = number * 8 + digit;
                        chars.next();
                    }
                }
                out.extend(char::from_u32(number));
            }
            Some('\\') | None => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out
}

/// The number of a device as stat(2) of Linux has it.
fn device_number(attr: &Attr) -> u64 {
    let (major, minor) = (u64::from(attr.rdev_major), u64::from(attr.rdev_minor));
    (major & !0xfff) << 32 | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (minor & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let time = Timestamp { sec: 1, nsec: 0 };
        let attr = Attr {
            ino: 12,
            generation: 0,
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 7,
            blocks: 8,
            block_size: 4096,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            rdev_major: 0,
            rdev_minor: 0,
            flags: 0,
        };
        let subject = Subject {
            name: b"/a b",
            image: Path::new("x.img"),
            attr: &attr,
            target: None,
            accounts: &Accounts::default(),
        };
        let shown =
            |format: &str| expand(format, &subject).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(shown("%a %s %n%%").unwrap(), "644 7 /a b%");
        assert_eq!(
            shown("[%5s|%-5s|%05s|%#a]").unwrap(),
            "[    7|7    |00007|0644]"
        );
        assert_eq!(shown("%.2A|%N").unwrap(), "-r|'/a b'");
        assert!(shown("%q").is_err() && shown("%").is_err() && shown("%5").is_err());
        assert_eq!(unescaped(r"a\n\t\101\\q\z"), "a\n\tA\\q\\z");
    }
}

//! Names and paths of Windows as bytes.
//!
//! A path in an image is held as a path of the host, too. What a name of the host cannot hold stands for itself as a character of
//! the private area U+F000 to U+F0FF, as for Cygwin and WSL: the byte `:` is U+F03A, and a byte that is not UTF-8 has its number there.
//! So every name of an image is one of the host, and the other way round; a lone surrogate of the host becomes U+FFFD.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The first character that stands for a byte.
const PRIVATE: u32 = 0xf000;

/// The bytes of a path or a name, with `/` between names.
pub fn bytes(path: &(impl AsRef<OsStr> + ?Sized)) -> Cow<'_, [u8]> {
    let mut bytes = Vec::new();
    for c in path.as_ref().to_string_lossy().chars() {
        match u32::from(c).checked_sub(PRIVATE).map(u8::try_from) {
            Some(Ok(byte)) => bytes.push(byte),
            _ if c == '\\' => bytes.push(b'/'),
            _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// The path, or the name, that has these bytes.
pub fn path(bytes: &[u8]) -> Cow<'_, Path> {
    let mut text = String::with_capacity(bytes.len());
    for (i, name) in bytes.split(|byte| *byte == b'/').enumerate() {
        if i > 0 {
            text.push('/');
        }
        push_name(&mut text, name);
    }
    // Two of them would begin the name of a server.
    let rooted = text.trim_start_matches('/');
    let text = match text.len() - rooted.len() {
        0 | 1 => text,
        _ => format!("/{rooted}"),
    };
    Cow::Owned(PathBuf::from(text))
}

fn push_name(text: &mut String, name: &[u8]) {
    let stands_for = |byte: u8| char::from_u32(PRIVATE + u32::from(byte)).unwrap_or('\u{fffd}');
    let push_bytes = |text: &mut String, bytes: &[u8]| {
        text.extend(bytes.iter().copied().map(stands_for));
    };
    let is_dots = matches!(name, b"." | b"..");
    let len = name.len();
    let mut at = 0;
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            at += c.len_utf8();
            let is_refused = c.is_ascii_control() || r#"\:*?"<>|"#.contains(c);
            let is_dropped = at == len && matches!(c, '.' | ' ') && !is_dots;
            let is_private = (PRIVATE..=PRIVATE + 0xff).contains(&u32::from(c));
            match is_refused || is_dropped || is_private {
                true => push_bytes(text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(c),
            }
        }
        at += chunk.invalid().len();
        push_bytes(text, chunk.invalid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_names_of_the_host() {
        for (name, held) in [
            (&b"plain name.txt"[..], "plain name.txt"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (br#"a\b:c*"#, "a\u{f05c}b\u{f03a}c\u{f02a}"),
            (b"Latin \xe9", "Latin \u{f0e9}"),
            (b"dot.", "dot\u{f02e}"),
            (b"line\n", "line\u{f00a}"),
            ("\u{f03a}".as_bytes(), "\u{f0ef}\u{f080}\u{f0ba}"),
            (b".", "."),
            (b"..", ".."),
            (b"/etc/./x:y/", "/etc/./x\u{f03a}y/"),
        ] {
            assert_eq!(&*path(name), Path::new(held));
            assert_eq!(&*bytes(held), name, "{held}");
        }
        assert_eq!(&*path(b"//server/x"), Path::new("/server/x"));
        assert_eq!(&*bytes(r"C:\x"), b"C:/x");
    }

    #[test]
    fn every_byte_comes_back() {
        for byte in (1..=u8::MAX).filter(|byte| *byte != b'/') {
            for name in [&[byte][..], &[b'a', byte], &[byte, b'a'], &[byte, byte]] {
                assert_eq!(&*bytes(&*path(name)), name);
            }
        }
    }
}

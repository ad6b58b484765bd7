//! Names in directories that ignore case: by what they are found, and which are refused.
//!
//! # Data model
//! Two names are the same if their *folds* are: canonically decomposed and in canonical order, in lower case, without what is ignorable, all as of
//! Unicode 12.1. A name without a fold, as it is not UTF-8, is the same as no other. Hash trees are in the order of the hashes of folds, or of
//! the bytes of names without one.
//!
//! Four things are so because Linux 6.1 and e2fsprogs 1.47 do so, which `tests/guest/casefold.rs` and `tests/format/casefold.rs` observe:
//! - Code points that 12.1 does not assign have folds: themselves.
//! - Marks do not change places across what is ignored.
//! - U+0345 becomes a letter before marks are put into order.
//! - A *stray* byte, one that continues a character where none is begun, is part of a fold if it is not a name's first: where marks
//!   before it are put into order, it is repeated with each class of them. A strict encoding has no such names.
//!
//! Source: Linux documentation, admin-guide/ext4, "case-insensitive file name lookups"; Unicode 12.1, chapters 3.11 to 3.13.

#[rustfmt::skip]
mod tables;

use crate::corrupt::FormatError;
use crate::dirent::{Dirent, dir_entries};
use crate::features::Incompat;
use crate::raw_superblock::RawSuperblock;
use std::borrow::Cow;
use std::collections::BTreeSet;
use tables::{CLASSES, IGNORED, RUNS, SEQUENCES};

/// The number of the only encoding that there is: UTF-8 of Unicode 12.1.
pub const ENCODING_UTF8_12_1: u16 = 1;
/// Flag of an encoding: names that are not valid in it are refused.
pub const ENCODING_STRICT: u16 = 1;

/// No code point below folds to anything but its lower case in ASCII.
const FIRST_FOLDED: u32 = 0xa0;
/// No code point below has a combining class other than 0.
const FIRST_COMBINING: u32 = 0x300;

/// The encoding of names where directories may ignore case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameEncoding {
    /// Whether names that are not valid are refused there.
    pub strict: bool,
}

impl NameEncoding {
    /// The encoding of a file system with the feature `casefold`; `None` without.
    ///
    /// # Errors
    /// [`FormatError::Encoding`]: another than UTF-8 of Unicode 12.1, or a flag that is not known.
    pub fn read(raw: &RawSuperblock) -> Result<Option<NameEncoding>, FormatError> {
        if !raw.incompat().contains(Incompat::CASEFOLD) {
            return Ok(None);
        }
        let (encoding, flags) = (raw.encoding.get(), raw.encoding_flags.get());
        if encoding != ENCODING_UTF8_12_1 || flags & !ENCODING_STRICT != 0 {
            return Err(FormatError::Encoding { encoding, flags });
        }
        Ok(Some(NameEncoding {
            strict: flags & ENCODING_STRICT != 0,
        }))
    }

    /// Whether a directory that ignores case may have the name.
    pub fn accepts(self, name: &[u8]) -> bool {
        !self.strict || std::str::from_utf8(name).is_ok()
    }

    /// Whether such a directory may be asked for the name.
    pub fn may_seek(self, name: &[u8]) -> bool {
        !self.strict || fold_name(name).is_some()
    }
}

/// The fold of a name; see the module.
pub fn fold_name(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    if name.is_ascii() {
        return Some(match name.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        });
    }
    fold(name).map(Cow::Owned)
}

/// What of a name is hashed in a directory that ignores case: its fold, or itself.
pub fn hashed_name(name: &[u8]) -> Cow<'_, [u8]> {
    fold_name(name).unwrap_or(Cow::Borrowed(name))
}

/// A key that two names share if they are the same where case is ignored.
pub fn name_key(name: &[u8]) -> Cow<'_, [u8]> {
    // No fold has a slash.
    fold_name(name).unwrap_or_else(|| Cow::Owned([name, b"/"].concat()))
}

/// Whether a name's fold is `folded`.
pub fn folds_to(name: &[u8], folded: &[u8]) -> bool {
    if name.is_ascii() {
        let lower = name.iter().map(u8::to_ascii_lowercase);
        return name.len() == folded.len() && lower.eq(folded.iter().copied());
    }
    fold_name(name).is_some_and(|fold| *fold == *folded)
}

/// Finds a name by its fold, in a directory that ignores case.
///
/// # Errors
/// The `Dir*` kind of a record on the way that is damaged.
pub fn dir_find_folded<'a>(
    block: &'a [u8],
    data_end: usize,
    folded: &[u8],
) -> crate::corrupt::Result<Option<Dirent<'a>>> {
    for d in dir_entries(block, data_end) {
        let d = d?;
        if d.ino.0 != 0 && folds_to(d.name, folded) {
            return Ok(Some(d));
        }
    }
    Ok(None)
}

fn fold(name: &[u8]) -> Option<Vec<u8>> {
    if name.first().is_none_or(|byte| is_stray(*byte)) {
        return None;
    }
    let mut folded = Ordered::default();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match contains(IGNORED, c.into()) {
                // Marks behind it stay behind those before.
                true => folded.put_run(),
                false => fold_char(c, &mut |c| folded.push(c)),
            }
        }
        for byte in chunk.invalid() {
            if !is_stray(*byte) {
                return None;
            }
            folded.push_stray(*byte);
        }
    }
    folded.put_run();
    Some(folded.text)
}

/// Whether a byte continues a character.
fn is_stray(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// What is between two characters of class 0.
#[derive(Clone, Copy)]
enum Part {
    Mark(u8, char),
    Stray(u8),
}

/// Text whose marks are put into canonical order.
#[derive(Default)]
struct Ordered {
    text: Vec<u8>,
    /// From the first mark on after the last character of class 0.
    run: Vec<Part>,
}

impl Ordered {
    fn push(&mut self, c: char) {
        match combining_class(c) {
            0 => {
                self.put_run();
                put(&mut self.text, c);
            }
            class => self.run.push(Part::Mark(class, c)),
        }
    }

    fn push_stray(&mut self, byte: u8) {
        match self.run.is_empty() {
            true => self.text.push(byte),
            false => self.run.push(Part::Stray(byte)),
        }
    }

    /// Adds the marks in the order of their classes; a stray byte before all, and again with each class.
    fn put_run(&mut self) {
        let classes = self.run.iter().map(|part| match part {
            Part::Mark(class, _) => *class,
            Part::Stray(_) => 0,
        });
        let classes: BTreeSet<u8> = classes.collect();
        for class in classes {
            for part in &self.run {
                match *part {
                    Part::Mark(of, c) if of == class => put(&mut self.text, c),
                    Part::Mark(..) => {}
                    Part::Stray(byte) => self.text.push(byte),
                }
            }
        }
        self.run.clear();
    }
}

fn put(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Calls `put` for each character that one folds to which is not ignored, before they are put into order.
fn fold_char(c: char, put: &mut impl FnMut(char)) {
    let code = u32::from(c);
    if code < FIRST_FOLDED {
        return put(c.to_ascii_lowercase());
    }
    if let Some(parts) = hangul_parts(code) {
        return parts.into_iter().filter_map(char::from_u32).for_each(put);
    }
    if let Ok(i) = SEQUENCES.binary_search_by_key(&code, |s| s.0) {
        let to = SEQUENCES.get(i).map_or(&[][..], |s| s.1);
        return to.iter().copied().filter_map(char::from_u32).for_each(put);
    }
    let i = RUNS.partition_point(|run| run.1 < code);
    let in_run = |run: &&(u32, u32, u8, i32)| {
        code.checked_sub(run.0)
            .is_some_and(|from| from.is_multiple_of(run.2.into()))
    };
    let to = RUNS.get(i).filter(in_run);
    let to = to.and_then(|run| char::from_u32(code.checked_add_signed(run.3)?));
    put(to.unwrap_or(c));
}

/// Leading consonant, vowel and trailing consonant of a syllable; where there is no trailing one, the last is not a code point.
fn hangul_parts(code: u32) -> Option<[u32; 3]> {
    const SYLLABLES: u32 = 0xac00;
    const SYLLABLES_COUNT: u32 = 11172;
    let at = code
        .checked_sub(SYLLABLES)
        .filter(|at| *at < SYLLABLES_COUNT)?;
    let trailing = match at % 28 {
        0 => u32::MAX,
        n => 0x11a7 + n,
    };
    Some([0x1100 + at / 588, 0x1161 + at % 588 / 28, trailing])
}

fn combining_class(c: char) -> u8 {
    let code = u32::from(c);
    if code < FIRST_COMBINING {
        return 0;
    }
    let i = CLASSES.partition_point(|span| span.1 < code);
    let span = CLASSES.get(i).filter(|span| span.0 <= code);
    span.map_or(0, |span| span.2)
}

fn contains(spans: &[(u32, u32)], code: u32) -> bool {
    let i = spans.partition_point(|span| span.1 < code);
    spans.get(i).is_some_and(|span| span.0 <= code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(name: &str) -> String {
        String::from_utf8(fold_name(name.as_bytes()).unwrap().into_owned()).unwrap()
    }

    #[test]
    fn names_that_differ_in_case_form_or_ignorables_fold_alike() {
        for (a, b) in [
            ("README.md", "readme.MD"),
            ("Straße", "STRASSE"),
            ("Å", "a\u{30a}"),
            ("\u{212b}", "å"),
            ("Ünï\u{ad}code", "u\u{308}ni\u{308}code"),
            ("ΌΣΟΣ", "ό\u{3c2}ος"),
            ("한글", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"),
            ("a\u{323}\u{307}", "A\u{307}\u{323}"),
            ("\u{1f82}", "α\u{313}\u{300}ι"),
            ("ﬃ", "FFI"),
            ("\u{10400}", "\u{10428}"),
            ("\u{13a0}", "\u{ab70}"),
            ("\u{f900}", "豈"),
            ("x\u{200d}y", "XY"),
        ] {
            assert_eq!(folded(a), folded(b), "{a} {b}");
            assert!(folds_to(a.as_bytes(), &fold_name(b.as_bytes()).unwrap()));
        }
        assert_eq!(folded("\u{200b}"), "");
        assert_eq!(folded("É\u{323}"), "e\u{323}\u{301}");
    }

    #[test]
    fn other_names_fold_apart() {
        for (a, b) in [
            ("a", "b"),
            ("é", "e"),
            ("i", "ı"),
            ("²", "2"),
            ("ａ", "a"),
            ("\u{301}\u{302}", "\u{302}\u{301}"),
            ("a\u{301}\u{34f}\u{316}", "a\u{301}\u{316}"),
            // Upper case that came with Unicode 13 and 14.
            ("\u{a7c7}", "\u{a7c8}"),
            ("\u{2c2f}", "\u{2c5f}"),
        ] {
            assert_ne!(folded(a), folded(b), "{a} {b}");
            assert!(!folds_to(a.as_bytes(), &fold_name(b.as_bytes()).unwrap()));
        }
    }

    #[test]
    fn what_is_not_valid_is_the_same_as_no_other() {
        let strict = NameEncoding { strict: true };
        for name in [
            &b"A\xff"[..],
            b"\xc3",
            b"\x80a",
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xf0\x82\x82\xac",
        ] {
            assert_eq!(fold_name(name), None);
            assert_eq!(*hashed_name(name), *name);
            assert!(!strict.accepts(name) && !strict.may_seek(name));
            assert!(NameEncoding { strict: false }.accepts(name));
        }
        assert!(strict.accepts("\u{378}\u{10ffff}".as_bytes()));
    }

    /// As debugfs and Linux have it.
    #[test]
    fn stray_bytes_are_folded() {
        for (name, fold) in [
            (&b"J\x80\x81K"[..], &b"j\x80\x81k"[..]),
            (b"\xc2\xad\x80J", b"\x80j"),
            (b"\xc3\x89\x80", b"e\x80\xcc\x81\x80"),
            (b"J\x90\xcc\x81", b"j\x90\xcc\x81"),
            (b"A\xcc\x81\x90\xcc\x96", b"a\x90\x90\xcc\x96\xcc\x81\x90"),
            (b"A\xcc\x96\x90\xcc\x81b", b"a\x90\xcc\x96\x90\x90\xcc\x81b"),
        ] {
            assert_eq!(fold_name(name).as_deref(), Some(fold), "{name:x?}");
            let strict = NameEncoding { strict: true };
            assert!(!strict.accepts(name) && strict.may_seek(name));
        }
        assert_ne!(name_key(b"\xc2\xad\x80j"), name_key(b"\x80j"));
    }

    #[test]
    fn a_fold_folds_to_itself() {
        for code in (1..=0x10_ffff).filter_map(char::from_u32) {
            let once = folded(&code.to_string());
            assert_eq!(folded(&once), once, "{:#x}", u32::from(code));
        }
    }
}

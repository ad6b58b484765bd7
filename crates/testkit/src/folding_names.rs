//! Names for directories that ignore case: pairs that may be one name there, of all scripts, drawn from a seed.

use crate::as_root::AsRoot;
use crate::external::*;
use crate::mke2fs::{DIR, FILE};
use std::borrow::Cow;
use uext4_ondisk::{InodeFlags, NAME_MAX, hashed_name, name_key};

/// A name that is made, and one that is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Made.
    pub made: Vec<u8>,
    /// Looked up.
    pub sought: Vec<u8>,
}

/// Blocks of letters that have case or decompose, of others, and of what no version assigns, by first and last.
const SCRIPTS: [(u32, u32); 34] = [
    (0x20, 0x7e),
    (0xa0, 0x17f),
    (0x180, 0x24f),
    (0x250, 0x2ff),
    (0x370, 0x3ff),
    (0x400, 0x52f),
    (0x531, 0x5ea),
    (0x610, 0x6ff),
    (0x900, 0x9ff),
    (0xb00, 0xdff),
    (0xe00, 0xfff),
    (0x10a0, 0x11ff),
    (0x13a0, 0x13ff),
    (0x1780, 0x18af),
    (0x1b00, 0x1b4f),
    (0x1c80, 0x1cff),
    (0x1e00, 0x1fff),
    (0x2000, 0x20ff),
    (0x2100, 0x218f),
    (0x2460, 0x24ff),
    (0x2adc, 0x2e7f),
    (0x3040, 0x312f),
    (0x4e00, 0x9fff),
    (0xa640, 0xa69f),
    (0xa720, 0xa7ff),
    (0xab30, 0xabbf),
    (0xac00, 0xd7a3),
    (0xf900, 0xfb4f),
    (0xfe00, 0xffff),
    (0x10400, 0x1057f),
    (0x10c80, 0x1133f),
    (0x1d150, 0x1d7ff),
    (0x1e900, 0x1faff),
    (0x2f800, 0x2fa1d),
];
/// Marks, most of which change places with others.
const MARKS: [(u32, u32); 12] = [
    (0x300, 0x36f),
    (0x483, 0x489),
    (0x591, 0x5bd),
    (0x64b, 0x65f),
    (0x93c, 0x94d),
    (0xe38, 0xe4b),
    (0xf71, 0xf84),
    (0x1dc0, 0x1dff),
    (0x20d0, 0x20f0),
    (0x302a, 0x309a),
    (0xfe20, 0xfe2f),
    (0x1d165, 0x1d172),
];
/// What is ignorable, or was not so in Unicode 12.1.
const IGNORABLES: [(u32, u32); 12] = [
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2060, 0x206f),
    (0xfe00, 0xfe0f),
    (0xfff0, 0xfff8),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe01ff),
];
/// Bytes that are not UTF-8: alone, cut short, too long, a surrogate, beyond the last code point.
const INVALID: [&[u8]; 12] = [
    b"\xff",
    b"\x80",
    b"\xbf",
    b"\xa4\x90",
    b"\x9f",
    b"\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xc1\xa1",
    b"\xe0\x81\xa1",
    b"\xed\xa0\xbd",
    b"\xf4\x90\x80\x80",
];

/// A generator whose numbers follow from a seed on every machine.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// A generator.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn of(&mut self, spans: &[(u32, u32)]) -> char {
        loop {
            let (first, last) = spans[self.below(spans.len())];
            let code = first + self.below((last - first + 1) as usize) as u32;
            match char::from_u32(code) {
                Some('/') | None => {}
                Some(c) => return c,
            }
        }
    }

    /// Text of a few characters of one or two scripts.
    fn text(&mut self) -> String {
        let script = SCRIPTS[self.below(SCRIPTS.len())];
        let len = match self.below(10) {
            0 => 20 + self.below(80),
            _ => 1 + self.below(8),
        };
        let mut text = String::new();
        for _ in 0..len {
            text.push(match self.below(8) {
                0 => self.of(&SCRIPTS),
                1 => self.of(&MARKS),
                _ => self.of(&[script]),
            });
            if self.below(24) == 0 {
                text.push(self.of(&IGNORABLES));
            }
        }
        text
    }

    /// Text that may be the same name, or nearly.
    fn variant(&mut self, text: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        let at = self.below(chars.len());
        let is_mark = |c: &char| MARKS.iter().any(|m| (m.0..=m.1).contains(&u32::from(*c)));
        match self.below(12) {
            0 => return text.to_uppercase(),
            1 => return text.to_lowercase(),
            2 => return folded(text),
            3 => return folded(text).to_uppercase(),
            4 => {
                let upper: Vec<char> = chars[at].to_uppercase().collect();
                chars.splice(at..=at, upper);
            }
            5 => {
                let lower: Vec<char> = chars[at].to_lowercase().collect();
                chars.splice(at..=at, lower);
            }
            6 => chars.insert(at, self.of(&IGNORABLES)),
            7 => chars.insert(at, self.of(&MARKS)),
            8 => chars[at] = self.of(&SCRIPTS),
            9 => drop(chars.remove(at)),
            10 => {
                let runs = chars.chunk_by_mut(|a, b| is_mark(a) && is_mark(b));
                runs.for_each(<[char]>::reverse);
            }
            _ => {
                chars = folded(text).chars().collect();
                let runs = chars.chunk_by_mut(|a, b| is_mark(a) && is_mark(b));
                runs.for_each(<[char]>::reverse);
            }
        }
        chars.into_iter().collect()
    }

    /// Marks on a letter, and the same in another order.
    fn marks(&mut self) -> (String, String) {
        let mut chars: Vec<char> = (0..2 + self.below(5)).map(|_| self.of(&MARKS)).collect();
        if self.below(4) == 0 {
            let at = self.below(chars.len());
            chars.insert(at, self.of(&IGNORABLES));
        }
        let mut other = chars.clone();
        let (a, b) = (self.below(other.len()), self.below(other.len()));
        other.swap(a, b);
        let base = self.of(&SCRIPTS);
        let text = |chars: Vec<char>| std::iter::once(base).chain(chars).collect();
        (text(chars), text(other))
    }

    fn invalid(&mut self, text: String) -> Vec<u8> {
        let mut bytes = text.into_bytes();
        let at = self.below(bytes.len() + 1);
        bytes.splice(at..at, INVALID[self.below(INVALID.len())].iter().copied());
        bytes
    }

    /// A name of a few characters of any script.
    pub fn name(&mut self) -> Vec<u8> {
        loop {
            let name = self.text().into_bytes();
            if is_name(&name) {
                return name;
            }
        }
    }

    /// A name that may be the same as another where case is ignored.
    pub fn other(&mut self, name: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(name) else {
            return name.to_vec();
        };
        let other = self.variant(text).into_bytes();
        match is_name(&other) {
            true => other,
            false => name.to_vec(),
        }
    }

    fn pair(&mut self) -> (Vec<u8>, Vec<u8>) {
        match self.below(16) {
            0 => {
                let text = self.text();
                let other = self.variant(&text);
                (self.invalid(text), self.invalid(other))
            }
            1 => {
                let made = {
                    let text = self.text();
                    self.invalid(text)
                };
                (made.clone(), made.to_ascii_uppercase())
            }
            2..6 => {
                let (made, sought) = self.marks();
                (made.into_bytes(), sought.into_bytes())
            }
            _ => {
                let text = self.text();
                let other = self.variant(&text);
                (text.into_bytes(), other.into_bytes())
            }
        }
    }
}

fn folded(text: &str) -> String {
    let fold: Cow<'_, [u8]> = hashed_name(text.as_bytes());
    String::from_utf8_lossy(&fold).into_owned()
}

fn is_name(name: &[u8]) -> bool {
    let is_dots = matches!(name, b"." | b"..");
    !is_dots && (1..=NAME_MAX).contains(&name.len()) && !name.iter().any(|b| matches!(b, 0 | b'/'))
}

/// So many pairs: first every character that folds to something else with its fold, and what is ignorable with nothing; then drawn ones.
pub fn pairs(count: usize) -> Vec<Pair> {
    let mut found = Vec::with_capacity(count);
    for code in 0x21..=0x3_ffff {
        let Some(c) = char::from_u32(code).filter(|c| *c != '/') else {
            continue;
        };
        // Syllables fold by a rule.
        let is_drawn = !(0xac00..0xd7a4).contains(&code) || code.is_multiple_of(17);
        let (c, fold) = (c.to_string(), folded(&c.to_string()));
        if fold != c && is_drawn {
            found.push(Pair {
                made: format!("x{c}").into_bytes(),
                sought: format!("x{fold}").into_bytes(),
            });
        }
    }
    let mut draw = Draw::new(121);
    while found.len() < count {
        let (made, sought) = draw.pair();
        if is_name(&made) && is_name(&sought) {
            found.push(Pair { made, sought });
        }
    }
    found.truncate(count);
    found
}

/// What a file system says of pairs in an empty directory, a letter for each, as `tests/guest/casefold/calls.rs` has them of the kernel: the first name is made,
/// the second looked up, the first removed.
///
/// # Panics
/// A call fails otherwise than a name that is refused.
pub fn verdicts(fs: &Ext4, dir: &InodeRef, pairs: &[Pair]) -> Vec<u8> {
    let root = Caller::root();
    let verdict = |pair: &Pair| {
        let made = FileSystem::create(fs, &root, dir, &pair.made, &FILE);
        let made = made.map(|node| node.ino).map_err(|e| e.errno());
        let sought = FileSystem::lookup(fs, &root, dir, &pair.sought);
        let sought = sought.map(|node| node.ino).map_err(|e| e.errno());
        let row = match made {
            Ok(_) => 0,
            Err(Errno::EINVAL) => 3,
            Err(e) => panic!("create {:x?}: {e}", pair.made),
        };
        let column = match sought {
            Ok(ino) if made == Ok(ino) => 0,
            Err(Errno::ENOENT) => 1,
            Err(Errno::EINVAL) => 2,
            other => panic!("look up {:x?}: {other:?}", pair.sought),
        };
        if made.is_ok() {
            fs.remove(dir, &pair.made);
        }
        b'a' + row + column
    };
    pairs.iter().map(verdict).collect()
}

/// So many names that are different ones, each with another that is the same.
pub fn spellings(seed: u64, count: usize) -> Vec<Pair> {
    let mut draw = Draw::new(seed);
    let mut folds = HashSet::new();
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        let made = draw.name();
        let fold = name_key(&made).into_owned();
        let other = (0..8).map(|_| draw.other(&made));
        let mut same = other.filter(|other| *other != made && *name_key(other) == *fold);
        if let Some(sought) = same.next()
            && folds.insert(fold)
        {
            found.push(Pair { made, sought });
        }
    }
    found
}

/// Makes a directory that ignores case.
///
/// # Panics
/// It can't be made.
pub fn make_folding(fs: &Ext4, dir: &InodeRef, name: &[u8]) -> InodeRef {
    let made = fs.make(dir, name, &DIR);
    let flags = fs.files.flags(&made) | InodeFlags::CASEFOLD;
    let set = fs.files.set_flags(&Caller::root(), &made, flags);
    set.unwrap_or_else(|e| panic!("chattr +F: {e}"));
    made
}

//! Names that are in a directory twice: in a block, and across the blocks of a linear directory.

use crate::context::Context;
use crate::dirs::{Dir, Dirs};
use crate::error::Result;
use crate::fault::{Fault, FaultKind, Faults, printable};
use crate::parallel;
use std::borrow::Cow;
use uext4_ondisk::{DIRENT_MIN, Pblk, dir_data_end, dir_entries, dir_has_tail, name_key};

/// The names of a block, by where they are in it, found again by a short hash.
#[derive(Debug, Default)]
pub(crate) struct NameSet {
    names: Vec<NameAt>,
    /// Slots of a hash table: positions in `names`, from 1 on.
    slots: Vec<u32>,
    /// Where names that were there before are.
    duplicate: Option<NameAt>,
    /// Names are the same if their folds are.
    folds: bool,
}

#[derive(Clone, Copy, Debug)]
struct NameAt {
    key: u64,
    at: u32,
    len: u16,
}

impl NameAt {
    fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let rest = bytes.get(self.at as usize..).unwrap_or(&[]);
        rest.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// A hash of a name: fast, and not the directory's.
fn short_hash(name: &[u8]) -> u64 {
    const MUL: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = name.as_chunks::<8>();
    let step = |h: u64, w: u64| (h.rotate_left(23) ^ w).wrapping_mul(MUL);
    let h = words
        .iter()
        .fold(name.len() as u64, |h, w| step(h, u64::from_le_bytes(*w)));
    let last = rest.iter().fold(1u64, |v, b| v << 8 | u64::from(*b));
    step(h, last)
}

impl NameSet {
    /// Makes room for the names of `len` bytes of records, which are the same if their folds are, if it `folds`.
    pub(crate) fn clear(&mut self, len: usize, folds: bool) {
        self.folds = folds;
        self.names.clear();
        self.duplicate = None;
        self.slots.clear();
        let slots = (len / DIRENT_MIN + 1).next_power_of_two();
        self.slots.resize(slots * 2, 0);
    }

    /// Adds the name of `len` bytes, at most 255, at `at` of `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8], at: usize, len: usize) {
        let at = at as u32;
        let mut new = NameAt {
            key: 0,
            at,
            len: len as u16,
        };
        let folds = self.folds;
        let fold = |name: NameAt| match folds {
            true => name_key(name.of(bytes)),
            false => Cow::Borrowed(name.of(bytes)),
        };
        let folded = fold(new);
        new.key = short_hash(&folded);
        let mask = self.slots.len().wrapping_sub(1);
        let mut i = (new.key >> 32) as usize & mask;
        // There are more slots than names that fit.
        while let Some(slot) = self.slots.get_mut(i) {
            let Some(had) = (*slot as usize)
                .checked_sub(1)
                .and_then(|n| self.names.get(n))
            else {
                self.names.push(new);
                *slot = self.names.len() as u32;
                return;
            };
            if had.key == new.key && fold(*had) == folded {
                self.duplicate = Some(new);
                return;
            }
            i = (i + 1) & mask;
        }
    }

    /// A name that is there twice.
    pub(crate) fn find_duplicate<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.duplicate.map(|d| d.of(bytes))
    }
}

/// Finds names that are in two blocks of a linear directory.
///
/// # Errors
/// The device's.
pub(crate) fn run(cx: &Context<'_>, dirs: &Dirs, faults: &mut Faults) -> Result<()> {
    let linear = |d: &&Dir| d.len > 1 && (!d.indexed || d.tree.is_none());
    let linear: Vec<&Dir> = dirs.dirs.iter().filter(linear).collect();
    cx.progress.phase("names", linear.len() as u64);
    let workers = parallel::run(
        cx.threads,
        linear.len(),
        || Faults::new(cx.faults_max),
        |faults, i| {
            cx.progress.advance(1);
            let Some(dir) = linear.get(i) else {
                return Ok(());
            };
            let blocks: Vec<Pblk> = dirs.blocks_of(dir).iter().map(|b| b.pblk).collect();
            check_across(cx, dir, &blocks, faults)
        },
    )?;
    faults.absorb(workers);
    Ok(())
}

/// Finds names that are in two of the blocks.
///
/// # Errors
/// The device's.
pub(crate) fn check_across(
    cx: &Context<'_>,
    dir: &Dir,
    blocks: &[Pblk],
    faults: &mut Faults,
) -> Result<()> {
    let mut keys: Vec<(u64, u32)> = Vec::new();
    let mut block = vec![0; cx.block_size()];
    for (i, at) in blocks.iter().enumerate() {
        for_names(cx, *at, &mut block, |name| {
            keys.push((short_hash(&dir.key(name)), i as u32))
        })?;
    }
    keys.sort_unstable();
    for same in keys.chunk_by(|a, b| a.0 == b.0) {
        let (Some(first), Some(last)) = (same.first(), same.last()) else {
            continue;
        };
        // Within a block it was seen before.
        if first.1 == last.1 {
            continue;
        }
        // Names by what they are found by.
        let mut names: Vec<Vec<u8>> = Vec::new();
        for i in same.chunk_by(|a, b| a.1 == b.1).filter_map(|c| c.first()) {
            let Some(at) = blocks.get(i.1 as usize) else {
                continue;
            };
            let mut here = Vec::new();
            for_names(cx, *at, &mut block, |name| {
                let name = dir.key(name);
                if short_hash(&name) == first.0 && !here.iter().any(|h| *h == *name) {
                    here.push(name.into_owned());
                }
            })?;
            if let Some(twice) = here.iter().find(|h| names.contains(h)) {
                let fault = Fault::new(FaultKind::EntryDuplicate).ino(dir.ino).pblk(*at);
                faults.push(fault.detail(format_args!("`{}`", printable(twice))));
                break;
            }
            names.append(&mut here);
        }
    }
    Ok(())
}

fn for_names(cx: &Context<'_>, at: Pblk, block: &mut [u8], mut f: impl FnMut(&[u8])) -> Result<()> {
    cx.view.read(at, block)?;
    let end = dir_data_end(block.len(), cx.seed.is_some() && dir_has_tail(block));
    for d in dir_entries(block, end).map_while(std::result::Result::ok) {
        if d.ino.0 != 0 {
            f(d.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_is_seen() {
        let bytes = b"a b ab 12345678 123456789 12345678 a";
        let mut set = NameSet::default();
        set.clear(bytes.len() * DIRENT_MIN, false);
        for (at, len) in [(0, 1), (2, 1), (4, 2), (0, 0), (7, 8), (16, 9)] {
            set.push(bytes, at, len);
        }
        assert_eq!(set.find_duplicate(bytes), None);
        set.push(bytes, 26, 8);
        assert_eq!(set.find_duplicate(bytes), Some(&b"12345678"[..]));
        set.clear(24, false);
        set.push(bytes, 0, 1);
        assert_eq!(set.find_duplicate(bytes), None);
        set.push(bytes, 35, 1);
        assert_eq!(set.find_duplicate(bytes), Some(&b"a"[..]));
    }

    #[test]
    fn twice_but_for_case_is_seen_where_names_fold() {
        let bytes = "Straße STRASSE \u{301}".as_bytes();
        for folds in [false, true] {
            let mut set = NameSet::default();
            set.clear(bytes.len() * DIRENT_MIN, folds);
            for (at, len) in [(0, 7), (16, 2), (8, 7)] {
                set.push(bytes, at, len);
            }
            let twice = set.find_duplicate(bytes);
            assert_eq!(twice, folds.then_some(&b"STRASSE"[..]));
        }
    }
}

//! The table of directories.

use crate::context::Context;
use crate::inode_table::InodeState;
use crate::prelude::*;
use crate::scan::{DirBlockFound, DirFound};
use std::borrow::Cow;
use uext4_ondisk::{ENCODING_STRICT, hashed_name, name_key};
use uext4_sync::atomic::AtomicU32;

/// What a block of a directory holds, in place of its hashes. Hashes are even.
pub(crate) const SPAN_UNREAD: (u32, u32) = (5, 0);
/// A leaf without names.
pub(crate) const SPAN_EMPTY: (u32, u32) = (1, 0);
/// A node of the hash tree.
pub(crate) const SPAN_NODE: (u32, u32) = (3, 0);

/// Bytes of an encrypted name at least.
const ENCRYPTED_NAME_MIN: usize = 16;

/// A directory.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) ino: Ino,
    pub(crate) seed: InodeSeed,
    /// Blocks by its size.
    pub(crate) size_blocks: u32,
    /// Its range of [`Dirs::blocks`].
    pub(crate) first: usize,
    pub(crate) len: usize,
    /// Hash and levels of its tree, if it has a sound root.
    pub(crate) tree: Option<(HashVersion, u8)>,
    pub(crate) indexed: bool,
    pub(crate) inline: bool,
    pub(crate) encrypted: bool,
    pub(crate) casefolded: bool,
    /// The directory that names it; 0 if none was found.
    pub(crate) parent: AtomicU32,
    /// What its `..` says; 0 if that is missing.
    pub(crate) dot_dot: AtomicU32,
}

impl Dir {
    /// True unless it is encrypted, and an inode of this state is not, but should be.
    pub(crate) fn may_name(&self, state: InodeState) -> bool {
        let types = [FileType::Regular, FileType::Directory, FileType::Symlink];
        !self.encrypted || state.encrypted() || !types.contains(&state.file_type())
    }

    /// Whether names are found by their folds. Those that are encrypted, too, have folds that only their key shows.
    pub(crate) fn folds_names(&self) -> bool {
        self.casefolded && !self.encrypted
    }

    /// Whether the hashes of its tree need no key.
    pub(crate) fn has_plain_hashes(&self) -> bool {
        !(self.casefolded && self.encrypted)
    }

    /// A key that names share if they are the same here.
    pub(crate) fn key<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        match self.folds_names() {
            true => name_key(name),
            false => Cow::Borrowed(name),
        }
    }

    /// What of a name is hashed.
    pub(crate) fn hashed<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        match self.folds_names() {
            true => hashed_name(name),
            false => Cow::Borrowed(name),
        }
    }

    /// The name, with `.` in place of bytes that it may not have; `None` if it can't be a name.
    pub(crate) fn legal_name<'n>(&self, cx: &Context<'_>, name: &'n [u8]) -> Option<Cow<'n, [u8]>> {
        if self.encrypted {
            return (name.len() >= ENCRYPTED_NAME_MIN).then_some(Cow::Borrowed(name));
        }
        if matches!(name, b"" | b"." | b"..") {
            return None;
        }
        let strict = self.casefolded && cx.sb.raw.encoding_flags.get() & ENCODING_STRICT != 0;
        let has_illegal = name.iter().any(|b| matches!(b, 0 | b'/'));
        if !has_illegal && (!strict || std::str::from_utf8(name).is_ok()) {
            return Some(Cow::Borrowed(name));
        }
        let mut legal = Vec::with_capacity(name.len());
        for chunk in name.utf8_chunks() {
            legal.extend_from_slice(chunk.valid().as_bytes());
            let invalid = chunk.invalid().iter();
            legal.extend(invalid.map(|b| if strict { b'.' } else { *b }));
        }
        for b in legal.iter_mut().filter(|b| matches!(**b, 0 | b'/')) {
            *b = b'.';
        }
        if matches!(&legal[..], b"." | b"..") {
            legal = b"._".to_vec();
        }
        Some(Cow::Owned(legal))
    }
}

/// A block of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirBlock {
    pub(crate) pblk: Pblk,
    pub(crate) lblk: Lblk,
    /// Position in [`Dirs::dirs`].
    pub(crate) dir: u32,
}

/// Lowest and highest hash of a leaf.
#[derive(Debug)]
struct Span {
    min: AtomicU32,
    max: AtomicU32,
}

/// All directories, by inode.
#[derive(Debug, Default)]
pub(crate) struct Dirs {
    pub(crate) dirs: Vec<Dir>,
    /// Blocks of each directory in order.
    pub(crate) blocks: Vec<DirBlock>,
    /// Positions in `blocks`, in the order of the disk.
    pub(crate) order: Vec<u32>,
    spans: Vec<Span>,
}

impl Dirs {
    /// Joins what the workers of the scan found.
    pub(crate) fn build(
        parts: Vec<(Vec<DirFound>, Vec<DirBlockFound>)>,
        faults: &mut Faults,
    ) -> Self {
        let mut all: Vec<(DirFound, usize)> = Vec::new();
        for (i, (dirs, _)) in parts.iter().enumerate() {
            all.extend(dirs.iter().map(|d| (*d, i)));
        }
        all.sort_unstable_by_key(|(d, _)| d.ino);
        let mut out = Dirs {
            dirs: Vec::with_capacity(all.len()),
            blocks: Vec::with_capacity(parts.iter().map(|(_, blocks)| blocks.len()).sum()),
            ..Dirs::default()
        };
        for (found, part) in all {
            let blocks = parts
                .get(part)
                .and_then(|p| p.1.get(found.first..)?.get(..found.len));
            out.add(&found, blocks.unwrap_or(&[]), faults);
        }
        drop(parts);
        out.order = (0..out.blocks.len() as u32).collect();
        let blocks = &out.blocks;
        out.order
            .sort_unstable_by_key(|i| blocks.get(*i as usize).map(|b| b.pblk));
        out.spans.resize_with(out.blocks.len(), || Span {
            min: AtomicU32::new(SPAN_UNREAD.0),
            max: AtomicU32::new(SPAN_UNREAD.1),
        });
        out
    }

    fn add(&mut self, found: &DirFound, blocks: &[DirBlockFound], faults: &mut Faults) {
        let first = self.blocks.len();
        let dir = self.dirs.len() as u32;
        let inside = blocks.iter().filter(|b| b.lblk.0 < found.size_blocks);
        self.blocks.extend(inside.map(|b| DirBlock {
            pblk: b.pblk,
            lblk: b.lblk,
            dir,
        }));
        if let Some(mine) = self.blocks.get_mut(first..) {
            mine.sort_by_key(|b| b.lblk);
        }
        let len = self.blocks.len() - first;
        if !found.inline {
            self.check_holes(found, first, faults);
        }
        self.dirs.push(Dir {
            ino: found.ino,
            seed: found.seed,
            size_blocks: found.size_blocks,
            first,
            len,
            tree: None,
            indexed: found.indexed,
            inline: found.inline,
            encrypted: found.encrypted,
            casefolded: found.casefolded,
            parent: AtomicU32::new(0),
            dot_dot: AtomicU32::new(0),
        });
    }

    fn check_holes(&self, found: &DirFound, first: usize, faults: &mut Faults) {
        let mine = self.blocks.get(first..).unwrap_or(&[]);
        if mine.is_empty() {
            faults.push(Fault::new(FaultKind::DirEmpty).ino(found.ino));
            return;
        }
        let hole = mine
            .iter()
            .enumerate()
            .find(|(i, b)| b.lblk.0 as usize != *i);
        let at = hole.map(|(i, _)| i).or_else(|| {
            let short = mine.len() < found.size_blocks as usize;
            short.then_some(mine.len())
        });
        if let Some(at) = at {
            let fault = Fault::new(FaultKind::DirHole).ino(found.ino);
            faults.push(fault.detail(format_args!("file block {at}")));
        }
    }

    /// The blocks of a directory.
    pub(crate) fn blocks_of(&self, dir: &Dir) -> &[DirBlock] {
        let all = self.blocks.get(dir.first..).unwrap_or(&[]);
        all.get(..dir.len).unwrap_or(all)
    }

    /// Position in [`Dirs::blocks`] of a block of a directory.
    pub(crate) fn find_block(&self, dir: &Dir, lblk: Lblk) -> Option<usize> {
        let mine = self.blocks_of(dir);
        let guess = lblk.0 as usize;
        let i = if mine.get(guess).is_some_and(|b| b.lblk == lblk) {
            guess
        } else {
            mine.binary_search_by_key(&lblk, |b| b.lblk).ok()?
        };
        Some(dir.first + i)
    }

    /// The directory with a number.
    pub(crate) fn find(&self, ino: Ino) -> Option<&Dir> {
        let i = self.dirs.binary_search_by_key(&ino, |d| d.ino).ok()?;
        self.dirs.get(i)
    }

    /// Notes lowest and highest hash of a block, or what else it is.
    pub(crate) fn set_span(&self, i: usize, (min, max): (u32, u32)) {
        if let Some(s) = self.spans.get(i) {
            s.min.store(min, Ordering::Relaxed);
            s.max.store(max, Ordering::Relaxed);
        }
    }

    /// What [`Dirs::set_span`] noted.
    pub(crate) fn span(&self, i: usize) -> (u32, u32) {
        let s = self.spans.get(i);
        s.map_or(SPAN_UNREAD, |s| {
            (s.min.load(Ordering::Relaxed), s.max.load(Ordering::Relaxed))
        })
    }
}

//! One block of a directory: checksum, records, and what the entries name.

use crate::context::Context;
use crate::dirs::{Dir, DirBlock, Dirs, SPAN_EMPTY, SPAN_NODE};
use crate::fault::printable;
use crate::names::NameSet;
use crate::prelude::*;
use crate::scan::READ_BYTES;
use std::borrow::Cow;
use uext4_ondisk::{
    DIRENT_HEADER, Dirent, DxKind, DxView, dir_checksum_verify, dir_data_end, dir_entries,
    dir_has_tail, dx_checksum_verify, dx_kind_of, dx_limit,
};

/// Byte of a record that holds the file type.
const TYPE_AT: usize = 7;

/// One worker of the pass over directory blocks.
pub(crate) struct DirWorker<'c, 'd> {
    pub(crate) cx: &'c Context<'d>,
    pub(crate) dirs: &'c Dirs,
    pub(crate) faults: Faults,
    pub(crate) buf: Vec<u8>,
    /// Names of the block at hand.
    pub(crate) names: NameSet,
}

/// What a block of a directory is.
pub(crate) fn block_kind(cx: &Context<'_>, dir: &Dir, lblk: Lblk, block: &[u8]) -> Option<DxKind> {
    kind_of(cx, dir.indexed, lblk, block)
}

/// The same of a directory that may have a hash tree.
pub(crate) fn kind_of(cx: &Context<'_>, indexed: bool, lblk: Lblk, block: &[u8]) -> Option<DxKind> {
    let kind = dx_kind_of(block, lblk).filter(|_| indexed)?;
    if kind == DxKind::Node {
        let limit = dx_limit(DxKind::Node, block.len(), cx.seed.is_some());
        // A leaf without names looks the same but for the limit.
        if DxView::new(block, kind).limit() != limit {
            return None;
        }
    }
    Some(kind)
}

impl<'c, 'd> DirWorker<'c, 'd> {
    pub(crate) fn new(cx: &'c Context<'d>, dirs: &'c Dirs) -> Self {
        DirWorker {
            cx,
            dirs,
            faults: Faults::new(cx.faults_max),
            buf: Vec::with_capacity(READ_BYTES),
            names: NameSet::default(),
        }
    }

    fn fault(&mut self, kind: FaultKind, dir: &Dir, at: Pblk, detail: impl std::fmt::Display) {
        self.faults
            .push(Fault::new(kind).ino(dir.ino).pblk(at).detail(detail));
    }

    /// Checks the block at position `i` of the table.
    pub(crate) fn block(&mut self, dir: &Dir, i: usize, b: &DirBlock, bytes: &[u8]) {
        let at = b.pblk;
        if let Some(kind) = block_kind(self.cx, dir, b.lblk, bytes) {
            self.dirs.set_span(i, SPAN_NODE);
            if self.cx.seed.is_some()
                && let Err(e) = dx_checksum_verify(bytes, kind, dir.seed)
            {
                self.faults.push(e.ino(dir.ino).pblk(at));
            }
            // Readers expect the checksum only where the first entry is all empty.
            if kind == DxKind::Node && self.cx.seed.is_some() && bytes.get(TYPE_AT) != Some(&0) {
                let kind = FaultKind::Structure(CorruptKind::DxNodeDirent);
                self.fault(kind, dir, at, "file type");
            }
            if kind == DxKind::Root {
                self.names.clear(bytes.len(), dir.folds_names());
                self.first_block(dir, bytes, bytes.len(), at);
            }
            return;
        }
        let has_tail = self.cx.seed.is_some();
        if has_tail && let Err(e) = dir_checksum_verify(bytes, dir.seed) {
            self.faults.push(e.ino(dir.ino).pblk(at));
        }
        let end = dir_data_end(bytes.len(), has_tail && dir_has_tail(bytes));
        self.names.clear(bytes.len(), dir.folds_names());
        if b.lblk == Lblk(0) {
            self.first_block(dir, bytes, end, at);
        } else {
            let hash = dir.tree.filter(|_| dir.has_plain_hashes()).map(|t| t.0);
            let span = self.entries(dir, bytes, end, at, hash);
            self.dirs.set_span(i, span);
        }
        self.check_names(dir, bytes, at);
    }

    /// The block that starts with `.` and `..`.
    fn first_block(&mut self, dir: &Dir, bytes: &[u8], end: usize, at: Pblk) {
        let mut records = dir_entries(bytes, end);
        for n in 0..2 {
            let (want, kind) = if n == 0 {
                (&b"."[..], FaultKind::DirDot)
            } else {
                (&b".."[..], FaultKind::DirDotDot)
            };
            match records.next() {
                Some(Ok(d)) if d.name == want && d.ino.0 != 0 => {
                    let after = d.offset + DIRENT_HEADER + want.len();
                    if bytes.get(after) != Some(&0) {
                        self.fault(kind, dir, at, "no zero byte after the name");
                    }
                    self.check_type(dir, &d, bytes, at, FileType::Directory);
                    if n == 1 {
                        self.found_dot_dot(dir, d.ino, at);
                    } else if d.ino == dir.ino {
                        self.found_dot(dir);
                    } else {
                        self.fault(kind, dir, at, format_args!("is inode {}", d.ino));
                    }
                }
                Some(Ok(d)) => {
                    self.fault(kind, dir, at, format_args!("is `{}`", printable(d.name)));
                    self.entry(dir, &d, bytes, at);
                }
                Some(Err(e)) => {
                    self.faults.push(e.ino(dir.ino).pblk(at));
                    return;
                }
                None => {
                    self.fault(kind, dir, at, "missing");
                    return;
                }
            }
        }
        for record in records {
            match record {
                Ok(d) => self.entry(dir, &d, bytes, at),
                Err(e) => self.faults.push(e.ino(dir.ino).pblk(at)),
            }
        }
    }

    /// Checks the records of a block and returns the span of their hashes.
    pub(crate) fn entries(
        &mut self,
        dir: &Dir,
        bytes: &[u8],
        end: usize,
        at: Pblk,
        hash: Option<HashVersion>,
    ) -> (u32, u32) {
        self.entries_from(dir, bytes, 0, end, at, hash)
    }

    /// Checks the records from byte `start` on.
    pub(crate) fn entries_from(
        &mut self,
        dir: &Dir,
        bytes: &[u8],
        start: usize,
        end: usize,
        at: Pblk,
        hash: Option<HashVersion>,
    ) -> (u32, u32) {
        let mut span = SPAN_EMPTY;
        for record in dir_entries(bytes, end).starting_at(start) {
            let d = match record {
                Ok(d) => d,
                Err(e) => {
                    self.faults.push(e.ino(dir.ino).pblk(at));
                    break;
                }
            };
            self.entry(dir, &d, bytes, at);
            if let Some(version) = hash.filter(|_| d.ino.0 != 0) {
                let major = self.cx.sb.hash.hash(version, &dir.hashed(d.name)).major;
                span = if span == SPAN_EMPTY {
                    (major, major)
                } else {
                    (span.0.min(major), span.1.max(major))
                };
            }
        }
        span
    }

    /// The directory has its `.`.
    pub(crate) fn found_dot(&mut self, dir: &Dir) {
        self.cx.inodes.add_found(dir.ino);
    }

    /// The directory has a `..`, which says `parent`.
    pub(crate) fn found_dot_dot(&mut self, dir: &Dir, parent: Ino, at: Pblk) {
        let state = self.cx.inodes.state(parent);
        if state.used() && state.file_type() == FileType::Directory {
            dir.dot_dot.store(parent.0, Ordering::Relaxed);
            self.cx.inodes.add_found(parent);
        } else {
            self.fault(
                FaultKind::DirDotDot,
                dir,
                at,
                format_args!("is inode {parent}"),
            );
        }
    }

    fn check_type(&mut self, dir: &Dir, d: &Dirent<'_>, bytes: &[u8], at: Pblk, want: FileType) {
        let have = bytes
            .get(d.offset.saturating_add(TYPE_AT))
            .copied()
            .unwrap_or(0);
        let want = if self.cx.incompat(Incompat::FILETYPE) {
            want.to_dirent()
        } else {
            0
        };
        // 0 is "not known", as entries older than the feature have it.
        if have != want && have != 0 {
            let detail = format!("`{}` has {have}, not {want}", printable(d.name));
            self.fault(FaultKind::EntryType, dir, at, detail);
        }
    }

    /// Checks a record that is not one of the first two.
    fn entry(&mut self, dir: &Dir, d: &Dirent<'_>, bytes: &[u8], at: Pblk) {
        if d.ino == Ino::NONE {
            return;
        }
        self.check_name(dir, d, bytes, at);
        let cx = self.cx;
        let name = || format!("`{}` names inode {}", printable(d.name), d.ino);
        if d.ino.0 > cx.geo.inodes_count || (cx.is_reserved(d.ino) && d.ino != Ino::ROOT) {
            self.fault(FaultKind::EntryIno, dir, at, name());
            return;
        }
        let state = cx.inodes.state(d.ino);
        if !state.used() || state.orphan() {
            self.fault(FaultKind::EntryUnused, dir, at, name());
            return;
        }
        if state.value() && cx.incompat(Incompat::EA_INODE) {
            let note = Fault::new(FaultKind::EntryValueInode).note();
            self.faults.push(note.ino(dir.ino).pblk(at).detail(name()));
        }
        let file_type = state.file_type();
        if !dir.may_name(state) {
            self.fault(FaultKind::EntryUnencrypted, dir, at, name());
        }
        self.check_type(dir, d, bytes, at, file_type);
        cx.inodes.add_found(d.ino);
        if file_type == FileType::Directory {
            self.subdirectory(dir, d, at);
        }
    }

    fn check_name(&mut self, dir: &Dir, d: &Dirent<'_>, bytes: &[u8], at: Pblk) {
        let legal = dir.legal_name(self.cx, d.name);
        if !matches!(legal, Some(Cow::Borrowed(_))) {
            let detail = format!("`{}` at offset {}", printable(d.name), d.offset);
            self.fault(FaultKind::EntryName, dir, at, detail);
        }
        let name_at = d.offset.saturating_add(DIRENT_HEADER);
        self.names.push(bytes, name_at, d.name.len());
    }

    fn subdirectory(&mut self, dir: &Dir, d: &Dirent<'_>, at: Pblk) {
        let name = printable(d.name);
        if d.ino == Ino::ROOT {
            self.fault(FaultKind::EntryRoot, dir, at, format_args!("`{name}`"));
            return;
        }
        if d.ino == dir.ino {
            self.fault(FaultKind::EntrySelf, dir, at, format_args!("`{name}`"));
            return;
        }
        let Some(child) = self.dirs.find(d.ino) else {
            return;
        };
        let had = child
            .parent
            .compare_exchange(0, dir.ino.0, Ordering::Relaxed, Ordering::Relaxed);
        if let Err(other) = had {
            let detail = format!("`{name}` in inode {} and a name in inode {other}", dir.ino);
            let fault = Fault::new(FaultKind::DirLinkedTwice).ino(d.ino).pblk(at);
            self.faults.push(fault.detail(detail));
        }
    }

    /// No name may be there twice.
    pub(crate) fn check_names(&mut self, dir: &Dir, bytes: &[u8], at: Pblk) {
        if let Some(name) = self.names.find_duplicate(bytes) {
            let detail = format!("`{}`", printable(name));
            let fault = Fault::new(FaultKind::EntryDuplicate).ino(dir.ino).pblk(at);
            self.faults.push(fault.detail(detail));
        }
    }
}

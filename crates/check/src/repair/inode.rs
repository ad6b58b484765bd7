//! Inodes: fields, flags, type, map, size, block count and attributes.

use super::editor::{Editor, now};
use super::map::{self, NodePool};
use super::{dir_map, features, inline, kind, xattrs};
use crate::context::Context;
use crate::passes::Scanned;
use crate::prelude::*;
use crate::scan::{Mode, Scanner};
use std::collections::BTreeMap as Map;
use uext4_ondisk::Inode;

/// Bytes of fields of an inode.
const DTIME_AT: usize = 0x14;
const TRANSLATOR_AT: usize = 0x24;
const SIZE_HIGH_AT: usize = 0x6c;
const FRAGMENT_AT: usize = 0x70;
const BLOCKS_HIGH_AT: usize = 0x74;
const ACL_HIGH_AT: usize = 0x76;
const EXTRA_AT: usize = 0x80;
/// Extra words of times.
const TIMES_AT: [(usize, usize); 4] = [(0x0c, 0x84), (0x10, 0x88), (0x08, 0x8c), (0x90, 0x94)];

/// What is wrong with one inode.
struct Wrong<'f> {
    faults: Vec<&'f Fault>,
}

impl Wrong<'_> {
    fn has(&self, kind: FaultKind) -> bool {
        self.faults.iter().any(|f| f.kind == kind)
    }

    fn structure(&self, front: &str) -> bool {
        let of = |f: &&Fault| matches!(f.kind, FaultKind::Structure(k) if format!("{k:?}").starts_with(front));
        self.faults.iter().any(of)
    }

    /// The map has something in it that must be cut or written again.
    fn map(&self) -> bool {
        let kinds = [
            FaultKind::ExtentIdxKey,
            FaultKind::ExtentEmptyLeaf,
            FaultKind::ExtentUnwritten,
            FaultKind::MapBlock,
            FaultKind::MapTooLarge,
        ];
        self.structure("Extent") || kinds.iter().any(|k| self.has(*k))
    }

    fn xattrs(&self) -> bool {
        let kinds = [
            FaultKind::XattrBlock,
            FaultKind::XattrName,
            FaultKind::XattrOverlap,
            FaultKind::XattrRefcount,
            FaultKind::XattrContext,
        ];
        self.structure("Xattr") || kinds.iter().any(|k| self.has(*k))
    }
}

/// Faults that other modules repair, once the inodes themselves are sound.
fn is_later(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::BlockShared
            | FaultKind::BlockIsMetadata
            | FaultKind::DirEmpty
            | FaultKind::DirHole
            | FaultKind::ResizeInode
            | FaultKind::XattrValueInode
            | FaultKind::XattrInodeRefcount
    )
}

/// Repairs inodes, but for what other modules repair.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    let mut by_inode: Map<Ino, Wrong<'_>> = Map::new();
    let resize = ed.cx.sb.compat.contains(Compat::RESIZE_INODE);
    for fault in faults.iter().filter(|f| !is_later(f.kind)) {
        if resize && fault.ino == Some(Ino::RESIZE) {
            continue;
        }
        // A tree block with two owners is written anew when it gets its copy.
        let shared = |at: Pblk| ed.is_shared(at);
        if fault.pblk.is_some_and(shared) && !is_own(fault) {
            continue;
        }
        if let Some(ino) = fault.ino {
            let wrong = by_inode.entry(ino);
            wrong
                .or_insert_with(|| Wrong { faults: Vec::new() })
                .faults
                .push(fault);
        }
    }
    for (ino, wrong) in &by_inode {
        mend_one(ed, scanned, *ino, wrong)?;
    }
    Ok(())
}

/// A block in the message that is not a block of the inode's.
fn is_own(fault: &Fault) -> bool {
    !matches!(fault.kind, FaultKind::MapBlock)
        && !matches!(fault.kind, FaultKind::Structure(k) if {
            let name = format!("{k:?}");
            name.starts_with("Extent") || name.starts_with("Xattr")
        })
}

fn mend_one(ed: &mut Editor<'_, '_>, scanned: &Scanned, ino: Ino, wrong: &Wrong<'_>) -> Result<()> {
    let Some(mut raw) = ed.inode(ino)? else {
        return Ok(());
    };
    if wrong.has(FaultKind::InodeReserved) {
        return clear_reserved(ed, ino, &raw);
    }
    if wrong.structure("InodeExtraSize") {
        mend_extra_size(ed.cx, &mut raw);
    }
    mend_times(ed.cx, wrong, &mut raw);
    mend_fields(ed.cx, wrong, &mut raw);
    ed.put_inode(ino, &raw)?;
    let mut inode = ed.decode(&raw);
    kind::mend(ed, ino, &mut inode, |k| wrong.has(k))?;
    mend_flags(ed, wrong, ino, &mut inode)?;
    if wrong.map() && inode.flags.contains(InodeFlags::INLINE_DATA) {
        inode.flags &= !InodeFlags::INLINE_DATA;
    }
    let is_mapped = kind::is_mapped(&inode) || ino == Ino::BAD_BLOCKS;
    if wrong.map() && is_mapped {
        mend_map(ed, ino, &mut inode)?;
    } else if is_mapped {
        count(ed, wrong, ino, &raw, &mut inode)?;
    } else if wrong.has(FaultKind::InodeBlocks) || wrong.structure("InodeHuge") {
        let budget = walk_budget(ed.cx);
        let xattr_blocks = counter(ed.cx, &budget).check_xattrs(ino, &raw, &inode)?;
        inode.blocks = sectors(ed.cx, xattr_blocks);
    }
    ed.put_decoded(ino, &inode)?;
    if wrong.has(FaultKind::InlineData) && inode.flags.contains(InodeFlags::INLINE_DATA) {
        inline::mend(ed, ino)?;
    }
    if wrong.xattrs() {
        xattrs::mend(ed, scanned, ino, &wrong.faults)?;
    }
    Ok(())
}

/// The size that leads to attributes, or else the usual one.
fn mend_extra_size(cx: &Context<'_>, raw: &mut [u8]) {
    let room = raw.len().saturating_sub(GOOD_OLD_INODE_SIZE);
    let leads =
        |extra: &usize| le32(raw, GOOD_OLD_INODE_SIZE + extra) == Some(uext4_ondisk::XATTR_MAGIC);
    let usual = usize::from(cx.geo.want_extra_isize.min(32)) & !3;
    let sizes = [usual, 32, 28].into_iter().chain((4..room).step_by(4));
    let extra = sizes
        .clone()
        .filter(|e| *e != 0 && e + 4 <= room)
        .find(leads);
    put16(raw, EXTRA_AT, extra.unwrap_or(usual.min(room)) as u16);
}

fn mend_times(cx: &Context<'_>, wrong: &Wrong<'_>, raw: &mut [u8]) {
    if wrong.has(FaultKind::InodeDtime) {
        put32(raw, DTIME_AT, 0);
    }
    if wrong.has(FaultKind::InodeZeroDtime) || wrong.has(FaultKind::InodeLostOrphan) {
        put32(raw, DTIME_AT, now().max(cx.geo.inodes_count));
    }
    if wrong.has(FaultKind::InodeTime) {
        for (base, extra) in TIMES_AT {
            let (b, e) = (le32(raw, base).unwrap_or(0), le32(raw, extra).unwrap_or(0));
            if b & 0x8000_0000 != 0 && e & 3 == 3 {
                put32(raw, extra, e & !3);
            }
        }
    }
}

/// Fields that have no meaning.
fn mend_fields(cx: &Context<'_>, wrong: &Wrong<'_>, raw: &mut [u8]) {
    let file_type = FileType::from_mode(le16(raw, 0).unwrap_or(0));
    if wrong.has(FaultKind::InodeField) {
        put32(raw, FRAGMENT_AT, 0);
        if !cx.params.huge_file {
            put16(raw, BLOCKS_HIGH_AT, 0);
        }
        let translator = Pblk(le32(raw, TRANSLATOR_AT).unwrap_or(0).into());
        if cx.params.hurd && cx.geo.check_block(translator).is_err() {
            put32(raw, TRANSLATOR_AT, 0);
        }
        if !cx.params.bit64 && !cx.params.hurd {
            put16(raw, ACL_HIGH_AT, 0);
        }
        if file_type == FileType::Directory && !cx.params.large_dir {
            put32(raw, SIZE_HIGH_AT, 0);
        }
    }
    if wrong.has(FaultKind::Symlink) {
        put32(raw, SIZE_HIGH_AT, 0);
    }
    if wrong.structure("InodeHuge") {
        put16(raw, BLOCKS_HIGH_AT, 0);
    }
}

fn clear_reserved(ed: &mut Editor<'_, '_>, ino: Ino, raw: &[u8]) -> Result<()> {
    let mut inode = ed.decode(raw);
    if ino == Ino::BAD_BLOCKS {
        (inode.mode, inode.links, inode.file_acl) = (0, 0, Pblk(0));
        (inode.uid, inode.gid) = (0, 0);
        inode.flags &= !InodeFlags::INLINE_DATA;
        return ed.put_decoded(ino, &inode);
    }
    let named = ed.cx.sb.journal_ino() == Some(ino)
        || uext4_ondisk::quota_inodes(&ed.cx.sb.raw)
            .iter()
            .any(|q| q.1 == ino && ed.cx.ro_compat(RoCompat::QUOTA));
    if named {
        inode.mode = FileType::Regular.to_mode() | 0o600;
        inode.links = inode.links.max(1);
        return ed.put_decoded(ino, &inode);
    }
    ed.put_inode(ino, &vec![0; raw.len()])
}

/// Flags that contradict the type, the features or the data.
fn mend_flags(
    ed: &mut Editor<'_, '_>,
    wrong: &Wrong<'_>,
    ino: Ino,
    inode: &mut Inode,
) -> Result<()> {
    if wrong.has(FaultKind::HtreeFlag) {
        inode.flags &= !InodeFlags::INDEX;
    }
    if wrong.has(FaultKind::XattrContext) {
        inode.flags &= !InodeFlags::ENCRYPT;
    }
    if !wrong.has(FaultKind::InodeFlags) {
        return Ok(());
    }
    let cx = ed.cx;
    let root = kind::has_extent_root(inode);
    let plain = matches!(inode.file_type(), FileType::Regular | FileType::Directory);
    let both = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
    if inode.flags.contains(both) {
        inode.flags &= !if root {
            InodeFlags::INLINE_DATA
        } else {
            InodeFlags::EXTENTS
        };
    }
    if plain && root && !inode.flags.contains(InodeFlags::EXTENTS) {
        inode.flags |= InodeFlags::EXTENTS;
        inode.flags &= !InodeFlags::INLINE_DATA;
    }
    if inode.flags.contains(InodeFlags::EXTENTS) && !cx.incompat(Incompat::EXTENT) {
        if root {
            features::set_incompat(ed, Incompat::EXTENT)?;
        } else {
            inode.flags &= !InodeFlags::EXTENTS;
        }
    }
    if inode.flags.contains(InodeFlags::INLINE_DATA) && !cx.incompat(Incompat::INLINE_DATA) {
        if inline::is_there(ed, ino)? {
            features::set_incompat(ed, Incompat::INLINE_DATA)?;
        } else {
            inode.flags &= !InodeFlags::INLINE_DATA;
        }
    }
    if !cx.sb.compat.contains(Compat::IMAGIC_INODES) {
        inode.flags &= !InodeFlags::IMAGIC;
    }
    if inode.file_type() != FileType::Directory || !cx.incompat(Incompat::CASEFOLD) {
        inode.flags &= !InodeFlags::CASEFOLD;
    }
    if !plain {
        inode.flags &= !(InodeFlags::IMMUTABLE | InodeFlags::APPEND);
    }
    if !plain && inode.file_type() != FileType::Symlink {
        inode.flags &= !both;
    }
    if cx.is_reserved(ino) && ino != Ino::ROOT {
        inode.flags &= !(InodeFlags::INDEX | InodeFlags::CASEFOLD);
    }
    Ok(())
}

/// Cuts what can't be right, and writes the map again.
fn mend_map(ed: &mut Editor<'_, '_>, ino: Ino, inode: &mut Inode) -> Result<()> {
    let mut found = map::read(ed, inode)?;
    if matches!(inode.file_type(), FileType::Directory | FileType::Symlink) {
        for e in &mut found.runs {
            e.unwritten = false;
        }
    }
    let mut own = std::mem::take(&mut found.nodes);
    own.reverse();
    // Other trees are not sound yet, so what is free is not known.
    let mut pool = NodePool::only(own);
    map::write(ed, ino, inode, &found, &mut pool);
    Ok(())
}

/// Blocks of 512 bytes.
fn sectors(cx: &Context<'_>, blocks: u64) -> u64 {
    blocks.saturating_mul(u64::from(cx.geo.block_size / 512))
}

/// How many blocks one walk may meet: a map may lead through one block again and again.
fn walk_budget(cx: &Context<'_>) -> AtomicU64 {
    AtomicU64::new(cx.geo.blocks_count.saturating_mul(2))
}

/// A scanner that claims nothing and reports nothing.
fn counter<'c, 'd>(cx: &'c Context<'d>, budget: &'c AtomicU64) -> Scanner<'c, 'd> {
    let mode = Mode::Find {
        wanted: &[],
        budget,
    };
    Scanner::new(cx, mode)
}

/// Size and block count by what the inode maps.
fn count(
    ed: &mut Editor<'_, '_>,
    wrong: &Wrong<'_>,
    ino: Ino,
    raw: &[u8],
    inode: &mut Inode,
) -> Result<()> {
    let cx = ed.cx;
    let sizes = wrong.has(FaultKind::InodeSize);
    let blocks = wrong.has(FaultKind::InodeBlocks) || wrong.structure("InodeHuge");
    if !sizes && !blocks {
        return Ok(());
    }
    let budget = walk_budget(cx);
    let mut scanner = counter(cx, &budget);
    let mapped = scanner.walk(ino, inode)?;
    let xattr_blocks = scanner.check_xattrs(ino, raw, inode)?;
    if blocks {
        inode.blocks = sectors(cx, mapped.blocks.saturating_add(xattr_blocks));
    }
    if !sizes {
        return Ok(());
    }
    let size_of = |last: Option<u64>| last.map_or(0, |l| (l + 1) << cx.geo.block_bits);
    if inode.file_type() == FileType::Directory {
        inode.size = size_of(mapped.last);
        dir_map::close(ed, ino, inode)?;
        return Ok(());
    }
    let most = cx.file_size_max(inode.flags.contains(InodeFlags::EXTENTS));
    let short = mapped
        .last_written
        .is_some_and(|l| inode.size < l << cx.geo.block_bits);
    if inode.size > most || short && !inode.flags.contains(InodeFlags::VERITY) {
        inode.size = size_of(mapped.last_written).min(most);
    }
    if inode.size >= 1 << 31 && !cx.ro_compat(RoCompat::LARGE_FILE) {
        features::set_ro_compat(ed, RoCompat::LARGE_FILE)?;
    }
    Ok(())
}

//! The type of an inode, if what it holds contradicts its mode.

use super::editor::{Editor, now};
use super::map;
use crate::prelude::*;
use uext4_ondisk::{EXTENT_MAGIC, EXTENT_ROOT_ENTRIES, Inode, dir_entries};

/// Whether the area of pointers starts as a root of extents does.
pub(crate) fn has_extent_root(inode: &Inode) -> bool {
    let word = |at| le16(&inode.i_block, at).unwrap_or(0);
    let (magic, entries, max) = (word(0), word(2), word(4));
    magic == EXTENT_MAGIC && max.abs_diff(EXTENT_ROOT_ENTRIES) <= 2 && entries <= max && max > 0
}

/// Whether the inode maps blocks.
pub(crate) fn is_mapped(inode: &Inode) -> bool {
    match inode.file_type() {
        FileType::Regular | FileType::Directory => !inode.flags.contains(InodeFlags::INLINE_DATA),
        FileType::Symlink => {
            !inode.flags.contains(InodeFlags::INLINE_DATA) && inode.fast_symlink_target().is_none()
        }
        _ => false,
    }
}

/// Whether the first block holds the entries that a directory of this number starts with.
fn is_directory(ed: &Editor<'_, '_>, ino: Ino, inode: &Inode) -> Result<bool> {
    let found = map::read(ed, inode)?;
    let Some(first) = found.find(Lblk(0)) else {
        return Ok(false);
    };
    let block = ed.block(first)?;
    let mut records = dir_entries(&block, block.len());
    let mut next = |name: &[u8]| match records.next() {
        Some(Ok(d)) if d.name == name && d.ino != Ino::NONE => Some(d.ino),
        _ => None,
    };
    Ok(next(b".") == Some(ino) && next(b"..").is_some())
}

/// Corrects mode, and what contradicts the type of a special file or link.
///
/// # Errors
/// The device's.
pub(crate) fn mend(
    ed: &mut Editor<'_, '_>,
    ino: Ino,
    inode: &mut Inode,
    has: impl Fn(FaultKind) -> bool,
) -> Result<()> {
    let unknown = has(FaultKind::InodeMode) || has(FaultKind::RootMode);
    let special = has(FaultKind::SpecialFile) || has(FaultKind::Symlink);
    if !unknown && !special {
        return Ok(());
    }
    let permissions = inode.mode & !FileType::MODE_MASK;
    if ino == Ino::ROOT || is_directory(ed, ino, inode)? {
        inode.mode = FileType::Directory.to_mode() | permissions;
        if ino == Ino::ROOT && inode.links == 0 {
            inode.mode |= 0o755;
            inode.links = 2;
            inode.dtime = 0;
        }
        return Ok(());
    }
    if unknown {
        inode.mode = FileType::Regular.to_mode() | permissions;
        return Ok(());
    }
    if has(FaultKind::SpecialFile) {
        inode.size = 0;
        inode.flags &= !InodeFlags::INDEX;
    }
    if has(FaultKind::Symlink) {
        mend_link(ed, inode)?;
    }
    Ok(())
}

/// The target ends at its first zero byte, wherever it is.
fn mend_link(ed: &mut Editor<'_, '_>, inode: &mut Inode) -> Result<()> {
    // The target of an encrypted link has zero bytes.
    if inode
        .flags
        .intersects(InodeFlags::INLINE_DATA | InodeFlags::ENCRYPT)
    {
        return Ok(());
    }
    let length = |bytes: &[u8]| bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let mapped = match inode.flags.contains(InodeFlags::EXTENTS) {
        true => has_extent_root(inode),
        // A short target is text, and pointers lead into the file system.
        false => {
            let first = le32(&inode.i_block, 0).unwrap_or(0);
            let rest = inode.i_block.get(4..).unwrap_or(&[]);
            first != 0
                && ed.cx.bounds().contains(Pblk(first.into()), 1)
                && rest.iter().all(|b| *b == 0)
        }
    };
    if !mapped {
        inode.flags &= !InodeFlags::EXTENTS;
        let len = length(&inode.i_block).min(59);
        if len == 0 {
            delete(ed, inode);
            return Ok(());
        }
        inode.size = len as u64;
        if let Some(rest) = inode.i_block.get_mut(len..) {
            rest.fill(0);
        }
        return Ok(());
    }
    let found = map::read(ed, inode)?;
    let Some(at) = found.find(Lblk(0)) else {
        delete(ed, inode);
        return Ok(());
    };
    let block = ed.block(at)?;
    let len = length(&block).min(block.len() - 1);
    let target = block.get(..len).unwrap_or(&[]);
    if len == 0 {
        delete(ed, inode);
        return Ok(());
    }
    inode.size = len as u64;
    if len < inode.i_block.len() {
        inode.flags &= !InodeFlags::EXTENTS;
        inode.i_block = [0; 60];
        for (to, from) in inode.i_block.iter_mut().zip(target) {
            *to = *from;
        }
        inode.blocks = 0;
    } else if found.runs.len() > 1 || found.end() > 1 {
        let mut first = found;
        first.truncate(1);
        let mut pool = map::NodePool::new(Vec::new());
        map::write(ed, Ino::NONE, inode, &first, &mut pool);
    }
    Ok(())
}

/// A link that leads nowhere is deleted, as it can't be empty.
fn delete(ed: &Editor<'_, '_>, inode: &mut Inode) {
    inode.links = 0;
    inode.dtime = now().max(ed.cx.geo.inodes_count);
}

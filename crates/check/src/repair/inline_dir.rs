//! Directories in their inodes.

use super::editor::Editor;
use super::map::{self, Map, NodePool};
use super::records::{self, Record, type_byte};
use super::xattrs;
use crate::context::Context;
use crate::dirs::Dir;
use crate::prelude::*;
use uext4_ondisk::{Inode, XATTR_NAME_DATA, XattrIndex, XattrOwnedValue};

/// Bytes before the entries: the parent.
const PARENT_BYTES: usize = 4;

/// Removes or corrects entries, and the parent.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, dir: &Dir, faults: &[Fault]) -> Result<()> {
    let cx = ed.cx;
    let Some(mut raw) = ed.inode(dir.ino)? else {
        return Ok(());
    };
    let mut inode = ed.decode(&raw);
    let parent = Ino(le32(&inode.i_block, 0).unwrap_or(0));
    let state = cx.inodes.state(parent);
    if !state.used() || state.file_type() != FileType::Directory {
        put32(&mut inode.i_block, 0, Ino::ROOT.0);
    }
    if let Some(part) = inode.i_block.get_mut(PARENT_BYTES..) {
        mend_part(cx, dir, faults, part);
    }
    let mut list = xattrs::of_inode(cx, &raw);
    if let Some(found) = list.get(XattrIndex::SYSTEM, XATTR_NAME_DATA)
        && let XattrOwnedValue::Inline(value) = &found.value
        && !value.is_empty()
    {
        let mut value = value.clone();
        mend_part(cx, dir, faults, &mut value);
        let value = XattrOwnedValue::Inline(value);
        list.set(XattrIndex::SYSTEM, XATTR_NAME_DATA, value);
        if list.encode_in_inode(&mut raw).is_err() {
            return Ok(());
        }
    }
    ed.put_inode(dir.ino, &raw)?;
    ed.put_decoded(dir.ino, &inode)
}

/// The parent of a directory, and its entries.
pub(crate) fn entries(cx: &Context<'_>, raw: &[u8], inode: &Inode) -> (Ino, Vec<Record>) {
    let parent = Ino(le32(&inode.i_block, 0).unwrap_or(0));
    let part = inode.i_block.get(PARENT_BYTES..).unwrap_or(&[]);
    let mut all = records::read(part, part.len(), cx.geo.inodes_count);
    let list = xattrs::of_inode(cx, raw);
    if let Some(found) = list.get(XattrIndex::SYSTEM, XATTR_NAME_DATA)
        && let XattrOwnedValue::Inline(value) = &found.value
    {
        all.extend(records::read(value, value.len(), cx.geo.inodes_count));
    }
    (parent, all)
}

/// Removes the entries from the inode of a directory, which has blocks from then on, but none yet. False if it can't be changed.
///
/// # Errors
/// The device's.
pub(crate) fn empty(ed: &mut Editor<'_, '_>, ino: Ino) -> Result<bool> {
    let Some(mut raw) = ed.inode(ino)? else {
        return Ok(false);
    };
    let mut inode = ed.decode(&raw);
    let mut list = xattrs::of_inode(ed.cx, &raw);
    list.remove(XattrIndex::SYSTEM, XATTR_NAME_DATA);
    if list.encode_in_inode(&mut raw).is_err() {
        return Ok(false);
    }
    inode.flags.remove(InodeFlags::INLINE_DATA);
    inode
        .flags
        .set(InodeFlags::EXTENTS, ed.cx.incompat(Incompat::EXTENT));
    inode.size = 0;
    inode.i_block.fill(0);
    let mut none = NodePool::new(Vec::new());
    if !map::write(ed, ino, &mut inode, &Map::default(), &mut none) {
        return Ok(false);
    }
    inode.encode_into(&mut raw, &ed.cx.params);
    ed.put_inode(ino, &raw)?;
    Ok(true)
}

fn mend_part(cx: &Context<'_>, dir: &Dir, faults: &[Fault], part: &mut [u8]) {
    let found = records::read(part, part.len(), cx.geo.inodes_count);
    let has = |kind| {
        faults
            .iter()
            .any(|f| f.ino == Some(dir.ino) && f.kind == kind)
    };
    let mut names: Vec<Vec<u8>> = Vec::new();
    let kept: Vec<Record> = found
        .into_iter()
        .filter_map(|mut record| {
            let state = cx.inodes.state(record.ino);
            let valid = state.used()
                && !state.orphan()
                && !cx.is_reserved(record.ino)
                && record.ino != dir.ino
                && !matches!(&record.name[..], b"" | b"." | b"..");
            if !valid {
                return None;
            }
            if has(FaultKind::EntryName) {
                record.name = dir.legal_name(cx, &record.name)?.into_owned();
            }
            if !dir.may_name(state) && has(FaultKind::EntryUnencrypted) {
                return None;
            }
            let want = type_byte(cx, state.file_type());
            if record.type_byte != 0 {
                record.type_byte = want;
            }
            let key = dir.key(&record.name).into_owned();
            let again = names.contains(&key);
            names.push(key);
            (!again).then_some(record)
        })
        .collect();
    records::write_part(part, &kept);
}

//! Attribute values in inodes of their own.

use super::editor::Editor;
use crate::passes::Scanned;
use crate::prelude::*;
use uext4_ondisk::{XattrList, XattrOwnedValue, xattr_block_checksum_set, xattr_refcount};

/// Bytes of an inode that a value inode uses for other ends.
const HASH_AT: usize = 0x08;
const REFCOUNT_HIGH_AT: usize = 0x0c;
const REFCOUNT_LOW_AT: usize = 0x24;

/// Repairs counts of references, and removes attributes whose value is not there.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    let has = |kind| faults.iter().any(|f| f.kind == kind);
    let (values, counts) = (
        has(FaultKind::XattrValueInode),
        has(FaultKind::XattrInodeRefcount),
    );
    if !values && !counts {
        return Ok(());
    }
    for same in scanned.value_refs.chunk_by(|a, b| a.value == b.value) {
        let Some(first) = same.first() else {
            continue;
        };
        let value = first.value;
        let state = ed.cx.inodes.state(value);
        let there = state.used() && state.value();
        let raw = ed.inode(value)?.filter(|_| there);
        for r in same {
            let hash = raw
                .as_ref()
                .map(|raw| r.name_hash.rotate_left(16) ^ le32(raw, HASH_AT).unwrap_or(0));
            if values && hash != Some(r.hash) {
                drop_value(ed, r.owner, value)?;
            }
        }
        let Some(mut raw) = raw.filter(|_| !values) else {
            continue;
        };
        let count = same.len() as u32;
        if le32(&raw, REFCOUNT_LOW_AT) != Some(count) || le32(&raw, REFCOUNT_HIGH_AT) != Some(0) {
            put32(&mut raw, REFCOUNT_LOW_AT, count);
            put32(&mut raw, REFCOUNT_HIGH_AT, 0);
            ed.put_inode(value, &raw)?;
        }
    }
    Ok(())
}

/// The attributes without those whose value is in `value`.
fn without(list: &XattrList, value: Ino) -> Option<XattrList> {
    let mut rest = list.clone();
    for x in list.iter() {
        if matches!(x.value, XattrOwnedValue::Inode { ino, .. } if ino == value) {
            rest.remove(x.index, &x.name);
        }
    }
    (rest.len() < list.len()).then_some(rest)
}

fn drop_value(ed: &mut Editor<'_, '_>, owner: Ino, value: Ino) -> Result<()> {
    let Some(mut raw) = ed.inode(owner)? else {
        return Ok(());
    };
    if let Ok(Some(area)) = XattrArea::in_inode(&raw)
        && let Some(rest) = without(&XattrList::from_area(&area), value)
        && rest.encode_in_inode(&mut raw).is_ok()
    {
        ed.put_inode(owner, &raw)?;
    }
    let at = ed.decode(&raw).file_acl;
    if !ed.cx.bounds().contains(at, 1) {
        return Ok(());
    }
    let mut block = ed.block(at)?;
    let named = xattr_refcount(&block).unwrap_or(1);
    if let Ok(area) = XattrArea::in_block(&block)
        && let Some(rest) = without(&XattrList::from_area(&area), value)
        && rest.encode_block(&mut block).is_ok()
    {
        uext4_ondisk::xattr_refcount_set(&mut block, named);
        if let Some(seed) = ed.cx.seed {
            xattr_block_checksum_set(&mut block, seed, at);
        }
        ed.put_block(at, &block);
    }
    Ok(())
}

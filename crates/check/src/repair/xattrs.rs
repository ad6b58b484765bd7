//! Extended attributes: what is sound in an inode or a block, encoded again.

use super::editor::Editor;
use super::features;
use crate::context::Context;
use crate::passes::Scanned;
use crate::prelude::*;
use uext4_ondisk::{
    XATTR_MAGIC, XATTR_NAME_DATA, XATTR_VALUE_MAX, XattrIndex, XattrList, XattrOwnedValue,
    xattr_block_checksum_set, xattr_entry_hash, xattr_refcount_set,
};

/// Bytes of an entry before its name, and of a block before its entries.
const ENTRY_HEADER: usize = 16;
const BLOCK_HEADER: usize = 32;

/// The sound attributes of an area that starts at its first entry; `base` is what offsets count from, and `in_block`
/// says that entries have hashes.
fn sound(base: &[u8], entries_at: usize, in_block: bool) -> XattrList {
    let mut list = XattrList::default();
    let mut taken: Vec<(usize, usize)> = Vec::new();
    let mut at = entries_at;
    let ends = entries_end(base, entries_at);
    while at < ends {
        let byte = |i: usize| base.get(at.saturating_add(i)).copied().unwrap_or(0);
        let word = |i: usize| le32(base, at.saturating_add(i)).unwrap_or(0);
        let (name_len, index) = (usize::from(byte(0)), XattrIndex(byte(1)));
        let start = usize::from(le16(base, at.saturating_add(2)).unwrap_or(0));
        let (inum, size, hash) = (word(4), word(8), word(12));
        let name_at = at.saturating_add(ENTRY_HEADER);
        let name = base.get(name_at..name_at.saturating_add(name_len));
        at = name_at.saturating_add(name_len.next_multiple_of(4));
        let Some(name) = name else {
            break;
        };
        let valid = index.0 != 0 || !in_block;
        if !valid || size > XATTR_VALUE_MAX {
            continue;
        }
        let value = if inum != 0 && !(index == XattrIndex::SYSTEM && name == XATTR_NAME_DATA) {
            (inum >= Ino::GOOD_OLD_FIRST.0).then_some(XattrOwnedValue::Inode {
                ino: Ino(inum),
                size,
                entry_hash: hash,
            })
        } else {
            let end = start.saturating_add(size as usize);
            let span = (
                start,
                start.saturating_add((size as usize).next_multiple_of(4)),
            );
            let apart = size == 0
                || start >= ends.saturating_add(4)
                    && span.1 <= base.len()
                    && taken.iter().all(|t| span.1 <= t.0 || t.1 <= span.0);
            let bytes = if size == 0 {
                Some(&[][..])
            } else {
                base.get(start..end)
            };
            let bytes = bytes.filter(|_| apart);
            let bytes = bytes.filter(|v| hash == 0 || is_hash(name, v, hash));
            if bytes.is_some() && size > 0 {
                taken.push(span);
            }
            bytes.map(|v| XattrOwnedValue::Inline(v.to_vec()))
        };
        if let Some(value) = value
            && list.get(index, name).is_none()
        {
            list.set(index, name, value);
        }
    }
    list
}

/// Old kernels took the bytes of a name as signed.
fn is_hash(name: &[u8], value: &[u8], hash: u32) -> bool {
    if xattr_entry_hash(name, value) == hash {
        return true;
    }
    let signed = name
        .iter()
        .fold(0u32, |h, b| h.rotate_left(5) ^ i32::from(*b as i8) as u32);
    let (words, rest) = value.as_chunks::<4>();
    let step = |h: u32, w: [u8; 4]| h.rotate_left(16) ^ u32::from_le_bytes(w);
    let mut with = words.iter().fold(signed, |h, w| step(h, *w));
    if !rest.is_empty() {
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        with = step(with, last);
    }
    with == hash
}

/// Where the entries end: at a zero word, or where an entry would pass the end.
fn entries_end(base: &[u8], entries_at: usize) -> usize {
    let mut at = entries_at;
    loop {
        let name_len = base.get(at).copied().unwrap_or(0);
        let zero = le32(base, at).is_none_or(|w| w == 0);
        let next = at.saturating_add(ENTRY_HEADER + usize::from(name_len).next_multiple_of(4));
        if zero || next.saturating_add(4) > base.len() {
            return at;
        }
        at = next;
    }
}

/// The sound attributes in an inode.
pub(crate) fn of_inode(cx: &Context<'_>, raw: &[u8]) -> XattrList {
    let extra = usize::from(le16(raw, GOOD_OLD_INODE_SIZE).unwrap_or(0));
    let at = GOOD_OLD_INODE_SIZE.saturating_add(extra);
    if extra == 0 || cx.geo.inode_size == 128 || le32(raw, at) != Some(XATTR_MAGIC) {
        return XattrList::default();
    }
    sound(raw.get(at.saturating_add(4)..).unwrap_or(&[]), 0, false)
}

/// Puts as many attributes in a place as `encode` has room for.
fn fit(list: &mut XattrList, mut encode: impl FnMut(&XattrList) -> bool) {
    while !encode(list) {
        let last = list.iter().last().map(|x| (x.index, x.name.clone()));
        let Some((index, name)) = last else {
            return;
        };
        list.remove(index, &name);
    }
}

/// Repairs the attributes of an inode, in it and in its block.
///
/// # Errors
/// The device's.
pub(crate) fn mend(
    ed: &mut Editor<'_, '_>,
    scanned: &Scanned,
    ino: Ino,
    faults: &[&Fault],
) -> Result<()> {
    let Some(mut raw) = ed.inode(ino)? else {
        return Ok(());
    };
    let of_xattrs = |f: &&&Fault| {
        matches!(
            f.kind,
            FaultKind::XattrName | FaultKind::XattrOverlap | FaultKind::XattrRefcount
        ) || matches!(f.kind, FaultKind::Structure(k) if format!("{k:?}").starts_with("Xattr"))
    };
    let mut blocks: Vec<Pblk> = Vec::new();
    let mut inside = false;
    for fault in faults.iter().filter(of_xattrs) {
        match fault.pblk {
            Some(at) if !blocks.contains(&at) => blocks.push(at),
            Some(_) => {}
            None => inside = true,
        }
    }
    if inside {
        let mut list = of_inode(ed.cx, &raw);
        fit(&mut list, |list| list.encode_in_inode(&mut raw).is_ok());
        ed.put_inode(ino, &raw)?;
    }
    for at in blocks {
        if !ed.is_shared(at) {
            mend_block(ed, scanned, at)?;
        }
    }
    if faults.iter().any(|f| f.kind == FaultKind::XattrBlock) {
        drop_block(ed, ino)?;
    }
    Ok(())
}

/// Writes the sound attributes of a block again, with the number of inodes that name it.
pub(crate) fn mend_block(ed: &mut Editor<'_, '_>, scanned: &Scanned, at: Pblk) -> Result<()> {
    let mut block = ed.block(at)?;
    let magic = le32(&block, 0) == Some(XATTR_MAGIC);
    let mut list = match magic {
        true => sound(&block, BLOCK_HEADER, true),
        false => XattrList::default(),
    };
    fit(&mut list, |list| list.encode_block(&mut block).is_ok());
    let named = scanned.xattr_blocks.iter().find(|b| b.0 == at);
    xattr_refcount_set(&mut block, named.map_or(1, |b| b.2));
    if let Some(seed) = ed.cx.seed {
        xattr_block_checksum_set(&mut block, seed, at);
    }
    ed.put_block(at, &block);
    Ok(())
}

/// An attribute block that can't be one, or that the superblock does not know of.
fn drop_block(ed: &mut Editor<'_, '_>, ino: Ino) -> Result<()> {
    let Some(mut inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    let at = inode.file_acl;
    if ed.cx.bounds().contains(at, 1) && le32(&ed.block(at)?, 0) == Some(XATTR_MAGIC) {
        return features::set_compat(ed, Compat::EXT_ATTR);
    }
    inode.file_acl = Pblk(0);
    ed.put_decoded(ino, &inode)
}

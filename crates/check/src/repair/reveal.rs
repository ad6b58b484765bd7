//! Inodes with names that a group descriptor hides: it counts more inodes as never used than there are.

use super::editor::Editor;
use crate::passes::Scanned;
use crate::prelude::*;
use uext4_ondisk::{GroupFlags, inode_checksum_ok};

/// Bytes of mode and link count.
const LINKS_AT: usize = 0x1a;

/// Shows inodes that entries name and that look in use; true if there was one.
///
/// # Errors
/// The device's.
pub(crate) fn inodes(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<bool> {
    let cx = ed.cx;
    let unused = |f: &&Fault| f.kind == FaultKind::EntryUnused;
    let mut lowest_unused: BTreeMap<GroupNo, u32> = BTreeMap::new();
    for fault in faults.iter().filter(unused) {
        let Some(dir) = fault.ino.and_then(|ino| scanned.dirs.find(ino)) else {
            continue;
        };
        for block in scanned.dirs.blocks_of(dir) {
            let bytes = ed.block(block.pblk)?;
            for record in super::records::read(&bytes, bytes.len(), cx.geo.inodes_count) {
                let Ok((group, index)) = cx.geo.group_of_ino(record.ino) else {
                    continue;
                };
                let hidden = !cx.is_reserved(record.ino) && index >= cx.inodes_in_use_max(group);
                if hidden && looks_used(ed, record.ino)? {
                    let end = lowest_unused.entry(group).or_default();
                    *end = (*end).max(index.saturating_add(1));
                }
            }
        }
    }
    for (group, end) in &lowest_unused {
        let Some(mut desc) = cx.desc(*group).copied() else {
            continue;
        };
        desc.flags &= !GroupFlags::INODE_UNINIT;
        desc.itable_unused = cx.geo.inodes_per_group.saturating_sub(*end);
        ed.put_desc(*group, &desc)?;
    }
    Ok(!lowest_unused.is_empty())
}

fn looks_used(ed: &Editor<'_, '_>, ino: Ino) -> Result<bool> {
    let Some(raw) = ed.inode(ino)? else {
        return Ok(false);
    };
    let file_type = FileType::from_mode(le16(&raw, 0).unwrap_or(0));
    let linked = le16(&raw, LINKS_AT).is_some_and(|links| links > 0);
    let sum = ed
        .cx
        .seed
        .is_none_or(|seed| inode_checksum_ok(&raw, seed, ino));
    Ok(file_type != FileType::Unknown && linked && sum)
}

//! Quota files, with the usage that was counted. Limits are kept.

use super::editor::Editor;
use super::map::{self, NodePool};
use crate::passes::Scanned;
use crate::prelude::*;
use crate::quota::QuotaFile;
use uext4_ondisk::{
    Extent, QUOTA_BLOCK, QUOTA_VERSION, QuotaEntry, QuotaHeader, quota_file, quota_inodes,
};

/// Writes the files that disagree with the usage again.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    let files = quota_inodes(&ed.cx.sb.raw);
    for (i, (kind, ino)) in files.into_iter().enumerate() {
        let wrong = |f: &Fault| is_of_files(f.kind) && f.ino == Some(ino);
        if ino == Ino::NONE || !faults.iter().any(wrong) {
            continue;
        }
        let Some(used) = scanned.usage.of(i) else {
            continue;
        };
        let Some(mut old) = QuotaFile::open(ed.cx, ino)? else {
            continue;
        };
        let (found, mut entries) = old.entries()?;
        for entry in entries.values_mut() {
            (entry.space, entry.inodes) = (0, 0);
        }
        for (id, (space, inodes)) in used {
            let entry = entries.entry(*id).or_insert_with(|| QuotaEntry::new(*id));
            (entry.space, entry.inodes) = (*space, *inodes);
        }
        let mut header = QuotaHeader::new(kind);
        if found.magic == header.magic && found.version == QUOTA_VERSION {
            header.space_grace = found.space_grace;
            header.inode_grace = found.inode_grace;
        }
        write(ed, ino, &quota_file(&header, &entries))?;
    }
    Ok(())
}

fn is_of_files(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::QuotaUsage | FaultKind::QuotaFile | FaultKind::QuotaTree
    )
}

/// Writes the file, which grows if it has not enough blocks.
fn write(ed: &mut Editor<'_, '_>, ino: Ino, blocks: &[[u8; QUOTA_BLOCK]]) -> Result<()> {
    let Some(mut inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    let size = ed.cx.block_size();
    let mut bytes = blocks.concat();
    bytes.resize(bytes.len().next_multiple_of(size), 0);
    let mut found = map::read(ed, &inode)?;
    let mut grown = false;
    for (lblk, block) in (0u32..).zip(bytes.chunks_exact(size)) {
        let at = match found.find(Lblk(lblk)) {
            Some(at) => at,
            None => {
                let Some(at) = ed.allocate().filter(|_| u64::from(lblk) >= found.end()) else {
                    return Ok(());
                };
                let run = Extent {
                    lblk: Lblk(lblk),
                    len: 1,
                    unwritten: false,
                    pblk: at,
                };
                found.push(run, &ed.cx.geo);
                grown = true;
                at
            }
        };
        ed.put_block(at, block);
    }
    inode.size = inode.size.max(bytes.len() as u64);
    if grown {
        let mut own = std::mem::take(&mut found.nodes);
        own.reverse();
        map::write(ed, ino, &mut inode, &found, &mut NodePool::new(own));
    }
    ed.put_decoded(ino, &inode)
}

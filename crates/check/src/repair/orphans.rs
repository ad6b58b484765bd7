//! Orphans: the list through deletion times, and the orphan file.

use super::editor::{Editor, now};
use super::kind;
use super::map::{self, NodePool};
use crate::filemap;
use crate::prelude::*;
use std::collections::BTreeSet;
use uext4_ondisk::{orphan_block_init, orphan_block_verify, orphan_checksum_set};

/// Frees or truncates orphans as a mount would, and ends list and file.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    let is_orphan = |f: &&Fault| {
        matches!(
            f.kind,
            FaultKind::OrphanPending
                | FaultKind::OrphanIno
                | FaultKind::OrphanLoop
                | FaultKind::OrphanFile
                | FaultKind::OrphanPresent
        ) || matches!(f.kind, FaultKind::Structure(k) if format!("{k:?}").starts_with("Orphan"))
    };
    let mine: Vec<&Fault> = faults.iter().filter(is_orphan).collect();
    if mine.is_empty() {
        return Ok(());
    }
    let pending = mine.iter().filter(|f| f.kind == FaultKind::OrphanPending);
    let inodes: BTreeSet<Ino> = pending.filter_map(|f| f.ino).collect();
    for ino in inodes {
        finish(ed, ino)?;
    }
    let unusable = mine.iter().any(|f| f.kind == FaultKind::OrphanFile);
    let is_empty = !unusable && clear_file(ed)?;
    // A file with a block that is none is left, unless it was decided to remove it.
    let usable = is_empty
        || !unusable
            && !mine
                .iter()
                .any(|f| matches!(f.kind, FaultKind::Structure(_)));
    ed.change_super(|raw| {
        raw.last_orphan = 0.into();
        let present = RoCompat::ORPHAN_PRESENT;
        raw.feature_ro_compat = (raw.ro_compat() & !present).bits().into();
    })?;
    match usable {
        true => Ok(()),
        false => remove_file(ed),
    }
}

/// Removes the orphan file, with its feature.
///
/// # Errors
/// The device's.
pub(crate) fn remove_file(ed: &mut Editor<'_, '_>) -> Result<()> {
    if !ed.cx.sb.compat.contains(Compat::ORPHAN_FILE) {
        return Ok(());
    }
    ed.change_super(|raw| {
        raw.feature_compat = (raw.compat() & !Compat::ORPHAN_FILE).bits().into();
        raw.orphan_file_inum = 0.into();
    })?;
    free_file(ed)
}

/// What a mount does with an orphan: deletes it without links, or else cuts it to its size.
fn finish(ed: &mut Editor<'_, '_>, ino: Ino) -> Result<()> {
    let Some(mut inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    if inode.links == 0 {
        inode.dtime = now().max(ed.cx.geo.inodes_count);
        return ed.put_decoded(ino, &inode);
    }
    inode.dtime = 0;
    if inode.file_type() == FileType::Regular && kind::is_mapped(&inode) {
        let size = u64::from(ed.cx.geo.block_size);
        let mut found = map::read(ed, &inode)?;
        if found.end() > inode.size.div_ceil(size) {
            found.truncate(inode.size.div_ceil(size));
            let mut own = std::mem::take(&mut found.nodes);
            own.reverse();
            let mut pool = NodePool::only(own);
            // The block count is corrected when the inodes are checked.
            map::write(ed, ino, &mut inode, &found, &mut pool);
        }
    }
    ed.put_decoded(ino, &inode)
}

/// Empties every block of the orphan file; false if there is none, or a block is not one of an orphan file: then it may be of another.
fn clear_file(ed: &mut Editor<'_, '_>) -> Result<bool> {
    let Some(ino) = ed.cx.sb.orphan_file() else {
        return Ok(false);
    };
    let Some(inode) = ed.decoded(ino)? else {
        return Ok(false);
    };
    let (runs, _) = filemap::load(&ed.cx.view, &ed.cx.geo, &inode)?;
    let seed = ed.cx.seed.map(|s| inode.seed(s, ino));
    let count = u32::try_from(inode.size >> ed.cx.geo.block_bits).unwrap_or(u32::MAX);
    let mut blocks = Vec::new();
    for lblk in 0..count {
        let Some(at) = filemap::find(&runs, Lblk(lblk)) else {
            return Ok(false);
        };
        if orphan_block_verify(&ed.block(at)?, seed, at).is_err() {
            return Ok(false);
        }
        blocks.push(at);
    }
    for at in blocks {
        let mut block = vec![0; ed.cx.block_size()];
        orphan_block_init(&mut block);
        if let Some(seed) = seed {
            orphan_checksum_set(&mut block, seed, at);
        }
        ed.put_block(at, &block);
    }
    Ok(true)
}

/// The inode of an orphan file that can't be used is freed.
fn free_file(ed: &mut Editor<'_, '_>) -> Result<()> {
    let Some(ino) = ed
        .cx
        .sb
        .orphan_file()
        .filter(|ino| !ed.cx.is_reserved(*ino))
    else {
        return Ok(());
    };
    let Some(mut inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    inode.links = 0;
    inode.dtime = now().max(ed.cx.geo.inodes_count);
    ed.put_decoded(ino, &inode)
}

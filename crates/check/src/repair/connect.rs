//! Names for inodes that have none, and `..` of directories.

use super::chosen::inodes_of;
use super::editor::Editor;
use super::lost_found::LostFound;
use crate::dirs::Dir;
use crate::passes::Scanned;
use crate::prelude::*;
use uext4_ondisk::{DIRENT_MIN, dir_checksum_set, dir_entries, dx_checksum_set};

/// Corrects `..`, and puts what has no name into lost+found. True if an entry was added.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<bool> {
    for ino in inodes_of(faults, |k| k == FaultKind::DirDotDotParent) {
        if let Some(dir) = scanned.dirs.find(ino) {
            let parent = Ino(dir.parent.load(Ordering::Relaxed));
            let parent = if ino == Ino::ROOT { Ino::ROOT } else { parent };
            set_parent(ed, scanned, dir, parent)?;
        }
    }
    let unnamed = |k| {
        matches!(
            k,
            FaultKind::DirUnconnected | FaultKind::DirLoop | FaultKind::Unattached
        )
    };
    let wanted = inodes_of(faults, unnamed);
    let Some(mut lost_found) = wanted
        .first()
        .map_or(Ok(None), |_| LostFound::open(ed, scanned))?
    else {
        return Ok(false);
    };
    if lost_found.is_new() {
        // Its inode is known to the check only in the next round.
        return Ok(true);
    }
    let mut added = false;
    for ino in &wanted {
        let state = ed.cx.inodes.state(*ino);
        if *ino == lost_found.ino() || *ino == Ino::ROOT || !state.used() {
            continue;
        }
        if state.file_type() == FileType::Directory {
            let Some(dir) = scanned.dirs.find(*ino) else {
                continue;
            };
            if below(scanned, lost_found.ino(), *ino) {
                continue;
            }
            if faults
                .iter()
                .any(|f| f.ino == Some(*ino) && f.kind == FaultKind::DirLoop)
            {
                remove_names(ed, scanned, dir)?;
            }
            if !lost_found.add(ed, *ino)? {
                break;
            }
            set_parent(ed, scanned, dir, lost_found.ino())?;
        } else if !lost_found.add(ed, *ino)? {
            break;
        }
        added = true;
    }
    Ok(added)
}

/// True if the directory `ino` is below `top`, by names.
fn below(scanned: &Scanned, ino: Ino, top: Ino) -> bool {
    let mut at = ino;
    for _ in 0..scanned.dirs.dirs.len() {
        if at == top {
            return true;
        }
        match scanned.dirs.find(at) {
            Some(dir) if at != Ino::ROOT => at = Ino(dir.parent.load(Ordering::Relaxed)),
            _ => return false,
        }
    }
    false
}

/// Writes the number of the parent where the directory keeps it.
fn set_parent(ed: &mut Editor<'_, '_>, scanned: &Scanned, dir: &Dir, parent: Ino) -> Result<()> {
    if dir.inline {
        if let Some(mut inode) = ed.decoded(dir.ino)? {
            put32(&mut inode.i_block, 0, parent.0);
            ed.put_decoded(dir.ino, &inode)?;
        }
        return Ok(());
    }
    let Some(first) = scanned
        .dirs
        .blocks_of(dir)
        .first()
        .filter(|b| b.lblk == Lblk(0))
    else {
        return Ok(());
    };
    let mut block = ed.block(first.pblk)?;
    put32(&mut block, DIRENT_MIN, parent.0);
    seal(ed, dir, first.lblk, &mut block);
    ed.put_block(first.pblk, &block);
    Ok(())
}

/// Makes the checksum of a directory's block right.
fn seal(ed: &Editor<'_, '_>, dir: &Dir, lblk: Lblk, block: &mut [u8]) {
    if ed.cx.seed.is_none() {
        return;
    }
    match crate::dirblock::block_kind(ed.cx, dir, lblk, block) {
        Some(kind) => dx_checksum_set(block, kind, dir.seed),
        None => dir_checksum_set(block, dir.seed),
    }
}

/// Removes the entry of a directory that is its own ancestor from the directory that has it.
fn remove_names(ed: &mut Editor<'_, '_>, scanned: &Scanned, child: &Dir) -> Result<()> {
    let parent = Ino(child.parent.load(Ordering::Relaxed));
    let Some(dir) = scanned.dirs.find(parent) else {
        return Ok(());
    };
    if dir.inline {
        return Ok(());
    }
    for b in scanned.dirs.blocks_of(dir) {
        let mut block = ed.block(b.pblk)?;
        if crate::dirblock::block_kind(ed.cx, dir, b.lblk, &block).is_some() {
            continue;
        }
        let places: Vec<usize> = dir_entries(&block, block.len())
            .map_while(std::result::Result::ok)
            .filter(|d| d.ino == child.ino && !d.is_dot_or_dotdot())
            .map(|d| d.offset)
            .collect();
        for at in &places {
            put32(&mut block, *at, 0);
        }
        if !places.is_empty() {
            seal(ed, dir, b.lblk, &mut block);
            ed.put_block(b.pblk, &block);
        }
    }
    Ok(())
}

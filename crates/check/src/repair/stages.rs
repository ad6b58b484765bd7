//! Which repairs belong to the stage at which a check ended.

use super::chosen::inodes_of;
use super::editor::Editor;
use super::{
    clones, connect, descs, dir, dir_map, groups, inode, journal, kind, links, map, orphans, quota,
    resize, superblock, values,
};
use crate::context::Context;
use crate::edits::Edits;
use crate::passes::{Examined, Scanned, Stage};
use crate::prelude::*;
use crate::report::CheckReport;
use uext4_ondisk::{STATE_CLEAN, STATE_ERROR};

/// Changes that repair these faults, or some of them.
///
/// # Errors
/// The device's.
pub(crate) fn repair(
    cx: &Context<'_>,
    examined: &Examined<'_>,
    faults: &[Fault],
    present: &CheckReport,
) -> Result<Edits> {
    let mut ed = Editor::new(cx);
    if let Some(scanned) = &examined.scanned {
        ed.set_shared(&scanned.duplicates);
        claim_unread(&mut ed, present)?;
    }
    match (examined.stage, &examined.scanned) {
        (Stage::Superblock, _) => {
            if faults.iter().any(|f| f.kind == FaultKind::JournalPending) && cx.log.is_some() {
                // Everything else may look different afterwards.
                journal::replay(&mut ed)?;
                return Ok(ed.into_patch());
            }
            // The journal is an inode, so the places of inodes precede it.
            let changed = superblock::mend(&mut ed, faults)?;
            if !changed && !descs::mend(&mut ed, faults)? {
                journal::mend(&mut ed, faults)?;
            }
        }
        (Stage::Orphans, _) => {
            if !superblock::adopt_layout(&mut ed, false)? {
                orphans::mend(&mut ed, faults)?;
            }
        }
        (Stage::Inodes, Some(scanned)) => mend_inodes(&mut ed, scanned, faults)?,
        (Stage::Directories, Some(scanned)) => dir::mend(&mut ed, scanned, faults)?,
        (Stage::Links, Some(scanned)) => {
            // Names change the number of links.
            if !connect::mend(&mut ed, scanned, faults)? {
                links::mend(&mut ed, scanned, faults)?;
                superblock::mend_quota_inodes(&mut ed, faults)?;
            }
        }
        (Stage::Groups, Some(scanned)) => {
            groups::mend(&mut ed, faults, present)?;
            quota::mend(&mut ed, scanned, faults)?;
            journal::mend_late(&mut ed, faults)?;
            // What is left may be a wrong field of the superblock, which a backup has right.
            let is_repaired = |f: &Fault| {
                faults
                    .iter()
                    .any(|g| g.kind == f.kind && g.group == f.group)
            };
            if present.faults.iter().all(is_repaired) {
                superblock::copy_to_backups(&mut ed, faults)?;
            }
        }
        (_, None) => {}
    }
    Ok(ed.into_patch())
}

/// Repairs inodes and what they map, one kind of repair in a round.
fn mend_inodes(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    descs::mend_tables(ed, faults)?;
    if !ed.has_changes()? {
        journal::drop_shared(ed)?;
    }
    if !ed.has_changes()? {
        inode::mend(ed, scanned, faults)?;
    }
    // What is in use is known only once all maps are sound.
    if !ed.has_changes()? {
        values::mend(ed, scanned, faults)?;
    }
    // A directory's block that a second inode claims is not among its own yet.
    if !ed.has_changes()? {
        clones::mend(ed, scanned, faults)?;
    }
    if !ed.has_changes()? {
        dir_map::mend(ed, faults)?;
        resize::mend(ed, faults)?;
    }
    Ok(())
}

/// Claims what files map that the check did not read, as their trees are damaged: no repair may take these blocks.
fn claim_unread(ed: &mut Editor<'_, '_>, present: &CheckReport) -> Result<()> {
    if present.faults_total > present.faults.len() as u64 {
        // Some of these files are not known.
        ed.forbid_allocation();
        return Ok(());
    }
    let of_map = |k| match k {
        FaultKind::Structure(k) => format!("{k:?}").starts_with("Extent"),
        FaultKind::MapBlock | FaultKind::BlockShared | FaultKind::BlockIsMetadata => true,
        _ => false,
    };
    for ino in inodes_of(&present.faults, of_map) {
        if let Some(inode) = ed.decoded(ino)?.filter(kind::is_mapped) {
            let found = map::read(ed, &inode)?;
            let nodes = found.nodes.iter().chain(&found.shared_nodes).copied();
            for at in found.blocks().map(|b| b.1).chain(nodes) {
                ed.cx.claimed.claim(ed.cx.cluster(at), 1, |_| {});
            }
        }
    }
    Ok(())
}

/// Changes that mark the file system as clean and without recorded errors; `None` if it is.
///
/// # Errors
/// The device's.
pub(crate) fn mark_clean(cx: &Context<'_>) -> Result<Option<Edits>> {
    let state = cx.sb.raw.state.get();
    let is_clean = state & STATE_CLEAN != 0 && state & STATE_ERROR == 0;
    if is_clean && cx.sb.raw.error_count.get() == 0 {
        return Ok(None);
    }
    let mut ed = Editor::new(cx);
    groups::mark_clean(&mut ed)?;
    Ok(Some(ed.into_patch()))
}

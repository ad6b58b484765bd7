//! Moves of the journal, which can't be a part of a transaction in it.

use crate::change::{
    ChangeError, Result, completed, context, examine_sound, files, put_superblocks,
};
use crate::passes::Stage;
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::map;
use crate::repair::plan::Plan;
use crate::report::{CheckOptions, Progress};
use uext4_ondisk::Extent;

/// Plans to move the journal in front of the new end; the plan is empty if it is there.
///
/// # Errors
/// The image has faults; there is not enough room; the device's.
pub(super) fn plan_move(
    device: &dyn BlockDevice,
    blocks: u64,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Plan> {
    let examined = examine_sound(device, Stage::Groups, options, progress)?;
    let cx = context(&examined)?;
    let Some(ino) = cx.sb.journal_ino() else {
        return Ok(Plan::default());
    };
    let mut ed = Editor::new(cx);
    let Some(inode) = ed.decoded(ino)? else {
        return Err(ChangeError::Faulty);
    };
    let found = map::read(&ed, &inode)?;
    let behind = |e: &Extent| e.pblk.0.saturating_add(e.len.into()) > blocks;
    let nodes = found.nodes.iter().any(|at| at.0 >= blocks);
    if !found.runs.iter().any(behind) && !nodes {
        return Ok(Plan::default());
    }
    let first = found.find(Lblk(0)).ok_or(ChangeError::Faulty)?;
    let super_block = ed.block(first)?;
    let count = u32::try_from(found.end()).unwrap_or(u32::MAX);
    let inode = files::add(&mut ed, ino, count)?;
    let placed = map::read(&ed, &inode)?;
    if placed.runs.iter().any(behind) || placed.nodes.iter().any(|at| at.0 >= blocks) {
        return Err(ChangeError::TooSmall { least: blocks + 1 });
    }
    files::fill_journal(&mut ed, &inode, &super_block)?;
    let mut raw = cx.sb.raw.clone();
    files::back_up_journal(&mut raw, &inode);
    put_superblocks(&mut ed, &raw, &cx.geo)?;
    completed(device, ed.into_patch(), &examined, options, progress)
}

//! A smaller file system, in plans that are carried out one after the other: what lies behind the new end moves in front of it, then
//! the groups there go.
//!
//! | module | holds |
//! | --- | --- |
//! | `space` | the fewest blocks that an image may have |
//! | `renumber` | new numbers of inodes |
//! | `vacate` | moves of inodes, of what they map, and of the metadata of groups |
//! | `journal` | moves of the journal |
//! | `cut` | the new size |
//!
//! # Crash
//! Data is copied to free blocks before a transaction makes files map them. Between two plans the image is sound, with the old size.

mod cut;
mod journal;
mod renumber;
mod space;
mod vacate;

use super::{ChangeError, Result, context, examine_sound};
use crate::edits::{EditedDevice, Edits};
use crate::passes::Stage;
use crate::prelude::*;
use crate::repair::plan::Plan;
use crate::report::{CheckOptions, Progress};

/// Plans to make an image smaller, to so many blocks, or to as few as it may have. There is no plan if it has no more.
///
/// # Errors
/// As of [`super::plan_tune`]; what is in use needs more blocks or inodes.
pub fn plan_shrink(
    device: &dyn BlockDevice,
    blocks: Option<u64>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    let examined = examine_sound(device, Stage::Groups, options, progress)?;
    let cx = context(&examined)?;
    refuse(&cx.sb)?;
    let least = space::least(cx)?;
    let old = cx.geo.blocks_count;
    let blocks = blocks.map(|blocks| space::with_whole_groups(cx, blocks));
    drop(examined);
    match blocks {
        Some(blocks) if blocks >= old => Ok(Vec::new()),
        Some(blocks) if blocks < least => Err(ChangeError::TooSmall { least }),
        Some(blocks) => plans_to(device, blocks, options, progress),
        None => to_least(device, least, old, options, progress),
    }
}

fn refuse(sb: &Superblock) -> Result<()> {
    let refused = [
        (sb.ro_compat.contains(RoCompat::BIGALLOC), "bigalloc"),
        (
            sb.ro_compat.contains(RoCompat::SHARED_BLOCKS),
            "shared_blocks",
        ),
    ];
    match refused.iter().find(|(is_set, _)| *is_set) {
        Some((_, name)) => Err(ChangeError::refused(format!(
            "a file system with {name} can't be made smaller"
        ))),
        None => Ok(()),
    }
}

/// The plans to the smallest size from `least` on that has room for what moves: trees of extents may get more blocks.
fn to_least(
    device: &dyn BlockDevice,
    least: u64,
    old: u64,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    let (mut below, mut step) = (least.saturating_sub(1), 1);
    let mut found = loop {
        let blocks = below.saturating_add(step);
        if blocks >= old {
            return Ok(Vec::new());
        }
        match plans_to(device, blocks, options, progress) {
            Ok(plans) => break (blocks, plans),
            Err(ChangeError::TooSmall { .. }) => below = blocks,
            Err(e) => return Err(e),
        }
        step *= 2;
    };
    while found.0 - below > 1 {
        let middle = below + (found.0 - below) / 2;
        match plans_to(device, middle, options, progress) {
            Ok(plans) => found = (middle, plans),
            Err(ChangeError::TooSmall { .. }) => below = middle,
            Err(e) => return Err(e),
        }
    }
    Ok(found.1)
}

fn plans_to(
    device: &dyn BlockDevice,
    blocks: u64,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    let (mut all, mut plans) = (Edits::default(), Vec::new());
    let steps = [journal::plan_move, vacate::plan_move, cut::plan_cut];
    for step in steps {
        let plan = step(&EditedDevice::new(device, &all), blocks, options, progress)?;
        if !plan.is_empty() {
            all.absorb(plan.edits.clone());
            plans.push(plan);
        }
    }
    Ok(plans)
}

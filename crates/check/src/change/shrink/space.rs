//! The fewest blocks that an image may have.

use crate::change::{ChangeError, Result};
use crate::context::Context;
use crate::prelude::*;

/// The number of blocks in which everything in use has room, if no tree needs more of them.
///
/// # Errors
/// Only the size that it has is enough.
pub(super) fn least(cx: &Context<'_>) -> Result<u64> {
    let geo = &cx.geo;
    let inodes = cx.inodes.known().filter(|ino| cx.inodes.state(*ino).used());
    let inodes = inodes.count() as u64;
    let metadata = |group: GroupNo| of_metadata(geo, group);
    let all: u64 = (0..geo.groups_count).map(GroupNo).map(metadata).sum();
    let files = claimed(cx).saturating_sub(all);
    let mut needs = u64::from(geo.first_data_block) + files;
    for group in (0..geo.groups_count).map(GroupNo) {
        needs += metadata(group);
        let start = geo.group_first_block(group).0;
        let end = start + u64::from(geo.blocks_in_group(group));
        let enough = u64::from(group.0 + 1) * u64::from(geo.inodes_per_group) >= inodes;
        // A group is there with all of its own metadata.
        let blocks = needs.max(start + metadata(group));
        if enough && blocks <= end {
            return Ok(blocks);
        }
    }
    Err(ChangeError::TooSmall {
        least: geo.blocks_count,
    })
}

/// The number of blocks, without a last group that has no room for its own metadata.
pub(super) fn with_whole_groups(cx: &Context<'_>, blocks: u64) -> u64 {
    let geo = &cx.geo;
    let inside = blocks.saturating_sub(geo.first_data_block.into());
    let last = GroupNo((inside.saturating_sub(1) / u64::from(geo.blocks_per_group)) as u32);
    let start = geo.group_first_block(last).0;
    match blocks.saturating_sub(start) < of_metadata(geo, last) {
        true => start,
        false => blocks,
    }
}

/// Blocks of the metadata of a group.
fn of_metadata(geo: &Geometry, group: GroupNo) -> u64 {
    u64::from(geo.base_meta_blocks(group)) + 2 + u64::from(geo.itable_blocks_per_group)
}

/// Blocks in use.
fn claimed(cx: &Context<'_>) -> u64 {
    let groups = (0..cx.geo.groups_count).map(GroupNo);
    let of_group = groups.map(|group| {
        let clusters = cx.geo.clusters_in_group(group);
        let from = u64::from(group.0).saturating_mul(cx.geo.clusters_per_group.into());
        cx.claimed.count(from, clusters.into())
    });
    of_group.sum()
}

//! The new size, once nothing lies behind it.

use crate::change::resize_inode;
use crate::change::{Result, completed, context, examine_sound, put_superblocks, superblock};
use crate::passes::Stage;
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::plan::Plan;
use crate::report::{CheckOptions, Progress};
use uext4_ondisk::RawSuperblock;

/// Plans the cut.
///
/// # Errors
/// The image has faults; the device's.
pub(super) fn plan_cut(
    device: &dyn BlockDevice,
    blocks: u64,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Plan> {
    let examined = examine_sound(device, Stage::Groups, options, progress)?;
    let cx = context(&examined)?;
    let mut ed = Editor::new(cx);
    let raw = smaller(&cx.sb, blocks);
    let new = superblock(&raw)?;
    put_superblocks(&mut ed, &raw, &new.geometry)?;
    let mut patch = ed.into_patch();
    if new.compat.contains(Compat::RESIZE_INODE) {
        patch = resize_inode::write(device, patch, options, progress)?;
    }
    completed(device, patch, &examined, options, progress)
}

fn smaller(sb: &Superblock, blocks: u64) -> RawSuperblock {
    let (old, mut raw) = (&sb.geometry, sb.raw.clone());
    let groups = blocks.saturating_sub(old.first_data_block.into());
    let groups = groups.div_ceil(old.blocks_per_group.into()) as u32;
    raw.set_blocks_count(blocks);
    raw.inodes_count = groups.saturating_mul(old.inodes_per_group).into();
    let share = u128::from(sb.raw.reserved_blocks_count()) * u128::from(blocks);
    let share = share / u128::from(old.blocks_count.max(1));
    raw.set_reserved_blocks_count(u64::try_from(share).unwrap_or(0));
    raw.overhead_clusters = 0.into();
    let descs = groups.div_ceil(old.desc_per_block);
    if old.meta_bg {
        raw.first_meta_bg = old.first_meta_bg.min(descs).into();
    } else if sb.compat.contains(Compat::RESIZE_INODE) {
        // Blocks of descriptors that go are reserved.
        let reserved = old.reserved_gdt_blocks + (old.desc_blocks - descs);
        let reserved = reserved.min(old.block_size / 4);
        raw.reserved_gdt_blocks = (reserved as u16).into();
    }
    for group in &mut raw.backup_bgs {
        if group.get() >= groups {
            *group = 0.into();
        }
    }
    raw
}

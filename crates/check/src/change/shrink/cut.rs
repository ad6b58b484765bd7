//! The new size, with what has to move for it.

use super::{space, vacate};
use crate::change::{Change, ChangeError, Copies, Result, put_superblocks, superblock};
use crate::context::Context;
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::resize;
use uext4_ondisk::RawSuperblock;

/// The moves in front of the new end, and the cut; and how many blocks are free then, of which there may be more.
///
/// # Errors
/// There is not enough room; the device's.
pub(super) fn change(cx: &Context<'_>, blocks: u64) -> Result<(Change, u64)> {
    let mut ed = Editor::new(cx);
    let copies = cut(&mut ed, blocks);
    let clusters = cx.cluster(Pblk(blocks));
    let free = clusters.saturating_sub(cx.claimed.count(0, clusters));
    ed.give_back();
    let change = Change {
        copies: copies?,
        patch: ed.into_patch(),
        is_whole: true,
        ..Change::default()
    };
    Ok((change, free))
}

/// Makes the changes, and returns the copies of data that precede them.
fn cut(ed: &mut Editor<'_, '_>, blocks: u64) -> Result<Copies> {
    let too_small = ChangeError::TooSmall { least: blocks + 1 };
    if space::with_whole_groups(ed.cx, blocks) != blocks {
        return Err(too_small);
    }
    let (moved, copies) = vacate::change(ed, blocks)?;
    let raw = smaller(&ed.cx.sb, moved, blocks);
    let new = superblock(&raw)?;
    put_superblocks(ed, &raw, &new.geometry)?;
    let has_resize_inode = new.compat.contains(Compat::RESIZE_INODE);
    if has_resize_inode && !resize::write(ed, &new.geometry)? {
        return Err(too_small);
    }
    Ok(copies)
}

fn smaller(sb: &Superblock, mut raw: RawSuperblock, blocks: u64) -> RawSuperblock {
    let old = &sb.geometry;
    let groups = blocks.saturating_sub(old.first_data_block.into());
    let groups = groups.div_ceil(old.blocks_per_group.into()) as u32;
    raw = raw.with_blocks(blocks).unwrap_or(raw);
    raw.keep_shares(&sb.raw);
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

//! Checksums of descriptors.

use super::{ChangeError, Result};
use crate::prelude::*;
use crate::repair::editor::Editor;
use uext4_ondisk::GroupCsum;

/// Writes those that the new superblock makes others.
///
/// # Errors
/// The device's; the seed of hashes of attributes would change.
pub(super) fn rewrite(ed: &mut Editor<'_, '_>, new: &Superblock) -> Result<()> {
    let old = &ed.cx.sb;
    let seeds = new.csum_seed != old.csum_seed;
    if seeds && new.incompat.contains(Incompat::EA_INODE) {
        return Err(ChangeError::refused(
            "with ea_inode, hashes of attributes follow from the UUID",
        ));
    }
    match GroupCsum::of(old) == GroupCsum::of(new) {
        true => Ok(()),
        false => descs(ed, new),
    }
}

/// The descriptors, and their backups.
fn descs(ed: &mut Editor<'_, '_>, new: &Superblock) -> Result<()> {
    let geo = ed.cx.geo;
    let csum = GroupCsum::of(new);
    for nr in 0..geo.desc_blocks {
        let at = geo.desc_block(nr);
        let mut block = ed.block(at)?;
        let size = usize::from(geo.desc_size);
        for (i, bytes) in (0u32..).zip(block.chunks_exact_mut(size)) {
            let group = GroupNo(nr.saturating_mul(geo.desc_per_block).saturating_add(i));
            if ed.cx.desc(group).is_some() {
                csum.set_desc_checksum(group, bytes);
            }
        }
        ed.put_block(at, &block);
        for at in geo.desc_backups(nr) {
            if geo.contains_blocks(at, 1) {
                ed.put_block(at, &block);
            }
        }
    }
    Ok(())
}

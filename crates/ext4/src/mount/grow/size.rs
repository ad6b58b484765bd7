//! The superblock with the new size, or why there is none.

use crate::prelude::*;
use uext4_ondisk::RawSuperblock;

/// The superblock `raw` with `blocks` blocks, or as many of them as make groups; `None` if there are no more than before.
pub(super) fn grown(
    raw: &RawSuperblock,
    old: &Geometry,
    blocks: u64,
) -> Result<Option<Superblock>> {
    refuse(raw, old, blocks)?;
    let mut new = sized(raw, old, blocks)?;
    if let Some(end) = new.geometry.end_before_short_group(old.groups_count) {
        new = sized(raw, old, end)?;
    }
    if new.geometry.blocks_count <= old.blocks_count {
        return Ok(None);
    }
    if more_descs(&new.geometry, old) > 0 && !old.meta_bg {
        check_reserved(raw, &new.geometry, old)?;
    }
    let mut made = new.raw;
    made.keep_shares(raw);
    Ok(Some(Superblock::from_raw(made)?))
}

fn refuse(raw: &RawSuperblock, old: &Geometry, blocks: u64) -> Result<()> {
    if blocks < old.blocks_count {
        return Err(Ext4Error::Invalid(
            "it has more blocks; only an image that is not mounted can be made smaller",
        ));
    }
    if raw.ro_compat().contains(RoCompat::BIGALLOC) {
        return Err(Ext4Error::Unsupported("a larger size with bigalloc"));
    }
    let narrow = !raw.incompat().contains(Incompat::BIT64)
        // Pointers of the resize inode have 32 bits.
        || raw.compat().contains(Compat::RESIZE_INODE);
    if blocks > u64::from(u32::MAX) && narrow {
        return Err(Ext4Error::Invalid(
            "2^32 blocks need 64bit, and while it is mounted no resize_inode",
        ));
    }
    Ok(())
}

/// How many more blocks of descriptors there are.
fn more_descs(new: &Geometry, old: &Geometry) -> u32 {
    new.desc_blocks.saturating_sub(old.desc_blocks)
}

/// The superblock with so many blocks, and more blocks of descriptors in the place of reserved ones.
fn sized(raw: &RawSuperblock, old: &Geometry, blocks: u64) -> Result<Superblock> {
    let too_many = Ext4Error::Invalid("more than 2^32 inodes, as each group has its own");
    let mut made = raw.with_blocks(blocks).ok_or(too_many)?;
    let more = more_descs(&Superblock::from_raw(made.clone())?.geometry, old);
    if !old.meta_bg && raw.compat().contains(Compat::RESIZE_INODE) {
        let left = old.reserved_gdt_blocks.saturating_sub(more);
        made.reserved_gdt_blocks = (left as u16).into();
    }
    Ok(Superblock::from_raw(made)?)
}

/// Refuses a size that needs more blocks of descriptors than are reserved.
fn check_reserved(raw: &RawSuperblock, new: &Geometry, old: &Geometry) -> Result<()> {
    let reserved = match raw.compat().contains(Compat::RESIZE_INODE) {
        true => old.reserved_gdt_blocks,
        false => 0,
    };
    match more_descs(new, old) > reserved {
        true => Err(Ext4Error::NoDescriptors),
        false => Ok(()),
    }
}

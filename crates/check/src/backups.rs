//! Backup superblocks: there, and of the same shape as the primary one.

use crate::context::Context;
use crate::prelude::*;
use uext4_ondisk::{EXT4_MAGIC, RawSuperblock, SUPERBLOCK_SIZE};

/// What must be the same in all copies.
fn shape(raw: &RawSuperblock) -> [(&'static str, u64); 11] {
    let bit64 = raw.incompat().contains(Incompat::BIT64);
    let desc_size = if bit64 { raw.desc_size.get() } else { 0 };
    [
        ("magic", raw.magic.get().into()),
        ("block count", raw.blocks_count()),
        ("inode count", raw.inodes_count.get().into()),
        ("first data block", raw.first_data_block.get().into()),
        ("block size", raw.log_block_size.get().into()),
        ("cluster size", raw.log_cluster_size.get().into()),
        ("blocks per group", raw.blocks_per_group.get().into()),
        ("clusters per group", raw.clusters_per_group.get().into()),
        ("inodes per group", raw.inodes_per_group.get().into()),
        ("inode size", raw.inode_size.get().into()),
        ("descriptor size", desc_size.into()),
    ]
}

/// Checks every backup.
///
/// # Errors
/// The device's.
pub(crate) fn check(cx: &Context<'_>, faults: &mut Faults) -> Result<()> {
    let want = shape(&cx.sb.raw);
    let mut block = vec![0; cx.block_size()];
    for g in (1..cx.geo.groups_count).map(GroupNo) {
        let at = cx.geo.group_first_block(g);
        if !cx.geo.has_super(g) || at.0 >= cx.geo.blocks_count {
            continue;
        }
        cx.view.read(at, &mut block)?;
        let raw = block
            .get_mut(..SUPERBLOCK_SIZE)
            .and_then(RawSuperblock::mut_from);
        let fault = || {
            Fault::new(FaultKind::BackupSuperblock)
                .note()
                .pblk(at)
                .group(g)
        };
        let Some(raw) = raw.filter(|r| r.magic.get() == EXT4_MAGIC) else {
            faults.push(fault().detail("not a superblock"));
            continue;
        };
        let have = shape(raw);
        if let Some(((what, v), _)) = have.iter().zip(&want).find(|(h, w)| h.1 != w.1) {
            faults.push(fault().detail(format_args!("{what} is {v}")));
        }
    }
    Ok(())
}

/// The device block of the primary superblock, for messages.
pub(crate) fn primary(cx: &Context<'_>) -> Pblk {
    Pblk(u64::from(cx.geo.block_size == 1024))
}

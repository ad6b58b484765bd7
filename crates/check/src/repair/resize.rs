//! The resize inode, made again from the geometry.

use super::editor::{Editor, now};
use crate::prelude::*;
use uext4_ondisk::{Inode, Timestamp};

/// Byte of the doubly indirect pointer in the area of pointers.
const DOUBLE_AT: usize = 13 * 4;

/// Writes it again, if it is damaged.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    let mine = |f: &Fault| f.ino == Some(Ino::RESIZE);
    if !faults.iter().any(mine) || !ed.cx.sb.compat.contains(Compat::RESIZE_INODE) {
        return Ok(());
    }
    let geo = ed.cx.geo;
    write(ed, &geo)?;
    Ok(())
}

/// Makes inode and map of an image that has, or will have, this geometry. False if there is no block for it.
///
/// # Errors
/// The device's.
pub(crate) fn write(ed: &mut Editor<'_, '_>, geo: &Geometry) -> Result<bool> {
    let cx = ed.cx;
    let Some(mut raw) = ed.inode(Ino::RESIZE)? else {
        return Ok(false);
    };
    let old = ed.decode(&raw);
    let double = Pblk(le32(&old.i_block, DOUBLE_AT).unwrap_or(0).into());
    let keeps = cx.bounds().contains(double, 1)
        && geo.contains_blocks(double, 1)
        && !cx.is_metadata(cx.cluster(double))
        && old.file_type() == FileType::Regular;
    let double = match keeps {
        true => double,
        false => match ed.allocate() {
            Some(at) if geo.contains_blocks(at, 1) => at,
            // What follows the old end of a larger file system.
            _ if geo.blocks_count > cx.geo.blocks_count => Pblk(geo.blocks_count - 1),
            _ => return Ok(false),
        },
    };
    let backups: Vec<u64> = (1..geo.groups_count)
        .filter(|g| geo.has_super(GroupNo(*g)))
        .map(|g| u64::from(g).saturating_mul(u64::from(geo.blocks_per_group)))
        .collect();
    let per_block = geo.block_size / 4;
    let first = u64::from(geo.first_data_block) + 1 + u64::from(geo.desc_blocks);
    let mut top = vec![0; cx.block_size()];
    let mut blocks = 1u64;
    for rel in 0..geo.reserved_gdt_blocks {
        let at = first.saturating_add(rel.into());
        let entry = (geo.desc_blocks % per_block + rel) % per_block;
        put32(&mut top, entry as usize * 4, at as u32);
        let mut block = vec![0; cx.block_size()];
        for (j, backup) in backups.iter().take(per_block as usize).enumerate() {
            put32(&mut block, j * 4, at.saturating_add(*backup) as u32);
        }
        ed.put_block(Pblk(at), &block);
        blocks += 1 + backups.len().min(per_block as usize) as u64;
    }
    ed.put_block(double, &top);
    let time = Timestamp::new(now().into(), 0);
    let mut inode = Inode {
        mode: FileType::Regular.to_mode() | 0o600,
        links: 1,
        blocks: blocks.saturating_mul(u64::from(geo.block_size / 512)),
        atime: time,
        ctime: time,
        mtime: time,
        extra_isize: old.extra_isize,
        ..Inode::default()
    };
    let per_block = u64::from(per_block);
    inode.size = (12 + per_block + per_block * per_block) << geo.block_bits;
    put32(&mut inode.i_block, DOUBLE_AT, double.0 as u32);
    raw.fill(0);
    inode.encode_into(&mut raw, &cx.params);
    ed.put_inode(Ino::RESIZE, &raw)?;
    Ok(true)
}

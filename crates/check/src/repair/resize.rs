//! The resize inode, made again from the geometry.

use super::editor::{Editor, now};
use crate::prelude::*;
use uext4_ondisk::{Inode, RESIZE_DOUBLE_AT, ResizeMap, Timestamp};

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
    let double = Pblk(le32(&old.i_block, RESIZE_DOUBLE_AT).unwrap_or(0).into());
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
    let map = ResizeMap::of(geo);
    for (at, block) in map.reserved() {
        ed.put_block(at, &block);
    }
    ed.put_block(double, &map.double());
    let time = Timestamp::new(now().into(), 0);
    let mut inode = Inode {
        mode: FileType::Regular.to_mode() | 0o600,
        links: 1,
        size: map.bytes(),
        blocks: map.sectors(),
        atime: time,
        ctime: time,
        mtime: time,
        extra_isize: old.extra_isize,
        ..Inode::default()
    };
    put32(&mut inode.i_block, RESIZE_DOUBLE_AT, double.0 as u32);
    raw.fill(0);
    inode.encode_into(&mut raw, &cx.params);
    ed.put_inode(Ino::RESIZE, &raw)?;
    Ok(true)
}

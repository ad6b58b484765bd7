//! Directories without blocks, or with holes between them.

use super::chosen::inodes_of;
use super::editor::Editor;
use super::map::{self, Map, NodePool};
use crate::prelude::*;
use uext4_ondisk::{Extent, Inode, dir_block_init_dots, dir_checksum_set};

/// Repairs them.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    for ino in inodes_of(faults, |k| {
        matches!(k, FaultKind::DirEmpty | FaultKind::DirHole)
    }) {
        let Some(mut inode) = ed.decoded(ino)? else {
            continue;
        };
        let mut found = map::read(ed, &inode)?;
        let changed = match found.runs.is_empty() {
            true => give_block(ed, ino, &mut inode)?,
            false => close_holes(ed, ino, &mut inode, &mut found),
        };
        if changed {
            inode.flags &= !InodeFlags::INDEX;
            ed.put_decoded(ino, &inode)?;
        }
    }
    Ok(())
}

/// Closes holes, if there are any.
///
/// # Errors
/// The device's.
pub(crate) fn close(ed: &mut Editor<'_, '_>, ino: Ino, inode: &mut Inode) -> Result<()> {
    let mut found = map::read(ed, inode)?;
    if found.end() != found.blocks().count() as u64 && close_holes(ed, ino, inode, &mut found) {
        inode.flags &= !InodeFlags::INDEX;
    }
    Ok(())
}

/// A first block with `.` and `..`; which directory the latter is follows from the names.
fn give_block(ed: &mut Editor<'_, '_>, ino: Ino, inode: &mut Inode) -> Result<bool> {
    let Some(at) = ed.allocate() else {
        return Ok(false);
    };
    let mut block = vec![0; ed.cx.block_size()];
    let has_tail = ed.cx.seed.is_some();
    let filetype = ed.cx.incompat(Incompat::FILETYPE);
    dir_block_init_dots(&mut block, has_tail, ino, Ino::ROOT, filetype);
    if let Some(seed) = ed.cx.seed {
        dir_checksum_set(&mut block, inode.seed(seed, ino));
    }
    ed.put_block(at, &block);
    let mut new = Map::default();
    new.push(
        Extent {
            lblk: Lblk(0),
            len: 1,
            unwritten: false,
            pblk: at,
        },
        &ed.cx.geo,
    );
    inode.size = ed.cx.geo.block_size.into();
    let mut pool = NodePool::new(Vec::new());
    Ok(map::write(ed, ino, inode, &new, &mut pool))
}

/// Moves later blocks forward. Names do not depend on where their blocks are, without a hash tree.
fn close_holes(ed: &mut Editor<'_, '_>, ino: Ino, inode: &mut Inode, found: &mut Map) -> bool {
    let mut closed = Map::default();
    let mut next = 0u32;
    for e in &found.runs {
        closed.push(
            Extent {
                lblk: Lblk(next),
                ..*e
            },
            &ed.cx.geo,
        );
        next = next.saturating_add(e.len.into());
    }
    let mut own = std::mem::take(&mut found.nodes);
    own.reverse();
    let mut pool = NodePool::only(own);
    inode.size = u64::from(next) << ed.cx.geo.block_bits;
    map::write(ed, ino, inode, &closed, &mut pool)
}

/// Appends an empty block to a linear directory; false if there is not enough space.
///
/// # Errors
/// The device's.
pub(crate) fn append(ed: &mut Editor<'_, '_>, ino: Ino) -> Result<Option<Pblk>> {
    let Some(mut inode) = ed.decoded(ino)? else {
        return Ok(None);
    };
    let mut found = map::read(ed, &inode)?;
    let Some(at) = ed.allocate() else {
        return Ok(None);
    };
    let mut block = vec![0; ed.cx.block_size()];
    uext4_ondisk::dir_block_init(&mut block, ed.cx.seed.is_some());
    if let Some(seed) = ed.cx.seed {
        dir_checksum_set(&mut block, inode.seed(seed, ino));
    }
    ed.put_block(at, &block);
    let lblk = u32::try_from(found.end()).unwrap_or(u32::MAX);
    found.push(
        Extent {
            lblk: Lblk(lblk),
            len: 1,
            unwritten: false,
            pblk: at,
        },
        &ed.cx.geo,
    );
    let mut own = std::mem::take(&mut found.nodes);
    own.reverse();
    let mut pool = NodePool::new(own);
    if !map::write(ed, ino, &mut inode, &found, &mut pool) {
        return Ok(None);
    }
    inode.size = found.end() << ed.cx.geo.block_bits;
    ed.put_decoded(ino, &inode)?;
    Ok(Some(at))
}

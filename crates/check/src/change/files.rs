//! Files that belong to the file system: made, and removed.

use super::{ChangeError, Result};
use crate::inode_table::InodeState;
use crate::prelude::*;
use crate::repair::editor::{Editor, now};
use crate::repair::lost_found;
use crate::repair::map::{self, Map, NodePool};
use uext4_ondisk::{
    CsumSeed, Extent, Generation, Inode, JOURNAL_SUPER_SIZE, RawJournalSuper, RawSuperblock,
    Timestamp, orphan_block_init, orphan_checksum_set,
};

/// Permissions.
const MODE: u16 = 0o600;

pub(super) fn no_space() -> ChangeError {
    ChangeError::refused("there is not enough free space")
}

/// An inode that is not in use.
///
/// # Errors
/// The device's; all are in use.
pub(super) fn free_inode(ed: &mut Editor<'_, '_>) -> Result<Ino> {
    let found = lost_found::free_inode(ed)?;
    let ino = found.ok_or_else(|| ChangeError::refused("all inodes are in use"))?;
    // So that a second file does not get it.
    ed.cx
        .inodes
        .set(ino, FileType::Regular, InodeState::USED, 1);
    Ok(ino)
}

/// Makes a regular file of so many blocks, whose content is not written.
///
/// # Errors
/// The device's; the inode is in use, or there is not enough space.
pub(super) fn add(ed: &mut Editor<'_, '_>, ino: Ino, blocks: u32) -> Result<Inode> {
    let geo = ed.cx.geo;
    let Some(mut raw) = ed.inode(ino)? else {
        return Err(ChangeError::Faulty);
    };
    let mut map = Map::default();
    let mut have = 0;
    while have < blocks {
        let at = ed.allocate().ok_or_else(no_space)?;
        let len = geo.cluster_ratio.min(blocks - have);
        map.push(
            Extent {
                lblk: Lblk(have),
                len: len as u16,
                unwritten: false,
                pblk: at,
            },
            &geo,
        );
        have += len;
    }
    let time = Timestamp::new(now().into(), 0);
    let mut inode = Inode {
        mode: FileType::Regular.to_mode() | MODE,
        size: u64::from(blocks) << geo.block_bits,
        links: 1,
        flags: match ed.cx.incompat(Incompat::EXTENT) {
            true => InodeFlags::EXTENTS,
            false => InodeFlags::empty(),
        },
        atime: time,
        ctime: time,
        mtime: time,
        crtime: time,
        generation: Generation(0),
        extra_isize: match geo.inode_size {
            128 => 0,
            _ => geo.want_extra_isize.min(32) & !3,
        },
        ..Inode::default()
    };
    if !map::write(ed, ino, &mut inode, &map, &mut NodePool::new(Vec::new())) {
        return Err(no_space());
    }
    let ratio = u64::from(geo.cluster_ratio);
    let data = u64::from(blocks).next_multiple_of(ratio);
    let nodes = map::read(ed, &inode)?.nodes.len() as u64 * ratio;
    inode.blocks = (data + nodes) * u64::from(geo.block_size / 512);
    raw.fill(0);
    inode.encode_into(&mut raw, &ed.cx.params);
    ed.put_inode(ino, &raw)?;
    Ok(inode)
}

/// Removes a file: its blocks are free once nothing maps them.
///
/// # Errors
/// The device's.
pub(super) fn remove(ed: &mut Editor<'_, '_>, ino: Ino) -> Result<()> {
    if let Some(mut raw) = ed.inode(ino)? {
        raw.fill(0);
        ed.put_inode(ino, &raw)?;
    }
    Ok(())
}

/// Writes an empty journal.
///
/// # Errors
/// The device's.
pub(super) fn write_journal(
    ed: &mut Editor<'_, '_>,
    inode: &Inode,
    blocks: u32,
    uuid: [u8; 16],
) -> Result<()> {
    let mut super_block = RawJournalSuper::new_empty(ed.cx.geo.block_size, blocks);
    super_block.uuid = uuid;
    let mut block = vec![0; ed.cx.block_size()];
    if let Some(to) = block.get_mut(..JOURNAL_SUPER_SIZE) {
        to.copy_from_slice(super_block.bytes());
    }
    fill_journal(ed, inode, &block)
}

/// Writes the first block of a new journal, and zeros: what the other blocks held must not look like transactions.
///
/// # Errors
/// The device's.
pub(super) fn fill_journal(ed: &mut Editor<'_, '_>, inode: &Inode, first: &[u8]) -> Result<()> {
    let bits = ed.cx.geo.block_bits;
    for (nr, e) in map::read(ed, inode)?.runs.iter().enumerate() {
        let skipped = u64::from(nr == 0);
        if nr == 0 {
            ed.put_block(e.pblk, first);
        }
        let rest = u64::from(e.len).saturating_sub(skipped);
        ed.zero((e.pblk.0 + skipped) << bits, rest << bits);
    }
    Ok(())
}

/// Copies the map of a journal into the superblock, where e2fsck finds it.
pub(super) fn back_up_journal(raw: &mut RawSuperblock, inode: &Inode) {
    raw.jnl_backup_type = 1;
    let words = inode.i_block.as_chunks::<4>().0.iter();
    let words = words.map(|w| u32::from_le_bytes(*w));
    let size = [(inode.size >> 32) as u32, inode.size as u32];
    for (to, from) in raw.jnl_blocks.iter_mut().zip(words.chain(size)) {
        *to = from.into();
    }
}

/// Writes empty blocks of an orphan file, with zeros in place of checksums if there is no seed.
///
/// # Errors
/// The device's.
pub(super) fn write_orphans(
    ed: &mut Editor<'_, '_>,
    ino: Ino,
    inode: &Inode,
    seed: Option<CsumSeed>,
) -> Result<()> {
    let mut block = vec![0; ed.cx.block_size()];
    for (_, at) in map::read(ed, inode)?.blocks() {
        orphan_block_init(&mut block);
        if let Some(seed) = seed {
            orphan_checksum_set(&mut block, inode.seed(seed, ino), at);
        }
        ed.put_block(at, &block);
    }
    Ok(())
}

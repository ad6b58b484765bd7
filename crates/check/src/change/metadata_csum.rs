//! Checksums of all metadata: with another seed, with the feature `metadata_csum`, or without it.
//!
//! Directories with a hash tree are written anew, as their nodes have room for fewer entries with checksums; so are those with a block that
//! has no room for its checksum.
//!
//! # Crash
//! The superblock says how checksums are computed, also that of the journal's inode: so that this takes an undo file.

use super::{ChangeError, Result, files};
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::kind;
use crate::repair::map;
use crate::repair::pack;
use crate::repair::records;
use std::collections::HashSet;
use uext4_ondisk::{
    CsumSeed, GroupFlags, Inode, Mmp, dir_checksum_set, dir_data_end, extent_block_checksum_set,
    inode_checksum_set, xattr_block_checksum_set,
};

/// True if the new superblock makes checksums others.
pub(super) fn changes(old: &Superblock, new: &Superblock) -> bool {
    let (was, is) = (old.has_metadata_csum(), new.has_metadata_csum());
    was != is || is && old.csum_seed != new.csum_seed
}

/// Writes the checksums that the new superblock asks for, but those of descriptors and superblock.
///
/// # Errors
/// The device's; there is not enough space, or a directory is encrypted and ignores case.
pub(super) fn rewrite(ed: &mut Editor<'_, '_>, new: &Superblock) -> Result<()> {
    let cx = ed.cx;
    let seed = new.has_metadata_csum().then_some(new.csum_seed);
    let used = cx.inodes.known().filter(|ino| cx.inodes.state(*ino).used());
    let mut attributes = HashSet::new();
    for ino in used.collect::<Vec<_>>() {
        let Some(inode) = ed.decoded(ino)? else {
            continue;
        };
        directory(ed, ino, &inode, seed)?;
        if let Some(seed) = seed {
            blocks_of(ed, ino, seed, &mut attributes)?;
        }
        if new.orphan_file() == Some(ino) {
            files::write_orphans(ed, ino, &inode, seed)?;
        }
    }
    for group in (0..cx.geo.groups_count).map(GroupNo) {
        if let Some(desc) = ed.desc(group)? {
            let desc = bitmaps(ed, desc, &new.geometry, seed)?;
            ed.put_desc(group, &desc)?;
            if let Some(seed) = seed {
                inodes(ed, group, &desc, seed)?;
            }
        }
    }
    if new.incompat.contains(Incompat::MMP) {
        let at = Pblk(new.raw.mmp_block.get());
        let mut block = ed.block(at)?;
        let mmp = Mmp::parse(&block, None).map_err(|_| ChangeError::Faulty)?;
        mmp.encode_into(&mut block, seed);
        ed.put_block(at, &block);
    }
    Ok(())
}

/// The blocks of a directory.
fn directory(
    ed: &mut Editor<'_, '_>,
    ino: Ino,
    inode: &Inode,
    seed: Option<CsumSeed>,
) -> Result<()> {
    if inode.file_type() != FileType::Directory || !kind::is_mapped(inode) {
        return Ok(());
    }
    let seed = seed.map(|seed| inode.seed(seed, ino));
    let linear = !inode.flags.contains(InodeFlags::INDEX);
    if linear && seed.map_or(Ok(true), |seed| seal(ed, inode, seed))? {
        return Ok(());
    }
    if inode
        .flags
        .contains(InodeFlags::CASEFOLD | InodeFlags::ENCRYPT)
    {
        return Err(ChangeError::refused(format!(
            "directory {ino} is encrypted and ignores case, so that its hash tree can't be written anew"
        )));
    }
    let may_hash = ed.cx.sb.compat.contains(Compat::DIR_INDEX);
    match pack::rewrite(ed, ino, seed, may_hash)? {
        true => Ok(()),
        false => Err(files::no_space()),
    }
}

/// Gives the blocks of a linear directory checksums, where they are; false if one has no room, and then none was changed.
fn seal(ed: &mut Editor<'_, '_>, inode: &Inode, seed: InodeSeed) -> Result<bool> {
    let mut sealed = Vec::new();
    for (_, at) in map::read(ed, inode)?.blocks() {
        let mut block = ed.block(at)?;
        let end = dir_data_end(block.len(), ed.cx.seed.is_some());
        let found = records::read(&block, end, ed.cx.geo.inodes_count);
        let end = dir_data_end(block.len(), true);
        if !records::write(&mut block, end, &found).is_empty() {
            return Ok(false);
        }
        dir_checksum_set(&mut block, seed);
        sealed.push((at, block));
    }
    for (at, block) in sealed {
        ed.put_block(at, &block);
    }
    Ok(true)
}

/// Attributes, and nodes of extent trees.
fn blocks_of(
    ed: &mut Editor<'_, '_>,
    ino: Ino,
    seed: CsumSeed,
    attributes: &mut HashSet<Pblk>,
) -> Result<()> {
    let Some(inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    let of_inode = inode.seed(seed, ino);
    let at = inode.file_acl;
    if at != Pblk(0) && attributes.insert(at) {
        let mut block = ed.block(at)?;
        xattr_block_checksum_set(&mut block, seed, at);
        ed.put_block(at, &block);
    }
    if !kind::is_mapped(&inode) {
        return Ok(());
    }
    let found = map::read(ed, &inode)?;
    if inode.flags.contains(InodeFlags::EXTENTS) {
        for at in &found.nodes {
            let mut block = ed.block(*at)?;
            extent_block_checksum_set(&mut block, of_inode);
            ed.put_block(*at, &block);
        }
    }
    Ok(())
}

/// A descriptor with the checksums of its bitmaps, as the new geometry has them; zeros if there are none.
pub(super) fn bitmaps(
    ed: &Editor<'_, '_>,
    mut desc: GroupDesc,
    geo: &Geometry,
    seed: Option<CsumSeed>,
) -> Result<GroupDesc> {
    let Some(seed) = seed else {
        (desc.block_bitmap_csum, desc.inode_bitmap_csum) = (0, 0);
        return Ok(desc);
    };
    if !desc.flags.contains(GroupFlags::BLOCK_UNINIT) {
        desc.set_block_bitmap_csum(seed, geo, &ed.block(desc.block_bitmap)?);
    }
    if !desc.flags.contains(GroupFlags::INODE_UNINIT) {
        desc.set_inode_bitmap_csum(seed, geo, &ed.block(desc.inode_bitmap)?);
    }
    Ok(desc)
}

/// The inodes of a group. What is left of deleted ones is cleared.
fn inodes(ed: &mut Editor<'_, '_>, group: GroupNo, desc: &GroupDesc, seed: CsumSeed) -> Result<()> {
    let geo = ed.cx.geo;
    if desc.flags.contains(GroupFlags::INODE_UNINIT) {
        return Ok(());
    }
    let in_use = geo.inodes_per_group.saturating_sub(desc.itable_unused);
    for nr in 0..in_use.div_ceil(geo.inodes_per_block) {
        let at = Pblk(desc.inode_table.0.saturating_add(nr.into()));
        let old = ed.block(at)?;
        let mut block = old.clone();
        let slots = block.chunks_exact_mut(geo.inode_size.into());
        for (i, bytes) in (0..).zip(slots) {
            let ino = geo.ino_in_group(group, nr * geo.inodes_per_block + i);
            let state = ed.cx.inodes.state(ino);
            let is_empty = bytes.iter().all(|byte| *byte == 0);
            if is_empty {
                continue;
            }
            match state.used() || ino < geo.first_ino {
                true => inode_checksum_set(bytes, seed, ino),
                false => bytes.fill(0),
            }
        }
        if block != old {
            ed.put_block(at, &block);
        }
    }
    Ok(())
}

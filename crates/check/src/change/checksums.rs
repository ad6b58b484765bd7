//! Checksums of all metadata, for another seed or UUID.

use super::{ChangeError, Result};
use crate::prelude::*;
use crate::repair::descs::backups_of;
use crate::repair::editor::Editor;
use crate::repair::{kind, map};
use std::collections::BTreeSet;
use uext4_ondisk::{
    CsumSeed, DxKind, GroupCsum, GroupFlags, Inode, Mmp, dir_checksum_set, dx_checksum_set,
    dx_kind_of, extent_block_checksum_set, inode_checksum_set, orphan_checksum_set,
    xattr_block_checksum_set,
};

/// Writes every checksum that the new superblock makes another. True if there was one outside of descriptors.
///
/// # Errors
/// The device's; hashes of attributes in inodes would change too.
pub(super) fn rewrite(ed: &mut Editor<'_, '_>, new: &Superblock) -> Result<bool> {
    let old = &ed.cx.sb;
    let descs_change = GroupCsum::of(old) != GroupCsum::of(new);
    let seed = new.has_metadata_csum().then_some(new.csum_seed);
    let Some(seed) = seed.filter(|seed| ed.cx.seed != Some(*seed)) else {
        if descs_change {
            descs(ed, new, None)?;
        }
        return Ok(false);
    };
    if old.incompat.contains(Incompat::EA_INODE) {
        return Err(ChangeError::refused(
            "this changes the seed of checksums, from which hashes of attributes follow with ea_inode; \
             enable metadata_csum_seed first, which keeps the seed",
        ));
    }
    let mut rewriter = Rewriter {
        seed,
        orphan_file: new.orphan_file(),
        xattr_blocks: BTreeSet::new(),
    };
    let groups = ed.cx.geo.groups_count;
    ed.cx.progress.phase("checksums", groups.into());
    for group in (0..groups).map(GroupNo) {
        rewriter.table(ed, group)?;
        ed.cx.progress.advance(1);
    }
    for at in rewriter.xattr_blocks {
        let mut block = ed.block(at)?;
        xattr_block_checksum_set(&mut block, seed, at);
        ed.put_block(at, &block);
    }
    if new.incompat.contains(Incompat::MMP) {
        let at = Pblk(new.raw.mmp_block.get());
        let mut block = ed.block(at)?;
        if let Ok(mmp) = Mmp::parse(&block, ed.cx.seed) {
            mmp.encode_into(&mut block, Some(seed));
            ed.put_block(at, &block);
        }
    }
    descs(ed, new, Some(seed))?;
    Ok(true)
}

struct Rewriter {
    seed: CsumSeed,
    orphan_file: Option<Ino>,
    /// Attribute blocks, which inodes may share.
    xattr_blocks: BTreeSet<Pblk>,
}

impl Rewriter {
    /// The inodes of a group, and the blocks that they lead to.
    fn table(&mut self, ed: &mut Editor<'_, '_>, group: GroupNo) -> Result<()> {
        let cx = ed.cx;
        let Some(table) = cx.desc(group).map(|desc| desc.inode_table) else {
            return Ok(());
        };
        let inode_size = usize::from(cx.geo.inode_size);
        let per_block = (cx.block_size() / inode_size) as u32;
        let end = cx.inodes_in_use_max(group);
        for block in 0..end.div_ceil(per_block) {
            let at = Pblk(table.0.saturating_add(block.into()));
            let mut bytes = ed.block(at)?;
            for (i, raw) in (0u32..).zip(bytes.chunks_exact_mut(inode_size)) {
                let index = block * per_block + i;
                if index >= end || raw.iter().all(|b| *b == 0) {
                    continue;
                }
                let ino = cx.geo.ino_in_group(group, index);
                if cx.inodes.state(ino).used() {
                    let inode = ed.decode(raw);
                    self.of_inode(ed, ino, &inode)?;
                }
                inode_checksum_set(raw, self.seed, ino);
            }
            ed.put_block(at, &bytes);
        }
        Ok(())
    }

    /// The blocks that an inode leads to.
    fn of_inode(&mut self, ed: &mut Editor<'_, '_>, ino: Ino, inode: &Inode) -> Result<()> {
        if inode.file_acl != Pblk(0) {
            self.xattr_blocks.insert(inode.file_acl);
        }
        if !kind::is_mapped(inode) {
            return Ok(());
        }
        let seed = inode.seed(self.seed, ino);
        let found = map::read(ed, inode)?;
        if inode.flags.contains(InodeFlags::EXTENTS) {
            for at in &found.nodes {
                let mut block = ed.block(*at)?;
                extent_block_checksum_set(&mut block, seed);
                ed.put_block(*at, &block);
            }
        }
        let is_dir = inode.file_type() == FileType::Directory;
        if !is_dir && self.orphan_file != Some(ino) {
            return Ok(());
        }
        let indexed = inode.flags.contains(InodeFlags::INDEX);
        for (lblk, at) in found.blocks() {
            let mut block = ed.block(at)?;
            let kind: Option<DxKind> = dx_kind_of(&block, lblk).filter(|_| indexed);
            match kind {
                _ if !is_dir => orphan_checksum_set(&mut block, seed, at),
                Some(kind) => dx_checksum_set(&mut block, kind, seed),
                None => dir_checksum_set(&mut block, seed),
            }
            ed.put_block(at, &block);
        }
        Ok(())
    }
}

/// The descriptors, with the checksums of bitmaps if there is a seed, and their backups.
fn descs(ed: &mut Editor<'_, '_>, new: &Superblock, seed: Option<CsumSeed>) -> Result<()> {
    let geo = ed.cx.geo;
    let csum = GroupCsum::of(new);
    for nr in 0..geo.desc_blocks {
        let at = geo.desc_block(nr);
        let mut block = ed.block(at)?;
        let size = usize::from(geo.desc_size);
        for (i, bytes) in (0u32..).zip(block.chunks_exact_mut(size)) {
            let group = GroupNo(nr.saturating_mul(geo.desc_per_block).saturating_add(i));
            let Some(mut desc) = ed.cx.desc(group).copied() else {
                continue;
            };
            if let Some(seed) = seed {
                if !desc.flags.contains(GroupFlags::BLOCK_UNINIT) {
                    let bitmap = ed.block(desc.block_bitmap)?;
                    desc.set_block_bitmap_csum(seed, &geo, &bitmap);
                }
                if !desc.flags.contains(GroupFlags::INODE_UNINIT) {
                    let bitmap = ed.block(desc.inode_bitmap)?;
                    desc.set_inode_bitmap_csum(seed, &geo, &bitmap);
                }
            }
            desc.encode_into(bytes);
            csum.set_desc_checksum(group, bytes);
        }
        ed.put_block(at, &block);
        for at in backups_of(&geo, nr) {
            if geo.contains_blocks(at, 1) {
                ed.put_block(at, &block);
            }
        }
    }
    Ok(())
}

//! Moves of everything behind the new end, while the file system keeps its size.

use super::renumber::Numbers;
use crate::change::{ChangeError, Copies, Result};
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::kind;
use crate::repair::map::{self, Map, NodePool};
use std::collections::HashMap;
use uext4_ondisk::{
    DxKind, Extent, Inode, RawSuperblock, XattrList, dir_checksum_set, dx_checksum_set, dx_kind_of,
    orphan_checksum_set, xattr_block_checksum_set, xattr_refcount, xattr_refcount_set,
};

/// Moves what lies behind the new end, and returns the superblock that names the new places, and copies of data: from, to, bytes.
///
/// # Errors
/// There is not enough room; the device's.
pub(super) fn change(ed: &mut Editor<'_, '_>, blocks: u64) -> Result<(RawSuperblock, Copies)> {
    let geo = &ed.cx.geo;
    let groups = blocks.saturating_sub(geo.first_data_block.into());
    let groups = groups.div_ceil(geo.blocks_per_group.into()) as u32;
    let last = Ino(groups.saturating_mul(geo.inodes_per_group));
    let numbers = Numbers::assign(ed, last)?;
    let raw = ed.cx.sb.raw.clone();
    let mut mover = Mover {
        ed,
        end: blocks,
        numbers,
        raw,
        xattr_blocks: HashMap::new(),
        copies: Vec::new(),
    };
    mover.inodes()?;
    mover.mmp()?;
    mover.groups(groups)?;
    let mut raw = mover.raw;
    mover.numbers.in_superblock(&mut raw);
    Ok((raw, mover.copies))
}

struct Mover<'e, 'c, 'd> {
    ed: &'e mut Editor<'c, 'd>,
    /// The blocks of the smaller file system.
    end: u64,
    numbers: Numbers,
    raw: RawSuperblock,
    /// New places of attribute blocks that were moved.
    xattr_blocks: HashMap<Pblk, Pblk>,
    /// Copies of data: from, to, bytes.
    copies: Copies,
}

impl Mover<'_, '_, '_> {
    fn take(&mut self) -> Result<Pblk> {
        let end = self.end;
        let at = self.ed.allocate().filter(|at| at.0 < end);
        at.ok_or(ChangeError::TooSmall { least: end + 1 })
    }

    fn is_behind(&self, at: Pblk) -> bool {
        at.0 >= self.end
    }

    fn inodes(&mut self) -> Result<()> {
        let cx = self.ed.cx;
        let used: Vec<Ino> = cx
            .inodes
            .known()
            .filter(|ino| cx.inodes.state(*ino).used() && *ino != Ino::RESIZE)
            .collect();
        for ino in used {
            self.inode(ino)?;
        }
        Ok(())
    }

    fn inode(&mut self, ino: Ino) -> Result<()> {
        let Some(mut raw) = self.ed.inode(ino)? else {
            return Ok(());
        };
        let old = self.ed.decode(&raw);
        let mut inode = old.clone();
        let new_ino = self.numbers.of(ino);
        if inode.file_acl != Pblk(0) {
            inode.file_acl = self.xattr_block(inode.file_acl)?;
        }
        let mut changed = new_ino != ino || inode.file_acl != old.file_acl;
        if kind::is_mapped(&inode) {
            changed |= self.map(ino, &mut inode)?;
        } else if inode.file_type() == FileType::Directory && !self.numbers.is_empty() {
            self.numbers.in_inline(&mut raw, &mut inode);
            changed = true;
        }
        changed |= self.values(&mut raw);
        if changed {
            inode.encode_into(&mut raw, &self.ed.cx.params);
            self.ed.put_inode(new_ino, &raw)?;
        }
        Ok(())
    }

    /// Values in inodes that get other numbers; true if there are some.
    fn values(&self, raw: &mut [u8]) -> bool {
        if self.numbers.is_empty() || !self.ed.cx.incompat(Incompat::EA_INODE) {
            return false;
        }
        let Ok(Some(area)) = XattrArea::in_inode(raw) else {
            return false;
        };
        let mut list = XattrList::from_area(&area);
        self.numbers.in_values(&mut list) && list.encode_in_inode(raw).is_ok()
    }

    /// Moves a block of attributes, once for all inodes that share it; values of it may be in inodes that get other numbers.
    fn xattr_block(&mut self, at: Pblk) -> Result<Pblk> {
        if let Some(to) = self.xattr_blocks.get(&at) {
            return Ok(*to);
        }
        let mut block = self.ed.block(at)?;
        let mut changed = false;
        if let Ok(area) = XattrArea::in_block(&block)
            && !self.numbers.is_empty()
        {
            let mut list = XattrList::from_area(&area);
            let users = xattr_refcount(&block).unwrap_or(1);
            if self.numbers.in_values(&mut list) {
                changed = list.encode_block(&mut block).is_ok();
                xattr_refcount_set(&mut block, users);
            }
        }
        let to = match self.is_behind(at) {
            true => self.take()?,
            false => at,
        };
        if changed || to != at {
            if let Some(seed) = self.ed.cx.seed {
                xattr_block_checksum_set(&mut block, seed, to);
            }
            self.ed.put_block(to, &block);
        }
        self.xattr_blocks.insert(at, to);
        Ok(to)
    }

    /// Moves what an inode maps; true if the inode changes.
    fn map(&mut self, ino: Ino, inode: &mut Inode) -> Result<bool> {
        let cx = self.ed.cx;
        let found = map::read(self.ed, inode)?;
        let new_ino = self.numbers.of(ino);
        let behind = |e: &Extent| e.pblk.0.saturating_add(e.len.into()) > self.end;
        let moves = found.runs.iter().any(behind);
        let nodes = found.nodes.iter().any(|at| self.is_behind(*at));
        let is_dir = inode.file_type() == FileType::Directory;
        let renames = is_dir && !self.numbers.is_empty();
        if !moves && !nodes && new_ino == ino && !renames {
            return Ok(false);
        }
        // A transaction can't move the journal that it is in.
        if cx.sb.journal_ino() == Some(ino) {
            return Err(ChangeError::TooSmall {
                least: self.end + 1,
            });
        }
        // What the check reads is written; other data is copied.
        let state = cx.inodes.state(ino);
        let is_data = inode.file_type() == FileType::Regular
            && !cx.is_reserved(ino)
            && !state.value()
            && !self.is_own(ino);
        let mut new = Map::default();
        for e in &found.runs {
            for i in 0..e.len {
                let mut one = Extent {
                    lblk: Lblk(e.lblk.0.saturating_add(i.into())),
                    len: 1,
                    pblk: Pblk(e.pblk.0.saturating_add(i.into())),
                    ..*e
                };
                let from = one.pblk;
                if self.is_behind(from) {
                    one.pblk = self.take()?;
                }
                if is_data {
                    if one.pblk != from && !e.unwritten {
                        self.copy(from, one.pblk);
                    }
                } else {
                    self.content(ino, inode, one.lblk, from, one.pblk)?;
                }
                new.push(one, &cx.geo);
            }
        }
        if !moves && !nodes && new_ino == ino {
            return Ok(false);
        }
        let end = self.end;
        let mut own = found.nodes.to_vec();
        own.retain(|at| at.0 < end);
        own.reverse();
        let mut pool = NodePool::new(own);
        if !map::write(self.ed, new_ino, inode, &new, &mut pool) {
            return Err(ChangeError::TooSmall { least: end + 1 });
        }
        let now = map::read(self.ed, inode)?.nodes;
        if now.iter().any(|at| self.is_behind(*at)) {
            return Err(ChangeError::TooSmall { least: end + 1 });
        }
        let sectors = u64::from(cx.geo.block_size / 512);
        inode.blocks += now.len() as u64 * sectors;
        inode.blocks -= found.nodes.len() as u64 * sectors;
        Ok(true)
    }

    /// Whether it is a file of the file system's own, of which the superblock has the number.
    fn is_own(&self, ino: Ino) -> bool {
        let raw = &self.raw;
        let own = [&raw.orphan_file_inum, &raw.prj_quota_inum];
        own.iter().any(|field| field.get() == ino.0)
    }

    fn copy(&mut self, from: Pblk, to: Pblk) {
        let bits = self.ed.cx.geo.block_bits;
        let (from, to, bytes) = (from.0 << bits, to.0 << bits, 1 << bits);
        match self.copies.last_mut() {
            Some((f, t, len)) if *f + *len == from && *t + *len == to => *len += bytes,
            _ => self.copies.push((from, to, bytes)),
        }
    }

    /// Writes a block that the check reads, where it changes or moves.
    fn content(&mut self, ino: Ino, inode: &Inode, lblk: Lblk, from: Pblk, to: Pblk) -> Result<()> {
        let cx = self.ed.cx;
        let new_ino = self.numbers.of(ino);
        let is_dir = inode.file_type() == FileType::Directory;
        let is_orphans = cx.sb.orphan_file() == Some(ino);
        let mut block = self.ed.block(from)?;
        let renamed = is_dir && self.numbers.in_records(&mut block);
        if !renamed && from == to && new_ino == ino {
            return Ok(());
        }
        if let Some(seed) = cx.seed {
            let seed = inode.seed(seed, new_ino);
            let indexed = inode.flags.contains(InodeFlags::INDEX);
            let kind: Option<DxKind> = dx_kind_of(&block, lblk).filter(|_| indexed && is_dir);
            match kind {
                Some(kind) => dx_checksum_set(&mut block, kind, seed),
                None if is_dir => dir_checksum_set(&mut block, seed),
                None if is_orphans => orphan_checksum_set(&mut block, seed, to),
                None => {}
            }
        }
        self.ed.put_block(to, &block);
        Ok(())
    }

    /// The block of multi-mount protection.
    fn mmp(&mut self) -> Result<()> {
        let at = Pblk(self.raw.mmp_block.get());
        if self.ed.cx.incompat(Incompat::MMP) && self.is_behind(at) {
            let to = self.take()?;
            let block = self.ed.block(at)?;
            self.ed.put_block(to, &block);
            self.raw.mmp_block = to.0.into();
        }
        Ok(())
    }

    /// Bitmaps and inode tables of groups that stay.
    fn groups(&mut self, groups: u32) -> Result<()> {
        let table_blocks = self.ed.cx.geo.itable_blocks_per_group;
        for group in (0..groups).map(GroupNo) {
            let Some(mut desc) = self.ed.cx.desc(group).copied() else {
                continue;
            };
            let old = desc;
            for place in [&mut desc.block_bitmap, &mut desc.inode_bitmap] {
                if self.is_behind(*place) {
                    let to = self.take()?;
                    let block = self.ed.block(*place)?;
                    self.ed.put_block(to, &block);
                    *place = to;
                }
            }
            if old.inode_table.0.saturating_add(table_blocks.into()) > self.end {
                let end = self.ed.cx.cluster(Pblk(self.end));
                let to = self.ed.allocate_run(table_blocks, 0..end);
                let to = to.ok_or(ChangeError::TooSmall {
                    least: self.end + 1,
                })?;
                for i in 0..u64::from(table_blocks) {
                    let block = self.ed.block(Pblk(old.inode_table.0 + i))?;
                    self.ed.put_block(Pblk(to.0 + i), &block);
                }
                desc.inode_table = to;
            }
            if desc.block_bitmap != old.block_bitmap
                || desc.inode_bitmap != old.inode_bitmap
                || desc.inode_table != old.inode_table
            {
                // With what became of it when inodes got new numbers.
                let now = self.ed.desc(group)?.unwrap_or(old);
                desc.flags = now.flags;
                desc.itable_unused = now.itable_unused;
                self.ed.put_desc(group, &desc)?;
            }
        }
        Ok(())
    }
}

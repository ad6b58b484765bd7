//! The resize inode: a block map of the descriptor blocks kept free for growing, and their backups.
//!
//! Its only pointer is the doubly indirect one. Entry `n` of that block is a reserved block `b` of
//! group 0 (`n` counts descriptor blocks), which in turn names `b`'s place in each backup group.

use crate::prelude::*;
use crate::scan::Scanner;
use uext4_ondisk::Inode;

/// Byte of the doubly indirect pointer in the block area.
const DOUBLE_AT: usize = 13 * 4;

/// What the resize inode maps.
#[derive(Default)]
struct Reserved {
    /// Pointers in use.
    blocks: u64,
    /// The last file block mapped.
    last: Option<u64>,
}

impl Scanner<'_, '_> {
    /// Checks the resize inode; its data is metadata of the groups and claimed there.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn check_resize_inode(&mut self, ino: Ino, raw: &[u8], inode: &Inode) -> Result<()> {
        let fault = |why: &str| Fault::new(FaultKind::ResizeInode).ino(ino).detail(why);
        let of_dirs = InodeFlags::INDEX | InodeFlags::CASEFOLD;
        if inode.flags.intersects(of_dirs) {
            self.faults.push(Fault::new(FaultKind::HtreeFlag).ino(ino));
        }
        let double = le32(&inode.i_block, DOUBLE_AT).unwrap_or(0);
        let pointers = inode.i_block.as_chunks::<4>().0.iter();
        let mapped = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
        let others = inode.flags.intersects(mapped)
            || pointers.enumerate().any(|(i, p)| i != 13 && *p != [0; 4]);
        let bounds = self.cx.bounds();
        if inode.file_type() != FileType::Regular || inode.links == 0 {
            self.faults.push(fault("not a regular file").note());
        }
        if inode.file_type() != FileType::Regular {
            self.check_block_count(ino, inode, 0);
            return Ok(());
        }
        if others {
            self.faults
                .push(fault("not a file with a doubly indirect block only"));
            return Ok(());
        }
        if !bounds.contains(Pblk(u64::from(double)), 1) {
            self.faults
                .push(fault("doubly indirect block is out of range"));
            return Ok(());
        }
        let double = Pblk(u64::from(double));
        if !self.claim(ino, double, 1) {
            return Ok(());
        }
        let backups = (1..self.cx.geo.groups_count).filter(|g| self.cx.geo.has_super(GroupNo(*g)));
        let backups: Vec<u64> = backups
            .map(|g| u64::from(g).saturating_mul(u64::from(self.cx.geo.blocks_per_group)))
            .collect();
        let map = self.check_reserved_map(ino, double, &backups)?;
        let blocks = map.blocks.saturating_add(1);
        let blocks = blocks.saturating_mul(u64::from(self.cx.geo.cluster_ratio));
        self.check_dtime(ino, inode);
        let xattr_blocks = self.check_xattrs(ino, raw, inode)?;
        self.check_block_count(ino, inode, blocks.saturating_add(xattr_blocks));
        self.check_large(ino, inode.size);
        let short = map
            .last
            .is_some_and(|last| inode.size < last << self.cx.geo.block_bits);
        if short || inode.size > self.cx.file_size_max(false) {
            let fault = Fault::new(FaultKind::InodeSize).ino(ino);
            self.faults.push(fault.detail(inode.size));
        }
        Ok(())
    }

    /// Follows the pointers. One that leads to another reserved block than it should is only noted:
    /// nothing but growing the file system uses them, and that checks them first.
    fn check_reserved_map(&mut self, ino: Ino, double: Pblk, backups: &[u64]) -> Result<Reserved> {
        let (geo, bounds) = (&self.cx.geo, self.cx.bounds());
        let per_block = geo.block_size / 4;
        let first = u64::from(geo.block_size == 1024) + 1 + u64::from(geo.desc_blocks);
        let note = |at: Pblk, i: u32| {
            let note = Fault::new(FaultKind::ResizeInode).note().ino(ino).pblk(at);
            note.detail(format_args!("wrong pointer {i}"))
        };
        let outside = |at: Pblk, p: u64| {
            let fault = Fault::new(FaultKind::MapBlock).ino(ino).pblk(at);
            fault.detail(p)
        };
        let mut found = Reserved::default();
        let (mut top, mut block) = (self.take_buf(), self.take_buf());
        self.cx.view.read(double, &mut top)?;
        for i in 0..per_block {
            let rel = (i + per_block - geo.desc_blocks % per_block) % per_block;
            let reserved = rel < geo.reserved_gdt_blocks;
            let want = u64::from(reserved) * (first + u64::from(rel));
            let have = u64::from(le32(&top, i as usize * 4).unwrap_or(0));
            if have != want {
                self.faults.push(note(double, i));
            }
            if have == 0 {
                continue;
            }
            if !bounds.contains(Pblk(have), 1) {
                self.faults.push(outside(double, have));
                continue;
            }
            found.blocks += 1;
            self.cx.view.read(Pblk(have), &mut block)?;
            let mut wrong = None;
            let pairs = block.as_chunks::<8>().0;
            let last = pairs.iter().rposition(|pair| *pair != [0; 8]);
            let set = last.map_or(0, |last| 2 * (last + 1)).max(backups.len());
            for j in 0..per_block.min(set as u32) {
                let backup = backups
                    .get(j as usize)
                    .map_or(0, |b| have.saturating_add(*b));
                let p = u64::from(le32(&block, j as usize * 4).unwrap_or(0));
                if p != backup {
                    wrong.get_or_insert(j);
                }
                if p != 0 && !bounds.contains(Pblk(p), 1) {
                    self.faults.push(outside(Pblk(have), p));
                } else if p != 0 {
                    found.blocks += 1;
                    let entry = u64::from(i) * u64::from(per_block);
                    found.last = Some(12 + u64::from(per_block) + entry + u64::from(j));
                }
            }
            if let Some(j) = wrong {
                self.faults.push(note(Pblk(have), j));
            }
        }
        self.pool.push(top);
        self.pool.push(block);
        Ok(found)
    }
}

//! The resize inode: a block map of the descriptor blocks kept free for growing, and their backups.
//!
//! Its only pointer is the doubly indirect one. Entry `n` of that block is a reserved block `b` of
//! group 0 (`n` counts descriptor blocks), which in turn names `b`'s place in each backup group.

use crate::bytes::le32;
use crate::error::Result;
use crate::fault::{Fault, FaultKind};
use crate::scan::Scanner;
use uext4_ondisk::{Compat, FileType, Geometry, GroupNo, Ino, Inode, InodeFlags, Pblk};

/// Byte of the doubly indirect pointer in the block area.
const DOUBLE_AT: usize = 13 * 4;

/// The last block of the file that is mapped, if there are reserved blocks and backups of them.
fn last_block(geo: &Geometry, backups: u64) -> Option<u64> {
    let per_block = u64::from(geo.block_size / 4);
    let first = u64::from(geo.desc_blocks) % per_block;
    let reserved = u64::from(geo.reserved_gdt_blocks).checked_sub(1)?;
    // The entries wrap at the end of the doubly indirect block.
    let entry = (first + reserved).min(per_block - 1);
    Some(12 + per_block + entry * per_block + backups.checked_sub(1)?)
}

impl Scanner<'_, '_> {
    /// Checks the resize inode; its data is metadata of the groups and claimed there.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn check_resize_inode(&mut self, ino: Ino, raw: &[u8], inode: &Inode) -> Result<()> {
        let fault = |why: &str| Fault::new(FaultKind::ResizeInode).ino(ino).detail(why);
        if !self.cx.sb.compat.contains(Compat::RESIZE_INODE) {
            if inode.mode != 0 || inode.links != 0 || inode.i_block != [0; 60] {
                self.faults.push(fault("not clear, without resize_inode"));
            }
            return Ok(());
        }
        let double = le32(&inode.i_block, DOUBLE_AT).unwrap_or(0);
        let pointers = inode.i_block.as_chunks::<4>().0.iter();
        let mapped = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
        let others = inode.flags.intersects(mapped)
            || pointers.enumerate().any(|(i, p)| i != 13 && *p != [0; 4]);
        let bounds = self.cx.bounds();
        if inode.file_type() != FileType::Regular || inode.links == 0 || others {
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
        let reserved = u64::from(self.cx.geo.reserved_gdt_blocks);
        let backups = (1..self.cx.geo.groups_count).filter(|g| self.cx.geo.has_super(GroupNo(*g)));
        let backups: Vec<u64> = backups
            .map(|g| u64::from(g).saturating_mul(u64::from(self.cx.geo.blocks_per_group)))
            .collect();
        let blocks = 1 + reserved.saturating_mul(1 + backups.len() as u64);
        let blocks = blocks.saturating_mul(u64::from(self.cx.geo.cluster_ratio));
        self.check_reserved_map(ino, double, &backups)?;
        self.check_dtime(ino, inode);
        let xattr_blocks = self.check_xattrs(ino, raw, inode)?;
        self.check_block_count(ino, inode, blocks.saturating_add(xattr_blocks));
        let short = last_block(&self.cx.geo, backups.len() as u64)
            .is_some_and(|last| inode.size < last << self.cx.geo.block_bits);
        if short || inode.size > self.cx.file_size_max(false) {
            let fault = Fault::new(FaultKind::InodeSize).ino(ino);
            self.faults.push(fault.detail(inode.size));
        }
        Ok(())
    }

    fn check_reserved_map(&mut self, ino: Ino, double: Pblk, backups: &[u64]) -> Result<()> {
        let geo = &self.cx.geo;
        let per_block = geo.block_size / 4;
        let first = u64::from(geo.block_size == 1024) + 1 + u64::from(geo.desc_blocks);
        let bad = |at: Pblk, i: u32| {
            let fault = Fault::new(FaultKind::ResizeInode).ino(ino).pblk(at);
            fault.detail(format_args!("wrong pointer {i}"))
        };
        let (mut top, mut block) = (self.take_buf(), self.take_buf());
        self.cx.view.read(double, &mut top)?;
        let reserved = geo.reserved_gdt_blocks;
        for i in 0..per_block {
            let rel = (i + per_block - geo.desc_blocks % per_block) % per_block;
            let want = if rel < reserved {
                first + u64::from(rel)
            } else {
                0
            };
            let have = u64::from(le32(&top, i as usize * 4).unwrap_or(0));
            if have != want {
                self.faults.push(bad(double, i));
                continue;
            }
            if want == 0 || want >= geo.blocks_count {
                continue;
            }
            self.cx.view.read(Pblk(want), &mut block)?;
            for j in 0..per_block {
                let backup = backups
                    .get(j as usize)
                    .map_or(0, |b| want.saturating_add(*b));
                if u64::from(le32(&block, j as usize * 4).unwrap_or(0)) != backup {
                    self.faults.push(bad(Pblk(want), j));
                    break;
                }
            }
        }
        self.pool.push(top);
        self.pool.push(block);
        Ok(())
    }
}

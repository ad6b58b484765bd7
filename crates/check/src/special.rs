//! Inodes that are not plain files: reserved ones, symbolic links, devices, pipes and sockets.

use crate::filemap;
use crate::inode_table::InodeState;
use crate::mapping::Mapped;
use crate::prelude::*;
use crate::scan::Scanner;
use uext4_ondisk::Inode;

/// Where the lower half of the block count is.
const BLOCKS_LOW_AT: usize = 0x1c;
/// Where `i_size_high` is.
const SIZE_HIGH_AT: usize = 0x6c;

impl Scanner<'_, '_> {
    /// An inode below the first ordinary one. All count as in use.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn reserved(&mut self, ino: Ino, raw: &[u8], inode: &Inode) -> Result<()> {
        if ino == Ino::ROOT {
            if inode.file_type() != FileType::Directory {
                let fault = Fault::new(FaultKind::RootMode).ino(ino);
                self.faults
                    .push(fault.detail(format_args!("{:#o}", inode.mode)));
            }
            if inode.links > 0 {
                return self.used(ino, raw, inode, false);
            }
        }
        self.cx
            .inodes
            .set(ino, inode.file_type(), InodeState::USED, inode.links as u16);
        self.counts.inodes += 1;
        if ino == Ino::RESIZE && self.cx.sb.compat.contains(Compat::RESIZE_INODE) {
            return self.check_resize_inode(ino, raw, inode);
        }
        if self.is_out_of_place(ino, raw, inode) {
            let fault = Fault::new(FaultKind::InodeReserved).ino(ino);
            self.faults
                .push(fault.detail(format_args!("mode {:#o}", inode.mode)));
            return Ok(());
        }
        let idle = [Ino::JOURNAL, Ino::USER_QUOTA, Ino::GROUP_QUOTA].contains(&ino);
        if idle && !self.in_service(ino) {
            self.check_dtime(ino, inode);
            return Ok(());
        }
        let flags = inode.flags & (InodeFlags::INDEX | InodeFlags::CASEFOLD);
        if !flags.is_empty() {
            let fault = Fault::new(FaultKind::InodeFlags).ino(ino);
            self.faults
                .push(fault.detail(format_args!("{:#x}", flags.bits())));
        }
        self.check_dtime(ino, inode);
        let xattr_blocks = self.check_xattrs(ino, raw, inode)?;
        if ino != Ino::BAD_BLOCKS && inode.mode == 0 {
            // The blocks of these are never read.
            self.check_block_count(ino, inode, xattr_blocks);
            let high = u64::from(le32(raw, SIZE_HIGH_AT).unwrap_or(0)) << 32;
            let whole = Inode {
                size: high | inode.size & u64::from(u32::MAX),
                ..inode.clone()
            };
            self.check_size(ino, &whole, &Mapped::nothing(ino));
            return Ok(());
        }
        if ino == Ino::BAD_BLOCKS {
            if inode.i_block != [0; 60] {
                self.walk(ino, inode)?;
            }
            return Ok(());
        }
        let mapped = self.walk(ino, inode)?;
        self.counts.fragmented += u64::from(mapped.is_fragmented);
        if mapped.complete {
            self.check_block_count(ino, inode, mapped.blocks.saturating_add(xattr_blocks));
        }
        self.check_size(ino, inode, &mapped);
        Ok(())
    }

    /// Whether a reserved inode holds what one of its number never does.
    fn is_out_of_place(&mut self, ino: Ino, raw: &[u8], inode: &Inode) -> bool {
        let is_regular = inode.file_type() == FileType::Regular;
        match ino {
            Ino::BAD_BLOCKS => {
                // The upper halves of the owner are unused.
                let owned = inode.uid & 0xffff != 0 || inode.gid & 0xffff != 0;
                let owned = owned || inode.file_acl.0 != 0;
                let inline = inode.flags.contains(InodeFlags::INLINE_DATA);
                inode.mode != 0 || inode.links != 0 || owned || inline
            }
            Ino::ROOT => false,
            Ino::RESIZE => {
                if inode.mode != 0 || inode.links != 0 || inode.i_block != [0; 60] {
                    let note = Fault::new(FaultKind::InodeReserved).note().ino(ino);
                    self.faults
                        .push(note.detail("not clear, without resize_inode"));
                }
                false
            }
            _ if self.in_service(ino) => !is_regular,
            Ino::BOOT_LOADER => inode.mode & FileType::MODE_MASK != 0 && !is_regular,
            Ino::JOURNAL | Ino::USER_QUOTA | Ino::GROUP_QUOTA => {
                let blocks = le32(raw, BLOCKS_LOW_AT) != Some(0);
                inode.links != 0 || blocks || !inode.i_block.starts_with(&[0; 4])
            }
            _ => inode.mode != 0,
        }
    }

    /// A reserved inode has no deletion time that could be the next of an orphan list.
    pub(crate) fn check_dtime(&mut self, ino: Ino, inode: &Inode) {
        if inode.dtime != 0 && inode.dtime < self.cx.geo.inodes_count {
            let fault = Fault::new(FaultKind::InodeDtime).ino(ino);
            self.faults.push(fault.detail(inode.dtime));
        }
    }

    /// True for the journal and quota files that the superblock names.
    fn in_service(&self, ino: Ino) -> bool {
        let raw = &self.cx.sb.raw;
        let quota = self.cx.ro_compat(RoCompat::QUOTA)
            && [
                raw.usr_quota_inum.get(),
                raw.grp_quota_inum.get(),
                raw.prj_quota_inum.get(),
            ]
            .contains(&ino.0);
        raw.journal_inum.get() == ino.0 || quota
    }

    /// A device, pipe or socket.
    pub(crate) fn check_special(&mut self, ino: Ino, raw: &[u8], inode: &Inode, xattr_blocks: u64) {
        let mut bad = |why: &str| {
            let fault = Fault::new(FaultKind::SpecialFile).ino(ino);
            self.faults.push(fault.detail(why));
        };
        if inode.size != 0 || le32(raw, SIZE_HIGH_AT) != Some(0) {
            bad("size is not 0");
        }
        if inode.flags.contains(InodeFlags::INDEX) {
            bad("hashed");
        }
        self.check_block_count(ino, inode, xattr_blocks);
    }

    /// A symbolic link: target in the inode, in inline data, or in one block.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn check_symlink(
        &mut self,
        ino: Ino,
        raw: &[u8],
        inode: &Inode,
        xattr_blocks: u64,
    ) -> Result<()> {
        if le32(raw, SIZE_HIGH_AT) != Some(0) {
            self.bad_link(ino, "size is too large");
        }
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            self.check_inline(ino, raw, inode);
            self.check_block_count(ino, inode, xattr_blocks);
            return Ok(());
        }
        let encrypted = inode.flags.contains(InodeFlags::ENCRYPT);
        if let Some(target) = inode.fast_symlink_target() {
            let zero = inode.i_block.get(target.len()) == Some(&0);
            if !encrypted && (target.contains(&0) || !zero) {
                self.bad_link(ino, "target length differs from the size");
            }
            self.check_block_count(ino, inode, xattr_blocks);
            return Ok(());
        }
        let mapped = self.walk(ino, inode)?;
        if mapped.complete {
            self.check_block_count(ino, inode, mapped.blocks.saturating_add(xattr_blocks));
        }
        let block_size = self.cx.block_size();
        if inode.size == 0 || inode.size >= block_size as u64 || mapped.last != Some(0) {
            self.bad_link(ino, "size does not fit its block");
            return Ok(());
        }
        let (runs, _) = filemap::load(&self.cx.view, &self.cx.geo, inode)?;
        let Some(at) = filemap::find(&runs, Lblk(0)) else {
            return Ok(());
        };
        let mut block = self.take_buf();
        self.cx.view.read(at, &mut block)?;
        let len = block.iter().position(|b| *b == 0).unwrap_or(block_size);
        if !encrypted && len as u64 != inode.size {
            self.bad_link(ino, "target length differs from the size");
        }
        if inode.size < 60 && !encrypted {
            self.bad_link(ino, "short target is not in the inode");
        }
        self.pool.push(block);
        Ok(())
    }

    fn bad_link(&mut self, ino: Ino, why: &str) {
        self.faults
            .push(Fault::new(FaultKind::Symlink).ino(ino).detail(why));
    }
}

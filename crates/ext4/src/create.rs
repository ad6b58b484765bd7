//! Making inodes and taking them away: the parts of namespace operations that deal with one inode.

use crate::balloc::Run;
use crate::error::{Ext4Error, Result};
use crate::extents::{Content, Restart};
use crate::fs::Ext4;
use crate::inode::{Inode, InodeRef, now};
use std::sync::Arc;
use uext4_jbd2::Handle;
use uext4_ondisk::{
    DevNo, EXTRA_ISIZE_KNOWN, ExtentNodeMut, FileType, Ino, InodeFlags, Pblk, RoCompat,
    raw_generation,
};

/// Blocks that deleting a small inode changes.
pub(crate) const DELETE_CREDITS: u32 = 24;

/// What a new inode is.
#[derive(Clone, Copy, Debug)]
pub struct NewInode {
    /// Type and permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The number of a device file.
    pub device: Option<DevNo>,
    /// Flags that it takes from its directory.
    pub flags: InodeFlags,
}

impl Ext4 {
    /// Makes an inode in memory and in the inode table; it has one link, or two if a directory.
    ///
    /// # Journal
    /// Five credits.
    ///
    /// # Errors
    /// [`Ext4Error::NoInode`].
    pub(crate) fn new_inode(
        &self,
        handle: &Handle<'_>,
        parent: Ino,
        new: &NewInode,
        links: u32,
    ) -> Result<InodeRef> {
        let file_type = FileType::from_mode(new.mode);
        let is_dir = file_type == FileType::Directory;
        let ino = self.claim_ino(handle, parent, is_dir)?;
        let place = match self.inode_place(ino, true) {
            Ok(place) => place,
            Err(why) => {
                self.release_ino(handle, ino, is_dir)?;
                return Err(why);
            }
        };
        let mut content = handle.modify(&place.buffer)?;
        let end = place.offset + usize::from(self.params.inode_size);
        let raw = content
            .data_mut()
            .get_mut(place.offset..end)
            .unwrap_or(&mut []);
        let generation = self.generator.draw(raw_generation(raw));
        raw.fill(0);
        drop(content);
        let time = now();
        let extra = if self.params.inode_size > 128 {
            self.geometry()
                .want_extra_isize
                .clamp(EXTRA_ISIZE_KNOWN, self.params.inode_size - 128)
        } else {
            0
        };
        let mut disk = uext4_ondisk::Inode {
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            links,
            flags: new.flags,
            atime: time,
            ctime: time,
            mtime: time,
            crtime: time,
            generation,
            extra_isize: extra,
            ..uext4_ondisk::Inode::default()
        };
        match new.device {
            Some(device) => disk.set_dev_no(device),
            None if matches!(file_type, FileType::Regular | FileType::Directory) => {
                disk.flags |= InodeFlags::EXTENTS;
                ExtentNodeMut::init(&mut disk.i_block, 0);
            }
            None => {}
        }
        let seed = disk.seed(self.sb.csum_seed, ino);
        let inode = Arc::new(Inode::new(self.me(), ino, place, disk, self.params, seed));
        inode.update(handle, |_| ())?;
        // A stale handle may have made somebody load it since it was encoded: then that is the one.
        let inode = match self.icache.insert_new(u64::from(ino.0), Arc::clone(&inode)) {
            Ok(()) => inode,
            Err(loaded) => loaded,
        };
        let pinned = InodeRef::pin(inode).ok_or(Ext4Error::Stale)?;
        if ino.0.is_multiple_of(64) {
            self.limit_icache();
        }
        Ok(pinned)
    }

    /// Deletes an inode without links that nobody can reach any more, with handles of its own. It is
    /// on the orphan list.
    pub(crate) fn delete_inode(&self, inode: &Arc<Inode>) -> Result<()> {
        if self.is_read_only() {
            return Err(Ext4Error::ReadOnly);
        }
        let handle = self.journal().start(DELETE_CREDITS)?;
        let handle = self.remove_blocks(
            handle,
            inode,
            0,
            1 << 32,
            content_of(inode),
            Restart::Allowed,
        )?;
        let handle = if handle.extend(DELETE_CREDITS) {
            handle
        } else {
            handle.restart(DELETE_CREDITS)?
        };
        self.remove_orphan(&handle, inode)?;
        self.free_inode(&handle, inode)
    }

    /// Whether deleting the inode takes a handful of blocks, so that one handle does it.
    pub(crate) fn is_small(&self, inode: &Inode) -> bool {
        let state = inode.state();
        let root = uext4_ondisk::ExtentNode::new(&state.i_block);
        !state.flags.contains(InodeFlags::EXTENTS)
            || (root.depth() == 0
                && (inode.file_type != FileType::Directory || state.size <= 8 * self.block_size()))
    }

    /// Reads what deleting a small inode will need, so that a device that fails does so before
    /// anything changed.
    ///
    /// # Locks
    /// Reads from the device: before the handle starts.
    ///
    /// # Errors
    /// The device's, or damage.
    pub(crate) fn preload_for_delete(&self, inode: &Inode) -> Result<()> {
        let (no, _) = self.geometry().group_of_ino(inode.ino)?;
        self.inode_bits(self.group(no)?)?;
        let (blocks, acl) = {
            let state = inode.state();
            (state.blocks, state.file_acl)
        };
        if blocks == 0 || !self.is_small(inode) {
            return Ok(());
        }
        let mut places: Vec<Pblk> = Vec::new();
        if inode.flags().contains(InodeFlags::EXTENTS) {
            for extent in self.extents(inode)? {
                places.push(extent.pblk);
                places.push(Pblk(extent.pblk.0 + u64::from(extent.len) - 1));
            }
        }
        if acl != Pblk(0) {
            self.xattr_block(inode, acl)?;
            places.push(acl);
        }
        for pblk in places {
            if let Some((no, _)) = self.geometry().group_of_block(pblk) {
                self.block_bits(self.group(no)?)?;
            }
        }
        Ok(())
    }

    /// Deletes a small inode without links, taken for deletion, within `handle`.
    ///
    /// # Journal
    /// [`DELETE_CREDITS`].
    pub(crate) fn delete_small<'h>(
        &self,
        handle: Handle<'h>,
        inode: &Arc<Inode>,
    ) -> Result<Handle<'h>> {
        let handle = if inode.state().blocks == 0 {
            handle
        } else {
            // Name and inode go together, so the handle must not be restarted.
            self.remove_blocks(handle, inode, 0, 1 << 32, content_of(inode), Restart::Never)?
        };
        self.free_inode(&handle, inode)?;
        Ok(handle)
    }

    /// Gives the inode's number back. Nothing of it is left but what says that it was deleted.
    fn free_inode(&self, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        let acl = inode.state().file_acl;
        if acl != Pblk(0) {
            self.put_xattr_block(handle, inode, acl)?;
        }
        let time = now();
        inode.update(handle, |disk| {
            disk.links = 0;
            disk.dtime = u32::try_from(time.sec).unwrap_or(u32::MAX);
            disk.size = 0;
            disk.blocks = 0;
            disk.file_acl = Pblk(0);
        })?;
        // Out of the cache before the number can be claimed again.
        self.icache.remove(u64::from(inode.ino.0));
        if let Some(dir) = inode.dir.get() {
            dir.clear();
        }
        self.release_ino(handle, inode.ino, inode.is_dir())
    }

    /// Frees what a file maps past its size: the end of an interrupted truncate.
    pub(crate) fn finish_truncate(&self, inode: &Inode) -> Result<()> {
        let size = inode.size();
        let first = size.div_ceil(self.block_size());
        let handle = self.journal().start(DELETE_CREDITS)?;
        let handle = self.remove_blocks(
            handle,
            inode,
            first,
            1 << 32,
            content_of(inode),
            Restart::Allowed,
        )?;
        let handle = if handle.extend(4) {
            handle
        } else {
            handle.restart(4)?
        };
        self.remove_orphan(&handle, inode)
    }

    /// The most links an inode may have.
    pub(crate) fn check_links(&self, inode: &Inode) -> Result<()> {
        let links = inode.state().links;
        let unlimited = inode.is_dir() && self.sb.ro_compat.contains(RoCompat::DIR_NLINK);
        if links >= 65000 && !unlimited {
            return Err(Ext4Error::TooManyLinks);
        }
        Ok(())
    }

    /// Drops one reference to a block of extended attributes, and the block with the last one.
    fn put_xattr_block(&self, handle: &Handle<'_>, inode: &Inode, pblk: Pblk) -> Result<()> {
        let buffer = self.xattr_block(inode, pblk)?;
        let refs = uext4_ondisk::xattr_refcount(buffer.read().data()).unwrap_or(1);
        if refs > 1 {
            let mut content = handle.modify(&buffer)?;
            uext4_ondisk::xattr_refcount_set(content.data_mut(), refs - 1);
            return Ok(());
        }
        handle.forget(&buffer)?;
        self.free_run(handle, Run { pblk, len: 1 })
    }
}

fn content_of(inode: &Inode) -> Content {
    if inode.is_dir() {
        Content::Metadata
    } else {
        Content::Data
    }
}

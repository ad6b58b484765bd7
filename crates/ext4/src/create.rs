//! Making inodes and taking them away: the parts of namespace operations that deal with one inode.

use crate::balloc::Run;
use crate::error::{Ext4Error, Result};
use crate::extents::{Content, Restart};
use crate::fs::Ext4;
use crate::handles::{self, LateHandle};
use crate::inode::{Inode, InodePlace, InodeRef, now};
use crate::mapping::Root;
use std::sync::Arc;
use uext4_jbd2::Handle;
use uext4_ondisk::{
    DevNo, EXTRA_ISIZE_KNOWN, FileType, Generation, Ino, InodeFlags, Pblk, RoCompat, Timestamp,
    raw_generation,
};
use uext4_sync::stage::{self, Stage};

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
    /// Project that it takes from its directory.
    pub project: u32,
}

/// What deleting an inode has to deal with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remains {
    /// Its names.
    pub links: u32,
    /// It takes a handful of blocks, so that one handle does it.
    pub small: bool,
    /// Sectors that it has.
    pub blocks: u64,
    /// The block of its extended attributes, or 0.
    pub acl: Pblk,
}

impl Ext4 {
    /// Makes an inode in memory and in the inode table; it has one link, or two if a directory.
    ///
    /// # Journal
    /// Five credits. The handle starts here at the latest.
    ///
    /// # Errors
    /// [`Ext4Error::NoInode`].
    pub(crate) fn new_inode(
        &self,
        late: &LateHandle<'_>,
        parent: &Inode,
        new: &NewInode,
        links: u32,
    ) -> Result<InodeRef> {
        let is_dir = FileType::from_mode(new.mode) == FileType::Directory;
        let ino = self.claim_ino(late, parent, is_dir)?;
        let handle = late.get()?;
        let place = match self.inode_place(ino, true) {
            Ok(place) => place,
            Err(why) => {
                self.release_ino(handle, ino, is_dir)?;
                handle.complete();
                return Err(why);
            }
        };
        let inode = self.write_new_inode(handle, ino, place, new, links)?;
        // A stale handle may have made somebody load it since it was encoded: then that is the one.
        let inode = match self.icache.insert_new(u64::from(ino.0), Arc::clone(&inode)) {
            Ok(()) => inode,
            Err(loaded) => loaded,
        };
        InodeRef::pin(inode).ok_or(Ext4Error::Stale)
    }

    /// Encodes a new inode into its place.
    fn write_new_inode(
        &self,
        handle: &Handle<'_>,
        ino: Ino,
        place: InodePlace,
        new: &NewInode,
        links: u32,
    ) -> Result<Arc<Inode>> {
        let _timed = stage::time(Stage::MarkInodeDirty);
        let buffer = Arc::clone(&place.buffer);
        let mut content = handle.modify(&buffer)?;
        let raw = place.raw_mut(&mut content, &self.params);
        let mut disk = self.new_disk_inode(new, links, self.generator.draw(raw_generation(raw)));
        raw.fill(0);
        self.encode_new_inode(&mut disk, raw);
        buffer.mark_dirty(1 << place.slot);
        self.write_pending_neighbours(handle, &mut content, &buffer, ino);
        drop(content);
        let seed = disk.seed(self.sb.csum_seed, ino);
        let inode = Inode::new(self.me(), ino, place, disk, self.params, seed);
        inode.acls.set_none();
        inode.touch(handle);
        Ok(Arc::new(inode))
    }

    /// A new inode as it will be encoded.
    #[inline]
    pub(crate) fn new_disk_inode(
        &self,
        new: &NewInode,
        links: u32,
        generation: Generation,
    ) -> uext4_ondisk::Inode {
        let time = match self.params.inode_size > 128 {
            true => now(),
            false => Timestamp::new(now().sec, 0),
        };
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
            projid: new.project,
            ..uext4_ondisk::Inode::default()
        };
        match new.device {
            Some(device) => disk.set_dev_no(device),
            None if matches!(disk.file_type(), FileType::Regular | FileType::Directory) => {
                self.init_mapping(&mut disk);
            }
            None => {}
        }
        disk
    }

    /// Deletes an inode without links that nobody can reach any more, with handles of its own. It is
    /// on the orphan list.
    pub(crate) fn delete_inode(&self, inode: &Arc<Inode>) -> Result<()> {
        if self.is_read_only() {
            return Err(Ext4Error::ReadOnly);
        }
        self.drop_values(inode)?;
        self.check_ino_in_use(inode.ino)?;
        self.check_removable(inode, 0, 1 << 32)?;
        self.check_xattr_block(inode)?;
        let handle = self.journal().start(DELETE_CREDITS)?;
        let handle = self.remove_blocks(
            handle,
            inode,
            0,
            1 << 32,
            self.content_of(inode),
            Restart::Allowed,
        )?;
        let handle = if handle.extend(DELETE_CREDITS) {
            handle
        } else {
            handle.restart(DELETE_CREDITS)?
        };
        self.remove_orphan(&handle, inode)?;
        let acl = inode.state().file_acl;
        let freed = self.free_inode(&handle, inode, acl);
        handles::end(handle, freed)
    }

    /// What there is to do when the inode is deleted.
    pub(crate) fn remains(&self, inode: &Inode) -> Remains {
        let state = inode.state();
        let root = Root::of(&state);
        Remains {
            links: state.links,
            small: root.is_short() && self.is_small(self.content_of(inode), state.blocks),
            blocks: state.blocks,
            acl: state.file_acl,
        }
    }

    /// Whether deleting what takes so many sectors, with a short root, changes a handful of blocks, so that one
    /// handle does it: each block that went through the journal is one, also behind the end of a file.
    fn is_small(&self, content: Content, sectors: u64) -> bool {
        // One more is for attributes.
        content == Content::Data || sectors <= 9 * (self.block_size() / 512)
    }

    /// Reads what deleting an inode will need, if it is small, so that a device that fails does so
    /// before anything changed; and says what there is to do.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone. Reads from the device: before the handle starts.
    ///
    /// # Errors
    /// The device's, or damage.
    pub(crate) fn prepare_delete(&self, inode: &Inode) -> Result<Remains> {
        let mut remains = self.remains(inode);
        // Each value in an inode of its own takes a handle of its own.
        remains.small &= !self.has_values(inode)?;
        self.check_ino_in_use(inode.ino)?;
        if remains.blocks == 0 || !remains.small {
            return Ok(remains);
        }
        self.check_removable(inode, 0, 1 << 32)?;
        self.check_xattr_block(inode)?;
        Ok(remains)
    }

    /// As [`Ext4::check_removable`], of the block of an inode's extended attributes, if it has one.
    pub(crate) fn check_xattr_block(&self, inode: &Inode) -> Result<()> {
        let pblk = inode.state().file_acl;
        if pblk != Pblk(0) {
            self.xattr_block(inode, pblk)?;
            self.check_allocated(Run { pblk, len: 1 })?;
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
        blocks: u64,
        acl: Pblk,
    ) -> Result<Handle<'h>> {
        let handle = if blocks == 0 {
            handle
        } else {
            // Name and inode go together, so the handle must not be restarted.
            self.remove_blocks(
                handle,
                inode,
                0,
                1 << 32,
                self.content_of(inode),
                Restart::Never,
            )?
        };
        self.free_inode(&handle, inode, acl)?;
        Ok(handle)
    }

    /// Gives the inode's number back. Nothing of it is left but what says that it was deleted.
    pub(crate) fn free_inode(
        &self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        acl: Pblk,
    ) -> Result<()> {
        if acl != Pblk(0) {
            self.put_xattr_block(handle, inode, acl)?;
        }
        let time = now();
        self.update_inode(inode, handle, |disk| {
            disk.links = 0;
            disk.dtime = u32::try_from(time.sec).unwrap_or(u32::MAX);
            disk.size = 0;
            disk.blocks = 0;
            disk.file_acl = Pblk(0);
        })?;
        // Out of the cache before the number can be claimed again.
        self.icache.remove(u64::from(inode.ino.0));
        self.release_ino(handle, inode.ino, inode.is_dir())
    }

    /// Frees what a file maps past its size: the end of an interrupted truncate.
    pub(crate) fn finish_truncate(&self, inode: &Inode) -> Result<()> {
        let size = inode.size();
        let first = size.div_ceil(self.block_size());
        self.check_removable(inode, first, 1 << 32)?;
        let handle = self.journal().start(DELETE_CREDITS)?;
        let handle = self.remove_blocks(
            handle,
            inode,
            first,
            1 << 32,
            self.content_of(inode),
            Restart::Allowed,
        )?;
        let handle = if handle.extend(4) {
            handle
        } else {
            handle.restart(4)?
        };
        let removed = self.remove_orphan(&handle, inode);
        handles::end(handle, removed)
    }

    /// The most links an inode may have.
    pub(crate) fn check_links(&self, inode: &Inode, links: u32) -> Result<()> {
        let unlimited = inode.is_dir() && self.sb.ro_compat.contains(RoCompat::DIR_NLINK);
        if links >= 65000 && !unlimited {
            return Err(Ext4Error::TooManyLinks);
        }
        Ok(())
    }
}

//! Making an inode.

use crate::clock::now;
use crate::inode::reference::InodeRef;
use crate::inode::{Inode, InodePlace};
use crate::inodes::Inodes;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::volume::handles::LazyHandle;
use uext4_ondisk::{DevNo, EXTRA_ISIZE_KNOWN, raw_generation};
use uext4_sync::probe;
use uext4_sync::probe::Stage;

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

impl NewInode {
    /// Its owners.
    pub(crate) fn owners(&self) -> OwnerIds {
        OwnerIds::new(self.uid, self.gid, self.project)
    }
}

impl Inodes {
    /// Makes an inode in memory and in the inode table; it has one link, or two if a directory.
    ///
    /// # Journal
    /// Five credits. The handle starts here at the latest.
    ///
    /// # Errors
    /// [`Ext4Error::NoInode`], [`Ext4Error::QuotaExceeded`].
    pub(crate) fn new_inode(
        &self,
        late: &LazyHandle<'_>,
        parent: &Inode,
        new: &NewInode,
        links: u32,
    ) -> Result<InodeRef> {
        let is_dir = FileType::from_mode(new.mode) == FileType::Directory;
        if let Some(quotas) = self.volume.quotas() {
            quotas.reserve(new.owners(), 0, 1)?;
        }
        let ino = self.numbers.claim_ino(late, parent, is_dir)?;
        let handle = late.get()?;
        let place = match self.table.inode_place(ino, true) {
            Ok(place) => place,
            Err(why) => {
                self.numbers.release_ino(handle, ino, is_dir)?;
                handle.complete();
                return Err(why);
            }
        };
        let inode = self.write_new_inode(handle, ino, place, new, links)?;
        if let Some(quotas) = self.volume.quotas() {
            quotas.count_inode(handle, ino, new.owners(), 1);
        }
        // A stale handle may have caused a load of it since it was encoded: then that is the one.
        let inode = match self
            .table
            .icache
            .insert_new(u64::from(ino.0), Arc::clone(&inode))
        {
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
        let _timed = probe::time(Stage::MarkInodeDirty);
        let buffer = Arc::clone(&place.buffer);
        let mut content = handle.modify(&buffer)?;
        let raw = place.raw_mut(&mut content, &self.volume.params);
        let mut disk = self.new_disk_inode(new, links, self.generator.draw(raw_generation(raw)));
        let attributes = GOOD_OLD_INODE_SIZE + usize::from(disk.extra_isize);
        let rest = raw.get(attributes..).unwrap_or(&[]);
        if handle.journal().has_fast_commits() && rest.iter().any(|&byte| byte != 0) {
            // They would stay, as a fast commit has the fields alone.
            handle.never_describe();
        }
        raw.fill(0);
        self.inline.encode_new_inode(&mut disk, raw);
        buffer.mark_dirty(place.slot);
        self.table
            .write_pending_neighbours(handle, &mut content, &buffer, ino);
        drop(content);
        let seed = disk.seed(self.volume.sb.csum_seed, ino);
        let inode = Inode::new(self.table.me(), ino, place, disk, self.volume.params, seed);
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
        let time = match self.volume.params.inode_size > 128 {
            true => now(),
            false => Timestamp::new(now().sec, 0),
        };
        let extra = if self.volume.params.inode_size > 128 {
            self.volume
                .geometry()
                .want_extra_isize
                .clamp(EXTRA_ISIZE_KNOWN, self.volume.params.inode_size - 128)
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
                self.mapping.init_mapping(&mut disk);
            }
            None => {}
        }
        disk
    }
}

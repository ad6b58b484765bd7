//! Reading and setting generations, and the boot loader's inode, which gets two new ones: what the
//! ioctls `EXT4_IOC_GETVERSION`, `EXT4_IOC_SETVERSION` and `EXT4_IOC_SWAP_BOOT` do.
//!
//! # Data model
//! The boot loader's inode is number 5. It has no name; its only use is that a boot loader finds its
//! blocks at a place that no file operation moves. A file is written, and then swapped with it.
//!
//! # Locking
//! Both inodes' `ilock`, by inode number; see [`crate::file::exchange`].

use crate::clock::now;
use crate::file::FileIo;
use crate::file::exchange::Exchange;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inodes::new::NewInode;
use crate::prelude::*;
use uext4_vfs::errno::Error;
use uext4_vfs::ilock::ilock_two;

/// A regular file of root without any permission.
const EMPTY_BOOT_LOADER: NewInode = NewInode {
    mode: 0o100_000,
    uid: 0,
    gid: 0,
    device: None,
    flags: InodeFlags::empty(),
    project: 0,
};

/// Flags of files whose data depends on the inode that has it.
const NOT_SWAPPED: InodeFlags = InodeFlags::ENCRYPT
    .union(InodeFlags::VERITY)
    .union(InodeFlags::JOURNAL_DATA)
    .union(InodeFlags::INLINE_DATA)
    .union(InodeFlags::EA_INODE);

impl FileIo {
    /// The generation of an inode (`EXT4_IOC_GETVERSION`).
    pub fn generation(&self, inode: &InodeRef) -> Generation {
        inode.generation()
    }

    /// Sets the generation of an inode (`EXT4_IOC_SETVERSION`): handles made before are stale from now
    /// on. Any value is taken, as the kernel does, but 0 makes its NFS server accept any handle.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Journal
    /// A handle of one credit.
    ///
    /// # Errors
    /// `EPERM`: not the owner. `ENOTTY`: with `metadata_csum`, as checksums depend on the generation.
    /// `EROFS`.
    pub fn set_generation(
        &self,
        caller: &Caller,
        inode: &InodeRef,
        generation: Generation,
    ) -> Result<()> {
        if !permission::is_owner_or_capable(&self.attributes.attr(inode), caller) {
            return Err(Ext4Error::NotPermitted);
        }
        if self.volume.seed().is_some() {
            let why = "the generation seeds checksums, as metadata_csum is on";
            return Err(Error::new(Errno::ENOTTY).context(why).into());
        }
        let _change = self.volume.freeze.begin_change();
        self.volume.check_writable()?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        let time = now();
        self.volume.with_handle(1, |handle| {
            self.table.update_inode(inode, handle, |disk| {
                disk.generation = generation;
                disk.ctime = time;
                disk.version = disk.version.wrapping_add(1);
            })
        })
    }

    /// Swaps the data of a regular file with that of the boot loader's inode, which is made an empty
    /// file of the superuser if there was never one (`EXT4_IOC_SWAP_BOOT`).
    ///
    /// Mapping, size, blocks, and the times of reading and writing are swapped; owner, permissions,
    /// extended attributes and the other flags stay. Both get a new generation, in one draw, so that handles of the
    /// file are stale; in the variant `none` they keep theirs. The time of their change is now.
    ///
    /// # Locks
    /// Both inodes' `ilock` and `map`, alone; reads from the device.
    ///
    /// # Journal
    /// One handle, with a credit for each node of both extent trees, and two.
    ///
    /// # Crash
    /// All of it survives or nothing.
    ///
    /// # Errors
    /// `EINVAL`: not a regular file, more or less than one link, or data that cannot be moved to another
    /// inode (encrypted, in the inode, journaled). `EPERM`: not the owner, not the capability
    /// `SYS_ADMIN`, immutable or append-only. `EFBIG`, `ENOSPC`: more nodes than a transaction holds.
    /// `EROFS`.
    pub fn swap_boot(&self, caller: &Caller, inode: &InodeRef) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        self.volume.check_writable()?;
        self.may_swap_boot(caller, inode)?;
        let boot = self.boot_loader()?;
        if inode.ino == boot.ino {
            return Err(Ext4Error::Invalid("the boot loader's inode itself"));
        }
        let _locked = ilock_two(&inode.ilock, &boot.ilock, LockMode::Exclusive);
        self.may_swap_boot(caller, inode)?;
        check_swapped(&boot)?;
        let last = [inode.generation(), boot.generation()];
        let generations = self.inodes.generator.redraw(last);
        self.exchange(inode, &boot, Exchange::Data(generations))
    }

    /// Refuses to swap a file that cannot be, or that the caller may not change so.
    fn may_swap_boot(&self, caller: &Caller, inode: &Inode) -> Result<()> {
        check_swapped(inode)?;
        let fixed = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
        if inode.flags().intersects(fixed)
            || !permission::is_owner_or_capable(&self.attributes.attr(inode), caller)
            || !caller.has(Capabilities::SYS_ADMIN)
        {
            return Err(Ext4Error::NotPermitted);
        }
        Ok(())
    }

    /// The boot loader's inode, made an empty file if it was never used.
    ///
    /// # Locks
    /// Starts a handle in the latter case.
    fn boot_loader(&self) -> Result<InodeRef> {
        match self.inodes.get_inode(Ino::BOOT_LOADER) {
            Err(Ext4Error::Stale) => {}
            found => return found,
        }
        let place = self.table.inode_place(Ino::BOOT_LOADER, false)?;
        let decode = |raw: &[u8]| {
            uext4_ondisk::Inode::decode(raw, &self.volume.params)
                .map_err(|e| e.ino(Ino::BOOT_LOADER))
        };
        let handle = self.volume.journal().start(1)?;
        let mut content = handle.modify(&place.buffer)?;
        let raw = place.raw_mut(&mut content, &self.volume.params);
        let old = decode(raw).inspect_err(|_| handle.complete())?;
        // Another thread may have made it meanwhile.
        if old.mode == 0 || old.links == 0 {
            raw.fill(0);
            let generation = self.inodes.generator.draw(Some(old.generation));
            self.inodes
                .new_disk_inode(&EMPTY_BOOT_LOADER, 1, generation)
                .encode_into(raw, &self.volume.params);
            place.buffer.mark_dirty(place.slot);
        }
        drop(content);
        handle.finish();
        self.inodes.get_inode(Ino::BOOT_LOADER)
    }
}

/// Refuses an inode whose data is not that of a plain file with one name.
fn check_swapped(inode: &Inode) -> Result<()> {
    let (links, flags) = {
        let state = inode.state();
        (state.links, state.flags)
    };
    if inode.file_type != FileType::Regular {
        return Err(Ext4Error::Invalid("the boot loader is a regular file"));
    }
    if links != 1 {
        return Err(Ext4Error::Invalid("the boot loader has one link"));
    }
    if flags.intersects(NOT_SWAPPED) {
        return Err(Ext4Error::Invalid("data that depends on its inode"));
    }
    Ok(())
}

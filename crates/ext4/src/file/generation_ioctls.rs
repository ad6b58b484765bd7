//! Reading and setting generations, and the boot loader's inode, which gets two new ones: what the
//! ioctls `EXT4_IOC_GETVERSION`, `EXT4_IOC_SETVERSION` and `EXT4_IOC_SWAP_BOOT` do.
//!
//! # Data model
//! The boot loader's inode is number 5. It has no name; its only use is that a boot loader finds its
//! blocks at a place that no file operation moves. A file is written, and then swapped with it.
//!
//! # Invariants
//! With `metadata_csum` the checksum of every block of an extent tree is seeded by number and generation
//! of the inode that owns it. So when either changes, all nodes of the tree are journaled again in
//! the same handle, and the seed of the inode in memory follows; see [`crate::mapping::extents`].
//!
//! # Locking
//! Both inodes' `ilock`, by inode number; the handle; both `map` locks, by inode number.

use crate::clock::now;
use crate::file::FileIo;
use crate::inode::reference::InodeRef;
use crate::inode::{Inode, MapTree};
use crate::inodes::new::NewInode;
use crate::prelude::*;
use uext4_vfs::errno::Error;
use uext4_vfs::ilock::ilock_two;

/// Flags that say how `i_block` reads, and so go with it.
const MAPPING_FLAGS: InodeFlags = InodeFlags::EXTENTS.union(InodeFlags::HUGE_FILE);

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

/// The most nodes that the trees of two inodes may have: 64 MiB of blocks of 4 KiB.
const NODES_MAX: usize = 1 << 14;

/// The credits of a swap beside its nodes: two blocks of inode tables.
const SWAP_CREDITS: u32 = 2;

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
        let (file_nodes, boot_nodes) = if self.volume.seed().is_some() {
            let nodes = self.mapping.tree_nodes(inode, NODES_MAX)?;
            let left = NODES_MAX - nodes.len();
            (nodes, self.mapping.tree_nodes(&boot, left)?)
        } else {
            (Vec::new(), Vec::new())
        };
        let nodes = (file_nodes.len() + boot_nodes.len()) as u32;
        let file_stays = self.attributes.xattr_sectors(inode)?;
        let boot_stays = self.attributes.xattr_sectors(&boot)?;
        let handle = self.volume.journal().start(nodes + SWAP_CREDITS)?;
        let (first, second) = if inode.ino < boot.ino {
            (inode, &boot)
        } else {
            (&boot, inode)
        };
        let mut first_map = first.map.write_keyed(u64::from(first.ino.0));
        let mut second_map = second.map.write_keyed(u64::from(second.ino.0));
        let (file_map, boot_map) = if inode.ino < boot.ino {
            (&mut *first_map, &mut *second_map)
        } else {
            (&mut *second_map, &mut *first_map)
        };
        let file_data = Moved::of(inode, &file_nodes, file_stays);
        let boot_data = Moved::of(&boot, &boot_nodes, boot_stays);
        let last = [inode.generation(), boot.generation()];
        let [file_generation, boot_generation] = self.inodes.generator.redraw(last);
        let to_file = Receiver {
            inode,
            generation: file_generation,
            stays: file_stays,
        };
        let to_boot = Receiver {
            inode: &boot,
            generation: boot_generation,
            stays: boot_stays,
        };
        self.give(&handle, &to_file, file_map, &boot_data)?;
        self.give(&handle, &to_boot, boot_map, &file_data)?;
        handle.finish();
        Ok(())
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

    /// Makes `data` the data of an inode, under its new generation.
    fn give(
        &self,
        handle: &Handle<'_>,
        to: &Receiver<'_>,
        tree: &mut MapTree,
        data: &Moved<'_>,
    ) -> Result<()> {
        let &Receiver {
            inode,
            generation,
            stays,
        } = to;
        let seed = self.volume.sb.csum_seed.inode(inode.ino, generation);
        self.mapping.reseed_nodes(handle, data.nodes, seed)?;
        let time = now();
        inode.touch_data(handle);
        self.table.update_inode(inode, handle, |disk| {
            disk.i_block = data.disk.i_block;
            disk.size = data.disk.size;
            disk.blocks = data.sectors + stays;
            disk.flags = (disk.flags - MAPPING_FLAGS) | (data.disk.flags & MAPPING_FLAGS);
            disk.atime = data.disk.atime;
            disk.mtime = data.disk.mtime;
            disk.ctime = time;
            disk.version = disk.version.wrapping_add(1);
            disk.generation = generation;
        })?;
        inode.set_seed(tree, seed);
        inode.snapshot.changed();
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
            place.buffer.mark_dirty(1 << place.slot);
        }
        drop(content);
        handle.finish();
        self.inodes.get_inode(Ino::BOOT_LOADER)
    }
}

/// The inode to which a swap gives data.
struct Receiver<'a> {
    inode: &'a Inode,
    /// The one that it gets.
    generation: Generation,
    /// Sectors of its attributes, which it keeps.
    stays: u64,
}

/// What a swap takes from an inode.
struct Moved<'a> {
    disk: uext4_ondisk::Inode,
    /// Sectors of data and tree.
    sectors: u64,
    /// The nodes of its tree.
    nodes: &'a [Arc<Buffer>],
}

impl<'a> Moved<'a> {
    /// Of the sectors of an inode, `stays` are those of its attributes.
    fn of(inode: &Inode, nodes: &'a [Arc<Buffer>], stays: u64) -> Moved<'a> {
        let disk = inode.state().clone();
        Moved {
            sectors: disk.blocks.saturating_sub(stays),
            disk,
            nodes,
        }
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

//! Names: creating, linking, unlinking and looking up. Renaming has a file of its own.
//!
//! # Locking
//! The directory's `ilock`, then the target's, then the handle. References to inodes are taken before
//! the handle starts and dropped after it stopped.

use crate::create::{DELETE_CREDITS, NewInode};
use crate::dir::{Found, check_name};
use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::inode::{Inode, InodeRef, now};
use uext4_jbd2::Handle;
use uext4_ondisk::{DevNo, FileType, InodeFlags};
use uext4_vfs::attr::{FileKind, NewKind, NewNode};
use uext4_vfs::caller::Caller;
use uext4_vfs::ilock::{LockMode, ilock};

/// Blocks that adding a name and an inode changes: superblock, descriptors, inode bitmap, two inode
/// tables; leaf, new leaf, index, its parent; block bitmap and descriptors for each; extent nodes.
pub(crate) const CREATE_CREDITS: u32 = 28;
/// Blocks that adding a name changes.
pub(crate) const LINK_CREDITS: u32 = 20;

impl Ext4 {
    /// The root directory.
    ///
    /// # Errors
    /// Damage, or the device's.
    pub fn root(&self) -> Result<InodeRef> {
        self.get_inode(uext4_ondisk::Ino::ROOT)
    }

    /// Looks a name up in a directory; `.` and `..` too.
    ///
    /// # Locks
    /// The directory's `ilock`, shared.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`], [`Ext4Error::NotDirectory`], no permission to search.
    pub fn lookup(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<InodeRef> {
        check_directory(dir)?;
        self.may_search(caller, dir)?;
        if name == b"." {
            return Ok(dir.clone());
        }
        check_name(name)?;
        let _locked = ilock(&dir.ilock, LockMode::Shared);
        if name == b".." {
            let parent = self.dir_parent(dir)?;
            return if parent == dir.ino {
                Ok(dir.clone())
            } else {
                self.get_inode(parent)
            };
        }
        match self.dir_find(dir, name)? {
            // The entry keeps the inode alive as long as the directory is locked.
            Found::Hit(hit) => self.get_entry(hit.ino),
            Found::Vacancy(_) => Err(Ext4Error::NotFound),
        }
    }

    /// The inode that an entry names: one that is not in use is damage here.
    pub(crate) fn get_entry(&self, ino: uext4_ondisk::Ino) -> Result<InodeRef> {
        self.get_inode(ino).map_err(|e| match e {
            Ext4Error::Stale => uext4_ondisk::Corrupt::new(uext4_ondisk::CorruptKind::DirInoRange)
                .ino(ino)
                .detail("an entry names an inode that is not in use")
                .into(),
            e => e,
        })
    }

    /// Creates a file of any kind.
    ///
    /// # Locks
    /// The directory's `ilock`, alone.
    ///
    /// # Crash
    /// Name and inode survive together or not at all.
    ///
    /// # Errors
    /// [`Ext4Error::Exists`], no permission, no space, no inode, too many links.
    pub fn create(
        &self,
        caller: &Caller,
        dir: &InodeRef,
        name: &[u8],
        new: &NewNode<'_>,
    ) -> Result<InodeRef> {
        self.check_writable()?;
        check_directory(dir)?;
        check_name(name)?;
        if name == b"." || name == b".." {
            return Err(Ext4Error::Exists);
        }
        let _locked = ilock(&dir.ilock, LockMode::Exclusive);
        if let Found::Hit(_) = self.dir_find(dir, name)? {
            return Err(Ext4Error::Exists);
        }
        check_alive(dir)?;
        self.may_change_dir(caller, dir)?;
        self.retry_no_space(|| self.create_locked(caller, dir, name, new))
    }

    fn create_locked(
        &self,
        caller: &Caller,
        dir: &InodeRef,
        name: &[u8],
        new: &NewNode<'_>,
    ) -> Result<InodeRef> {
        let kind = new.kind.file_kind();
        let is_dir = kind == FileKind::Directory;
        if is_dir {
            self.check_links(dir)?;
        }
        let template = self.template(caller, dir, new);
        // Looked for again: a wait for space in between does not unlock the directory, but the first
        // attempt may have split a leaf.
        let Found::Vacancy(vacancy) = self.dir_find(dir, name)? else {
            return Err(Ext4Error::Exists);
        };
        let handle = self.journal().start(CREATE_CREDITS)?;
        let inode = self.new_inode(&handle, dir.ino, &template, if is_dir { 2 } else { 1 })?;
        let filled = self.fill_new(&handle, dir, &inode, new).and_then(|()| {
            self.dir_insert(&handle, dir, vacancy, name, inode.ino, inode.file_type)
        });
        if let Err(why) = filled {
            return Err(self.discard_new(handle, inode, why));
        }
        self.touch_dir(&handle, dir, i32::from(is_dir))?;
        drop(handle);
        Ok(inode)
    }

    fn template(&self, caller: &Caller, dir: &Inode, new: &NewNode<'_>) -> NewInode {
        let kind = new.kind.file_kind();
        let owner = uext4_vfs::permission::new_owner(&self.attr(dir), caller, kind, new.mode);
        let device = match new.kind {
            NewKind::Device { major, minor, .. } => Some(DevNo { major, minor }),
            _ => None,
        };
        NewInode {
            mode: owner.mode | kind.mode_bits() as u16,
            uid: owner.uid,
            gid: owner.gid,
            device,
            flags: (dir.flags() & InodeFlags::INHERITED)
                & !(InodeFlags::EXTENTS | InodeFlags::INDEX),
        }
    }

    /// What a new inode needs besides itself: a directory its first block, a link its target.
    fn fill_new(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        inode: &InodeRef,
        new: &NewNode<'_>,
    ) -> Result<()> {
        match new.kind {
            NewKind::Directory => self.dir_init(handle, inode, dir.ino),
            NewKind::Symlink(target) => self.write_symlink(handle, inode, target),
            _ => Ok(()),
        }
    }

    /// Takes back an inode that could not be named.
    fn discard_new(&self, handle: Handle<'_>, inode: InodeRef, why: Ext4Error) -> Ext4Error {
        if !inode.claim_deletion() {
            return why;
        }
        match self.delete_small(handle, inode.inode()) {
            Ok(handle) => {
                drop(handle);
                why
            }
            Err(worse) => worse,
        }
    }

    /// Notes in a directory that its entries changed, and how many subdirectories more it has.
    pub(crate) fn touch_dir(&self, handle: &Handle<'_>, dir: &Inode, subdirs: i32) -> Result<()> {
        let time = now();
        dir.update(handle, |disk| {
            disk.mtime = time;
            disk.ctime = time;
            disk.version = disk.version.wrapping_add(1);
            if subdirs != 0 {
                disk.links = links_after(disk.links, subdirs);
            }
        })
    }

    /// Creates a file without a name; it goes away with the last reference unless it is linked.
    ///
    /// # Errors
    /// No permission, no space, no inode.
    pub fn tmpfile(&self, caller: &Caller, dir: &InodeRef, mode: u16) -> Result<InodeRef> {
        self.check_writable()?;
        check_directory(dir)?;
        self.may_change_dir(caller, dir)?;
        let new = NewNode {
            mode,
            kind: NewKind::Regular,
        };
        let template = self.template(caller, dir, &new);
        let handle = self.journal().start(CREATE_CREDITS)?;
        let inode = self.new_inode(&handle, dir.ino, &template, 0)?;
        self.add_orphan(&handle, &inode)?;
        inode.set_doomed(true);
        drop(handle);
        Ok(inode)
    }

    /// Gives an inode another name.
    ///
    /// # Locks
    /// The directory's `ilock`, then the inode's, both alone.
    ///
    /// # Errors
    /// [`Ext4Error::Exists`], [`Ext4Error::NotPermitted`] for a directory, too many links.
    pub fn link(
        &self,
        caller: &Caller,
        node: &InodeRef,
        dir: &InodeRef,
        name: &[u8],
    ) -> Result<()> {
        self.check_writable()?;
        check_directory(dir)?;
        check_name(name)?;
        if node.is_dir() {
            return Err(Ext4Error::NotPermitted);
        }
        let _dir_locked = ilock(&dir.ilock, LockMode::Exclusive);
        let _locked = ilock(&node.ilock, LockMode::Exclusive);
        check_alive(dir)?;
        self.may_change_dir(caller, dir)?;
        self.check_links(node)?;
        let was_orphan = node.state().links == 0;
        if was_orphan && !node.is_doomed() {
            return Err(Ext4Error::NotFound);
        }
        self.retry_no_space(|| {
            let Found::Vacancy(vacancy) = self.dir_find(dir, name)? else {
                return Err(Ext4Error::Exists);
            };
            let handle = self.journal().start(LINK_CREDITS)?;
            self.dir_insert(&handle, dir, vacancy, name, node.ino, node.file_type)?;
            let time = now();
            node.update(&handle, |disk| {
                disk.links += 1;
                disk.ctime = time;
            })?;
            if was_orphan {
                node.set_doomed(false);
                self.remove_orphan(&handle, node)?;
            }
            self.touch_dir(&handle, dir, 0)
        })
    }

    /// Removes a name that is not a directory's, and the inode with its last name and reference.
    ///
    /// # Locks
    /// The directory's `ilock`, then the inode's, both alone.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`], [`Ext4Error::IsDirectory`], no permission.
    pub fn unlink(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_directory(dir)?;
        check_name(name)?;
        if name == b"." || name == b".." {
            return Err(Ext4Error::IsDirectory);
        }
        let _dir_locked = ilock(&dir.ilock, LockMode::Exclusive);
        let Found::Hit(hit) = self.dir_find(dir, name)? else {
            return Err(Ext4Error::NotFound);
        };
        let target = self.get_entry(hit.ino)?;
        self.may_delete(caller, dir, &target, false)?;
        let _locked = ilock(&target.ilock, LockMode::Exclusive);
        self.preload_for_delete(&target)?;
        let handle = self.journal().start(DELETE_CREDITS)?;
        self.dir_remove(&handle, dir, &hit)?;
        self.touch_dir(&handle, dir, 0)?;
        self.drop_link(handle, &target)
    }

    /// One link less; an inode without links is deleted, now if nobody else has it and it is small.
    pub(crate) fn drop_link(&self, handle: Handle<'_>, target: &InodeRef) -> Result<()> {
        let links = target.state().links;
        if links > 1 {
            let time = now();
            return target.update(&handle, |disk| {
                disk.links -= 1;
                disk.ctime = time;
            });
        }
        if self.is_small(target) && target.claim_deletion() {
            drop(self.delete_small(handle, target.inode())?);
            return Ok(());
        }
        let time = now();
        target.update(&handle, |disk| {
            disk.links = 0;
            disk.ctime = time;
        })?;
        self.add_orphan(&handle, target)?;
        target.set_doomed(true);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Locks
    /// The directory's `ilock`, then the child's, both alone.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`], [`Ext4Error::NotDirectory`], [`Ext4Error::NotEmpty`], no permission.
    pub fn rmdir(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_directory(dir)?;
        check_name(name)?;
        match name {
            b"." => return Err(Ext4Error::Invalid("removing a directory by `.`")),
            b".." => return Err(Ext4Error::NotEmpty),
            _ => {}
        }
        let _dir_locked = ilock(&dir.ilock, LockMode::Exclusive);
        let Found::Hit(hit) = self.dir_find(dir, name)? else {
            return Err(Ext4Error::NotFound);
        };
        let target = self.get_entry(hit.ino)?;
        self.may_delete(caller, dir, &target, true)?;
        let _locked = ilock(&target.ilock, LockMode::Exclusive);
        if !self.dir_is_empty(&target)? {
            return Err(Ext4Error::NotEmpty);
        }
        self.preload_for_delete(&target)?;
        let handle = self.journal().start(DELETE_CREDITS)?;
        self.dir_remove(&handle, dir, &hit)?;
        self.touch_dir(&handle, dir, -1)?;
        self.bury_dir(handle, &target)
    }

    /// Deletes an empty directory whose name is gone.
    pub(crate) fn bury_dir(&self, handle: Handle<'_>, target: &InodeRef) -> Result<()> {
        target.update(&handle, |disk| disk.links = 1)?;
        self.drop_link(handle, target)
    }
}

/// Links of a directory after `change` subdirectories more; 1 stands for too many to count.
fn links_after(links: u32, change: i32) -> u32 {
    if links == 1 {
        return 1;
    }
    let after = links.saturating_add_signed(change);
    if change > 0 && after >= 65000 {
        1
    } else {
        after.max(2)
    }
}

pub(crate) fn check_directory(dir: &Inode) -> Result<()> {
    if dir.file_type == FileType::Directory {
        Ok(())
    } else {
        Err(Ext4Error::NotDirectory)
    }
}

/// Refuses a directory that was removed.
pub(crate) fn check_alive(dir: &Inode) -> Result<()> {
    if dir.is_doomed() || dir.state().links == 0 {
        Err(Ext4Error::NotFound)
    } else {
        Ok(())
    }
}

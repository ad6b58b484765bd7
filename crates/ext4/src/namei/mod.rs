//! Names: creating, linking, unlinking and looking up. Renaming has a file of its own.
//!
//! # Locking
//! The directory's `ilock`, shared with the leaf of the name or alone; then the target's, then the handle. References to inodes are taken before
//! the handle starts and dropped after it stopped.
//!
//! | module | holds |
//! | --- | --- |
//! | `encrypted` | names in encrypted directories |
//! | `path` | several components of a path at once |
//! | `rename` | rename, exchange and whiteouts |

mod encrypted;
mod path;
mod rename;

use crate::attributes::Attributes;
use crate::attributes::acl::stored::NewAcls;
use crate::block_allocator::BlockAllocator;
use crate::clock::now;
use crate::deletion::{DELETE_CREDITS, DeletePlan, Deletion};
use crate::directory::check_name;
use crate::directory::shared::{ForChange, MayAdd};
use crate::directory::{Directory, Found, Hit, Vacancy};
use crate::file::FileIo;
use crate::file::flags::{FIXING, OF_DIRECTORIES};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::inodes::new::NewInode;
use crate::orphans::OrphanList;
use crate::owners::Owners;
use crate::prelude::*;
use crate::run::Run;
use crate::volume::Volume;
use crate::volume::handles::LazyHandle;
use crate::volume::name_cache::NameKey;
use uext4_ondisk::DevNo;
use uext4_sync::probe::{self, Stage};
use uext4_vfs::attr::NewKind;
use uext4_vfs::errno::Error;
use uext4_vfs::ilock::RenameMutex;

/// Blocks that adding a name and an inode changes: descriptors, inode bitmap, two inode
/// tables; leaf, new leaf, index, its parent; block bitmap and descriptors for each; extent nodes.
pub(crate) const CREATE_CREDITS: u32 = 28;
/// Blocks that adding a name changes.
pub(crate) const LINK_CREDITS: u32 = 20;

/// How often a look-up is disturbed by removals in the same leaf before it locks the directory alone.
const SHARED_SEARCHES_MAX: u32 = 16;

/// Names; see the module.
pub struct Namei {
    pub(crate) volume: Arc<Volume>,
    pub(crate) blocks: Arc<BlockAllocator>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) orphans: Arc<OrphanList>,
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) deletion: Arc<Deletion>,
    pub(crate) directories: Arc<Directory>,
    pub(crate) files: Arc<FileIo>,
    /// Guards the shape of the tree: renames of directories.
    pub(crate) rename: RenameMutex,
    /// Referenced from the first use to the end, so that no walk counts a reference to it.
    pub(crate) root: OnceLock<InodeRef>,
}

impl Namei {
    /// The root directory.
    ///
    /// # Errors
    /// Damage, or the device's.
    pub fn root(&self) -> Result<&InodeRef> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let root = self.inodes.get_inode(uext4_ondisk::Ino::ROOT)?;
        Ok(self.root.get_or_init(|| root))
    }

    /// Looks a name up in a directory; `.` and `..` too.
    ///
    /// # Locks
    /// The directory's `ilock`, shared, for a name that was not looked up before.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`], [`Ext4Error::NotDirectory`], no permission to search.
    pub fn lookup(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<InodeRef> {
        check_directory(dir)?;
        self.attributes.may_search(caller, dir)?;
        if name == b"." {
            return Ok(dir.clone());
        }
        check_name(name)?;
        if name == b".." {
            let _locked = ilock(&dir.ilock, LockMode::Shared);
            let parent = self.directories.dir_parent(dir)?;
            return if parent == dir.ino {
                Ok(dir.clone())
            } else {
                self.inodes.get_inode(parent)
            };
        }
        let name = &*self.stored_name(dir, name)?;
        self.volume.check_sought(dir, name)?;
        let ignores_case = self.volume.ignores_case(dir);
        let key = self.volume.name_key(dir, name);
        let key = self.volume.names.key(dir.ino, &key);
        if let Some(known) = self.volume.names.get(key) {
            let Some(ino) = known.ino else {
                return Err(Ext4Error::NotFound);
            };
            let found = self.get_entry(dir, ino);
            // A number without a name may be another inode's.
            if known.is_current() {
                return found;
            }
        }
        self.search(dir, name, key, ignores_case)
    }

    /// Looks a name up in the blocks of a directory, and notes what is found, by a key made for a directory that ignores case or not.
    fn search(
        &self,
        dir: &InodeRef,
        name: &[u8],
        key: NameKey,
        ignores_case: bool,
    ) -> Result<InodeRef> {
        let place = self.volume.names.before_search(key);
        // With the directory locked.
        let note = |ino| {
            if let Some(place) = place
                && !dir.is_unlinked()
                && self.volume.ignores_case(dir) == ignores_case
            {
                place.found(ino);
            }
        };
        let mut rounds = 0;
        loop {
            rounds += 1;
            let mode = match rounds > SHARED_SEARCHES_MAX {
                true => LockMode::Exclusive,
                false => LockMode::Shared,
            };
            let _locked = ilock(&dir.ilock, mode);
            let Found::Hit(hit) = self.directories.dir_look_up(dir, name)? else {
                note(None);
                return Err(Ext4Error::NotFound);
            };
            let found = self.get_entry(dir, hit.ino);
            // The entry keeps the inode alive; a number without it may be another inode's.
            if hit.is_current() {
                if found.is_ok() {
                    note(Some(hit.ino));
                }
                return found;
            }
        }
    }

    /// The inode that an entry of `dir` names. Damage: one that is not in use, that is reserved, the root,
    /// or the directory itself.
    pub(crate) fn get_entry(&self, dir: &Inode, ino: uext4_ondisk::Ino) -> Result<InodeRef> {
        if ino == dir.ino || ino < self.volume.geometry().first_ino {
            return Err(
                uext4_ondisk::Corrupt::new(uext4_ondisk::CorruptKind::DirInoRange)
                    .ino(dir.ino)
                    .detail(format_args!("an entry names inode {ino}"))
                    .into(),
            );
        }
        let inode = self.inodes.get_inode(ino).map_err(|e| match e {
            Ext4Error::Stale => uext4_ondisk::Corrupt::new(uext4_ondisk::CorruptKind::DirInoRange)
                .ino(ino)
                .detail("an entry names an inode that is not in use")
                .into(),
            e => e,
        })?;
        if inode.holds_value() {
            return Err(
                uext4_ondisk::Corrupt::new(uext4_ondisk::CorruptKind::DirInoRange)
                    .ino(ino)
                    .detail("an entry names the inode of an attribute's value")
                    .into(),
            );
        }
        Ok(inode)
    }

    /// Runs `change` with what is found of a name, and with no change of that name beside it. Where nothing is found, `may_add` is
    /// asked before, if it is given.
    ///
    /// # Locks
    /// The directory's `ilock`: shared, and the leaf of the name, or alone.
    fn change_entry<R>(
        &self,
        dir: &InodeRef,
        name: &[u8],
        may_add: Option<MayAdd<'_>>,
        mut change: impl FnMut(Found) -> Result<R>,
    ) -> Result<R> {
        let mut locked = self.directories.lock_for_change(dir);
        if locked.is_shared {
            let done = self
                .directories
                .with_leaf(dir, name, may_add, &mut change)?;
            if let Some(done) = done {
                return Ok(done);
            }
            drop(locked);
            locked = ForChange::alone(dir);
        }
        let _alone = locked;
        let found = match may_add.is_some() && self.volume.is_absent(dir, name) {
            true => Found::Vacancy(self.directories.vacancy_beside(dir, name)?),
            false => self.directories.dir_look_up(dir, name)?,
        };
        if let (Found::Vacancy(_), Some(may_add)) = (&found, may_add) {
            may_add()?;
        }
        change(found)
    }

    /// Creates a file of any kind.
    ///
    /// # Locks
    /// The directory's `ilock`, alone or with the leaf of the name.
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
        self.check_creation(dir)?;
        let name = &*self.check_entry_change(caller, dir, name)?;
        if name == b"." || name == b".." {
            return Err(Ext4Error::Exists);
        }
        self.volume.check_added(dir, name)?;
        let timed = probe::time(Stage::Create);
        let may_add = || {
            let attr = self.attributes.attr_snapshot(dir);
            if dir.is_unlinked() || attr.nlink == 0 {
                return Err(Ext4Error::NotFound);
            }
            self.attributes.may_change_dir(caller, dir, &attr)?;
            permission::may_make(caller, &new.kind)?;
            match new.kind.file_kind() {
                FileKind::Directory => self.check_links(dir, attr.nlink),
                _ => Ok(()),
            }
        };
        let inode = self.change_entry(dir, name, Some(&may_add), |mut found| {
            if let Found::Hit(_) = found {
                return Err(Ext4Error::Exists);
            }
            let attr = self.attributes.attr_snapshot(dir);
            let template = self.template(caller, dir, &attr, new)?;
            let mut again = false;
            self.blocks.retry_no_space(|| {
                // The first attempt may have split a leaf.
                if again {
                    found = self.directories.dir_look_up(dir, name)?;
                }
                again = true;
                let Found::Vacancy(vacancy) = &found else {
                    return Err(Ext4Error::Exists);
                };
                self.create_locked(dir, vacancy, name, new, &template)
            })
        })?;
        drop(timed);
        self.sync_if_dirsync(dir)?;
        if inode.ino.0.is_multiple_of(64) {
            self.table.limit_icache();
        }
        Ok(inode)
    }

    fn create_locked(
        &self,
        dir: &InodeRef,
        vacancy: &Vacancy,
        name: &[u8],
        new: &NewNode<'_>,
        (template, acls): &(NewInode, NewAcls),
    ) -> Result<InodeRef> {
        let is_dir = new.kind.file_kind() == FileKind::Directory;
        let target = match new.kind {
            NewKind::Symlink(target) => {
                self.files.prepare_symlink(dir, template.owners(), target)?
            }
            _ => None,
        };
        let unprepare = |why: &Ext4Error| {
            if let Some(run) = target {
                self.blocks.unreserve_after(why, run);
            }
        };
        let late = LazyHandle::new(self.volume.journal(), CREATE_CREDITS + acls.credits());
        let inode = match self
            .inodes
            .new_inode(&late, dir, template, if is_dir { 2 } else { 1 })
        {
            Ok(inode) => inode,
            Err(why) => {
                unprepare(&why);
                return late.end(Err(why));
            }
        };
        let handle = late.get()?;
        let _timed = (!is_dir).then(|| probe::time(Stage::AddNonDirectory));
        let mut published = false;
        let filled = self.fill_new(handle, dir, &inode, new, target);
        let filled = filled.and_then(|()| {
            published = true;
            self.attributes.store_new_acls(handle, &inode, acls)?;
            let _timed = probe::time(Stage::AddEntry);
            self.directories
                .dir_insert(handle, dir, vacancy, name, inode.ino, inode.file_type)
        });
        if let Err(why) = filled {
            if !published {
                unprepare(&why);
            }
            return Err(self.deletion.discard_new(late, &inode, why));
        }
        let touched = self.touch_dir(handle, dir, i32::from(is_dir));
        if touched.is_ok() && acls.credits() == 0 {
            self.volume.fast.note_made(handle, &inode, dir.ino, name);
        }
        late.end(touched.map(|()| inode))
    }

    /// What the caller makes in `dir`, which has these attributes. Its owners have entries in quota files then.
    ///
    /// # Locks
    /// May start a handle.
    pub(crate) fn template(
        &self,
        caller: &Caller,
        dir: &Inode,
        attr: &Attr,
        new: &NewNode<'_>,
    ) -> Result<(NewInode, NewAcls)> {
        let kind = new.kind.file_kind();
        let (owner, acls) = self.attributes.inherit(caller, dir, attr, kind, new.mode)?;
        let device = match new.kind {
            NewKind::Device { major, minor, .. } => Some(DevNo { major, minor }),
            _ => None,
        };
        let template = NewInode {
            mode: owner.mode | kind.mode_bits() as u16,
            uid: owner.uid,
            gid: owner.gid,
            device,
            flags: inherited_flags(InodeFlags::from_bits_retain(attr.flags), kind),
            project: self.files.inherited_project(dir),
        };
        self.owners.prepare(template.owners())?;
        Ok((template, acls))
    }

    /// What a new inode needs besides itself: a directory its first block, a link its target.
    fn fill_new(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        inode: &InodeRef,
        new: &NewNode<'_>,
        target: Option<Run>,
    ) -> Result<()> {
        match new.kind {
            NewKind::Directory => self.directories.dir_init(handle, inode, dir.ino),
            NewKind::Symlink(name) => self.files.put_symlink(handle, inode, name, target),
            _ => Ok(()),
        }
    }

    /// Notes in a directory that its entries changed, and how many subdirectories more it has. Within a clock tick the first change
    /// writes the times for all, so that changes beside each other write no line that they share.
    pub(crate) fn touch_dir(&self, handle: &Handle<'_>, dir: &Inode, subdirs: i32) -> Result<()> {
        let time = now();
        if subdirs == 0 && dir.is_changed_at(time) {
            let ctime = self.attributes.attr_snapshot(dir).ctime;
            if (ctime.sec, ctime.nsec) == (time.sec, time.nsec) {
                dir.touch(handle);
                return Ok(());
            }
        }
        self.table.update_inode(dir, handle, |disk| {
            // Read here: of two changes beside each other the later one sets the later time.
            let time = now();
            disk.mtime = time;
            disk.ctime = time;
            disk.version = disk.version.wrapping_add(1);
            if subdirs != 0 {
                disk.links = links_after(disk.links, subdirs);
            }
        })
    }

    /// Creates a file without a name; it is deleted with the last reference unless it is linked.
    ///
    /// # Errors
    /// No permission, no space, no inode.
    pub fn tmpfile(&self, caller: &Caller, dir: &InodeRef, mode: u16) -> Result<InodeRef> {
        self.volume.check_writable()?;
        check_directory(dir)?;
        self.check_creation(dir)?;
        self.attributes.may_search(caller, dir)?;
        let attr = self.attributes.attr(dir);
        self.attributes.may_change_dir(caller, dir, &attr)?;
        if dir.is_unlinked() || attr.nlink == 0 {
            return Err(Ext4Error::NotPermitted);
        }
        let new = NewNode {
            mode,
            kind: NewKind::Regular,
        };
        let (template, acls) = self.template(caller, dir, &attr, &new)?;
        let late = LazyHandle::new(self.volume.journal(), CREATE_CREDITS + acls.credits());
        let inode = match self.inodes.new_inode(&late, dir, &template, 0) {
            Ok(inode) => inode,
            Err(why) => return late.end(Err(why)),
        };
        let handle = late.get()?;
        let kept = self
            .orphans
            .add_orphan(handle, inode.inode())
            .and_then(|()| self.attributes.store_new_acls(handle, &inode, &acls));
        inode.set_unlinked(true);
        inode.set_unnamed(true);
        // Before the inode, which goes with its last reference if its list found no space.
        late.end(kept)?;
        Ok(inode)
    }

    /// Gives an inode another name.
    ///
    /// # Locks
    /// The directory's `ilock`, alone or with the leaf of the name; then the inode's, alone.
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
        self.attributes.check_names_key(dir)?;
        let name = &*self.check_entry_change(caller, dir, name)?;
        if name == b"." || name == b".." {
            return Err(Ext4Error::Exists);
        }
        self.volume.check_added(dir, name)?;
        let may_add = || {
            check_alive(dir)?;
            let attr = self.attributes.attr(dir);
            self.attributes.may_change_dir(caller, dir, &attr)?;
            self.may_link(dir, node).map(|_| ())
        };
        self.change_entry(dir, name, Some(&may_add), |found| {
            if let Found::Hit(_) = found {
                return Err(Ext4Error::Exists);
            }
            let _locked = ilock(&node.ilock, LockMode::Exclusive);
            let links = self.may_link(dir, node)?;
            self.blocks.retry_no_space(|| {
                let found = self.directories.dir_look_up(dir, name)?;
                let Found::Vacancy(vacancy) = found else {
                    return Err(Ext4Error::Exists);
                };
                self.link_locked(node, links == 0, dir, &vacancy, name)
            })
        })?;
        self.sync_if_dirsync(dir)
    }

    /// How many links an inode has that can get another in `dir`.
    fn may_link(&self, dir: &InodeRef, node: &InodeRef) -> Result<u32> {
        if node.is_dir() || node.flags().intersects(FIXING) {
            return Err(Ext4Error::NotPermitted);
        }
        let links = node.state().links;
        if links == 0 && !node.is_unnamed() {
            return Err(Ext4Error::NotFound);
        }
        self.check_links(node, links)?;
        if self.files.crosses_project(dir, node) || self.attributes.crosses_policy(dir, node)? {
            return Err(Error::new(Errno::EXDEV).into());
        }
        Ok(links)
    }

    fn link_locked(
        &self,
        node: &InodeRef,
        is_orphan: bool,
        dir: &InodeRef,
        vacancy: &Vacancy,
        name: &[u8],
    ) -> Result<()> {
        self.volume.with_handle(LINK_CREDITS, |handle| {
            self.directories
                .dir_insert(handle, dir, vacancy, name, node.ino, node.file_type)?;
            let time = now();
            self.table.update_inode(node, handle, |disk| {
                disk.links += 1;
                disk.ctime = time;
            })?;
            if is_orphan {
                node.set_unlinked(false);
                node.set_unnamed(false);
                self.orphans.remove_orphan(handle, node)?;
            }
            self.touch_dir(handle, dir, 0)
        })
    }

    /// Removes a name that is not a directory's, and the inode with its last name and reference.
    ///
    /// # Locks
    /// The directory's `ilock`, alone or with the leaf of the name; then the inode's, alone.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`], [`Ext4Error::IsDirectory`], no permission.
    pub fn unlink(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<()> {
        let name = &*self.check_entry_change(caller, dir, name)?;
        if name == b"." || name == b".." {
            return Err(Ext4Error::IsDirectory);
        }
        // Dropped with nothing locked.
        let _target = self.change_entry(dir, name, None, |found| {
            let (hit, target) = self.may_remove(caller, dir, found, false)?;
            let locked = ilock(&target.ilock, LockMode::Exclusive);
            let remains = self.deletion.prepare_delete(&target)?;
            let handle = self.volume.journal().start(DELETE_CREDITS)?;
            self.directories.dir_remove(&handle, dir, name, &hit)?;
            self.touch_dir(&handle, dir, 0)?;
            self.deletion.drop_link(handle, &target, &remains)?;
            drop(locked);
            Ok(target)
        })?;
        self.sync_if_dirsync(dir)
    }

    /// The entry that the caller wants to remove, and may, `as_dir` as rmdir(2) does.
    ///
    /// # Locks
    /// The caller has held the directory's `ilock` alone, or the leaf, since it was found.
    fn may_remove(
        &self,
        caller: &Caller,
        dir: &InodeRef,
        found: Found,
        as_dir: bool,
    ) -> Result<(Hit, InodeRef)> {
        let Found::Hit(hit) = found else {
            return Err(Ext4Error::NotFound);
        };
        let target = self.get_entry(dir, hit.ino)?;
        let attr = self.attributes.attr_snapshot(dir);
        self.attributes
            .may_delete(caller, dir, &attr, &target, as_dir)?;
        Ok((hit, target))
    }

    /// Removes an empty directory.
    ///
    /// # Locks
    /// The directory's `ilock`, then the child's, both alone.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`], [`Ext4Error::NotDirectory`], [`Ext4Error::NotEmpty`], no permission.
    pub fn rmdir(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<()> {
        let name = &*self.check_entry_change(caller, dir, name)?;
        match name {
            b"." => return Err(Ext4Error::Invalid("removing a directory by `.`")),
            b".." => return Err(Ext4Error::NotEmpty),
            _ => {}
        }
        // Alone: a rename that shares both directories may hold the child and wait for a leaf.
        let _dir_locked = ilock(&dir.ilock, LockMode::Exclusive);
        let found = self.directories.dir_look_up(dir, name)?;
        let (hit, target) = self.may_remove(caller, dir, found, true)?;
        let _locked = ilock(&target.ilock, LockMode::Exclusive);
        if !self.directories.dir_is_empty(&target)? {
            return Err(Ext4Error::NotEmpty);
        }
        let remains = self.deletion.prepare_delete(&target)?;
        let handle = self.volume.journal().start(DELETE_CREDITS)?;
        self.directories.dir_remove(&handle, dir, name, &hit)?;
        self.touch_dir(&handle, dir, -1)?;
        self.bury_dir(handle, &target, &remains)?;
        self.sync_if_dirsync(dir)
    }

    /// Deletes an empty directory whose name is gone.
    pub(crate) fn bury_dir(
        &self,
        handle: Handle<'_>,
        target: &InodeRef,
        remains: &DeletePlan,
    ) -> Result<()> {
        self.table
            .update_inode(target, &handle, |disk| disk.links = 1)?;
        let remains = DeletePlan {
            links: 1,
            ..*remains
        };
        self.deletion.drop_link(handle, target, &remains)
    }
}

/// The flags that a file takes from its directory.
fn inherited_flags(dir: InodeFlags, kind: FileKind) -> InodeFlags {
    let of_kind = match kind {
        FileKind::Directory => InodeFlags::all(),
        FileKind::Regular => InodeFlags::all() - OF_DIRECTORIES,
        _ => InodeFlags::NODUMP | InodeFlags::NOATIME,
    };
    dir & InodeFlags::INHERITED & of_kind
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
    if dir.is_unlinked() || dir.state().links == 0 {
        Err(Ext4Error::NotFound)
    } else {
        Ok(())
    }
}

impl Namei {
    /// The most links an inode may have.
    pub(crate) fn check_links(&self, inode: &Inode, links: u32) -> Result<()> {
        let unlimited = inode.is_dir() && self.volume.sb.ro_compat.contains(RoCompat::DIR_NLINK);
        if links >= 65000 && !unlimited {
            return Err(Ext4Error::TooManyLinks);
        }
        Ok(())
    }

    /// Waits until changes of a directory's entries are durable, if its flags say so.
    ///
    /// # Locks
    /// Waits for a commit: no handle may be open.
    ///
    /// # Errors
    /// The journal's, or the device's.
    pub(crate) fn sync_if_dirsync(&self, dir: &Inode) -> Result<()> {
        let flags = dir.flags();
        if !flags.intersects(InodeFlags::SYNC | InodeFlags::DIRSYNC) {
            return Ok(());
        }
        self.volume.sync_tid(dir.sync_tid(false), false)
    }
}

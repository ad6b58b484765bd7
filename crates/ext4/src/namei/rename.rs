//! Renaming: moving a name, over another or in exchange for it.
//!
//! # Locking
//! Where a directory moves to another, the rename mutex is held, so that the shape of the tree stands still: then
//! both directories, the ancestor first; then the inodes that are moved or replaced, directories before
//! others, others by number. Files move without that mutex if both directories can be locked without waiting for the
//! second: which of them is above the other is not known. With `dir-lock=leaf` the directories are shared, where both have trees of
//! hashes, and the leaves of both names locked.

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::attributes::acl::stored::NewAcls;
use crate::clock::now;
use crate::deletion::DELETE_CREDITS;
use crate::directory::check_name;
use crate::directory::{Found, Hit};
use crate::inode::reference::InodeRef;
use crate::inodes::new::NewInode;
use crate::namei::{LINK_CREDITS, Namei, check_alive, check_directory};
use crate::prelude::*;
use crate::volume::handles::LazyHandle;
use uext4_vfs::attr::{NewKind, RenameFlags};
use uext4_vfs::errno::Error;
use uext4_vfs::ilock::{DirOrder, ilock_two_dirs};

/// The most directories above one that a rename climbs, as it does so with all other renames waiting.
const DEPTH_MAX: u32 = 1 << 16;

/// One side of a rename.
#[derive(Clone, Copy)]
struct Side<'a> {
    dir: &'a InodeRef,
    name: &'a [u8],
}

/// What a caller asks for.
#[derive(Clone, Copy)]
struct Request<'a> {
    caller: &'a Caller,
    old: Side<'a>,
    new: Side<'a>,
    flags: RenameFlags,
}

/// What a rename with certain locks may move to another directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    AnyFile,
    /// The shape of the tree stays.
    NoDirectory,
}

/// What the check of a rename found.
enum Checked {
    /// A directory would move.
    Directory,
    /// Both names are of one inode: nothing is to be done.
    Same,
    /// Both names are one entry of a directory that ignores case, which gets the new one.
    Case(InodeRef, Vec<u8>),
    Rename {
        source: (InodeRef, Hit),
        target: Option<(InodeRef, Hit)>,
    },
}

impl Namei {
    /// Renames; see rename(2) for the flags.
    ///
    /// # Crash
    /// The old or the new state survives, nothing in between.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(
        &self,
        caller: &Caller,
        old_dir: &InodeRef,
        old_name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.volume.check_writable()?;
        if flags.contains(RenameFlags::EXCHANGE)
            && flags.intersects(RenameFlags::NOREPLACE | RenameFlags::WHITEOUT)
        {
            return Err(Ext4Error::Invalid(
                "flags of a rename that exclude each other",
            ));
        }
        for dir in [old_dir, new_dir] {
            check_directory(dir)?;
            self.attributes.may_search(caller, dir)?;
        }
        for (dir, name) in [(old_dir, old_name), (new_dir, new_name)] {
            if name == b"." || name == b".." {
                return Err(Ext4Error::Busy("`.` and `..` are not renamed"));
            }
            check_name(name)?;
            self.volume.check_sought(dir, name)?;
        }
        self.volume.check_added(new_dir, new_name)?;
        let [old_name, new_name] =
            &self.stored_to_rename((old_dir, old_name), (new_dir, new_name))?;
        let old = Side {
            dir: old_dir,
            name: old_name,
        };
        let new = Side {
            dir: new_dir,
            name: new_name,
        };
        let request = Request {
            caller,
            old,
            new,
            flags,
        };
        if self.rename_file(request)? {
            self.sync_if_dirsync(old_dir)?;
            return self.sync_if_dirsync(new_dir);
        }
        if old_dir.ino == new_dir.ino {
            let _locked = ilock(&old_dir.ilock, LockMode::Exclusive);
            self.rename_locked(request, Moves::AnyFile)?;
            return self.sync_if_dirsync(old_dir);
        }
        let renaming = self.rename.lock();
        let order = self.dir_order(old_dir, new_dir)?;
        let _locked = ilock_two_dirs(
            &old_dir.ilock,
            &new_dir.ilock,
            LockMode::Exclusive,
            order,
            &renaming,
        );
        self.rename_locked(request, Moves::AnyFile)?;
        self.sync_if_dirsync(old_dir)?;
        self.sync_if_dirsync(new_dir)
    }

    /// Renames a file, beside other changes of the directories where these share them; false if it did nothing: a second lock is
    /// held, or a directory moves. That is locked then, and another rename may share it and wait for a leaf that this one holds; an exchange
    /// is one change to look-ups only with the directories alone.
    fn rename_file(&self, request: Request<'_>) -> Result<bool> {
        let Request {
            old, new, flags, ..
        } = request;
        let directories = &self.directories;
        let is_one = old.dir.ino == new.dir.ino;
        let old_locked = directories.lock_for_change(old.dir);
        let new_locked = match is_one {
            true => None,
            false => directories.try_lock_second(new.dir, (old.dir, &old_locked)),
        };
        if !is_one && new_locked.is_none() {
            return Ok(false);
        }
        if !old_locked.is_shared {
            let moves = match is_one {
                true => Moves::AnyFile,
                false => Moves::NoDirectory,
            };
            return self.rename_locked(request, moves);
        }
        if flags.contains(RenameFlags::EXCHANGE) {
            return Ok(false);
        }
        let moves = Moves::NoDirectory;
        let may_add = || self.check_rename(request, moves).map(|_| ());
        let done = directories.with_two_leaves(
            (old.dir, old.name),
            (new.dir, new.name),
            &may_add,
            || self.rename_locked(request, moves),
        )?;
        Ok(done.unwrap_or(false))
    }

    /// Which of two directories is above the other. The rename mutex is held.
    fn dir_order(&self, a: &InodeRef, b: &InodeRef) -> Result<DirOrder> {
        if self.is_above(a.ino, b)? {
            Ok(DirOrder::FirstAbove)
        } else if self.is_above(b.ino, a)? {
            Ok(DirOrder::SecondAbove)
        } else {
            Ok(DirOrder::Unrelated)
        }
    }

    /// Whether `above` is `below` or an ancestor of it. The rename mutex is held.
    fn is_above(&self, above: Ino, below: &InodeRef) -> Result<bool> {
        self.climb(above, below, |at| {
            let _locked = ilock(&at.ilock, LockMode::Shared);
            self.directories.dir_parent(at)
        })
    }

    /// As [`Namei::is_above`], with both directories locked: only their ancestors are read. `..` changes only under
    /// the rename mutex, which is held.
    fn is_above_locked(&self, above: Ino, below: &InodeRef) -> Result<bool> {
        self.climb(above, below, |at| self.directories.dir_parent(at))
    }

    /// Whether the way up from `below` passes `above`.
    ///
    /// # Errors
    /// `ELOOP`: the way is longer than [`DEPTH_MAX`]. Damage: it is a loop.
    fn climb(
        &self,
        above: Ino,
        below: &InodeRef,
        parent: impl Fn(&InodeRef) -> Result<Ino>,
    ) -> Result<bool> {
        let mut at = below.clone();
        // An inode that the way passed, newer each time the distance from it doubles.
        let mut passed = Ino::NONE;
        for step in 0..DEPTH_MAX {
            if at.ino == above {
                return Ok(true);
            }
            if at.ino == Ino::ROOT || at.is_unlinked() {
                return Ok(false);
            }
            if at.ino == passed {
                return Err(Corrupt::new(CorruptKind::DirNotDotDot)
                    .ino(at.ino)
                    .detail("directories form a loop")
                    .into());
            }
            if step.is_power_of_two() {
                passed = at.ino;
            }
            at = self.inodes.get_inode(parent(&at)?)?;
        }
        Err(Error::new(Errno::ELOOP).into())
    }

    /// What a rename moves and replaces, and that the caller may do it.
    fn check_rename(&self, request: Request<'_>, moves: Moves) -> Result<Checked> {
        let Request {
            old, new, flags, ..
        } = request;
        let Found::Hit(source_hit) = self.directories.dir_look_up(old.dir, old.name)? else {
            return Err(Ext4Error::NotFound);
        };
        let source = self.get_entry(old.dir, source_hit.ino)?;
        check_alive(new.dir)?;
        let target = match self.directories.dir_look_up(new.dir, new.name)? {
            Found::Hit(hit) => Some((self.get_entry(new.dir, hit.ino)?, hit)),
            Found::Vacancy(_) => None,
        };
        let replaced = target.as_ref().map(|(target, _)| target);
        if moves == Moves::NoDirectory
            && (source.is_dir() || replaced.is_some_and(|target| target.is_dir()))
        {
            return Ok(Checked::Directory);
        }
        match replaced {
            Some(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Ext4Error::Exists),
            None if flags.contains(RenameFlags::EXCHANGE) => return Err(Ext4Error::NotFound),
            _ => {}
        }
        self.check_no_loop(request, &source, replaced)?;
        if replaced.is_some_and(|target| target.ino == source.ino) {
            let Some(stored) = self.other_case(request, &source_hit)? else {
                return Ok(Checked::Same);
            };
            // The entry may get longer: not beside other changes.
            if moves == Moves::NoDirectory {
                return Ok(Checked::Directory);
            }
            self.may_rename(request, &source, None)?;
            return Ok(Checked::Case(source, stored));
        }
        self.may_rename(request, &source, replaced)?;
        Ok(Checked::Rename {
            source: (source, source_hit),
            target,
        })
    }

    /// The rest of a rename, with the directories or the leaves locked; false if it did nothing, as a directory would move.
    fn rename_locked(&self, request: Request<'_>, moves: Moves) -> Result<bool> {
        let Request {
            old, new, flags, ..
        } = request;
        let ((source, source_hit), target) = match self.check_rename(request, moves)? {
            Checked::Directory => return Ok(false),
            Checked::Same => return Ok(true),
            Checked::Case(source, stored) => {
                let _locked = lock_moved(&source, None);
                self.change_case(new, &source, &stored)?;
                return Ok(true);
            }
            Checked::Rename { source, target } => (source, target),
        };
        let exchanges = flags.contains(RenameFlags::EXCHANGE);
        if old.dir.ino != new.dir.ino {
            // Read before anything changes: the entry `..` of what gets another parent.
            let exchanged = target.as_ref().filter(|_| exchanges);
            let exchanged = exchanged.map(|(target, _)| target);
            for moved in [Some(&source), exchanged].into_iter().flatten() {
                if moved.is_dir() {
                    self.directories.dir_parent(moved)?;
                }
            }
        }
        let whiteout = self.whiteout(request)?;
        let _locked = lock_moved(&source, target.as_ref().map(|(target, _)| target));
        match &target {
            Some((target, hit)) if exchanges => {
                self.exchange(old, new, (&source, &source_hit), (target, hit))?;
            }
            Some((target, hit)) => {
                if target.is_dir() && !self.directories.dir_is_empty(target)? {
                    return Err(Ext4Error::NotEmpty);
                }
                self.replace(old, new, &source, (target, hit), whiteout.as_ref())?;
            }
            None => self.move_name(old, new, &source, whiteout.as_ref())?,
        }
        Ok(true)
    }

    /// Refuses a caller that may not take both names away, or give what they name another parent.
    fn may_rename(
        &self,
        request: Request<'_>,
        source: &InodeRef,
        target: Option<&InodeRef>,
    ) -> Result<()> {
        let Request {
            caller,
            old,
            new,
            flags,
        } = request;
        let exchanges = flags.contains(RenameFlags::EXCHANGE);
        let old_attr = self.attributes.attr(old.dir);
        self.attributes
            .may_delete(caller, old.dir, &old_attr, source, source.is_dir())?;
        let new_attr = self.attributes.attr(new.dir);
        match target {
            None => self.attributes.may_change_dir(caller, new.dir, &new_attr)?,
            Some(target) => {
                let as_dir = match exchanges {
                    true => target.is_dir(),
                    false => source.is_dir(),
                };
                self.attributes
                    .may_delete(caller, new.dir, &new_attr, target, as_dir)?;
            }
        }
        let exchanged = target.filter(|_| exchanges);
        for moved in [Some(source), exchanged].into_iter().flatten() {
            // A directory's `..` changes.
            if moved.is_dir() && old.dir.ino != new.dir.ino {
                self.attributes.check_access(
                    caller,
                    moved,
                    &self.attributes.attr(moved),
                    Access::WRITE,
                )?;
            }
        }
        let crosses = |dir: &InodeRef, moved: &InodeRef| -> Result<bool> {
            Ok(self.files.crosses_project(dir, moved)
                || self.attributes.crosses_policy(dir, moved)?)
        };
        let back = exchanged.map_or(Ok(false), |target| crosses(old.dir, target))?;
        if back || crosses(new.dir, source)? {
            return Err(Error::new(Errno::EXDEV).into());
        }
        Ok(())
    }

    /// The whiteout that the caller leaves at the old name, if the flags say so.
    fn whiteout(&self, request: Request<'_>) -> Result<Option<(NewInode, NewAcls)>> {
        let Request {
            caller, old, flags, ..
        } = request;
        if !flags.contains(RenameFlags::WHITEOUT) {
            return Ok(None);
        }
        let new = NewNode {
            mode: 0,
            kind: NewKind::Device {
                kind: FileKind::CharDevice,
                major: 0,
                minor: 0,
            },
        };
        let attr = self.attributes.attr(old.dir);
        self.template(caller, old.dir, &attr, &new).map(Some)
    }

    /// A directory must not end up below itself.
    fn check_no_loop(
        &self,
        request: Request<'_>,
        source: &InodeRef,
        target: Option<&InodeRef>,
    ) -> Result<()> {
        let Request {
            old, new, flags, ..
        } = request;
        if old.dir.ino == new.dir.ino {
            return Ok(());
        }
        if source.is_dir() && self.is_above_locked(source.ino, new.dir)? {
            return Err(Ext4Error::Invalid("moving a directory into itself"));
        }
        if let Some(target) = target
            && target.is_dir()
            && self.is_above_locked(target.ino, old.dir)?
        {
            return Err(if flags.contains(RenameFlags::EXCHANGE) {
                Ext4Error::Invalid("moving a directory into itself")
            } else {
                Ext4Error::NotEmpty
            });
        }
        Ok(())
    }

    /// Moves a name to where there is none.
    fn move_name(
        &self,
        old: Side<'_>,
        new: Side<'_>,
        source: &InodeRef,
        whiteout: Option<&(NewInode, NewAcls)>,
    ) -> Result<()> {
        let moves_dir = source.is_dir() && old.dir.ino != new.dir.ino;
        if moves_dir {
            self.check_links(new.dir, new.dir.state().links)?;
        }
        self.blocks.retry_no_space(|| {
            let Found::Vacancy(vacancy) = self.directories.dir_look_up(new.dir, new.name)? else {
                return Err(Ext4Error::Exists);
            };
            let late = LazyHandle::new(
                self.volume.journal(),
                LINK_CREDITS * 2 + 8 + acl_credits(whiteout),
            );
            let (late, whiteout) = self.make_whiteout(late, old, whiteout)?;
            let handle = late.get()?;
            let inserted = self.directories.dir_insert(
                handle,
                new.dir,
                &vacancy,
                new.name,
                source.ino,
                source.file_type,
            );
            if let Err(why) = inserted {
                return match &whiteout {
                    Some(made) => Err(self.deletion.discard_new(late, made, why)),
                    None => late.end(Err(why)),
                };
            }
            if moves_dir {
                self.directories
                    .dir_set_parent(handle, source, new.dir.ino)?;
            }
            self.touch_dir(handle, new.dir, i32::from(moves_dir))?;
            self.vacate(handle, old, source, whiteout.as_ref(), moves_dir)?;
            late.end(Ok(()))
        })
    }

    /// The name that an entry has, if both names of a plain rename are that entry's and the new one is spelled otherwise.
    fn other_case(&self, request: Request<'_>, hit: &Hit) -> Result<Option<Vec<u8>>> {
        let Request {
            old, new, flags, ..
        } = request;
        let dir = old.dir;
        let is_one = dir.ino == new.dir.ino
            && old.name != new.name
            && self.volume.ignores_case(dir)
            && self.volume.are_same(dir, old.name, new.name);
        if !is_one || !flags.is_empty() {
            return Ok(None);
        }
        let stored = self.directories.stored_name(dir, hit)?;
        Ok(Some(stored).filter(|stored| stored != new.name))
    }

    /// Spells the name of an entry, `stored`, as the new name of a rename.
    fn change_case(&self, new: Side<'_>, source: &InodeRef, stored: &[u8]) -> Result<()> {
        let (dir, directories) = (new.dir, &self.directories);
        self.blocks.retry_no_space(|| {
            let vacancy = directories.vacancy_beside(dir, new.name)?;
            let late = LazyHandle::new(self.volume.journal(), LINK_CREDITS * 2);
            let handle = late.get()?;
            let (ino, file_type) = (source.ino, source.file_type);
            let inserted = directories.dir_insert(handle, dir, &vacancy, new.name, ino, file_type);
            if let Err(why) = inserted {
                return late.end(Err(why));
            }
            // The insertion may have moved the entry.
            let Found::Hit(hit) = directories.dir_look_up_exact(dir, stored)? else {
                return Err(Ext4Error::NotFound);
            };
            directories.dir_remove(handle, dir, stored, &hit)?;
            self.touch_dir(handle, dir, 0)?;
            let time = now();
            self.table
                .update_inode(source, handle, |disk| disk.ctime = time)?;
            late.end(Ok(()))
        })
    }

    /// Makes a whiteout before anything else changes: it may find no inode or no space.
    fn make_whiteout<'j>(
        &self,
        late: LazyHandle<'j>,
        old: Side<'_>,
        whiteout: Option<&(NewInode, NewAcls)>,
    ) -> Result<(LazyHandle<'j>, Option<InodeRef>)> {
        let Some((template, acls)) = whiteout else {
            return Ok((late, None));
        };
        let made = match self.inodes.new_inode(&late, old.dir, template, 1) {
            Ok(made) => made,
            Err(why) => return late.end(Err(why)),
        };
        match self.attributes.store_new_acls(late.get()?, &made, acls) {
            Ok(()) => Ok((late, Some(made))),
            Err(why) => Err(self.deletion.discard_new(late, &made, why)),
        }
    }

    /// Takes the old name away, or leaves a whiteout there.
    fn vacate(
        &self,
        handle: &Handle<'_>,
        old: Side<'_>,
        source: &InodeRef,
        whiteout: Option<&InodeRef>,
        moves_dir: bool,
    ) -> Result<()> {
        // The insertion may have split the leaf that the old name is in.
        let Found::Hit(hit) = self.directories.dir_look_up(old.dir, old.name)? else {
            return Err(Ext4Error::NotFound);
        };
        if let Some(made) = whiteout {
            self.directories.dir_replace(
                handle,
                old.dir,
                old.name,
                &hit,
                made.ino,
                made.file_type,
            )?;
        } else {
            self.directories
                .dir_remove(handle, old.dir, old.name, &hit)?;
        }
        self.touch_dir(handle, old.dir, -i32::from(moves_dir))?;
        let time = now();
        self.table
            .update_inode(source, handle, |disk| disk.ctime = time)
    }

    /// Moves a name over another.
    fn replace(
        &self,
        old: Side<'_>,
        new: Side<'_>,
        source: &InodeRef,
        (target, hit): (&InodeRef, &Hit),
        whiteout: Option<&(NewInode, NewAcls)>,
    ) -> Result<()> {
        let moves_dir = source.is_dir() && old.dir.ino != new.dir.ino;
        let remains = self.deletion.prepare_delete(target)?;
        let late = LazyHandle::new(
            self.volume.journal(),
            LINK_CREDITS + DELETE_CREDITS + acl_credits(whiteout),
        );
        let (late, whiteout) = self.make_whiteout(late, old, whiteout)?;
        let handle = late.get()?;
        self.directories.dir_replace(
            handle,
            new.dir,
            new.name,
            hit,
            source.ino,
            source.file_type,
        )?;
        // One subdirectory goes, and one comes if it is another directory's.
        let change = i32::from(moves_dir) - i32::from(target.is_dir());
        self.touch_dir(handle, new.dir, change)?;
        if moves_dir {
            self.directories
                .dir_set_parent(handle, source, new.dir.ino)?;
        }
        self.vacate(handle, old, source, whiteout.as_ref(), moves_dir)?;
        let handle = match late.into_handle() {
            Some(handle) => handle,
            None => self.volume.journal().start(DELETE_CREDITS)?,
        };
        if target.is_dir() {
            return self.bury_dir(handle, target, &remains);
        }
        self.deletion.drop_link(handle, target, &remains)
    }

    fn exchange(
        &self,
        old: Side<'_>,
        new: Side<'_>,
        (a, a_hit): (&InodeRef, &Hit),
        (b, b_hit): (&InodeRef, &Hit),
    ) -> Result<()> {
        let apart = old.dir.ino != new.dir.ino;
        let handle = self.volume.journal().start(LINK_CREDITS)?;
        self.directories
            .dir_replace(&handle, old.dir, old.name, a_hit, b.ino, b.file_type)?;
        self.directories
            .dir_replace(&handle, new.dir, new.name, b_hit, a.ino, a.file_type)?;
        let change = if apart {
            i32::from(b.is_dir()) - i32::from(a.is_dir())
        } else {
            0
        };
        self.touch_dir(&handle, old.dir, change)?;
        self.touch_dir(&handle, new.dir, -change)?;
        if apart && a.is_dir() {
            self.directories.dir_set_parent(&handle, a, new.dir.ino)?;
        }
        if apart && b.is_dir() {
            self.directories.dir_set_parent(&handle, b, old.dir.ino)?;
        }
        let time = now();
        self.table
            .update_inode(a, &handle, |disk| disk.ctime = time)?;
        self.table
            .update_inode(b, &handle, |disk| disk.ctime = time)?;
        handle.finish();
        Ok(())
    }
}

/// Blocks that the ACLs of a whiteout change.
fn acl_credits(whiteout: Option<&(NewInode, NewAcls)>) -> u32 {
    whiteout.map_or(0, |(_, acls)| acls.credits())
}

/// Locks the inodes that a rename moves or replaces.
fn lock_moved<'a>(source: &'a InodeRef, target: Option<&'a InodeRef>) -> Vec<ILockGuard<'a>> {
    let mut inodes: Vec<&InodeRef> = std::iter::once(source).chain(target).collect();
    inodes.sort_by_key(|i| (!i.is_dir(), i.ino));
    inodes
        .into_iter()
        .map(|i| ilock(&i.ilock, LockMode::Exclusive))
        .collect()
}

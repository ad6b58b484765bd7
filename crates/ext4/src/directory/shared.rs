//! Changes of entries beside others in the same directory (`dir-lock=leaf`).
//!
//! # Locking
//! A change shares the directory's `ilock` and holds the leaf of its name (class `dir_leaf`) from the search to its end. A
//! leaf without room is split before, in a handle of its own, with its lock and the tree's (`dir_tree`) held. A search takes
//! neither lock at first: where it finds nothing although the tree changed beside it, it is done again with the tree's lock held. What
//! it found may go once the leaf's content is unlocked; [`Hit::is_current`] says whether it did. With a leaf locked no other
//! directory is: a rename that shares both may hold that one and wait for this leaf.
//!
//! # Crash
//! A directory whose leaf was split for a name that never came is as good as before.

use crate::directory::hashed::DxPath;
use crate::directory::{Directory, Found, Hit, Vacancy};
use crate::inode::Inode;
use crate::options::dir_lock_variant::DirLockVariant;
use crate::prelude::*;
use crate::volume::sought::Sought;
use uext4_jbd2::buffer::OwnedChange;
use uext4_sync::MutexGuard;
use uext4_vfs::ilock::try_ilock;

/// Blocks that splitting a leaf changes: it, the new one and two index blocks; the directory's inode; block bitmap and
/// descriptors for each new block; extent nodes.
const SPLIT_CREDITS: u32 = 20;

/// Where a name is or would be.
struct Place<'a> {
    dir: &'a Inode,
    name: &'a [u8],
    sought: Sought<'a>,
    /// Which tree there was before the way was sought.
    edition: Option<u64>,
    path: DxPath,
    hash: NameHash,
    leaf: Arc<Buffer>,
}

/// A directory that is locked for a change of its entries.
pub(crate) struct ForChange<'a> {
    /// With others, which lock leaves.
    pub is_shared: bool,
    _locked: ILockGuard<'a>,
}

impl<'a> ForChange<'a> {
    /// Without others.
    pub fn alone(dir: &'a Inode) -> ForChange<'a> {
        ForChange {
            is_shared: false,
            _locked: ilock(&dir.ilock, LockMode::Exclusive),
        }
    }

    /// The same, or with others, if that needs no waiting.
    fn now(dir: &'a Inode, is_shared: bool) -> Option<ForChange<'a>> {
        let mode = match is_shared {
            true => LockMode::Shared,
            false => LockMode::Exclusive,
        };
        let locked = try_ilock(&dir.ilock, mode)?;
        Some(ForChange {
            is_shared,
            _locked: locked,
        })
    }
}

/// Says whether an entry may be added.
pub(crate) type MayAdd<'a> = &'a dyn Fn() -> Result<()>;

impl Hit {
    /// Whether the entry is still there, read after what it names was looked up. Always, where the directory's `ilock` keeps it.
    pub(crate) fn is_current(&self) -> bool {
        let leaf = self.leaf.as_ref();
        leaf.is_none_or(|leaf| leaf.edition() == self.edition)
    }
}

impl Directory {
    /// Whether changes of a directory's entries may share its `ilock`. A directory that has a tree of hashes keeps it. In one with keyed hashes, a stored name does not lead to its leaf.
    fn can_share(&self, dir: &Inode) -> bool {
        self.volume.options.dir_lock == DirLockVariant::Leaf
            && self.is_hashed(dir)
            && !self.volume.has_keyed_hashes(dir)
    }

    /// The directory's `ilock` as a change of its entries takes it: alone, which costs less, unless it is not free, or two changes have met
    /// in it a short while ago. A directory without a tree is never shared.
    pub(crate) fn lock_for_change<'a>(&self, dir: &'a Inode) -> ForChange<'a> {
        if !self.can_share(dir) {
            return ForChange::alone(dir);
        }
        if !dir.blocks().have_changes_met() {
            if let Some(alone) = ForChange::now(dir, false) {
                return alone;
            }
            dir.blocks().changes_met();
        }
        ForChange {
            is_shared: true,
            _locked: ilock(&dir.ilock, LockMode::Shared),
        }
    }

    /// Locks a second directory as the `first` is locked, without waiting. If it can't be alone both are shared next time.
    pub(crate) fn try_lock_second<'a>(
        &self,
        dir: &'a Inode,
        (first, mode): (&Inode, &ForChange<'_>),
    ) -> Option<ForChange<'a>> {
        if mode.is_shared && !self.can_share(dir) {
            return None;
        }
        let locked = ForChange::now(dir, mode.is_shared);
        if locked.is_none() && self.can_share(dir) && self.can_share(first) {
            dir.blocks().changes_met();
            first.blocks().changes_met();
        }
        locked
    }

    /// The result of `search`, done again in a tree that stays as it is unless the tree did so meanwhile, or the result `is_final`
    /// anyhow.
    ///
    /// # Locks
    /// May take `dir_tree`, and `search` under it.
    pub(super) fn in_still_tree<R>(
        &self,
        dir: &Inode,
        is_final: impl Fn(&R) -> bool,
        search: impl Fn() -> Result<R>,
    ) -> Result<R> {
        let blocks = dir.blocks();
        if let Some(before) = blocks.tree_edition() {
            let found = search();
            let is_final = found.as_ref().is_ok_and(is_final);
            if is_final || blocks.tree_edition() == Some(before) {
                return found;
            }
        }
        let _still = blocks.lock_tree();
        search()
    }

    /// Runs `change` with what is found of `name`, whose leaf is locked: no other change of that name is beside it. Where
    /// nothing is found and `may_add` agrees, there is room for an entry. None if the change needs the directory alone.
    ///
    /// # Locks
    /// The caller shares the directory's `ilock`. Takes `dir_leaf`.
    ///
    /// # Journal
    /// May start a handle, so none may be open.
    ///
    /// # Errors
    /// Those of `may_add` and `change`; damage; no space for another leaf.
    pub(crate) fn with_leaf<R>(
        &self,
        dir: &Inode,
        name: &[u8],
        may_add: Option<MayAdd<'_>>,
        change: impl FnOnce(Found) -> Result<R>,
    ) -> Result<Option<R>> {
        loop {
            let place = self.place_of(dir, name)?;
            let leaf = Arc::clone(&place.leaf);
            let _locked = leaf.lock_owner();
            let Some(place) = self.settle(place)? else {
                continue;
            };
            if place.path.is_continued(place.hash.major) {
                return Ok(None);
            }
            let is_absent = may_add.is_some() && self.volume.is_absent(dir, name);
            if !is_absent && let Some(hit) = self.find_in_leaf(&leaf, &place.sought)? {
                return change(Found::Hit(hit)).map(Some);
            }
            if let Some(may_add) = may_add {
                may_add()?;
                if !self.has_room(&place)? {
                    self.split_for(&place)?;
                    continue;
                }
            }
            let vacancy = Vacancy {
                hash: place.hash,
                path: Some((place.path, place.leaf)),
            };
            return change(Found::Vacancy(vacancy)).map(Some);
        }
    }

    /// Runs `change` with the leaves of two names locked. Where the second is not found there is room for it; `may_add` is asked before
    /// room is made. None if the change needs the directories alone.
    ///
    /// # Locks
    /// The caller shares the `ilock` of both directories. Takes `dir_leaf` of both leaves, by the number of their blocks.
    ///
    /// # Journal
    /// As [`Directory::with_leaf`].
    ///
    /// # Errors
    /// As [`Directory::with_leaf`].
    pub(crate) fn with_two_leaves<R>(
        &self,
        (from, old_name): (&Inode, &[u8]),
        (to, new_name): (&Inode, &[u8]),
        may_add: MayAdd<'_>,
        change: impl FnOnce() -> Result<R>,
    ) -> Result<Option<R>> {
        loop {
            let (old, new) = (self.place_of(from, old_name)?, self.place_of(to, new_name)?);
            let (first, second) = (Arc::clone(&old.leaf), Arc::clone(&new.leaf));
            let _locked = lock_both(&first, &second);
            let (Some(old), Some(new)) = (self.settle(old)?, self.settle(new)?) else {
                continue;
            };
            if [&old, &new]
                .iter()
                .any(|place| place.path.is_continued(place.hash.major))
            {
                return Ok(None);
            }
            if !self.has_room(&new)? && self.find_in_leaf(&new.leaf, &new.sought)?.is_none() {
                may_add()?;
                self.split_for(&new)?;
                continue;
            }
            return change().map(Some);
        }
    }

    /// The leaf where a name is or would be; it may change until it is locked and [`Directory::settle`] was called.
    fn place_of<'a>(&self, dir: &'a Inode, name: &'a [u8]) -> Result<Place<'a>> {
        let sought = self.volume.sought(dir, name);
        let edition = dir.blocks().tree_edition();
        let (path, hash) = self.in_still_tree(dir, |_| false, || self.way_to(dir, &sought))?;
        let leaf = self.leaf_of(dir, &path)?;
        Ok(Place {
            dir,
            name,
            sought,
            edition,
            path,
            hash,
            leaf,
        })
    }

    /// The place once its leaf is locked: from now on names of this hash stay there. None if it is another leaf by now.
    fn settle<'a>(&self, place: Place<'a>) -> Result<Option<Place<'a>>> {
        let (dir, sought) = (place.dir, &place.sought);
        if place.edition.is_some() && place.edition == dir.blocks().tree_edition() {
            return Ok(Some(place));
        }
        let (path, _) = self.in_still_tree(dir, |_| false, || self.way_to(dir, sought))?;
        let is_there = path.leaf == place.path.leaf;
        Ok(is_there.then_some(Place { path, ..place }))
    }

    /// The way to the leaf for a name, and the name's hash.
    pub(super) fn way_to(&self, dir: &Inode, sought: &Sought<'_>) -> Result<(DxPath, NameHash)> {
        let mut hash = NameHash::default();
        let path = self.descend_with(dir, |version| {
            hash = self.volume.sb.hash.hash(version, sought.key());
            hash.major
        })?;
        Ok((path, hash))
    }

    /// Whether there is room for the name in its leaf, which is locked.
    fn has_room(&self, place: &Place<'_>) -> Result<bool> {
        let (end, hint) = (self.volume.dir_end(), place.leaf.hint() as usize);
        let content = place.leaf.read();
        uext4_ondisk::dir_has_room(content.data(), end, place.name.len(), hint)
            .map_err(|e| e.ino(place.dir.ino).into())
    }

    /// Splits the leaf of a name, which is locked. The name may have its place in another then.
    fn split_for(&self, place: &Place<'_>) -> Result<()> {
        self.blocks.retry_no_space(|| {
            self.volume.with_handle(SPLIT_CREDITS, |handle| {
                let change = place.dir.blocks().change_tree();
                let path = self.find_leaf_again(place.dir, place.hash.major, place.path.leaf)?;
                self.split_leaf(handle, place.dir, &change, path, &place.leaf)
            })
        })
    }
}

/// Locks two leaves, which may be one, in an order that all callers keep.
fn lock_both<'a>(
    a: &'a Buffer,
    b: &'a Buffer,
) -> (
    MutexGuard<'a, OwnedChange>,
    Option<MutexGuard<'a, OwnedChange>>,
) {
    match a.block().cmp(&b.block()) {
        std::cmp::Ordering::Less => (a.lock_owner(), Some(b.lock_owner())),
        std::cmp::Ordering::Equal => (a.lock_owner(), None),
        std::cmp::Ordering::Greater => (b.lock_owner(), Some(a.lock_owner())),
    }
}

//! Changes of entries beside others in the same directory (`dir-lock=leaf`).
//!
//! # Locking
//! A change shares the directory's `ilock` and holds the leaf of its name (class `dir_leaf`) from the search to its end. A
//! leaf without room is split before, in a handle of its own, with its lock and the tree's (`dir_tree`) held. A search takes
//! neither lock: where it finds nothing although the tree changed beside it, it is done again with the tree's lock held. What
//! it found may go once the leaf's content is unlocked; [`Hit::is_current`] says whether it did.
//!
//! # Crash
//! A directory whose leaf was split for a name that never came is as good as before.

use crate::directory::hashed::DxPath;
use crate::directory::{Directory, Found, Hit, Vacancy};
use crate::inode::Inode;
use crate::options::dir_lock_variant::DirLockVariant;
use crate::prelude::*;

/// Blocks that splitting a leaf changes: it, the new one and two index blocks; the directory's inode; block bitmap and
/// descriptors for each new block; extent nodes.
const SPLIT_CREDITS: u32 = 20;

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
    /// Whether changes of a directory's entries share its `ilock`. A directory that has a tree of hashes keeps it.
    pub(crate) fn shares_changes(&self, dir: &Inode) -> bool {
        self.volume.options.dir_lock == DirLockVariant::Leaf && self.is_hashed(dir)
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
        let way = || self.in_still_tree(dir, |_| false, || self.way_to(dir, name));
        loop {
            let before = dir.blocks().tree_edition();
            let (mut path, hash) = way()?;
            let leaf = self.leaf_of(dir, &path)?;
            let _locked = leaf.lock_owner();
            if before.is_none() || before != dir.blocks().tree_edition() {
                let leaf = path.leaf;
                path = way()?.0;
                if path.leaf != leaf {
                    continue;
                }
            }
            // From here on the names of this hash stay in this leaf.
            if path.is_continued(hash.major) {
                return Ok(None);
            }
            if let Some(hit) = self.find_in_leaf(&leaf, name)? {
                return change(Found::Hit(hit)).map(Some);
            }
            if let Some(may_add) = may_add {
                may_add()?;
                if !self.has_room(dir, &leaf, name)? {
                    self.split_for(dir, hash, &path, &leaf)?;
                    continue;
                }
            }
            let path = Some((path, Arc::clone(&leaf)));
            return change(Found::Vacancy(Vacancy { hash, path })).map(Some);
        }
    }

    /// The way to the leaf for a name, and the name's hash.
    fn way_to(&self, dir: &Inode, name: &[u8]) -> Result<(DxPath, NameHash)> {
        let mut hash = NameHash::default();
        let path = self.descend_with(dir, |version| {
            hash = self.volume.sb.hash.hash(version, name);
            hash.major
        })?;
        Ok((path, hash))
    }

    fn has_room(&self, dir: &Inode, leaf: &Buffer, name: &[u8]) -> Result<bool> {
        let (end, hint) = (self.volume.dir_end(), leaf.hint() as usize);
        let content = leaf.read();
        uext4_ondisk::dir_has_room(content.data(), end, name.len(), hint)
            .map_err(|e| e.ino(dir.ino).into())
    }

    /// Splits a leaf that has no room for a name of this hash.
    fn split_for(
        &self,
        dir: &Inode,
        hash: NameHash,
        path: &DxPath,
        leaf: &Arc<Buffer>,
    ) -> Result<()> {
        self.blocks.retry_no_space(|| {
            self.volume.with_handle(SPLIT_CREDITS, |handle| {
                self.split_leaf(handle, dir, hash.major, path.leaf, leaf)
            })
        })
    }
}

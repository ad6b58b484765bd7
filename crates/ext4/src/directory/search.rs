//! What an entry is searched by: its name, or, in a directory that ignores case, the fold of its name.

use crate::directory::hashed::DxPath;
use crate::directory::{Directory, Hit, Vacancy};
use crate::inode::Inode;
use crate::prelude::*;
use std::borrow::Cow;
use uext4_ondisk::{Dirent, HashVersion, fold_name, hashed_name};

/// What an entry is searched by.
#[derive(Clone, Debug)]
pub(crate) struct Sought<'n> {
    /// What is hashed.
    key: Cow<'n, [u8]>,
    /// The name that the entry has; none if it is any with this fold.
    name: Option<&'n [u8]>,
}

impl Sought<'_> {
    /// What the tree has the entry by.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The entry, if the block has it.
    #[inline(always)]
    pub fn find<'a>(
        &self,
        block: &'a [u8],
        data_end: usize,
    ) -> uext4_ondisk::Result<Option<Dirent<'a>>> {
        match self.name {
            Some(name) => uext4_ondisk::dir_find(block, data_end, name),
            None => uext4_ondisk::dir_find_folded(block, data_end, &self.key),
        }
    }
}

impl Directory {
    /// What a name in `dir` is searched by.
    #[inline]
    pub(super) fn sought<'n>(&self, dir: &Inode, name: &'n [u8]) -> Sought<'n> {
        let fold = self.volume.ignores_case(dir).then(|| fold_name(name));
        match fold.flatten() {
            Some(key) => Sought { key, name: None },
            None => Sought {
                key: Cow::Borrowed(name),
                name: Some(name),
            },
        }
    }

    /// What the entry with this very name is searched by.
    pub(super) fn sought_exactly<'n>(&self, dir: &Inode, name: &'n [u8]) -> Sought<'n> {
        Sought {
            name: Some(name),
            ..self.sought(dir, name)
        }
    }

    /// The hash of a name in `dir`.
    pub(super) fn hash_name(&self, dir: &Inode, version: HashVersion, name: &[u8]) -> NameHash {
        let hash = &self.volume.sb.hash;
        match self.volume.ignores_case(dir) {
            true => hash.hash(version, &hashed_name(name)),
            false => hash.hash(version, name),
        }
    }

    /// Whether two names in `dir` are one to a search.
    pub(crate) fn are_same(&self, dir: &Inode, a: &[u8], b: &[u8]) -> bool {
        self.volume.name_key(dir, a) == self.volume.name_key(dir, b)
    }

    /// Where an entry of `name` goes beside one that a search takes for the same.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock` alone.
    pub(crate) fn vacancy_beside(&self, dir: &Inode, name: &[u8]) -> Result<Vacancy> {
        if !self.is_hashed(dir) {
            return Ok(Vacancy {
                hash: NameHash::default(),
                path: None,
            });
        }
        let (path, hash): (DxPath, NameHash) = self.way_to(dir, &self.sought(dir, name))?;
        let leaf = self.leaf_of(dir, &path)?;
        Ok(Vacancy {
            hash,
            path: Some((path, leaf)),
        })
    }

    /// The name that an entry has on disk.
    ///
    /// # Locks
    /// The caller has held the directory's `ilock` alone, or the leaf, since the entry was found.
    pub(crate) fn stored_name(&self, dir: &Inode, hit: &Hit) -> Result<Vec<u8>> {
        let Some(leaf) = &hit.leaf else {
            return self.inline.inline_name(dir, hit.offset);
        };
        let content = leaf.read();
        let mut at_hit = dir_entries(content.data(), self.volume.dir_end()).starting_at(hit.offset);
        let entry = at_hit.next().transpose().map_err(|e| e.ino(dir.ino))?;
        Ok(entry.map_or_else(Vec::new, |d| d.name.to_vec()))
    }
}

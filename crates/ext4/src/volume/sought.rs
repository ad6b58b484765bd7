//! What an entry is searched by: its name, or, in a directory that ignores case, the fold of its name.

use crate::inode::Inode;
use crate::prelude::*;
use crate::volume::Volume;
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

impl Volume {
    /// What a name in `dir` is searched by.
    #[inline]
    pub(crate) fn sought<'n>(&self, dir: &Inode, name: &'n [u8]) -> Sought<'n> {
        let fold = self.ignores_case(dir).then(|| fold_name(name));
        match fold.flatten() {
            Some(key) => Sought { key, name: None },
            None => Sought {
                key: Cow::Borrowed(name),
                name: Some(name),
            },
        }
    }

    /// What the entry with this very name is searched by.
    pub(crate) fn sought_exactly<'n>(&self, dir: &Inode, name: &'n [u8]) -> Sought<'n> {
        Sought {
            name: Some(name),
            ..self.sought(dir, name)
        }
    }

    /// The hash of a name in `dir`.
    pub(crate) fn hash_name(&self, dir: &Inode, version: HashVersion, name: &[u8]) -> NameHash {
        let hash = &self.sb.hash;
        match self.ignores_case(dir) {
            true => hash.hash(version, &hashed_name(name)),
            false => hash.hash(version, name),
        }
    }

    /// Whether two names in `dir` are one to a search.
    pub(crate) fn are_same(&self, dir: &Inode, a: &[u8], b: &[u8]) -> bool {
        self.name_key(dir, a) == self.name_key(dir, b)
    }
}

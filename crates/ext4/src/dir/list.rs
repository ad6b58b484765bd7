//! Reading a directory in the order of hashes, so that a cookie stays good while names come and go.
//!
//! # Invariants
//! A cookie is 0 for the start, 1 after `.`, 2 after `..`, else three more than the 63-bit hash of
//! the name it stands behind. Names that share all 63 bits share a cookie that stands before them:
//! one that is read in two pieces may be given twice, never lost.

use super::hashed::DxPath;
use super::{Entry, Role};
use crate::error::Result;
use crate::fs::Ext4;
use crate::inode::Inode;
use std::sync::Arc;
use uext4_buffer::Buffer;
use uext4_ondisk::{FileType, HashVersion, Ino, Lblk, NameHash, dir_entries};

/// An entry, copied out of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub ino: Ino,
    pub file_type: FileType,
    pub name: Vec<u8>,
    pub cookie: u64,
}

const DOT: u64 = 1;
const DOTDOT: u64 = 2;
const FIRST: u64 = 3;

fn key(hash: NameHash) -> u64 {
    u64::from(hash.major >> 1) << 32 | u64::from(hash.minor)
}

impl Ext4 {
    /// Some entries after `cookie`, in order; none at the end.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`, shared at least.
    pub(crate) fn dir_list(&self, dir: &Inode, cookie: u64) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        if cookie < DOTDOT {
            for (at, name) in [(DOT, &b"."[..]), (DOTDOT, b"..")] {
                if cookie < at {
                    let ino = if at == DOT {
                        dir.ino
                    } else {
                        self.dir_parent(dir)?
                    };
                    listed.push(Listed {
                        ino,
                        file_type: FileType::Directory,
                        name: name.to_vec(),
                        cookie: at,
                    });
                }
            }
        }
        // The lowest key that is wanted.
        let from = (cookie + 1).max(FIRST) - FIRST;
        let mut batch = Vec::new();
        if self.is_hashed(dir) {
            self.list_hashed(dir, from, &mut batch)?;
        } else if dir.is_inline() {
            self.list_inline(dir, from, &mut batch)?;
        } else {
            for lblk in 0..self.dir_blocks(dir) {
                let leaf = self.dir_block(dir, Lblk(lblk), Role::Leaf)?;
                self.list_leaf(dir, &leaf, self.sb.hash.version, from, &mut batch)?;
            }
        }
        batch.sort_by_key(|(key, _)| *key);
        let keys: Vec<u64> = batch.iter().map(|(key, _)| *key).collect();
        for (i, (key, mut entry)) in batch.into_iter().enumerate() {
            let shared = keys.get(i + 1) == Some(&key);
            entry.cookie = key + FIRST - u64::from(shared);
            listed.push(entry);
        }
        Ok(listed)
    }

    /// The first leaf with anything from `from` on, with those that continue its last hash.
    fn list_hashed(&self, dir: &Inode, from: u64, batch: &mut Vec<(u64, Listed)>) -> Result<()> {
        let version = self.tree_hash(dir)?;
        let mut path: Option<DxPath> = Some(self.descend(dir, ((from >> 32) as u32) << 1)?);
        while let Some(p) = path {
            let leaf = self.leaf_of(dir, &p)?;
            self.list_leaf(dir, &leaf, version, from, batch)?;
            let continued = Self::next_hash(&p).is_some_and(|hash| hash & 1 == 1);
            if !batch.is_empty() && !continued {
                break;
            }
            path = self.next_leaf(dir, p)?;
        }
        Ok(())
    }

    fn list_inline(&self, dir: &Inode, from: u64, batch: &mut Vec<(u64, Listed)>) -> Result<()> {
        for Entry {
            ino,
            file_type,
            name,
        } in self.inline_entries(dir)?
        {
            let key = key(self.sb.hash.hash(self.sb.hash.version, &name));
            if key >= from {
                let listed = Listed {
                    ino,
                    file_type,
                    name,
                    cookie: 0,
                };
                batch.push((key, listed));
            }
        }
        Ok(())
    }

    fn list_leaf(
        &self,
        dir: &Inode,
        leaf: &Arc<Buffer>,
        version: HashVersion,
        from: u64,
        batch: &mut Vec<(u64, Listed)>,
    ) -> Result<()> {
        let content = leaf.read();
        for d in dir_entries(content.data(), self.dir_end()) {
            let d = d.map_err(|e| e.ino(dir.ino))?;
            if d.ino.0 == 0 || d.is_dot_or_dotdot() {
                continue;
            }
            let key = key(self.sb.hash.hash(version, d.name));
            if key >= from {
                batch.push((
                    key,
                    Listed {
                        ino: d.ino,
                        file_type: d.file_type,
                        name: d.name.to_vec(),
                        cookie: 0,
                    },
                ));
            }
        }
        Ok(())
    }
}

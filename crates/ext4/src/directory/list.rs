//! Reading a directory, so that a cookie stays good while names come and go.
//!
//! # Invariants
//! - A cookie is 0 for the start, 1 after `.`, 2 after `..`.
//! - Where there is an index, or may be one when a block is added, entries are listed in the order of their hashes:
//!   a cookie is three more than the 63-bit hash of the name it stands behind. Names that share all 63 bits share a
//!   cookie that stands before them: one that is read in two pieces may be given twice, never lost.
//! - A directory of more blocks without an index never gets one. It is listed in the order of its blocks, one at a
//!   time: a cookie is three more than the byte where the next entry begins.
//! - One call holds no more than [`LISTED_MAX`] entries in memory, whatever the directory has.

use crate::directory::hashed::DxPath;
use crate::directory::{Directory, Role};
use crate::inline::Entry;
use crate::inode::Inode;
use crate::prelude::*;
use uext4_ondisk::{HashVersion, entry_hash};

/// An entry, copied out of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub ino: Ino,
    pub file_type: FileType,
    pub name: Vec<u8>,
    /// By which the entry is listed, or which it has stored; none if entries are listed where they are.
    pub hash: NameHash,
    pub cookie: u64,
}

const DOT: u64 = 1;
const DOTDOT: u64 = 2;
const FIRST: u64 = 3;
/// The most entries that are listed at once.
const LISTED_MAX: usize = 1 << 16;

fn key(hash: NameHash) -> u64 {
    u64::from(hash.major >> 1) << 32 | u64::from(hash.minor)
}

/// The hash that has this key.
fn hash_of(key: u64) -> NameHash {
    NameHash {
        major: ((key >> 32) as u32) << 1,
        minor: key as u32,
    }
}

/// Entries by key: those with the lowest.
#[derive(Default)]
struct Batch {
    entries: Vec<(u64, Listed)>,
    /// The lowest key that there was no room for.
    dropped: Option<u64>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn push(&mut self, key: u64, entry: Listed) {
        if self.dropped.is_some_and(|dropped| key >= dropped) {
            return;
        }
        self.entries.push((key, entry));
        if self.entries.len() >= 2 * LISTED_MAX {
            self.shrink();
        }
    }

    /// Sorts the entries and drops those that are too many, with all that share a key with one of them.
    fn shrink(&mut self) {
        self.entries.sort_by_key(|(key, _)| *key);
        if let Some((first, _)) = self.entries.get(LISTED_MAX) {
            let first = *first;
            self.dropped = Some(first);
            let keep = self.entries.partition_point(|(key, _)| *key < first);
            self.entries.truncate(keep);
        }
    }

    /// Adds the entries to `listed`, in order.
    fn finish(mut self, dir: Ino, listed: &mut Vec<Listed>) -> Result<()> {
        self.shrink();
        if self.entries.is_empty() && self.dropped.is_some() {
            return Err(Corrupt::new(CorruptKind::DirHashShared)
                .ino(dir)
                .detail(format_args!("more than {LISTED_MAX}"))
                .into());
        }
        let keys: Vec<u64> = self.entries.iter().map(|(key, _)| *key).collect();
        for (i, (key, mut entry)) in self.entries.into_iter().enumerate() {
            let shared = keys.get(i + 1) == Some(&key);
            entry.hash = hash_of(key);
            entry.cookie = key + FIRST - u64::from(shared);
            listed.push(entry);
        }
        Ok(())
    }
}

impl Directory {
    /// The entry that `is_it` among those of this hash, or among all if there is none or if entries are listed where they are.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`, shared at least.
    pub(crate) fn find_listed(
        &self,
        dir: &Inode,
        hash: NameHash,
        is_it: impl Fn(&Listed) -> bool,
    ) -> Result<Option<Listed>> {
        let of_all = key(hash) == 0 || self.lists_in_place(dir);
        let mut cookie = match of_all {
            true => DOTDOT,
            false => key(hash) + FIRST - 1,
        };
        loop {
            let listed = self.dir_list(dir, cookie)?;
            let Some(last) = listed.last() else {
                return Ok(None);
            };
            cookie = last.cookie;
            let is_past = !of_all && key(last.hash) != key(hash);
            let found = listed.into_iter().find(&is_it);
            if found.is_some() || is_past {
                return Ok(found);
            }
        }
    }

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
                        hash: NameHash::default(),
                        cookie: at,
                    });
                }
            }
        }
        // The lowest key, or the first byte, that is wanted.
        let from = cookie.saturating_add(1).max(FIRST) - FIRST;
        let position = cookie.max(FIRST) - FIRST;
        if self.lists_in_place(dir) && position <= dir.size() {
            self.list_in_place(dir, position, &mut listed)?;
            return Ok(listed);
        }
        let mut batch = Batch::default();
        if self.is_hashed(dir) {
            let list = || self.list_hashed(dir, from);
            batch = self.in_still_tree(dir, |_| false, list)?;
        } else if dir.is_inline() {
            self.list_inline(dir, from, &mut batch)?;
        } else {
            for lblk in 0..self.dir_blocks(dir) {
                let leaf = self.dir_block(dir, Lblk(lblk), Role::Leaf)?;
                self.list_leaf(dir, &leaf, self.volume.sb.hash.version, from, &mut batch)?;
            }
        }
        batch.finish(dir.ino, &mut listed)?;
        Ok(listed)
    }

    /// The names in the blocks that can be read, without `.` and `..`, and why the other blocks cannot be.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`, shared at least.
    pub(crate) fn dir_list_readable(&self, dir: &Inode) -> (Vec<Vec<u8>>, Vec<Ext4Error>) {
        let (mut names, mut faults) = (Vec::new(), Vec::new());
        if dir.is_inline() {
            match self.inline.inline_entries(dir) {
                Ok(entries) => names.extend(entries.into_iter().map(|entry| entry.name)),
                Err(fault) => faults.push(fault),
            }
            return (names, faults);
        }
        let _still = dir.blocks().lock_tree();
        for lblk in self.mapped_blocks(dir) {
            let lblk = match lblk {
                Ok(lblk) => lblk,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            // In a tree, the first block is always its root; which others are nodes shows in them.
            let role = match self.is_hashed(dir) && lblk.0 == 0 {
                true => Role::Index(DxKind::Root),
                false => Role::Leaf,
            };
            let is_node = || {
                let node = Role::Index(DxKind::Node);
                self.is_hashed(dir) && self.dir_block(dir, lblk, node).is_ok()
            };
            let leaf = match self.dir_block(dir, lblk, role) {
                Ok(_) if role != Role::Leaf => continue,
                Ok(leaf) => leaf,
                Err(_) if lblk.0 > 0 && is_node() => continue,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            let content = leaf.read();
            for entry in dir_entries(content.data(), self.volume.dir_end()) {
                match entry {
                    Ok(d) if d.ino.0 == 0 || d.is_dot_or_dotdot() => {}
                    Ok(d) => names.push(d.name.to_vec()),
                    Err(e) => faults.push(e.ino(dir.ino).into()),
                }
            }
        }
        (names, faults)
    }

    /// Whether a directory has no index and never gets one, so that its entries stay where they are.
    fn lists_in_place(&self, dir: &Inode) -> bool {
        let indexes = self.volume.sb.compat.contains(Compat::DIR_INDEX);
        !self.is_hashed(dir) && !dir.is_inline() && (!indexes || self.dir_blocks(dir) > 1)
    }

    /// The entries of one block from byte `from` on, of the first that has some.
    fn list_in_place(&self, dir: &Inode, from: u64, listed: &mut Vec<Listed>) -> Result<()> {
        let size = self.volume.block_size();
        let before = listed.len();
        for lblk in (from / size) as u32..self.dir_blocks(dir) {
            let leaf = self.dir_block(dir, Lblk(lblk), Role::Leaf)?;
            let start = u64::from(lblk) * size;
            let content = leaf.read();
            for d in dir_entries(content.data(), self.volume.dir_end()) {
                let d = d.map_err(|e| e.ino(dir.ino))?;
                // The record that a cookie stood behind may have become part of another.
                if d.ino.0 == 0 || d.is_dot_or_dotdot() || start + (d.offset as u64) < from {
                    continue;
                }
                listed.push(Listed {
                    ino: d.ino,
                    file_type: d.file_type,
                    name: d.name.to_vec(),
                    hash: match self.volume.has_keyed_hashes(dir) {
                        true => entry_hash(content.data(), &d),
                        false => NameHash::default(),
                    },
                    cookie: start + d.offset as u64 + 1 + FIRST,
                });
            }
            if listed.len() > before {
                break;
            }
        }
        Ok(())
    }

    /// The first leaf with anything from `from` on, with those that continue its last hash.
    fn list_hashed(&self, dir: &Inode, from: u64) -> Result<Batch> {
        let mut batch = Batch::default();
        let version = self.tree_hash(dir)?;
        let mut path: Option<DxPath> = Some(self.descend(dir, ((from >> 32) as u32) << 1)?);
        while let Some(p) = path {
            let leaf = self.leaf_of(dir, &p)?;
            self.list_leaf(dir, &leaf, version, from, &mut batch)?;
            let continued = Self::next_hash(&p).is_some_and(|hash| hash & 1 == 1);
            if !batch.is_empty() && !continued {
                break;
            }
            path = self.next_leaf(dir, p)?;
        }
        Ok(batch)
    }

    fn list_inline(&self, dir: &Inode, from: u64, batch: &mut Batch) -> Result<()> {
        for Entry {
            ino,
            file_type,
            name,
        } in self.inline.inline_entries(dir)?
        {
            let key = key(self
                .volume
                .hash_name(dir, self.volume.sb.hash.version, &name));
            if key >= from {
                let listed = Listed {
                    ino,
                    file_type,
                    name,
                    hash: NameHash::default(),
                    cookie: 0,
                };
                batch.push(key, listed);
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
        batch: &mut Batch,
    ) -> Result<()> {
        let content = leaf.read();
        for d in dir_entries(content.data(), self.volume.dir_end()) {
            let d = d.map_err(|e| e.ino(dir.ino))?;
            if d.ino.0 == 0 || d.is_dot_or_dotdot() {
                continue;
            }
            let hash = match self.volume.has_keyed_hashes(dir) {
                true => entry_hash(content.data(), &d),
                false => self.volume.hash_name(dir, version, d.name),
            };
            let key = key(hash);
            if key >= from {
                let listed = Listed {
                    ino: d.ino,
                    file_type: d.file_type,
                    name: d.name.to_vec(),
                    hash: NameHash::default(),
                    cookie: 0,
                };
                batch.push(key, listed);
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use crate::fs::Ext4;
    use crate::options::MountOptions;
    use uext4_block::MemoryDevice;
    use uext4_build::{FeatureSet, MkfsOptions, NoProgress};
    use uext4_vfs::attr::NewKind;

    fn entry(name: u32) -> Listed {
        Listed {
            ino: Ino(12),
            file_type: FileType::Regular,
            name: name.to_le_bytes().to_vec(),
            hash: NameHash::default(),
            cookie: 0,
        }
    }

    /// Lists as one that calls again with the last cookie does.
    fn all(keys: &[u64]) -> Result<Vec<Listed>> {
        let (mut found, mut from): (Vec<Listed>, u64) = (Vec::new(), 0);
        loop {
            let mut batch = Batch::default();
            for (i, key) in keys.iter().enumerate().filter(|(_, key)| **key >= from) {
                batch.push(*key, entry(i as u32));
            }
            let mut listed = Vec::new();
            batch.finish(Ino(2), &mut listed)?;
            assert!(listed.len() <= LISTED_MAX);
            let Some(last) = listed.last() else {
                return Ok(found);
            };
            from = last.cookie + 1 - FIRST;
            found.append(&mut listed);
        }
    }

    #[test]
    fn whatever_there_is_comes_in_pieces() {
        let many = 3 * LISTED_MAX as u64 + 17;
        // In an order that is not theirs, some with a key that others have.
        let keys: Vec<u64> = (0..many).map(|i| (i * 7919 % many) / 3).collect();
        let mut found: Vec<_> = all(&keys)
            .expect("lists")
            .into_iter()
            .map(|e| e.name)
            .collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), keys.len(), "each, once");
    }

    #[test]
    fn too_many_with_one_key_are_damage() {
        assert!(all(&vec![7; LISTED_MAX]).is_ok());
        assert!(all(&vec![7; LISTED_MAX + 1]).is_err());
    }

    /// A directory of many blocks without an index, with names that come and go while it is listed.
    #[test]
    fn a_directory_without_an_index_is_listed_block_by_block() {
        let device = Arc::new(MemoryDevice::new(8 << 20));
        let options = MkfsOptions {
            size: Some(8 << 20),
            block_size: 1024,
            inodes: Some(2048),
            features: FeatureSet::parse("^dir_index").expect("features"),
            ..MkfsOptions::default()
        };
        uext4_build::mkfs(&*device, &options, &NoProgress).expect("mkfs");
        let fs = Ext4::mount(device, MountOptions::default()).expect("mount");
        let (me, root) = (Caller::root(), fs.namei.root().expect("root").clone());
        let new = NewNode {
            mode: 0o644,
            kind: NewKind::Regular,
        };
        let name = |i: u32| format!("a name of some length, {i}").into_bytes();
        for i in 0..1000 {
            fs.namei.create(&me, &root, &name(i), &new).expect("create");
        }
        let (mut cookie, mut found) = (0, Vec::new());
        for round in 0.. {
            let listed = fs.directories.dir_list(&root, cookie).expect("lists");
            assert!(listed.len() <= 1024 / 12 + 2, "more than a block's entries");
            let Some(last) = listed.get(listed.len() / 2) else {
                break;
            };
            // From the middle of a block on, where a name before has gone and another come.
            cookie = last.cookie;
            found.extend(
                listed
                    .into_iter()
                    .take_while(|e| e.cookie <= cookie)
                    .map(|e| e.name),
            );
            if round < 200 {
                let gone = name(round * 5);
                fs.namei.unlink(&me, &root, &gone).expect("unlink");
                fs.namei
                    .create(&me, &root, &name(2000 + round), &new)
                    .expect("create");
            }
        }
        found.retain(|name| name.len() > 2);
        let all = found.len();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), all, "a name was listed twice");
        let is_missing = |i: &u32| !i.is_multiple_of(5) && found.binary_search(&name(*i)).is_err();
        assert_eq!((0..1000).find(is_missing), None, "a name was not listed");
    }
}

//! The way down the tree of hashes, and making room in it.

use super::{Found, Role, Vacancy};
use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::inode::Inode;
use std::sync::Arc;
use uext4_buffer::Buffer;
use uext4_jbd2::Handle;
use uext4_ondisk::{
    Corrupt, CorruptKind, DxEntry, DxFull, DxKind, DxRootInfo, DxView, DxViewMut, HashVersion,
    Incompat, Lblk,
};

/// The index blocks from the root to the one above the leaf, with the position taken in each.
#[derive(Debug)]
pub(crate) struct DxPath {
    steps: Vec<(Arc<Buffer>, DxKind, usize)>,
    version: HashVersion,
    /// The leaf's block.
    pub leaf: Lblk,
}

impl DxPath {
    fn view<R>(&self, level: usize, f: impl FnOnce(DxView<'_>, usize) -> R) -> Option<R> {
        let (buffer, kind, at) = self.steps.get(level)?;
        let content = buffer.read();
        Some(f(DxView::new(content.data(), *kind), *at))
    }
}

impl Ext4 {
    pub(super) fn find_hashed(&self, dir: &Inode, name: &[u8]) -> Result<Found> {
        let version = self.tree_hash(dir)?;
        let hash = self.sb.hash.hash(version, name);
        let path = self.descend(dir, hash.major)?;
        let leaf = self.leaf_of(dir, &path)?;
        if let Some(hit) = self.find_in_leaf(&leaf, name)? {
            return Ok(Found::Hit(hit));
        }
        // Names of one hash may go on in the leaves that follow.
        let mut next = self.continuation(dir, &path, hash.major)?;
        while let Some(at) = next {
            let leaf = self.leaf_of(dir, &at)?;
            if let Some(hit) = self.find_in_leaf(&leaf, name)? {
                return Ok(Found::Hit(hit));
            }
            next = self.continuation(dir, &at, hash.major)?;
        }
        Ok(Found::Vacancy(Vacancy {
            hash,
            path: Some(path),
        }))
    }

    pub(super) fn tree_hash(&self, dir: &Inode) -> Result<HashVersion> {
        let root = self.dir_block(dir, Lblk(0), Role::Index(DxKind::Root))?;
        let content = root.read();
        Ok(DxRootInfo::read(content.data(), true)
            .map_err(|e| e.ino(dir.ino))?
            .hash_version)
    }

    /// The way to the leaf for a major hash.
    pub(super) fn descend(&self, dir: &Inode, major: u32) -> Result<DxPath> {
        self.descend_with(dir, |view| view.find(major))
    }

    fn descend_with(&self, dir: &Inode, pick: impl Fn(&DxView<'_>) -> usize) -> Result<DxPath> {
        let root = self.dir_block(dir, Lblk(0), Role::Index(DxKind::Root))?;
        let info = DxRootInfo::read(root.read().data(), true).map_err(|e| e.ino(dir.ino))?;
        let mut path = DxPath {
            steps: Vec::with_capacity(usize::from(info.indirect_levels) + 1),
            version: info.hash_version,
            leaf: Lblk(0),
        };
        let (mut buffer, mut kind) = (root, DxKind::Root);
        loop {
            let (at, child) = {
                let content = buffer.read();
                let view = DxView::new(content.data(), kind);
                let at = pick(&view);
                (at, view.entry(at))
            };
            let Some(child) = child else {
                return Err(Corrupt::new(CorruptKind::DxCountZero).ino(dir.ino).into());
            };
            path.steps.push((buffer, kind, at));
            if path.steps.len() > usize::from(info.indirect_levels) {
                path.leaf = child.block;
                return Ok(path);
            }
            kind = DxKind::Node;
            buffer = self.dir_block(dir, child.block, Role::Index(kind))?;
        }
    }

    pub(super) fn leaf_of(&self, dir: &Inode, path: &DxPath) -> Result<Arc<Buffer>> {
        self.dir_block(dir, path.leaf, Role::Leaf)
    }

    /// The entry that follows the path's, at whatever level: (level, hash).
    fn following(path: &DxPath) -> Option<(usize, u32)> {
        (0..path.steps.len()).rev().find_map(|level| {
            let next = path.view(level, |view, at| view.entry(at + 1).map(|e| e.hash))??;
            Some((level, next))
        })
    }

    /// The way to the leaf after the path's, if there is one.
    pub(super) fn next_leaf(&self, dir: &Inode, mut path: DxPath) -> Result<Option<DxPath>> {
        let Some((level, _)) = Self::following(&path) else {
            return Ok(None);
        };
        let depth = path.steps.len();
        path.steps.truncate(level + 1);
        if let Some(step) = path.steps.last_mut() {
            step.2 += 1;
        }
        loop {
            let level = path.steps.len() - 1;
            let child = path.view(level, |view, at| view.entry(at)).flatten();
            let Some(child) = child else {
                return Err(Corrupt::new(CorruptKind::DxCountZero).ino(dir.ino).into());
            };
            if path.steps.len() == depth {
                path.leaf = child.block;
                return Ok(Some(path));
            }
            let node = self.dir_block(dir, child.block, Role::Index(DxKind::Node))?;
            path.steps.push((node, DxKind::Node, 0));
        }
    }

    /// The way to the next leaf, if names of hash `major` go on there.
    pub(super) fn continuation(
        &self,
        dir: &Inode,
        path: &DxPath,
        major: u32,
    ) -> Result<Option<DxPath>> {
        match Self::following(path) {
            Some((_, next)) if next & 1 == 1 && next & !1 == major & !1 => {}
            _ => return Ok(None),
        }
        let copy = DxPath {
            steps: path.steps.clone(),
            version: path.version,
            leaf: path.leaf,
        };
        self.next_leaf(dir, copy)
    }

    /// The lowest hash of the leaf after the path's, and whether it continues this one.
    pub(super) fn next_hash(path: &DxPath) -> Option<u32> {
        Self::following(path).map(|(_, hash)| hash)
    }

    /// Adds an entry for a new leaf behind the path's, making room in the tree for it.
    ///
    /// # Errors
    /// [`Ext4Error::DirectoryFull`] when the tree has as many levels as it may have.
    pub(super) fn add_leaf(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        mut path: DxPath,
        hash: u32,
        leaf: Lblk,
    ) -> Result<()> {
        let target = path.leaf;
        for _ in 0..4 {
            let level = path.steps.len() - 1;
            if !path.view(level, |view, _| view.is_full()).unwrap_or(true) {
                let Some((buffer, kind, at)) = path.steps.last() else {
                    break;
                };
                let mut content = handle.modify(buffer)?;
                let entry = DxEntry { hash, block: leaf };
                return DxViewMut::new(content.data_mut(), *kind)
                    .insert_at(at + 1, entry)
                    .map_err(|DxFull| Ext4Error::DirectoryFull);
            }
            self.split_index(handle, dir, &path)?;
            path = self.find_leaf_again(dir, hash, target)?;
        }
        Err(Ext4Error::DirectoryFull)
    }

    /// The way to `target`, which holds hashes just below `hash`, after the tree changed above it.
    fn find_leaf_again(&self, dir: &Inode, hash: u32, target: Lblk) -> Result<DxPath> {
        let mut path = Some(self.descend(dir, (hash & !1).saturating_sub(1))?);
        while let Some(p) = path {
            if p.leaf == target {
                return Ok(p);
            }
            path = self.next_leaf(dir, p)?;
        }
        Err(Corrupt::new(CorruptKind::DxBlock)
            .ino(dir.ino)
            .detail("a leaf was lost")
            .into())
    }

    /// Splits the lowest full index block that has room above it, or adds a level.
    fn split_index(&self, handle: &Handle<'_>, dir: &Inode, path: &DxPath) -> Result<()> {
        let tail = self.dir_tail();
        let depth = path.steps.len();
        let roomy = (0..depth - 1)
            .rev()
            .find(|&level| !path.view(level, |view, _| view.is_full()).unwrap_or(true));
        if let Some(parent) = roomy {
            let (node_lblk, node) =
                self.append_dir_block(handle, dir, Role::Index(DxKind::Node))?;
            let (Some((child, kind, _)), Some((above, above_kind, at))) =
                (path.steps.get(parent + 1), path.steps.get(parent))
            else {
                return Err(Ext4Error::DirectoryFull);
            };
            let hash = {
                let mut lower = handle.modify(child)?;
                let mut upper = handle.create(&node)?;
                DxViewMut::new(lower.data_mut(), *kind).split_into(upper.data_mut(), tail)
            };
            let Some(hash) = hash else {
                return Err(Ext4Error::DirectoryFull);
            };
            let mut above = handle.modify(above)?;
            let entry = DxEntry {
                hash,
                block: node_lblk,
            };
            return DxViewMut::new(above.data_mut(), *above_kind)
                .insert_at(at + 1, entry)
                .map_err(|DxFull| Ext4Error::DirectoryFull);
        }
        let large = self.sb.incompat.contains(Incompat::LARGE_DIR);
        if depth >= usize::from(uext4_ondisk::dx_levels_max(large)) {
            return Err(Ext4Error::DirectoryFull);
        }
        let (node_lblk, node) = self.append_dir_block(handle, dir, Role::Index(DxKind::Node))?;
        let Some((root, _, _)) = path.steps.first() else {
            return Err(Ext4Error::DirectoryFull);
        };
        let mut root = handle.modify(root)?;
        let mut below = handle.create(&node)?;
        DxViewMut::new(root.data_mut(), DxKind::Root)
            .push_down(below.data_mut(), tail, node_lblk)
            .ok_or(Ext4Error::DirectoryFull)
    }
}

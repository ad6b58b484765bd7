//! The way down the tree of hashes, and making room in it.

use crate::directory::{Directory, Found, Role, Vacancy};
use crate::inode::Inode;
use crate::prelude::*;
use crate::volume::sought::Sought;
use uext4_ondisk::{DxEntry, DxFull, DxRootInfo, DxView, DxViewMut, HashVersion};

/// More levels than any tree has.
const LEVELS_MAX: usize = 4;

/// An index block on the way down, as what, and the position taken in it.
type Step = (Arc<Buffer>, DxKind, usize);

/// The index blocks from the root to the one above the leaf, with the position taken in each.
#[derive(Clone, Debug)]
pub(crate) struct DxPath {
    steps: ArrayVec<Step, LEVELS_MAX>,
    /// The entry that follows the path's, at whatever level: that level, and its hash.
    following: Option<(usize, u32)>,
    /// The leaf's block.
    pub leaf: Lblk,
}

impl DxPath {
    fn view<R>(&self, level: usize, f: impl FnOnce(DxView<'_>, usize) -> R) -> Option<R> {
        let (buffer, kind, at) = self.steps.get(level)?;
        let content = buffer.read();
        Some(f(DxView::new(content.data(), *kind), *at))
    }

    /// Whether names of hash `major` go on in the leaf that follows.
    pub(super) fn is_continued(&self, major: u32) -> bool {
        self.following
            .is_some_and(|(_, next)| next & 1 == 1 && next & !1 == major & !1)
    }

    /// Finds the entry that follows after the positions changed.
    fn find_following(&mut self) {
        self.following = (0..self.steps.len()).rev().find_map(|level| {
            let next = self.view(level, |view, at| view.entry(at + 1).map(|e| e.hash))??;
            Some((level, next))
        });
    }
}

impl Directory {
    pub(super) fn find_hashed(&self, dir: &Inode, sought: &Sought<'_>) -> Result<Found> {
        let mut hash = NameHash::default();
        let path = self.descend_with(dir, |version| {
            hash = self.volume.sb.hash.hash(version, sought.key());
            hash.major
        })?;
        let leaf = self.leaf_of(dir, &path)?;
        if let Some(hit) = self.find_in_leaf(&leaf, sought)? {
            return Ok(Found::Hit(hit));
        }
        // Names of one hash may go on in the leaves that follow.
        let mut next = self.continuation(dir, &path, hash.major)?;
        while let Some(at) = next {
            let leaf = self.leaf_of(dir, &at)?;
            if let Some(hit) = self.find_in_leaf(&leaf, sought)? {
                return Ok(Found::Hit(hit));
            }
            next = self.continuation(dir, &at, hash.major)?;
        }
        Ok(Found::Vacancy(Vacancy {
            hash,
            path: Some((path, leaf)),
        }))
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
        let (path, hash) = self.way_to(dir, &self.volume.sought(dir, name))?;
        let leaf = self.leaf_of(dir, &path)?;
        Ok(Vacancy {
            hash,
            path: Some((path, leaf)),
        })
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
        self.descend_with(dir, |_| major)
    }

    /// The way to the leaf for the major hash that `hash` gives for the tree's hash version. Takes
    /// the lock of each index block once.
    pub(super) fn descend_with(
        &self,
        dir: &Inode,
        hash: impl FnOnce(HashVersion) -> u32,
    ) -> Result<DxPath> {
        let mut path = DxPath {
            steps: ArrayVec::new(),
            following: None,
            leaf: Lblk(0),
        };
        let mut buffer = self.dir_block(dir, Lblk(0), Role::Index(DxKind::Root))?;
        let (major, levels, mut child) = {
            let content = buffer.read();
            let info = DxRootInfo::read(content.data(), true).map_err(|e| e.ino(dir.ino))?;
            let major = hash(info.hash_version);
            let taken = take(&mut path, content.data(), DxKind::Root, major);
            (major, usize::from(info.indirect_levels), taken)
        };
        let mut kind = DxKind::Root;
        loop {
            let (at, block) =
                child.ok_or_else(|| Corrupt::new(CorruptKind::DxCountZero).ino(dir.ino))?;
            path.steps
                .try_push((buffer, kind, at))
                .map_err(|_| Corrupt::new(CorruptKind::DxBlock).ino(dir.ino))?;
            if path.steps.len() > levels {
                path.leaf = block;
                return Ok(path);
            }
            kind = DxKind::Node;
            buffer = self.dir_block(dir, block, Role::Index(kind))?;
            child = take(&mut path, buffer.read().data(), kind, major);
        }
    }

    pub(super) fn leaf_of(&self, dir: &Inode, path: &DxPath) -> Result<Arc<Buffer>> {
        self.dir_block(dir, path.leaf, Role::Leaf)
    }

    /// The way to the leaf after the path's, if there is one.
    pub(super) fn next_leaf(&self, dir: &Inode, mut path: DxPath) -> Result<Option<DxPath>> {
        let Some((level, _)) = path.following else {
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
                path.find_following();
                return Ok(Some(path));
            }
            let node = self.dir_block(dir, child.block, Role::Index(DxKind::Node))?;
            path.steps
                .try_push((node, DxKind::Node, 0))
                .map_err(|_| Corrupt::new(CorruptKind::DxBlock).ino(dir.ino))?;
        }
    }

    /// The way to the next leaf, if names of hash `major` go on there.
    pub(super) fn continuation(
        &self,
        dir: &Inode,
        path: &DxPath,
        major: u32,
    ) -> Result<Option<DxPath>> {
        if !path.is_continued(major) {
            return Ok(None);
        }
        let copy = DxPath {
            steps: path.steps.clone(),
            following: path.following,
            leaf: path.leaf,
        };
        self.next_leaf(dir, copy)
    }

    /// The lowest hash of the leaf after the path's, and whether it continues this one.
    pub(super) fn next_hash(path: &DxPath) -> Option<u32> {
        path.following.map(|(_, hash)| hash)
    }

    /// Makes room in the tree for an entry behind the path's, which is given as it is then. The tree is right by
    /// itself, also where that fails.
    ///
    /// # Errors
    /// [`Ext4Error::DirectoryFull`] when the tree has as many levels as it may have. [`Ext4Error::NoSpace`].
    pub(super) fn make_room_behind(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        mut path: DxPath,
        hash: u32,
    ) -> Result<DxPath> {
        let target = path.leaf;
        // Each round makes room one level further down, or adds a level.
        for _ in 0..=LEVELS_MAX {
            let level = path.steps.len() - 1;
            if !path.view(level, |view, _| view.is_full()).unwrap_or(true) {
                return Ok(path);
            }
            self.split_index(handle, dir, &path)?;
            path = self.find_leaf_again(dir, hash, target)?;
        }
        Err(Ext4Error::DirectoryFull)
    }

    /// Adds an entry for a new leaf behind the path's, where there is room.
    pub(super) fn add_leaf(
        &self,
        handle: &Handle<'_>,
        path: &DxPath,
        hash: u32,
        leaf: Lblk,
    ) -> Result<()> {
        let Some((buffer, kind, at)) = path.steps.last() else {
            return Err(Ext4Error::DirectoryFull);
        };
        let mut content = handle.modify(buffer)?;
        let entry = DxEntry { hash, block: leaf };
        DxViewMut::new(content.data_mut(), *kind)
            .insert_at(at + 1, entry)
            .map_err(|DxFull| Ext4Error::DirectoryFull)
    }

    /// The way to `target`, which holds hashes just below `hash`, after the tree changed above it.
    pub(super) fn find_leaf_again(&self, dir: &Inode, hash: u32, target: Lblk) -> Result<DxPath> {
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
        let tail = self.volume.dir_tail();
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
        let large = self.volume.sb.incompat.contains(Incompat::LARGE_DIR);
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

/// The entry for `major` in the index block that comes next on the path: its position and block.
fn take(path: &mut DxPath, block: &[u8], kind: DxKind, major: u32) -> Option<(usize, Lblk)> {
    let view = DxView::new(block, kind);
    let at = view.find(major);
    if let Some(next) = view.entry(at + 1) {
        path.following = Some((path.steps.len(), next.hash));
    }
    Some((at, view.entry(at)?.block))
}

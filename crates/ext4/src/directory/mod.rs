//! Directories: linear blocks of records, and above them, once there is more than one block, a tree of
//! hashes.
//!
//! # Data model
//! Block 0 of a hashed directory is the root of the tree; leaves are linear blocks, each with the
//! names of a range of hashes. A directory of one block is linear and becomes hashed when it grows.
//!
//! # Invariants
//! - A leaf's hint says where free space starts at the earliest, as far as is known.
//! - Blocks are validated and their checksum checked once, when they are loaded.
//!
//! # Locking
//! The directory's `ilock`: shared to find and list, alone to change, or with `dir-lock=leaf` shared to change entries, too.
//! Blocks are buffers.
//!
//! | module | holds |
//! | --- | --- |
//! | `hashed` | the way down the tree, splitting |
//! | `change` | adding, removing and changing entries |
//! | `shared` | changes of entries beside others |
//! | `list` | reading a directory in the order of hashes |

mod change;
mod hashed;
mod list;
pub(crate) mod shared;

use crate::block_allocator::BlockAllocator;
use crate::inline::InlineData;
use crate::inode::Inode;
use crate::inode_table::InodeTable;
use crate::kinds;
use crate::mapping::Mapping;
use crate::prelude::*;
use crate::volume::Volume;
use crate::volume::sought::Sought;
use hashed::DxPath;
use uext4_ondisk::{Dirent, DxRootInfo, DxView};

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// What a block of a directory is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leaf,
    Index(DxKind),
}

impl Role {
    /// What the block's buffer keeps.
    fn kind(self) -> u8 {
        match self {
            Role::Leaf => kinds::DIR_LEAF,
            Role::Index(DxKind::Root) => kinds::DIR_ROOT,
            Role::Index(_) => kinds::DIR_INDEX,
        }
    }
}

/// An entry that was found, and where; valid while the directory is locked alone, or the leaf.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub ino: Ino,
    /// None for a directory that is all in its inode.
    pub leaf: Option<Arc<Buffer>>,
    pub offset: usize,
    pub prev: Option<usize>,
    /// Of the leaf's content.
    edition: u32,
}

impl Hit {
    /// The leaf is locked.
    fn new(leaf: &Arc<Buffer>, d: &Dirent<'_>) -> Hit {
        Hit {
            ino: d.ino,
            edition: leaf.edition(),
            leaf: Some(Arc::clone(leaf)),
            offset: d.offset,
            prev: d.prev,
        }
    }
}

/// Where a name that does not exist would go; valid while the directory is locked alone, or the leaf.
#[derive(Debug)]
pub(crate) struct Vacancy {
    hash: NameHash,
    /// The way down, and the leaf; none for a linear directory.
    path: Option<(DxPath, Arc<Buffer>)>,
}

/// A name, found or not.
#[derive(Debug)]
pub(crate) enum Found {
    Hit(Hit),
    Vacancy(Vacancy),
}

/// Refuses names that no directory can hold.
#[inline]
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Ext4Error::NameTooLong);
    }
    if name.is_empty() {
        return Err(Ext4Error::NotFound);
    }
    if name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(Ext4Error::Invalid("a name with a slash or a zero byte"));
    }
    Ok(())
}

/// The entries of directories; see the module.
pub struct Directory {
    pub(crate) volume: Arc<Volume>,
    pub(crate) blocks: Arc<BlockAllocator>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) inline: Arc<InlineData>,
}

impl Directory {
    pub(crate) fn dir_blocks(&self, dir: &Inode) -> u32 {
        (dir.size() / self.volume.block_size()) as u32
    }

    fn is_hashed(&self, dir: &Inode) -> bool {
        self.volume.sb.compat.contains(Compat::DIR_INDEX) && dir.flags().contains(InodeFlags::INDEX)
    }

    /// The blocks that a directory maps, in order; of a hole once that it is there, so that a size which is only claimed takes no
    /// time. No more are there than the file system has blocks.
    fn mapped_blocks(&self, dir: &Inode) -> impl Iterator<Item = Result<Lblk>> {
        let most = self.volume.geometry().blocks_count;
        let blocks = u64::from(self.dir_blocks(dir)).min(most);
        let mut next = 0;
        std::iter::from_fn(move || {
            let lblk = Lblk(u32::try_from(next).ok().filter(|_| next < blocks)?);
            let found = self.mapping.map_block(dir, lblk);
            next += match &found {
                Ok(run) if run.pblk.is_none() => u64::from(run.len),
                _ => 1,
            };
            Some(found.and_then(|run| match run.pblk {
                Some(_) => Ok(lblk),
                None => Err(hole(dir, lblk)),
            }))
        })
    }

    /// A block of a directory, checked as what it is used as.
    pub(crate) fn dir_block(&self, dir: &Inode, lblk: Lblk, role: Role) -> Result<Arc<Buffer>> {
        let remembered = dir.blocks();
        let (kind, seed) = (role.kind(), dir.seed().0);
        if let Some(buffer) = remembered.get(lblk)
            && buffer.is_verified()
            && buffer.has_role(kind, seed)
        {
            return Ok(Arc::clone(buffer));
        }
        let Some(pblk) = self.mapping.map_block(dir, lblk)?.pblk else {
            return Err(hole(dir, lblk));
        };
        let buffer = self
            .volume
            .cache()
            .get_verified(pblk.0, (kind, seed), |data| {
                self.check_dir_block(dir, data, role)
                    .map_err(|e| Ext4Error::from(e.pblk(pblk)))
            })
            .map_err(|e| e.of_inode(dir.ino))?;
        remembered.put(lblk, &buffer);
        Ok(buffer)
    }

    fn check_dir_block(&self, dir: &Inode, data: &[u8], role: Role) -> uext4_ondisk::Result<()> {
        let tail = self.volume.dir_tail();
        match role {
            Role::Leaf => {
                if tail {
                    uext4_ondisk::dir_checksum_verify(data, dir.seed())?;
                }
                uext4_ondisk::dir_validate(data, tail, self.volume.geometry().inodes_count)
            }
            Role::Index(kind) => {
                if tail {
                    uext4_ondisk::dx_checksum_verify(data, kind, dir.seed())?;
                }
                if kind == DxKind::Root {
                    DxRootInfo::read(data, self.volume.sb.incompat.contains(Incompat::LARGE_DIR))?;
                }
                DxView::validate(data, kind, tail, self.dir_blocks(dir)).map(|_| ())
            }
        }
    }

    /// Looks a name up, `.` and `..` not among them.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`.
    pub(crate) fn dir_look_up(&self, dir: &Inode, name: &[u8]) -> Result<Found> {
        self.look_up(dir, &self.volume.sought(dir, name))
    }

    /// Looks up the entry that has this very name, in a directory that ignores case, too.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`.
    pub(crate) fn dir_look_up_exact(&self, dir: &Inode, name: &[u8]) -> Result<Found> {
        self.look_up(dir, &self.volume.sought_exactly(dir, name))
    }

    fn look_up(&self, dir: &Inode, sought: &Sought<'_>) -> Result<Found> {
        if self.is_hashed(dir) {
            let is_hit = |found: &Found| matches!(found, Found::Hit(_));
            let find = || match self.volume.has_keyed_hashes(dir) {
                true => self.find_in_leaves(dir, sought),
                false => self.find_hashed(dir, sought),
            };
            return self
                .in_still_tree(dir, is_hit, find)
                .or_else(|fault| self.find_past(dir, sought, fault));
        }
        if dir.is_inline()
            && let Some((ino, offset)) = self.inline.inline_find(dir, sought)?
        {
            return Ok(Found::Hit(Hit {
                ino,
                leaf: None,
                offset,
                prev: None,
                edition: 0,
            }));
        }
        for lblk in 0..self.dir_blocks(dir) {
            let leaf = self.dir_block(dir, Lblk(lblk), Role::Leaf)?;
            if let Some(hit) = self.find_in_leaf(&leaf, sought)? {
                return Ok(Found::Hit(hit));
            }
        }
        Ok(Found::Vacancy(Vacancy {
            hash: NameHash::default(),
            path: None,
        }))
    }

    /// Looks a stored name up in all leaves of a tree of keyed hashes: the name alone does not lead to its leaf.
    fn find_in_leaves(&self, dir: &Inode, sought: &Sought<'_>) -> Result<Found> {
        let mut path = Some(self.descend(dir, 0)?);
        while let Some(at) = path {
            if let Some(hit) = self.find_in_leaf(&self.leaf_of(dir, &at)?, sought)? {
                return Ok(Found::Hit(hit));
            }
            path = self.next_leaf(dir, at)?;
        }
        Ok(Found::Vacancy(Vacancy {
            hash: NameHash::default(),
            path: None,
        }))
    }

    /// Looks a name up past damage in the tree of hashes: in every block that can be read. On a mount that writes, damage ends an
    /// operation.
    fn find_past(&self, dir: &Inode, sought: &Sought<'_>, fault: Ext4Error) -> Result<Found> {
        if !fault.is_fault() || !self.volume.is_read_only() {
            return Err(fault);
        }
        let blocks = self.mapped_blocks(dir).flatten();
        for leaf in blocks.filter_map(|lblk| self.dir_block(dir, lblk, Role::Leaf).ok()) {
            if let Some(hit) = self.find_in_leaf(&leaf, sought)? {
                return Ok(Found::Hit(hit));
            }
        }
        Err(fault)
    }

    fn find_in_leaf(&self, leaf: &Arc<Buffer>, sought: &Sought<'_>) -> Result<Option<Hit>> {
        let content = leaf.read();
        let found = sought.find(content.data(), self.volume.dir_end())?;
        Ok(found.map(|d| Hit::new(leaf, &d)))
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

    /// The parent that a directory's `..` names.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`.
    pub(crate) fn dir_parent(&self, dir: &Inode) -> Result<Ino> {
        if dir.is_inline() {
            return self.inline.inline_parent(dir);
        }
        let block = self.dir_block(dir, Lblk(0), self.first_role(dir))?;
        let parent = uext4_ondisk::dir_parent(block.read().data());
        Ok(parent.map_err(|e| e.ino(dir.ino))?)
    }

    fn first_role(&self, dir: &Inode) -> Role {
        if self.is_hashed(dir) {
            Role::Index(DxKind::Root)
        } else {
            Role::Leaf
        }
    }

    /// Whether a directory has no entries but `.` and `..`.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`.
    pub(crate) fn dir_is_empty(&self, dir: &Inode) -> Result<bool> {
        if self.is_hashed(dir) {
            let mut path = Some(self.descend(dir, 0)?);
            while let Some(p) = path {
                if !self.leaf_is_empty(&self.leaf_of(dir, &p)?)? {
                    return Ok(false);
                }
                path = self.next_leaf(dir, p)?;
            }
            return Ok(true);
        }
        if dir.is_inline() {
            return Ok(self.inline.inline_entries(dir)?.is_empty());
        }
        for lblk in 0..self.dir_blocks(dir) {
            if !self.leaf_is_empty(&self.dir_block(dir, Lblk(lblk), Role::Leaf)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn leaf_is_empty(&self, leaf: &Arc<Buffer>) -> Result<bool> {
        Ok(uext4_ondisk::dir_block_is_empty(
            leaf.read().data(),
            self.volume.dir_end(),
        )?)
    }
}

fn hole(dir: &Inode, lblk: Lblk) -> Ext4Error {
    let why = Corrupt::new(CorruptKind::DirShort).ino(dir.ino);
    why.detail(format_args!("no block {lblk}")).into()
}

//! Two files exchange their blocks.
//!
//! # Invariants
//! With `metadata_csum` the checksum of every block of an extent tree is seeded by number and generation
//! of the inode that owns it. So when either changes, all nodes of the tree are journaled again in
//! the same handle, and the seed of the inode in memory follows; see [`crate::mapping::extents`].
//!
//! # Locking
//! The callers hold both inodes' `ilock` alone; the handle; both `map` locks, by inode number.

use crate::clock::now;
use crate::file::FileIo;
use crate::inode::{Inode, MapTree};
use crate::prelude::*;

/// Flags that say how `i_block` reads, and so go with it.
const MAPPING_FLAGS: InodeFlags = InodeFlags::EXTENTS.union(InodeFlags::HUGE_FILE);

/// The most nodes that the trees of two inodes may have: 64 MiB of blocks of 4 KiB.
const NODES_MAX: usize = 1 << 14;

/// The credits of an exchange beside its nodes: two blocks of inode tables.
const EXCHANGE_CREDITS: u32 = 2;

/// What two files exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exchange {
    /// Their data, with its size and its times; they get these generations.
    Data([Generation; 2]),
    /// Blocks with the same data, of which only the inodes know.
    Blocks,
}

impl FileIo {
    /// Gives each of two files the blocks of the other one.
    ///
    /// # Locks
    /// The caller holds both `ilock`s alone.
    ///
    /// # Journal
    /// One handle, with a credit for each node of both extent trees, and two.
    ///
    /// # Crash
    /// All of it survives or nothing.
    ///
    /// # Errors
    /// [`Ext4Error::TooLarge`], [`Ext4Error::NoSpace`]: more nodes than a transaction holds. Damage; the device's.
    pub(crate) fn exchange(&self, one: &Inode, other: &Inode, what: Exchange) -> Result<()> {
        let (one_nodes, other_nodes) = if self.volume.seed().is_some() {
            let nodes = self.mapping.tree_nodes(one, NODES_MAX)?;
            let left = NODES_MAX - nodes.len();
            (nodes, self.mapping.tree_nodes(other, left)?)
        } else {
            (Vec::new(), Vec::new())
        };
        let nodes = (one_nodes.len() + other_nodes.len()) as u32;
        let one_stays = self.attributes.xattr_sectors(one)?;
        let other_stays = self.attributes.xattr_sectors(other)?;
        let handle = self.volume.journal().start(nodes + EXCHANGE_CREDITS)?;
        let (first, second) = match one.ino < other.ino {
            true => (one, other),
            false => (other, one),
        };
        let mut first_map = first.map.write_keyed(u64::from(first.ino.0));
        let mut second_map = second.map.write_keyed(u64::from(second.ino.0));
        let (one_map, other_map) = match one.ino < other.ino {
            true => (&mut *first_map, &mut *second_map),
            false => (&mut *second_map, &mut *first_map),
        };
        let one_data = Moved::of(one, &one_nodes, one_stays);
        let other_data = Moved::of(other, &other_nodes, other_stays);
        let [one_generation, other_generation] = match what {
            Exchange::Data(new) => new.map(Some),
            Exchange::Blocks => [None; 2],
        };
        let to_one = Receiver {
            inode: one,
            generation: one_generation,
            stays: one_stays,
        };
        let to_other = Receiver {
            inode: other,
            generation: other_generation,
            stays: other_stays,
        };
        self.give(&handle, &to_one, one_map, &other_data)?;
        self.give(&handle, &to_other, other_map, &one_data)?;
        handle.finish();
        Ok(())
    }

    /// Makes `data` the data of an inode, under its new generation, or its blocks.
    fn give(
        &self,
        handle: &Handle<'_>,
        to: &Receiver<'_>,
        tree: &mut MapTree,
        data: &Moved<'_>,
    ) -> Result<()> {
        let &Receiver {
            inode,
            generation,
            stays,
        } = to;
        let owner = generation.unwrap_or(inode.generation());
        let seed = self.volume.sb.csum_seed.inode(inode.ino, owner);
        self.mapping.reseed_nodes(handle, data.nodes, seed)?;
        let time = now();
        inode.touch_data(handle);
        self.table.update_inode(inode, handle, |disk| {
            disk.i_block = data.disk.i_block;
            disk.blocks = data.sectors + stays;
            disk.flags = (disk.flags - MAPPING_FLAGS) | (data.disk.flags & MAPPING_FLAGS);
            let Some(generation) = generation else {
                return;
            };
            disk.size = data.disk.size;
            disk.atime = data.disk.atime;
            disk.mtime = data.disk.mtime;
            disk.ctime = time;
            disk.version = disk.version.wrapping_add(1);
            disk.generation = generation;
        })?;
        inode.set_seed(tree, seed);
        inode.snapshot.changed();
        Ok(())
    }
}

/// The inode to which an exchange gives blocks.
struct Receiver<'a> {
    inode: &'a Inode,
    /// The one that it gets, with the size and the times of what it gets.
    generation: Option<Generation>,
    /// Sectors of its attributes, which it keeps.
    stays: u64,
}

/// What an exchange takes from an inode.
struct Moved<'a> {
    disk: uext4_ondisk::Inode,
    /// Sectors of data and tree.
    sectors: u64,
    /// The nodes of its tree.
    nodes: &'a [Arc<Buffer>],
}

impl<'a> Moved<'a> {
    /// Of the sectors of an inode, `stays` are those of its attributes.
    fn of(inode: &Inode, nodes: &'a [Arc<Buffer>], stays: u64) -> Moved<'a> {
        let disk = inode.state().clone();
        Moved {
            sectors: disk.blocks.saturating_sub(stays),
            disk,
            nodes,
        }
    }
}

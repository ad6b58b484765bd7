//! Adding runs to a block map.
//!
//! # Invariants
//! What is missing on the way is reserved before anything changes, so that a lack of space leaves all as it
//! was. New pointer blocks are complete before the first pointer to them is set.

use crate::block_allocator::Goal;
use crate::inode::Inode;
use crate::inode::MapTree;
use crate::kinds;
use crate::mapping::Mapping;
use crate::mapping::block_map::{Path, Reader};
use crate::prelude::*;
use crate::run::Run;
use uext4_ondisk::map_pointer_set;

/// New pointer blocks, from the top down.
type NewNodes = ArrayVec<Pblk, MAP_LEVELS>;

impl Mapping {
    /// Adds a run where the file has a hole; no more than [`Mapping::goal_in_map`] says.
    ///
    /// # Journal
    /// Two credits; three more for each pointer block that is missing, at most three.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] when a pointer block is missing and no block is free; nothing is mapped then.
    pub(crate) fn insert_in_map(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        _tree: &mut MapTree,
        extent: Extent,
        privileged: bool,
    ) -> Result<()> {
        let reader = self.map_reader(inode.ino);
        let shape = reader.shape();
        let place = shape.place(extent.lblk).ok_or(Ext4Error::TooLarge)?;
        if extent.unwritten || usize::from(extent.len) > super::room(shape, &place) {
            return Err(Ext4Error::Invalid("a run that a block map cannot hold"));
        }
        if u32::try_from(extent.pblk.0 + u64::from(extent.len) - 1).is_err() {
            return Err(Ext4Error::NoSpace);
        }
        let root = inode.state().i_block;
        let mut path = reader.path(root, place)?;
        let (depth, slot) = (path.depth(), place.slot(path.depth()));
        if path.is_complete() {
            let mapped = path.with_pointers(depth, |p| first_mapped(p, slot, extent.len));
            if let Some(pblk) = mapped {
                return Err(taken(&reader, pblk, &extent));
            }
            self.change_pointers(handle, inode, &mut path, depth, |pointers| {
                put_run(pointers, slot, &extent)
            })?;
            return self.put_root(handle, inode, &path, &root, 0);
        }
        let nodes = self.reserve_nodes(&path, &extent, privileged)?;
        self.create_nodes(handle, inode, &path, &nodes, &extent)?;
        let top = nodes.first().copied();
        self.change_pointers(handle, inode, &mut path, depth, |pointers| {
            let _ = map_pointer_set(pointers, slot, top);
        })?;
        self.put_root(handle, inode, &path, &root, nodes.len())
    }

    /// Encodes the inode if its pointers changed or it has more blocks.
    fn put_root(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &Path,
        before: &[u8; 60],
        more_blocks: usize,
    ) -> Result<()> {
        if more_blocks == 0 && path.root == *before {
            return Ok(());
        }
        let sectors = more_blocks as u64 * (self.volume.block_size() / 512);
        self.table.update_inode(inode, handle, |disk| {
            disk.i_block = path.root;
            disk.blocks += sectors;
        })
    }

    /// Reserves the pointer blocks that are missing on the path, behind the data.
    fn reserve_nodes(&self, path: &Path, extent: &Extent, privileged: bool) -> Result<NewNodes> {
        let mut nodes = NewNodes::new();
        let mut goal = Goal {
            pblk: Pblk(extent.pblk.0 + u64::from(extent.len)),
            most: 1,
            groups: self.map_groups(),
            ino: Ino(0),
            lblk: Lblk(0),
            has_cluster: None,
        };
        for _ in path.depth()..path.place.levels {
            let reserved = self
                .blocks
                .reserve_blocks(goal, 1, privileged)
                .and_then(|run| {
                    let allocated = self.volume.allocate_on_host(run);
                    allocated.inspect_err(|_| self.blocks.unreserve(run))?;
                    Ok(run)
                });
            match reserved {
                Ok(run) => {
                    nodes.push(run.pblk);
                    goal.pblk = Pblk(run.pblk.0 + 1);
                }
                Err(why) => {
                    for pblk in nodes {
                        self.blocks.unreserve(Run { pblk, len: 1 });
                    }
                    return Err(why);
                }
            }
        }
        Ok(nodes)
    }

    /// Makes the pointer blocks that lead to the run; nothing leads to them yet.
    fn create_nodes(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &Path,
        nodes: &[Pblk],
        extent: &Extent,
    ) -> Result<()> {
        for (i, pblk) in nodes.iter().enumerate() {
            self.blocks.publish_run(
                handle,
                Run {
                    pblk: *pblk,
                    len: 1,
                },
            )?;
            let buffer = self.volume.cache().get_unread(pblk.0);
            buffer.set_kind(kinds::MAP_NODE, inode.ino.0);
            let mut content = handle.create(&buffer)?;
            let slot = path.place.slot(path.depth() + 1 + i);
            match nodes.get(i + 1) {
                Some(child) => {
                    let _ = map_pointer_set(content.data_mut(), slot, Some(*child));
                }
                None => put_run(content.data_mut(), slot, extent),
            }
        }
        Ok(())
    }
}

/// What the first pointer names, of `len` from `slot` on, that is not a hole.
fn first_mapped(pointers: &[u8], slot: usize, len: u16) -> Option<Pblk> {
    (slot..slot + usize::from(len)).find_map(|at| map_pointer(pointers, at))
}

fn put_run(pointers: &mut [u8], slot: usize, extent: &Extent) {
    for i in 0..extent.len {
        let pblk = Pblk(extent.pblk.0 + u64::from(i));
        // The caller has seen that all of them fit.
        let _ = map_pointer_set(pointers, slot + usize::from(i), Some(pblk));
    }
}

#[cold]
fn taken(reader: &Reader<'_>, pblk: Pblk, extent: &Extent) -> Ext4Error {
    Corrupt::new(CorruptKind::MapPointer)
        .ino(reader.ino)
        .pblk(pblk)
        .detail(format_args!("a hole at {} is none", extent.lblk))
        .into()
}

//! The block map: which blocks of a file without extents are where on disk.
//!
//! # Data model
//! `i_block` holds twelve pointers to data and three to trees of pointer blocks
//! (`uext4_ondisk::block_map`). Contiguous pointers are looked up as one run. There is nothing
//! unwritten: a block is mapped when its data is on the device.
//!
//! # Invariants
//! Pointer blocks carry no checksum and nothing that identifies them, so that every pointer is
//! checked when it is followed: within the file system, not in fixed metadata, not a block on the way to
//! it. We leave no pointer block without a pointer; those of others are freed when they are met.
//!
//! # Locking
//! The inode's `map` lock: shared to look up, alone to change. Pointer blocks are buffers, parent before
//! child.
//!
//! | module | holds |
//! | --- | --- |
//! | `insert` | adding runs, and the pointer blocks that this takes |
//! | `remove` | taking runs away and freeing what they hold |
//! | `walk` | all of a map, in order |

mod insert;
pub(crate) mod remove;
mod walk;

use crate::block_allocator::Goal;
use crate::inode::Inode;
use crate::kinds;
use crate::mapping::Mapping;
use crate::prelude::*;
use crate::run::RunLookup;
use crate::volume::fixed_blocks::FixedBlocks;
use uext4_ondisk::{MAP_DIRECT, MapPlace};

/// How many holes that follow each other are looked up as one.
const HOLES_MAX: usize = 16;

/// What it takes to read one inode's map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub cache: &'a BufferCache,
    pub bounds: BlockBounds,
    /// None where it is not known yet: while mounting.
    pub fixed: Option<&'a FixedBlocks>,
    pub ino: Ino,
}

/// The inode's pointers and the pointer blocks on the way to a file block, as far as there are any.
#[derive(Debug)]
struct Path {
    root: [u8; 60],
    place: MapPlace,
    nodes: ArrayVec<Arc<Buffer>, MAP_LEVELS>,
}

impl Path {
    /// Runs `f` on the pointers at `depth`, 0 being those in the inode.
    fn with_pointers<R>(&self, depth: usize, f: impl FnOnce(&[u8]) -> R) -> R {
        match depth.checked_sub(1).and_then(|at| self.nodes.get(at)) {
            Some(buffer) => f(buffer.read().data()),
            None => f(&self.root),
        }
    }

    /// How far down it leads.
    fn depth(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the pointer to the block itself has a place.
    fn is_complete(&self) -> bool {
        self.nodes.len() == self.place.levels
    }

    /// Refuses blocks that it leads through.
    fn check_apart(&self, reader: &Reader<'_>, pblk: Pblk, len: u64) -> Result<()> {
        let is_within = |node: &Arc<Buffer>| node.block().wrapping_sub(pblk.0) < len;
        match self.nodes.iter().any(is_within) {
            true => Err(reader.corrupt(CorruptKind::MapCycle, pblk)),
            false => Ok(()),
        }
    }
}

/// What begins at a pointer: data or a pointer block, or a hole; and how many pointers go on so.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pblk: Option<Pblk>,
    len: u64,
}

/// What begins at the pointer `slot`, before the pointer `end`. Only pointers to data make runs.
fn entry_at(pointers: &[u8], slot: usize, end: usize, to_data: bool) -> Entry {
    let pblk = map_pointer(pointers, slot);
    let goes_on = |i: u64, next: Option<Pblk>| match pblk {
        None => next.is_none(),
        Some(first) => to_data && next == Some(Pblk(first.0 + i)),
    };
    let more = (1u64..)
        .zip(slot + 1..end)
        .take_while(|(i, slot)| goes_on(*i, map_pointer(pointers, *slot)))
        .count();
    Entry {
        pblk,
        len: 1 + more as u64,
    }
}

impl<'a> Reader<'a> {
    fn shape(&self) -> MapShape {
        MapShape::new(self.cache.block_size() as u32)
    }

    #[cold]
    fn corrupt(&self, kind: CorruptKind, pblk: Pblk) -> Ext4Error {
        Corrupt::new(kind).ino(self.ino).pblk(pblk).into()
    }

    /// A block of pointers.
    fn load(&self, pblk: Pblk) -> Result<Arc<Buffer>> {
        let role = (kinds::MAP_NODE, self.ino.0);
        self.cache
            .get_verified(pblk.0, role, |_| Ok(()))
            .map_err(|e: Ext4Error| e.of_inode(self.ino))
    }

    /// Refuses blocks that no pointer may name.
    fn check_run(&self, pblk: Pblk, len: u64) -> Result<()> {
        if !self.bounds.contains(pblk, len) {
            return Err(self.corrupt(CorruptKind::MapPointer, pblk));
        }
        if self.fixed.is_some_and(|fixed| fixed.overlaps(pblk, len)) {
            return Err(self.corrupt(CorruptKind::MapFixed, pblk));
        }
        Ok(())
    }

    /// The path to a block, as far as there is one.
    fn path(&self, root: [u8; 60], place: MapPlace) -> Result<Path> {
        let mut path = Path {
            root,
            place,
            nodes: ArrayVec::new(),
        };
        for depth in 0..place.levels {
            let slot = place.slot(depth);
            let Some(child) = path.with_pointers(depth, |p| map_pointer(p, slot)) else {
                break;
            };
            self.check_run(child, 1)?;
            path.check_apart(self, child, 1)?;
            path.nodes.push(self.load(child)?);
        }
        Ok(path)
    }

    /// What `lblk` is, and for how many blocks that holds; with `nowait` `None` where it would have to wait.
    pub fn find(&self, root: &[u8; 60], lblk: Lblk, nowait: bool) -> Result<Option<RunLookup>> {
        let Some(mut found) = self.find_once(root, lblk, nowait)? else {
            return Ok(None);
        };
        for _ in 0..HOLES_MAX {
            if found.pblk.is_some() {
                break;
            }
            let Some(next) = lblk.0.checked_add(found.len) else {
                break;
            };
            // Damage there is reported to the caller that asks for it.
            match self.find_once(root, Lblk(next), nowait) {
                Ok(Some(more)) if more.pblk.is_none() => {
                    found.len = found.len.saturating_add(more.len);
                }
                _ => break,
            }
        }
        Ok(Some(found))
    }

    /// The same, as far as one pointer block or one missing tree goes.
    fn find_once(&self, root: &[u8; 60], lblk: Lblk, nowait: bool) -> Result<Option<RunLookup>> {
        let shape = self.shape();
        let Some(place) = shape.place(lblk) else {
            return Ok(Some(hole(u64::from(u32::MAX - lblk.0))));
        };
        let (levels, mut start) = shape.root(place.slot(0));
        let end = MAP_DIRECT.max(place.slot(0) + 1);
        let mut entry = entry_at(root, place.slot(0), end, levels == 0);
        let mut above = ArrayVec::<Pblk, MAP_LEVELS>::new();
        for depth in 1..=levels {
            let Some(child) = entry.pblk else {
                let span = entry.len * shape.span(levels + 1 - depth);
                return Ok(Some(hole(start + span - u64::from(lblk.0))));
            };
            self.check_run(child, 1)?;
            if above.contains(&child) {
                return Err(self.corrupt(CorruptKind::MapCycle, child));
            }
            above.push(child);
            let buffer = match nowait {
                false => self.load(child)?,
                true => match self.cache.peek(child.0) {
                    Some(buffer) => buffer,
                    None => return Ok(None),
                },
            };
            let content = match nowait {
                false => buffer.read(),
                true => match buffer.try_read() {
                    Some(content) => content,
                    None => return Ok(None),
                },
            };
            let (slot, to_data) = (place.slot(depth), depth == levels);
            entry = entry_at(content.data(), slot, shape.per_block(), to_data);
            start += slot as u64 * shape.span(levels - depth);
        }
        let Some(pblk) = entry.pblk else {
            return Ok(Some(hole(entry.len)));
        };
        // A run that goes wrong further on is good up to there.
        let len = match self.check_run(pblk, entry.len) {
            Ok(()) => entry.len,
            Err(_) => self.check_run(pblk, 1).map(|()| 1)?,
        };
        if above.iter().any(|node| node.0.wrapping_sub(pblk.0) < len) {
            return Err(self.corrupt(CorruptKind::MapCycle, pblk));
        }
        Ok(Some(RunLookup {
            pblk: Some(pblk),
            unwritten: false,
            len: u32::try_from(len).unwrap_or(u32::MAX),
        }))
    }

    /// Where a block goes that the file does not have: after what lies before it, in its pointer block or
    /// above.
    fn goal(&self, path: &Path) -> Option<Pblk> {
        (0..=path.depth()).rev().find_map(|depth| {
            let slot = path.place.slot(depth);
            let near = path.with_pointers(depth, |pointers| {
                (0..slot)
                    .rev()
                    .find_map(|at| map_pointer(pointers, at).map(|pblk| (at, pblk)))
            });
            let node = depth
                .checked_sub(1)
                .and_then(|at| path.nodes.get(at))
                .map(|buffer| Pblk(buffer.block() + 1));
            let to_data = depth == path.place.levels && path.is_complete();
            match near {
                Some((at, pblk)) if to_data => Some(Pblk(pblk.0 + (slot - at) as u64)),
                Some((_, pblk)) => Some(Pblk(pblk.0 + 1)),
                None => node,
            }
        })
    }
}

fn hole(len: u64) -> RunLookup {
    RunLookup {
        pblk: None,
        unwritten: false,
        len: u32::try_from(len).unwrap_or(u32::MAX).max(1),
    }
}

impl Mapping {
    pub(crate) fn map_reader(&self, ino: Ino) -> Reader<'_> {
        Reader {
            cache: self.volume.cache(),
            bounds: self.volume.geometry().block_bounds(),
            fixed: Some(self.volume.fixed()),
            ino,
        }
    }

    /// Groups whose blocks a pointer of 32 bits can name.
    pub(crate) fn map_groups(&self) -> u32 {
        let past = self.volume.geometry().group_of_block(Pblk(1 << 32));
        past.map_or(u32::MAX, |(no, _)| no.0)
    }

    /// Where a new block of a file should go, and how many one handle can map there: what one block of
    /// pointers holds.
    pub(crate) fn goal_in_map(&self, inode: &Inode, root: [u8; 60], lblk: Lblk) -> Result<Goal> {
        let reader = self.map_reader(inode.ino);
        let shape = reader.shape();
        let place = shape.place(lblk).ok_or(Ext4Error::TooLarge)?;
        let path = reader.path(root, place)?;
        let near = reader.goal(&path);
        let pblk = near.filter(|p| self.volume.geometry().check_block(*p).is_ok());
        Ok(Goal {
            pblk: pblk.unwrap_or_else(|| self.blocks.goal_of(inode.ino)),
            most: room(shape, &place) as u32,
            groups: self.map_groups(),
            ino: inode.ino,
            lblk,
            has_cluster: None,
        })
    }

    /// Changes the pointers at `depth` of the path, 0 being those in the inode, which the caller has to
    /// put there.
    fn change_pointers<R>(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        depth: usize,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        inode.touch_data(handle);
        let result = match depth.checked_sub(1).and_then(|at| path.nodes.get(at)) {
            Some(buffer) => change(handle.modify(buffer)?.data_mut()),
            None => change(&mut path.root),
        };
        inode.snapshot.changed();
        Ok(result)
    }
}

/// How many pointers follow in the same block, from the place on.
fn room(shape: MapShape, place: &MapPlace) -> usize {
    let end = match place.levels {
        0 => MAP_DIRECT,
        _ => shape.per_block(),
    };
    end.saturating_sub(place.slot(place.levels))
}

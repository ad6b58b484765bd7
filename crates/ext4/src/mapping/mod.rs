//! Where the blocks of a file are: the one place that knows that there are two kinds of mapping.
//!
//! # Data model
//! The flag `EXTENTS` of an inode says which kind it has: an extent tree (`extents`), or the block map of
//! ext2 and ext3 (`block_map`). A new inode gets extents where the file system has that feature, and keeps
//! its kind for life. What has no blocks, such as a device, a short symbolic link or a file in its inode
//! (`inline`), has neither, whatever `i_block` holds.
//!
//! # Invariants
//! Nothing in a block map is unwritten. So a caller that would map blocks before their data is written
//! (`Inode::has_extents`) writes the data first and maps the blocks then.
//!
//! # Locking
//! The inode's `map` lock: shared to look up, alone to change. A copy of the mapping is looked up without
//! (`inode::map_snapshot`).
//!
//! | module | holds |
//! | --- | --- |
//! | `extents` | extent trees |
//! | `block_map` | the block maps of ext2 and ext3 |

mod block_map;
pub(crate) mod extents;

use crate::block_allocator::{BlockAllocator, Goal};
use crate::inode::Inode;
use crate::inode::MapTree;
use crate::inode::map_snapshot::EXTENTS_MAX;
use crate::inode::snapshot::SnapshotBudget;
use crate::inode_table::InodeTable;
use crate::mapping::block_map::Reader;
use crate::mapping::block_map::remove::MAP_STEP_CREDITS;
use crate::mapping::extents::clusters::PartlyFreed;
use crate::mapping::extents::remove::{Content, METADATA_STEP_CREDITS, Restart, STEP_CREDITS};
use crate::options::DataMode;
use crate::prelude::*;
use crate::run::{Run, RunLookup};
use crate::volume::{Volume, handles};
use uext4_ondisk::MAP_DIRECT;

/// The most pointer blocks that are read to copy a map.
const COPY_NODES_MAX: u64 = 256;
/// What a file may have without the feature `large_file`.
const SMALL_FILE_BYTES: u64 = i32::MAX as u64;
/// The most runs of a file that one handle deletes.
const SMALL_RUNS: usize = 4;

/// The root of a mapping: `i_block`, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Root {
    Extents([u8; 60]),
    BlockMap([u8; 60]),
    /// The inode has no blocks.
    Nothing,
}

impl Root {
    #[inline]
    pub fn of(disk: &uext4_ondisk::Inode) -> Root {
        if disk.flags.contains(InodeFlags::EXTENTS) {
            return Root::Extents(disk.i_block);
        }
        Root::without_extents(disk)
    }

    fn without_extents(disk: &uext4_ondisk::Inode) -> Root {
        let is_mapped = match disk.file_type() {
            FileType::Regular | FileType::Directory => true,
            FileType::Symlink => disk.size != 0 && !disk.is_fast_symlink(),
            _ => false,
        };
        match is_mapped && !disk.flags.contains(InodeFlags::INLINE_DATA) {
            true => Root::BlockMap(disk.i_block),
            false => Root::Nothing,
        }
    }

    /// Whether there are no blocks but a few that the inode itself names.
    pub fn is_short(&self) -> bool {
        match self {
            Root::Extents(root) => ExtentNode::new(root).depth() == 0,
            Root::BlockMap(root) => {
                let pointer = |slot| map_pointer(root, slot);
                let follows = |slot: usize| {
                    let before = slot.checked_sub(1).and_then(pointer);
                    before.is_some_and(|p| pointer(slot) == Some(Pblk(p.0 + 1)))
                };
                let starts = (0..MAP_DIRECT).filter(|s| pointer(*s).is_some() && !follows(*s));
                starts.count() <= SMALL_RUNS
                    && (MAP_DIRECT..).take(3).all(|slot| pointer(slot).is_none())
            }
            Root::Nothing => true,
        }
    }
}

/// Calls `each` for every run of an inode, in order; while mounting, when the groups are not known yet.
///
/// # Errors
/// Damage, naming the inode, or the device's.
pub(crate) fn walk(
    cache: &BufferCache,
    disk: &uext4_ondisk::Inode,
    bounds: BlockBounds,
    seed: Option<InodeSeed>,
    ino: Ino,
    each: &mut dyn FnMut(Extent),
) -> Result<()> {
    let reader = Reader {
        cache,
        bounds,
        fixed: None,
        ino,
    };
    match Root::of(disk) {
        Root::Extents(root) => extents::walk(cache, &root, bounds, seed, ino, each),
        Root::BlockMap(root) => {
            let mut all = |mapped| {
                if let Mapped::Run(extent) = mapped {
                    each(extent);
                }
                ControlFlow::Continue(())
            };
            reader.walk(&root, u64::MAX, 0, &mut all).map(|_| ())
        }
        Root::Nothing => Ok(()),
    }
}

/// The largest size in bytes of a file with a block map: as far as pointers reach, and as its blocks,
/// those of pointers included, can be counted in the inode.
fn map_bytes_max(sb: &Superblock) -> u64 {
    let block = u64::from(sb.geometry.block_size);
    let counted = match sb.ro_compat.contains(RoCompat::HUGE_FILE) {
        true => u64::MAX,
        false => u64::from(u32::MAX) / (block / 512),
    };
    let shape = MapShape::new(sb.geometry.block_size);
    shape.data_blocks_within(counted) * block
}

/// The largest size in bytes of a file with extents: as far as block numbers reach, and sectors can be counted.
pub(crate) fn extents_bytes_max(sb: &Superblock) -> u64 {
    let block = u64::from(sb.geometry.block_size);
    let blocks = match sb.ro_compat.contains(RoCompat::HUGE_FILE) {
        true => u64::from(u32::MAX),
        false => u64::from(u32::MAX) / (block / 512),
    };
    blocks * block
}

/// The size in bytes that any file may have without a closer look.
pub(crate) fn bytes_max_simple(sb: &Superblock) -> u64 {
    match sb.ro_compat.contains(RoCompat::LARGE_FILE) {
        true => map_bytes_max(sb),
        false => map_bytes_max(sb).min(SMALL_FILE_BYTES),
    }
}

/// Where the blocks of files are; see the module.
pub struct Mapping {
    volume: Arc<Volume>,
    blocks: Arc<BlockAllocator>,
    table: Arc<InodeTable>,
    /// `data=journal`.
    journals_all_data: bool,
    /// No file may be larger.
    bytes_max: u64,
    /// Every file may have this size; see [`Mapping::check_end`].
    bytes_max_simple: u64,
    /// Files that lost blocks of clusters that they keep.
    partly_freed: PartlyFreed,
    /// Of all snapshots of mappings and of attributes.
    pub(crate) snapshot_budget: SnapshotBudget,
}

impl Mapping {
    pub(crate) fn new(
        volume: Arc<Volume>,
        blocks: Arc<BlockAllocator>,
        table: Arc<InodeTable>,
    ) -> Mapping {
        Mapping {
            blocks,
            table,
            journals_all_data: volume.data() == DataMode::Journal,
            bytes_max: extents_bytes_max(&volume.sb),
            bytes_max_simple: bytes_max_simple(&volume.sb),
            partly_freed: PartlyFreed::new(),
            snapshot_budget: SnapshotBudget::new(volume.options.cache_bytes / 4),
            volume,
        }
    }
}

impl Mapping {
    /// Refuses to make a file so large that its mapping, or its inode, cannot hold it. The first file of
    /// 2 GiB makes that a feature of the file system.
    ///
    /// # Locks
    /// May start a handle.
    ///
    /// # Errors
    /// [`Ext4Error::TooLarge`], or the journal's.
    #[inline]
    pub(crate) fn check_end(&self, inode: &Inode, end: u64) -> Result<()> {
        if end <= self.bytes_max_simple {
            return Ok(());
        }
        self.check_large_end(inode, end)
    }

    #[cold]
    fn check_large_end(&self, inode: &Inode, end: u64) -> Result<()> {
        // What leaves its inode gets the mapping that new files have.
        let extents = self.volume.sb.incompat.contains(Incompat::EXTENT);
        let max = match inode.has_extents() || (inode.is_inline() && extents) {
            true => self.file_bytes_max(),
            false => map_bytes_max(&self.volume.sb),
        };
        if end > max {
            return Err(Ext4Error::TooLarge);
        }
        if end > SMALL_FILE_BYTES && !self.volume.sb.ro_compat.contains(RoCompat::LARGE_FILE) {
            self.volume.with_handle(1, |handle| {
                self.volume
                    .add_features(handle, Compat::empty(), RoCompat::LARGE_FILE)
            })?;
        }
        Ok(())
    }

    /// Gives a new inode, or one that never had blocks, an empty mapping of the kind that new inodes have.
    pub(crate) fn init_mapping(&self, disk: &mut uext4_ondisk::Inode) {
        if self.volume.sb.incompat.contains(Incompat::EXTENT) {
            disk.flags |= InodeFlags::EXTENTS;
            ExtentNodeMut::init(&mut disk.i_block, 0);
        } else {
            disk.flags -= InodeFlags::EXTENTS;
            disk.i_block = [0; 60];
        }
    }

    /// What `lblk` is, and for how many blocks that holds.
    ///
    /// # Locks
    /// The inode's `map` lock, shared; may read from the device.
    ///
    /// # Errors
    /// Damage, or the device's.
    #[inline]
    pub fn map_block(&self, inode: &Inode, lblk: Lblk) -> Result<RunLookup> {
        match inode.snapshot.find(lblk) {
            Some(mapping) => Ok(mapping),
            None => self.map_block_in_tree(inode, lblk),
        }
    }

    fn map_block_in_tree(&self, inode: &Inode, lblk: Lblk) -> Result<RunLookup> {
        let map = inode.map.read();
        if inode.snapshot.missed() {
            // What is wrong elsewhere in the mapping is reported to the caller that asks for it.
            let extents = self.extents_locked(inode, &map, EXTENTS_MAX, COPY_NODES_MAX);
            let extents = extents.unwrap_or_default();
            inode.snapshot.set(extents, &self.snapshot_budget);
        }
        self.map_block_locked(inode, &map, lblk)
    }

    /// As [`Mapping::map_block`], but never waits: `None` where it would have to, because the mapping is being
    /// changed, or a block of it is not in memory.
    pub(crate) fn map_block_nowait(&self, inode: &Inode, lblk: Lblk) -> Result<Option<RunLookup>> {
        if let Some(mapping) = inode.snapshot.find(lblk) {
            return Ok(Some(mapping));
        }
        let Some(_map) = inode.map.try_read() else {
            return Ok(None);
        };
        let root = Root::of(&inode.state());
        match root {
            Root::Extents(root) => self.find_extent_nowait(inode, &root, lblk),
            Root::BlockMap(root) => self.map_reader(inode.ino).find(&root, lblk, true),
            Root::Nothing => Ok(Some(NOTHING)),
        }
    }

    /// As [`Mapping::map_block`], with the `map` lock held by the caller.
    fn map_block_locked(&self, inode: &Inode, _tree: &MapTree, lblk: Lblk) -> Result<RunLookup> {
        let root = Root::of(&inode.state());
        match root {
            Root::Extents(root) => self.find_extent(inode, root, lblk),
            Root::BlockMap(root) => {
                let found = self.map_reader(inode.ino).find(&root, lblk, false)?;
                Ok(found.unwrap_or(NOTHING))
            }
            Root::Nothing => Ok(NOTHING),
        }
    }

    /// Where a new block of a file should go.
    ///
    /// # Locks
    /// The inode's `map` lock, shared; may read from the device. May wait for a commit: no handle may be open.
    ///
    /// # Errors
    /// Damage, the device's, or [`Ext4Error::TooLarge`] past what a map can map.
    pub(crate) fn data_goal(&self, inode: &Inode, lblk: Lblk) -> Result<Goal> {
        let map = inode.map.read();
        let goal = self.data_goal_locked(inode, &map, lblk)?;
        drop(map);
        if goal.has_cluster.is_some() {
            self.settle_freed(inode)?;
        }
        Ok(goal)
    }

    /// As [`Mapping::data_goal`], with the `map` lock held by the caller.
    pub(crate) fn data_goal_locked(
        &self,
        inode: &Inode,
        _tree: &MapTree,
        lblk: Lblk,
    ) -> Result<Goal> {
        self.check_kind(inode)?;
        let root = Root::of(&inode.state());
        match root {
            Root::Extents(root) => {
                let (has_cluster, most) = self.cluster_at(inode, lblk)?;
                Ok(Goal {
                    most,
                    has_cluster,
                    ..self.goal_in_tree(inode, root, lblk)?.into()
                })
            }
            Root::BlockMap(root) => self.goal_in_map(inode, root, lblk),
            Root::Nothing => Ok(self.blocks.goal_of(inode.ino).into()),
        }
        .map(|goal: Goal| goal.of_file(inode.ino, lblk))
    }

    /// Adds a run of blocks that hold data from `lblk` on, where the file has a hole.
    ///
    /// # Locks
    /// Takes the inode's `map` lock alone.
    ///
    /// # Journal
    /// As `insert_extent` and `insert_in_map`.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] when the mapping needs a block; nothing is mapped then.
    pub(crate) fn map_run(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        lblk: Lblk,
        run: Run,
        privileged: bool,
    ) -> Result<()> {
        let mut map = inode.map.write();
        self.insert_run(handle, inode, &mut map, lblk, run, privileged)
    }

    /// As [`Mapping::map_run`]; no more than its goal says.
    ///
    /// # Journal
    /// As `insert_extent` and `insert_in_map`.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] when the mapping needs a block; nothing is mapped then.
    pub(crate) fn insert_run(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        tree: &mut MapTree,
        lblk: Lblk,
        run: Run,
        privileged: bool,
    ) -> Result<()> {
        let extent = Extent {
            lblk,
            len: run.len as u16,
            unwritten: false,
            pblk: run.pblk,
        };
        if inode.has_extents() {
            return self.insert_extent(handle, inode, tree, extent, privileged);
        }
        self.insert_in_map(handle, inode, tree, extent, privileged)
    }

    /// Frees what `[from, to)` of a file maps. The handle may be restarted in between, so the inode is
    /// on the orphan list or does not need it; every step leaves a mapping that is right by itself.
    ///
    /// # Locks
    /// The caller holds the inode lock alone and not the `map` lock, which is taken for each step.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] when a hole splits an extent and the tree needs a block.
    pub(crate) fn remove_blocks<'h>(
        &self,
        mut handle: Handle<'h>,
        inode: &Inode,
        from: u64,
        to: u64,
        content: Content,
        restart: Restart,
    ) -> Result<Handle<'h>> {
        self.blocks.forget_file(inode.ino);
        let root = Root::of(&inode.state());
        if matches!(root, Root::BlockMap(_))
            && let Err(why) = self.check_kind(inode)
        {
            return handles::end(handle, Err(why));
        }
        let (credits, fresh) = match root {
            Root::Extents(_) if content == Content::Metadata => {
                (METADATA_STEP_CREDITS, METADATA_STEP_CREDITS)
            }
            Root::Extents(_) => (STEP_CREDITS, STEP_CREDITS * 4),
            Root::BlockMap(_) => (MAP_STEP_CREDITS, MAP_STEP_CREDITS * 4),
            Root::Nothing => return Ok(handle),
        };
        let mut end = to.min(1 << 32);
        while end > from {
            if !handle.extend(credits) && restart == Restart::Allowed {
                handle = handle.restart(fresh)?;
            }
            let mut map = inode.map.write();
            let step = match root {
                Root::Extents(_) => self.remove_step(&handle, inode, &mut map, from, end, content),
                _ => self.remove_map_step(&handle, inode, &mut map, from, end, content),
            };
            drop(map);
            match step {
                Ok(next) => end = next,
                Err(why) => return handles::end(handle, Err(why)),
            }
            if restart == Restart::Allowed {
                handle.complete();
            }
        }
        Ok(handle)
    }

    /// As [`Mapping::remove_blocks`], all of it within `handle`, whatever it takes.
    ///
    /// # Locks
    /// As [`Mapping::remove_blocks`].
    pub(crate) fn remove_blocks_within(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        (from, to): (u64, u64),
        content: Content,
    ) -> Result<()> {
        let root = Root::of(&inode.state());
        let credits = match root {
            Root::Extents(_) => STEP_CREDITS,
            Root::BlockMap(_) => MAP_STEP_CREDITS,
            Root::Nothing => return Ok(()),
        };
        let mut end = to.min(1 << 32);
        while end > from {
            let _ = handle.extend(credits);
            let mut map = inode.map.write();
            end = match root {
                Root::Extents(_) => {
                    self.remove_step(handle, inode, &mut map, from, end, content)?
                }
                _ => self.remove_map_step(handle, inode, &mut map, from, end, content)?,
            };
        }
        Ok(())
    }

    /// Every run of the inode's blocks, in order.
    ///
    /// # Errors
    /// Damage, or the device's.
    pub fn extents(&self, inode: &Inode) -> Result<Vec<Extent>> {
        let map = inode.map.read();
        let all = self.extents_locked(inode, &map, usize::MAX, u64::MAX)?;
        Ok(all.unwrap_or_default())
    }

    /// As [`Mapping::extents`], with the `map` lock held by the caller; None if there are more than `max`, or
    /// more than `nodes_max` blocks of pointers to read.
    fn extents_locked(
        &self,
        inode: &Inode,
        _tree: &MapTree,
        max: usize,
        nodes_max: u64,
    ) -> Result<Option<Vec<Extent>>> {
        let mut all = Vec::new();
        let mut each = |mapped| {
            if let Mapped::Run(extent) = mapped {
                if all.len() == max {
                    return ControlFlow::Break(());
                }
                all.push(extent);
            }
            ControlFlow::Continue(())
        };
        let root = Root::of(&inode.state());
        let walked = match root {
            Root::Extents(root) => self.walk_extents(inode, &root, 0, &mut each)?,
            Root::BlockMap(root) => {
                let reader = self.map_reader(inode.ino);
                reader.walk(&root, nodes_max, 0, &mut each)?
            }
            Root::Nothing => return Ok(None),
        };
        Ok(walked.is_continue().then_some(all))
    }

    /// Reads what it takes to free blocks `[from, to)` of a file, and checks it: the mapping there, and that all its
    /// blocks are allocated. So a damaged one is found before anything changes.
    ///
    /// # Locks
    /// Takes the inode's `map` lock, shared; may read from the device, so no handle may be open.
    ///
    /// # Errors
    /// Damage, or the device's.
    pub(crate) fn check_removable(&self, inode: &Inode, from: u64, to: u64) -> Result<()> {
        let _map = inode.map.read();
        let mut checked = Ok(());
        let mut each = |mapped: Mapped| {
            let run = match mapped {
                Mapped::Node(pblk) => Run { pblk, len: 1 },
                Mapped::Run(e) if u64::from(e.lblk.0) >= to => return ControlFlow::Break(()),
                Mapped::Run(e) => Run {
                    pblk: e.pblk,
                    len: u32::from(e.len),
                },
            };
            checked = self.blocks.check_allocated(run);
            match &checked {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        let root = Root::of(&inode.state());
        let _ = match root {
            Root::Extents(root) => self.walk_extents(inode, &root, from, &mut each)?,
            Root::BlockMap(root) => {
                let reader = self.map_reader(inode.ino);
                reader.walk(&root, u64::MAX, from, &mut each)?
            }
            Root::Nothing => return Ok(()),
        };
        checked.map_err(|why| match why {
            Ext4Error::Corrupt(why) => why.ino(inode.ino).into(),
            why => why,
        })
    }
}

/// The result of a walk of a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mapped {
    /// Blocks of the file.
    Run(Extent),
    /// A block of the mapping itself.
    Node(Pblk),
}

/// The mapping of what has none.
const NOTHING: RunLookup = RunLookup {
    pblk: None,
    unwritten: false,
    len: u32::MAX,
};

impl Mapping {
    /// Whether the data of a file is journalled.
    #[inline]
    pub(crate) fn journals_data(&self, inode: &Inode) -> bool {
        inode.has_journal_flag() || self.journals_all_data && inode.file_type == FileType::Regular
    }

    /// How what an inode maps was written, for freeing it.
    pub(crate) fn content_of(&self, inode: &Inode) -> Content {
        match inode.is_dir() || self.journals_data(inode) {
            true => Content::Metadata,
            false => Content::Data,
        }
    }

    /// The largest size a file may have, in bytes; as in the kernel, so that the number of its blocks fits
    /// 32 bits, and without `huge_file` that of its sectors. One without extents may have less.
    #[inline]
    pub fn file_bytes_max(&self) -> u64 {
        self.bytes_max
    }
}

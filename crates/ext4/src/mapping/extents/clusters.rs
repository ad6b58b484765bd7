//! Clusters of files: with `bigalloc` the blocks of one cluster of a file lie in one cluster of the disk, each at its place.
//!
//! # Invariants
//! - A block is added to a cluster that the file already has, if it has any block of it.
//! - A cluster is freed with the last of its blocks that the file maps.
//! - A block that left a file in a transaction that is not durable gets no new data although its cluster stays with the file: a
//!   crash brings the former mapping back, with the former data.

use crate::inode::Inode;
use crate::mapping::{Mapped, Mapping, Root};
use crate::prelude::*;
use crate::run::Run;

/// Files that lost blocks of clusters that they keep, each with the last transaction in which it did, until that is durable.
pub(crate) struct PartlyFreed(Mutex<BTreeMap<Ino, u64>>);

impl PartlyFreed {
    pub fn new() -> PartlyFreed {
        PartlyFreed(Mutex::new(&class::PARTLY_FREED, BTreeMap::new()))
    }
}

impl Mapping {
    /// Notes that a file loses blocks of clusters that it keeps.
    pub(super) fn note_partly_freed(&self, handle: &Handle<'_>, inode: &Inode) {
        let journal = self.volume.journal();
        if !journal.has_log() {
            return;
        }
        let mut files = self.partly_freed.0.lock();
        files.retain(|_, tid| !journal.is_committed(*tid));
        files.insert(inode.ino, handle.tid());
    }

    /// Waits until it is durable which blocks a file lost in clusters that it keeps.
    pub(crate) fn settle_freed(&self, inode: &Inode) -> Result<()> {
        let tid = self.partly_freed.0.lock().get(&inode.ino).copied();
        match tid {
            // The journal keeps what is in place until it has the mapping.
            Some(tid) if !self.journals_data(inode) => self.volume.sync_tid(tid, false),
            _ => Ok(()),
        }
    }

    /// The blocks of a cluster less one, which are the bits of a file's block that say where in its cluster it is.
    #[inline]
    fn cluster_mask(&self) -> u64 {
        u64::from(self.volume.sb.geometry.cluster_ratio) - 1
    }

    /// The first extent that maps anything in blocks `[from, to)` of a file. The caller holds the inode's `map` lock.
    fn first_in(&self, inode: &Inode, from: u64, to: u64) -> Result<Option<Extent>> {
        let mut first = None;
        if from >= to {
            return Ok(first);
        }
        let Root::Extents(root) = Root::of(&inode.state()) else {
            return Ok(first);
        };
        let _ = self.walk_extents(inode, &root, from, &mut |mapped| match mapped {
            Mapped::Run(extent) => {
                first = Some(extent).filter(|e| u64::from(e.lblk.0) < to);
                ControlFlow::Break(())
            }
            Mapped::Node(_) => ControlFlow::Continue(()),
        })?;
        Ok(first)
    }

    /// What a hole at `lblk` may get: the blocks from there on in a cluster that the file has, or how many
    /// blocks may get clusters of their own. The caller holds the inode's `map` lock.
    ///
    /// # Errors
    /// Damage, or the device's.
    pub(crate) fn cluster_at(&self, inode: &Inode, lblk: Lblk) -> Result<(Option<Run>, u32)> {
        let mask = self.cluster_mask();
        if mask == 0 {
            return Ok((None, u32::MAX));
        }
        let at = u64::from(lblk.0);
        let (start, end) = (at & !mask, (at | mask) + 1);
        if let Some(extent) = self.first_in(inode, start, end)? {
            let place = i64::try_from(at).unwrap_or(i64::MAX) - i64::from(extent.lblk.0);
            let pblk = Pblk(extent.pblk.0.saturating_add_signed(place));
            self.check_place(inode, &extent)?;
            let len = (end - at) as u32;
            return Ok((Some(Run { pblk, len }), len));
        }
        // The next extent keeps its cluster, of which the hole has the beginning.
        let next = self.first_in(inode, end, 1 << 32)?;
        let most = next.map_or(u64::MAX, |e| (u64::from(e.lblk.0) & !mask) - at);
        Ok((None, u32::try_from(most).unwrap_or(u32::MAX)))
    }

    /// Refuses an extent whose blocks do not have the place in their clusters that they have in those of the file.
    fn check_place(&self, inode: &Inode, extent: &Extent) -> Result<()> {
        let mask = self.cluster_mask();
        if (extent.pblk.0 ^ u64::from(extent.lblk.0)) & mask == 0 {
            return Ok(());
        }
        Err(Corrupt::new(CorruptKind::ExtentPblk)
            .ino(inode.ino)
            .pblk(extent.pblk)
            .detail("not at its place in a cluster")
            .into())
    }

    /// The blocks of those clusters that hold nothing of the file but what `extent` says, as they were or are to be mapped
    /// by it; `None` if there are none. The extent itself is not in the tree. The caller holds the inode's `map` lock.
    ///
    /// # Errors
    /// Damage, or the device's.
    pub(crate) fn own_clusters(&self, inode: &Inode, extent: &Extent) -> Result<Option<Run>> {
        let mask = self.cluster_mask();
        let all = Run {
            pblk: extent.pblk,
            len: extent.len.into(),
        };
        if mask == 0 {
            return Ok(Some(all));
        }
        self.check_place(inode, extent)?;
        let (from, to) = (u64::from(extent.lblk.0), extent.end());
        let (mut start, mut end) = (from & !mask, (to + mask) & !mask);
        if self.first_in(inode, start, from)?.is_some() {
            start += mask + 1;
        }
        if start < end && self.first_in(inode, to, end)?.is_some() {
            end -= mask + 1;
        }
        if start >= end {
            return Ok(None);
        }
        let place = start.cast_signed() - from.cast_signed();
        Ok(Some(Run {
            pblk: Pblk(extent.pblk.0.saturating_add_signed(place)),
            len: (end - start) as u32,
        }))
    }

    /// Refuses to change a file without extents where blocks have clusters.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn check_kind(&self, inode: &Inode) -> Result<()> {
        if self.cluster_mask() == 0 || inode.has_extents() {
            return Ok(());
        }
        Err(Corrupt::new(CorruptKind::ExtentMagic)
            .ino(inode.ino)
            .detail("no extents, which bigalloc needs")
            .into())
    }
}

//! Files whose blocks lie together: their data is copied to other blocks.
//!
//! # Invariants
//! Blocks are reserved in memory and written; then a file without a name, which is on record as an orphan, gets them; then the two
//! files exchange their blocks. So every handle leaves a file with all of its data.
//!
//! # Locking
//! Both inodes' `ilock`, alone, while the data is copied; then handles; then the `map` locks.

use crate::file::exchange::Exchange;
use crate::file::{FileIo, WRITE_CREDITS, check_regular};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use crate::run::Run;
use uext4_ondisk::EXTENT_LEN_MAX_UNWRITTEN;
use uext4_vfs::ilock::ilock_two;

/// Blocks that are copied at once.
const COPY_BLOCKS: u32 = 256;

/// Flags of files whose blocks are not their own, or are written through the journal.
const NOT_MOVED: InodeFlags = InodeFlags::JOURNAL_DATA
    .union(InodeFlags::INLINE_DATA)
    .union(InodeFlags::EA_INODE);

/// In how many pieces a file lies on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// As it was.
    pub before: usize,
    /// As it is.
    pub after: usize,
}

impl FileIo {
    /// In how many pieces a file lies on the device, and in how few it could: one for each part without a hole.
    ///
    /// # Locks
    /// The inode's `ilock`, shared; may read from the device.
    ///
    /// # Errors
    /// As [`FileIo::defragment`].
    pub fn fragments(&self, inode: &InodeRef) -> Result<Fragments> {
        let _locked = ilock(&inode.ilock, LockMode::Shared);
        let extents = self.movable(inode)?;
        Ok(Fragments {
            before: pieces(&extents),
            after: logical_runs(&extents).count(),
        })
    }

    /// What a file maps, if it can be moved.
    fn movable(&self, inode: &Inode) -> Result<Vec<Extent>> {
        check_regular(inode)?;
        if self.mapping.journals_data(inode) || inode.flags().intersects(NOT_MOVED) {
            let what = "moving data that is journaled, or in its inode";
            return Err(Ext4Error::Unsupported(what));
        }
        if !inode.has_extents() {
            return Err(Ext4Error::Unsupported("moving a file without extents"));
        }
        if self.volume.sb.ro_compat.contains(RoCompat::BIGALLOC) {
            return Err(Ext4Error::Unsupported("moving files with bigalloc"));
        }
        self.mapping.extents(inode)
    }

    /// Moves the data of a file to blocks that lie together, if that gives it fewer pieces. `spare` is an empty file without a name.
    /// Times, generation and size of the file stay.
    ///
    /// # Locks
    /// Both inodes' `ilock`, alone, while the data is copied.
    ///
    /// # Journal
    /// Several handles; the last has a credit for each node of the extent trees of the old and the new place.
    ///
    /// # Crash
    /// The file has all of its data, at the old place or the new one.
    ///
    /// # Errors
    /// [`Ext4Error::Unsupported`]: no regular file with extents, or its data is journaled. [`Ext4Error::TooLarge`],
    /// [`Ext4Error::NoSpace`]: in more pieces than a transaction holds. [`Ext4Error::ReadOnly`], damage, the device's.
    pub fn defragment(&self, inode: &InodeRef, spare: &InodeRef) -> Result<Fragments> {
        let _change = self.volume.freeze.begin_change();
        self.volume.check_writable()?;
        let _locked = ilock_two(&inode.ilock, &spare.ilock, LockMode::Exclusive);
        let extents = self.movable(inode)?;
        self.mapping.check_removable(inode, 0, 1 << 32)?;
        let before = pieces(&extents);
        self.blocks.release_ahead();
        let mut reserved = Vec::new();
        let fewer = self.reserve_fewer(inode, &extents, before, &mut reserved);
        if !matches!(fewer, Ok(true)) {
            for extent in reserved {
                self.blocks.unreserve(run_of(&extent));
            }
            let after = before;
            return fewer.map(|_| Fragments { before, after });
        }
        let moved = split(&extents, &reserved);
        let copied = self.copy_data(&extents, &reserved);
        if let Err(why) = copied.and_then(|()| self.publish(spare, &moved)) {
            self.unreserve_missing(spare, &moved, &why);
            return Err(why);
        }
        self.exchange(inode, spare, Exchange::Blocks)?;
        let after = pieces(&moved);
        Ok(Fragments { before, after })
    }

    /// Reserves blocks for all that a file maps, in fewer pieces than it has; false if there are none.
    fn reserve_fewer(
        &self,
        inode: &Inode,
        extents: &[Extent],
        before: usize,
        reserved: &mut Vec<Extent>,
    ) -> Result<bool> {
        let mut pieces = 0;
        let mut goal = self.blocks.goal_of(inode.ino);
        for run in logical_runs(extents) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            let mut at = u64::from(first.lblk.0);
            while at < last.end() {
                let Some(run) = self.reserve_longest(goal, last.end() - at)? else {
                    return Ok(false);
                };
                let next = Extent {
                    lblk: Lblk(at as u32),
                    len: run.len as u16,
                    unwritten: false,
                    pblk: run.pblk,
                };
                let continues = reserved.last().is_some_and(|last| follows(last, &next));
                pieces += usize::from(!continues);
                reserved.push(next);
                if pieces >= before {
                    return Ok(false);
                }
                at += u64::from(run.len);
                goal = Pblk(run.pblk.0 + u64::from(run.len));
            }
        }
        Ok(true)
    }

    /// Reserves blocks that lie together, `want` of them or about as many as there are.
    fn reserve_longest(&self, goal: Pblk, want: u64) -> Result<Option<Run>> {
        let most = self.volume.geometry().blocks_per_group;
        let most = most.min(EXTENT_LEN_MAX_UNWRITTEN.into());
        let want = want.min(most.into()) as u32;
        let mut least = want;
        while least > 0 {
            let found = self.blocks.reserve_together(goal.into(), want, least)?;
            if found.is_some() {
                return Ok(found);
            }
            least /= 2;
        }
        Ok(None)
    }

    /// Copies what was written of a file to reserved blocks.
    fn copy_data(&self, extents: &[Extent], reserved: &[Extent]) -> Result<()> {
        let (device, unit) = (self.volume.device(), self.volume.block_size());
        let mut data = Vec::new();
        for to in reserved {
            let run = run_of(to);
            self.volume.allocate_on_host(run)?;
            for first in (0..run.len).step_by(COPY_BLOCKS as usize) {
                let part = Extent {
                    lblk: Lblk(to.lblk.0 + first),
                    len: COPY_BLOCKS.min(run.len - first) as u16,
                    pblk: Pblk(to.pblk.0 + u64::from(first)),
                    ..*to
                };
                data.clear();
                data.resize(usize::from(part.len) * unit as usize, 0);
                let mut rest = &mut data[..];
                let mut reads = Vec::new();
                for from in split(&[part], extents) {
                    let (bytes, after) = rest.split_at_mut(usize::from(from.len) * unit as usize);
                    if !from.unwritten {
                        reads.push((from.pblk.0 * unit, bytes));
                    }
                    rest = after;
                }
                device.read_batch(&mut reads)?;
                device.write_at(part.pblk.0 * unit, &data)?;
            }
        }
        Ok(())
    }

    /// Gives a file without a name blocks that hold their data.
    fn publish(&self, spare: &InodeRef, moved: &[Extent]) -> Result<()> {
        for &extent in moved {
            let run = run_of(&extent);
            self.blocks.retry_no_space(|| {
                self.volume.with_handle(WRITE_CREDITS, |handle| {
                    {
                        let mut map = spare.map.write();
                        self.mapping
                            .insert_extent(handle, spare, &mut map, extent, true)?;
                    }
                    let added = self.blocks.publish_run(handle, run)?;
                    let sectors = self.blocks.sectors_of(added);
                    spare.touch_data(handle);
                    self.table
                        .update_inode(spare, handle, |disk| disk.blocks += sectors)
                })
            })?;
        }
        Ok(())
    }

    /// Gives reserved blocks back that a file without a name did not get.
    fn unreserve_missing(&self, spare: &InodeRef, moved: &[Extent], why: &Ext4Error) {
        for extent in moved {
            let found = self.mapping.map_block(spare, extent.lblk);
            if found.is_ok_and(|found| found.pblk.is_none()) {
                self.blocks.unreserve_after(why, run_of(extent));
            }
        }
    }
}

/// Extents of which each follows the one before in the file.
fn logical_runs(extents: &[Extent]) -> impl Iterator<Item = &[Extent]> {
    extents.chunk_by(|a, b| a.end() == u64::from(b.lblk.0))
}

/// Whether `b` follows `a` in the file and on the device.
fn follows(a: &Extent, b: &Extent) -> bool {
    a.end() == u64::from(b.lblk.0) && a.pblk.0 + u64::from(a.len) == b.pblk.0
}

/// Pieces that do not follow each other.
fn pieces(extents: &[Extent]) -> usize {
    extents.chunk_by(follows).count()
}

/// The blocks of an extent.
fn run_of(extent: &Extent) -> Run {
    Run {
        pblk: extent.pblk,
        len: extent.len.into(),
    }
}

/// The extents `of` a file, cut where extents of other `places` begin, and moved to these; each keeps whether it was written. All of
/// `of` has a place.
fn split(of: &[Extent], places: &[Extent]) -> Vec<Extent> {
    let mut parts = Vec::new();
    for extent in of {
        let start = u64::from(extent.lblk.0);
        let first = places.partition_point(|place| place.end() <= start);
        for place in places.get(first..).unwrap_or(&[]) {
            let from = start.max(place.lblk.0.into());
            let to = extent.end().min(place.end());
            if from >= to {
                break;
            }
            parts.push(Extent {
                lblk: Lblk(from as u32),
                len: (to - from) as u16,
                unwritten: extent.unwritten || place.unwritten,
                pblk: Pblk(place.pblk.0 + from - u64::from(place.lblk.0)),
            });
        }
    }
    parts
}

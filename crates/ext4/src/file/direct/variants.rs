//! How a direct write takes the inode lock: the variants of `dio-lock=`.

use crate::file::FileIo;
use crate::file::direct::{Request, lock_inode};
use crate::prelude::*;
use uext4_sync::RangeGuard;
use uext4_vfs::ilock::{ilock_range, try_ilock_range};

impl FileIo {
    /// Writes as the mount's variant says.
    pub(super) fn write_with_variant(&self, write: &Request<'_>) -> Result<Written> {
        let nolock = self.volume.options.dioread_nolock;
        match self.volume.options.dio_lock {
            DioLock::ExclusiveFirst => self.write_exclusive(write, nolock),
            DioLock::SharedFirst if !nolock => self.write_exclusive(write, false),
            DioLock::SharedFirst | DioLock::SharedAlways => self.write_shared_first(write),
            DioLock::Range => self.write_range(write),
        }
    }

    /// Alone; `demotes`: an overwrite shares the lock once it is known to be one.
    fn write_exclusive(&self, write: &Request<'_>, demotes: bool) -> Result<Written> {
        let mut locked = lock_inode(write.inode, LockMode::Exclusive, write.nowait)?;
        let offset = self.start_of(write)?;
        if let Some(place) = self.find_overwrite(write, offset)? {
            if demotes {
                locked = locked.downgrade();
            }
            let written = self.overwrite(write, offset, &place);
            drop(locked);
            return written;
        }
        self.fill(write, offset)
    }

    /// Shared if it looks like an overwrite; otherwise exclusive, and everything is checked
    /// again.
    fn write_shared_first(&self, write: &Request<'_>) -> Result<Written> {
        if self.looks_like_overwrite(write) {
            let _locked = lock_inode(write.inode, LockMode::Shared, write.nowait)?;
            if let Some(place) = self.find_overwrite(write, write.offset)? {
                return self.overwrite(write, write.offset, &place);
            }
        }
        self.write_exclusive(write, true)
    }

    /// Shared; any other write runs beside all that it does not overlap.
    fn write_range(&self, write: &Request<'_>) -> Result<Written> {
        let locked = lock_inode(write.inode, LockMode::Shared, write.nowait)?;
        if self.looks_like_overwrite(write)
            && let Some(place) = self.find_overwrite(write, write.offset)?
        {
            return self.overwrite(write, write.offset, &place);
        }
        // Data leaves the inode only without concurrent readers.
        if write.inode.is_inline() {
            drop(locked);
            return self.write_exclusive(write, true);
        }
        let _range = self.lock_range(write, &locked)?;
        let offset = self.start_of(write)?;
        match self.find_overwrite(write, offset)? {
            Some(place) => self.overwrite(write, offset, &place),
            None => self.fill(write, offset),
        }
    }

    /// Whether it neither extends the file nor is unaligned to its blocks, by a size that may be old.
    fn looks_like_overwrite(&self, write: &Request<'_>) -> bool {
        let end = write.offset.saturating_add(write.len());
        !write.append
            && end <= write.inode.size()
            && (write.offset | write.len()) & (self.volume.block_size() - 1) == 0
    }

    /// Locks the blocks that the write changes, with the clusters that blocks of them are allocated in; where it extends the file also the last block, whose rest
    /// it may zero, and all that follows. The size does not shrink while the `ilock` is held, and does
    /// not grow but under such a range, so what was seen of it before is enough.
    fn lock_range<'a>(
        &self,
        write: &Request<'a>,
        locked: &ILockGuard<'_>,
    ) -> Result<RangeGuard<'a>> {
        let block = self.volume.cluster_size();
        let size = write.inode.size();
        let start = if write.append { size } else { write.offset };
        let end = start.saturating_add(write.len());
        let extends = write.append || end > size;
        let first = if extends { start.min(size) } else { start };
        let last = if extends {
            u64::MAX
        } else {
            end.next_multiple_of(block)
        };
        let range = first - first % block..last;
        let ranges = &write.inode.direct().ranges;
        if write.nowait {
            return try_ilock_range(ranges, range, locked).ok_or(Ext4Error::WouldBlock);
        }
        Ok(ilock_range(&write.inode.ilock, ranges, range, locked))
    }

    /// Where the write begins, with whatever locked that keeps the end where it is.
    fn start_of(&self, write: &Request<'_>) -> Result<u64> {
        let offset = if write.append {
            let end = write.inode.size();
            self.check_aligned(end, write.data)?;
            end
        } else {
            write.offset
        };
        match offset.checked_add(write.len()) {
            Some(end) if end <= self.mapping.file_bytes_max() => Ok(offset),
            _ => Err(Ext4Error::TooLarge),
        }
    }
}

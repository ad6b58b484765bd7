//! Mechanism 4, the file system's side: direct reads and writes.
//!
//! # Variants
//! `dio-lock=` ([`DioLock`]) says how a direct write takes the inode lock. An *overwrite* changes
//! blocks that are allocated and hold data, within the size: it only excludes
//! the removal of blocks.
//! - `exclusive-first` (before): alone; having found that it overwrites, with dioread_nolock it continues
//!   shared.
//! - `shared-first` (after): with dioread_nolock shared, unless it extends the file or is not aligned to
//!   its blocks; a write that proves not to be one releases the lock, takes it exclusively and looks up again. Without
//!   dioread_nolock alone.
//! - `shared-always`: as `shared-first`, in both mount modes.
//! - `range` (beyond): shared; other writes lock their range of blocks, and one that extends the
//!   file all that follows.
//!
//! Direct reads are shared in all of them.
//!
//! # Invariants
//! - Blocks are taken from a file, and its size is reduced, only with the `ilock` held alone. So a holder of
//!   the shared lock may use what the mapping says, without any other lock.
//! - With dioread_nolock, a write within the size maps its blocks as *unwritten* first, each run an extent
//!   of its own, then writes the data, then converts; unwritten blocks are never read. A conversion
//!   finds extents that begin and end where it does: it needs no block, and cannot fail for lack of one.
//! - Otherwise, past the size, and in a file without extents, blocks are reserved in memory, written, and
//!   then mapped and made part of the size in one handle. A crash before that leaves nothing on disk, so there is no orphan to put
//!   on record.
//!
//! # Locking
//! `ilock`, then `range`, then handle, then `map`. The data is written and read with no handle and no `map`
//! lock held.
//!
//! | module | holds |
//! | --- | --- |
//! | `variants` | how a write takes the lock |
//! | `overwrite` | writes to blocks that hold data |
//! | `fill` | writes to holes and to unwritten blocks |
//! | `conversions` | unwritten blocks that become written, many writers' at a time |

mod conversions;
pub(crate) mod fill;
mod overwrite;
mod variants;

use crate::file::{FileIo, check_mutable, check_regular};
use crate::inode::Inode;
use crate::inode::acl_cache::Subject;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use uext4_vfs::ilock::try_ilock;

#[cfg(doc)]
use uext4_vfs::ilock::DioLock;

/// A direct write.
#[derive(Clone, Copy, Debug)]
struct Request<'a> {
    inode: &'a InodeRef,
    /// Where; with `append`, at the end.
    offset: u64,
    data: &'a [u8],
    append: bool,
    /// Never waits.
    nowait: bool,
    /// May use the blocks that are reserved for the superuser.
    privileged: bool,
}

impl Request<'_> {
    fn len(&self) -> u64 {
        self.data.len() as u64
    }
}

/// Locks an inode; with `nowait` only if that needs no waiting.
pub(crate) fn lock_inode(inode: &Inode, mode: LockMode, nowait: bool) -> Result<ILockGuard<'_>> {
    if nowait {
        return try_ilock(&inode.ilock, mode).ok_or(Ext4Error::WouldBlock);
    }
    Ok(ilock(&inode.ilock, mode))
}

impl FileIo {
    /// What offset, length and memory of direct reads and writes must be multiples of, in bytes.
    #[inline]
    pub fn direct_alignment(&self) -> u32 {
        self.volume.device().logical_block_size()
    }

    /// Refuses what is not aligned as direct I/O must be.
    pub(crate) fn check_aligned(&self, offset: u64, data: &[u8]) -> Result<()> {
        let all = offset | data.len() as u64 | data.as_ptr().addr() as u64;
        if all & u64::from(self.direct_alignment() - 1) != 0 {
            return Err(Ext4Error::Invalid(
                "offset, length or memory not aligned for direct I/O",
            ));
        }
        Ok(())
    }

    /// Writes to a file, directly, as the flags say.
    ///
    /// # Locks
    /// The inode's `ilock`, as the variant says; see the module.
    ///
    /// # Crash
    /// As [`FileIo::write`]; blocks that a hole got may stay, reading as zeros.
    ///
    /// # Errors
    /// As [`FileIo::write`]; [`Ext4Error::Invalid`] for what is not aligned, and with `NOWAIT`
    /// [`Ext4Error::WouldBlock`].
    pub fn write_direct(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        flags: IoFlags,
        privileged: bool,
    ) -> Result<Written> {
        self.volume.check_writable()?;
        check_regular(inode)?;
        let append = flags.contains(IoFlags::APPEND);
        let offset = if append { 0 } else { offset };
        if data.is_empty() {
            return Ok(Written { offset, len: 0 });
        }
        check_mutable(inode)?;
        self.check_aligned(offset, data)?;
        if !inode.acls.has_none(Subject::Capability) {
            if flags.contains(IoFlags::NOWAIT) {
                return Err(Ext4Error::WouldBlock);
            }
            let _locked = ilock(&inode.ilock, LockMode::Exclusive);
            self.attributes.forfeit_capability(inode)?;
        }
        self.write_with_variant(&Request {
            inode,
            offset,
            data,
            append,
            nowait: flags.contains(IoFlags::NOWAIT),
            privileged,
        })
    }
}

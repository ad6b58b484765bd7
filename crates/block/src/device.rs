//! The trait of everything that holds an image.

use crate::batch::first_run;
use crate::device_id::DeviceId;
use crate::error::Result;
use crate::origin::Origin;
use crate::remote_stats::RemoteStats;
use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// A range of bytes with positioned I/O. Offsets and lengths are in bytes and need no alignment.
///
/// # Contract
/// The suite `uext4_testkit::device::contract` checks each of these rules; every device passes it.
///
/// *Order.* A call that begins after another has returned sees what that one did. Calls may run at the same
/// time; where they overlap, each byte is that of one of them, and bytes beside an unaligned write stay.
///
/// *Durability.* A write, zeroing or discard that has returned is durable once a [`flush`] that began later
/// has returned `Ok`, whichever threads called them. A [`write_fua`] that has returned `Ok` is durable itself,
/// and says nothing of other writes. Until then, any part of them may be on the device after a power loss, in
/// any order.
///
/// *Atomicity.* A power loss leaves each aligned sector of 512 bytes as one of the writes to it left it, none
/// older than the last durable one. Anything larger, a block of a file system too, may be torn between
/// sectors.
///
/// *Discard.* What a discarded range reads as isn't defined, but stays inside it: bytes around it are as they
/// were, and a write or zeroing of the range holds as on any other. Changes of length are durable as the host
/// makes them.
///
/// *Failure.* A failed call may have done any part of its work. After a failed flush or FUA write the device
/// has failed for good: reads go on, and every other call fails with [`BlockError::Failed`] (`EIO`), in all
/// threads, as the host forgets what it lost once it has said so. A flush that runs beside one that fails
/// fails too, if what it covers may be lost. Calls that are refused before they reach the host (a range past
/// the end, a device that is read-only) do not count as failures.
///
/// *Statistics.* One call is one request: a vectored call counts once, a batch once for each run of ranges
/// that follow each other. A device that wraps another passes each call on once, as what it is, and adds no
/// others.
///
/// [`flush`]: BlockDevice::flush
/// [`write_fua`]: BlockDevice::write_fua
/// [`BlockError::Failed`]: crate::BlockError::Failed
///
/// # Locks
/// Every call but `len`, `is_read_only`, `identity` and `remote_stats` may sleep: no lock of rank `group` or below
/// may be held.
///
/// # Errors
/// A range past the end is refused as a whole; a short read is an error that names the offset.
pub trait BlockDevice: Send + Sync + Debug {
    /// The size of the device.
    fn len(&self) -> u64;

    /// Whether the device has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether writes are refused.
    fn is_read_only(&self) -> bool;

    /// The unit, in bytes and a power of two, that offset, length and memory of a call should be multiples
    /// of: what direct I/O of the host needs, and what a file system above asks of its callers. Other calls
    /// work as well, but may be slow.
    fn logical_block_size(&self) -> u32 {
        512
    }

    /// Fills `buf` from `offset` on.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Fills `bufs`, one after the other, from `offset` on.
    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.read_at(at, buf)?;
            at = at.saturating_add(buf.len() as u64);
        }
        Ok(())
    }

    /// Writes `buf` at `offset`.
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()>;

    /// Writes `bufs`, one after the other on the device, from `offset` on.
    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.write_at(at, buf)?;
            at = at.saturating_add(buf.len() as u64);
        }
        Ok(())
    }

    /// Fills scattered ranges: neighbours in the list that follow each other on the device are one vectored
    /// read, and the rest is in flight together where the device can do that. Best sorted by offset. After
    /// an error, what the buffers hold isn't defined.
    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut rest = reads;
        while let Some(run) = first_run(rest) {
            let (now, after) = rest.split_at_mut(run.ranges);
            let mut bufs: Vec<_> = now.iter_mut().map(|(_, b)| IoSliceMut::new(b)).collect();
            self.read_vectored_at(run.offset, &mut bufs)?;
            rest = after;
        }
        Ok(())
    }

    /// Writes scattered ranges as [`BlockDevice::read_batch`] reads them; ranges that overlap are written in
    /// any order. After an error, any part of them may be on the device.
    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut rest = writes;
        while let Some(run) = first_run(rest) {
            let (now, after) = rest.split_at(run.ranges);
            let bufs: Vec<_> = now.iter().map(|(_, b)| IoSlice::new(b)).collect();
            self.write_vectored_at(run.offset, &bufs)?;
            rest = after;
        }
        Ok(())
    }

    /// Makes every write that had returned before this call durable.
    fn flush(&self) -> Result<()>;

    /// Writes `buf` at `offset` and makes it durable; makes no other write durable.
    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write_at(offset, buf)?;
        self.flush()
    }

    /// Says that a range holds nothing of use; what it reads as afterwards isn't defined. A device
    /// that can't do it does nothing.
    fn discard(&self, offset: u64, len: u64) -> Result<()>;

    /// Makes a range read as zeros, cheaper than by writing them where the device can.
    fn zero(&self, offset: u64, len: u64) -> Result<()>;

    /// Gives a range its space on the host, so that later writes to it do not fail for lack of space; what it
    /// holds stays. A device that can't do it, or whose space is its own, does nothing.
    ///
    /// # Errors
    /// `ENOSPC`: the host is full.
    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        let _ = (offset, len);
        Ok(())
    }

    /// Forgets what this host keeps of a range, so that reads return what the device has, what another host wrote included. What was written
    /// here and is not durable yet is kept. A device that no other host can write does nothing.
    fn drop_cache(&self, offset: u64, len: u64) -> Result<()> {
        let _ = (offset, len);
        Ok(())
    }

    /// Changes the size of the device; new bytes read as zeros. A block device takes a larger size that the host has given it since it was
    /// opened, and keeps what bytes it has there.
    ///
    /// # Errors
    /// `EINVAL` where the size is fixed.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Whether a flush, and a [`write_fua`](BlockDevice::write_fua), makes all that was written before it durable at once: after a crash the
    /// device is as it was at one, so that a commit of a journal needs one only.
    fn is_flush_atomic(&self) -> bool {
        false
    }

    /// Whether a host that takes the image over keeps out what the one before still writes.
    fn is_fenced(&self) -> bool {
        false
    }

    /// What a client of a server did for this image; `None` if it is on this host.
    fn remote_stats(&self) -> Option<RemoteStats> {
        None
    }

    /// Gives up what keeps other hosts out, a lock, and what is kept for this one: as a drop does, for a process that ends without one. A
    /// device that was released is not written any more.
    fn release(&self) {}

    /// The newest of what this device holds, as a device of its own, where this one is a snapshot that stays as it is while another host
    /// writes; `None` if it is not such a snapshot.
    ///
    /// # Errors
    /// The server's.
    fn newest(&self) -> Result<Option<Arc<dyn BlockDevice>>> {
        Ok(None)
    }

    /// The identity of this image; `None` if no other process can open it.
    fn identity(&self) -> Option<DeviceId>;

    /// Where on the host the bytes from `offset` on are kept: of `len` bytes, of one at least and of as many as follow each other there. Two
    /// devices read the same where their origins are the same ([`Origin::is_same_as`]), until one of them is written. Reads no data.
    fn origin(&self, offset: u64, len: u64) -> Origin {
        let _ = offset;
        Origin::unknown(len)
    }
}

/// Implements methods of [`BlockDevice`] by those of a device inside: `forward_device!(self => self.inner; len, flush)`.
#[macro_export]
macro_rules! forward_device {
    ($s:ident => $d:expr; $($method:ident),+) => {
        $($crate::forward_device!(@$method $s $d);)+
    };
    (@len $s:ident $d:expr) => { fn len(&$s) -> u64 { $d.len() } };
    (@is_read_only $s:ident $d:expr) => { fn is_read_only(&$s) -> bool { $d.is_read_only() } };
    (@logical_block_size $s:ident $d:expr) => {
        fn logical_block_size(&$s) -> u32 {
            $d.logical_block_size()
        }
    };
    (@flush $s:ident $d:expr) => { fn flush(&$s) -> $crate::Result<()> { $d.flush() } };
    (@set_len $s:ident $d:expr) => {
        fn set_len(&$s, len: u64) -> $crate::Result<()> {
            $d.set_len(len)
        }
    };
    (@is_flush_atomic $s:ident $d:expr) => { fn is_flush_atomic(&$s) -> bool { $d.is_flush_atomic() } };
    (@is_fenced $s:ident $d:expr) => { fn is_fenced(&$s) -> bool { $d.is_fenced() } };
    (@remote_stats $s:ident $d:expr) => {
        fn remote_stats(&$s) -> Option<$crate::RemoteStats> {
            $d.remote_stats()
        }
    };
    (@release $s:ident $d:expr) => { fn release(&$s) { $d.release() } };
    (@newest $s:ident $d:expr) => {
        fn newest(&$s) -> $crate::Result<Option<::std::sync::Arc<dyn $crate::BlockDevice>>> {
            $d.newest()
        }
    };
    (@identity $s:ident $d:expr) => { fn identity(&$s) -> Option<$crate::DeviceId> { $d.identity() } };
    (@origin $s:ident $d:expr) => {
        fn origin(&$s, offset: u64, len: u64) -> $crate::Origin {
            $d.origin(offset, len)
        }
    };
    (@read_at $s:ident $d:expr) => {
        fn read_at(&$s, offset: u64, buf: &mut [u8]) -> $crate::Result<()> {
            $d.read_at(offset, buf)
        }
    };
    (@read_vectored_at $s:ident $d:expr) => {
        fn read_vectored_at(&$s, offset: u64, bufs: &mut [::std::io::IoSliceMut<'_>])
        -> $crate::Result<()> {
            $d.read_vectored_at(offset, bufs)
        }
    };
    (@read_batch $s:ident $d:expr) => {
        fn read_batch(&$s, reads: &mut [(u64, &mut [u8])]) -> $crate::Result<()> {
            $d.read_batch(reads)
        }
    };
    (@write_at $s:ident $d:expr) => {
        fn write_at(&$s, offset: u64, buf: &[u8]) -> $crate::Result<()> {
            $d.write_at(offset, buf)
        }
    };
    (@write_fua $s:ident $d:expr) => {
        fn write_fua(&$s, offset: u64, buf: &[u8]) -> $crate::Result<()> {
            $d.write_fua(offset, buf)
        }
    };
    (@write_vectored_at $s:ident $d:expr) => {
        fn write_vectored_at(&$s, offset: u64, bufs: &[::std::io::IoSlice<'_>])
        -> $crate::Result<()> {
            $d.write_vectored_at(offset, bufs)
        }
    };
    (@write_batch $s:ident $d:expr) => {
        fn write_batch(&$s, writes: &[(u64, &[u8])]) -> $crate::Result<()> {
            $d.write_batch(writes)
        }
    };
    (@discard $s:ident $d:expr) => {
        fn discard(&$s, offset: u64, len: u64) -> $crate::Result<()> {
            $d.discard(offset, len)
        }
    };
    (@zero $s:ident $d:expr) => {
        fn zero(&$s, offset: u64, len: u64) -> $crate::Result<()> {
            $d.zero(offset, len)
        }
    };
    (@drop_cache $s:ident $d:expr) => {
        fn drop_cache(&$s, offset: u64, len: u64) -> $crate::Result<()> {
            $d.drop_cache(offset, len)
        }
    };
    (@allocate $s:ident $d:expr) => {
        fn allocate(&$s, offset: u64, len: u64) -> $crate::Result<()> {
            $d.allocate(offset, len)
        }
    };
}

impl<T: BlockDevice + ?Sized> BlockDevice for Arc<T> {
    forward_device!(self => **self; len, is_read_only, logical_block_size, read_at, read_vectored_at, read_batch);
    forward_device!(self => **self; write_at, write_vectored_at, write_batch, write_fua, flush);
    forward_device!(self => **self; discard, zero, allocate, drop_cache, set_len, identity, origin);
    forward_device!(self => **self; is_flush_atomic, is_fenced, remote_stats, release, newest);
}

/// The bytes of a vectored call together.
pub fn total_len(bufs: &[IoSlice<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// The bytes of a vectored read together.
pub fn total_len_mut(bufs: &[IoSliceMut<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::IOV_MAX;
    use crate::{CountDevice, MemoryDevice};

    #[test]
    fn batch_merges_neighbours_and_respects_iov_max() {
        let device = CountDevice::new(MemoryDevice::new(1 << 20));
        let block = [7u8; 16];
        let mut writes: Vec<(u64, &[u8])> = (0..IOV_MAX as u64 + 1)
            .map(|i| (i * 16, &block[..]))
            .collect();
        writes.push((500_000, &block));
        device.write_batch(&writes).unwrap();
        // Two for the run of 1025, one for the write apart.
        assert_eq!(device.counts().writes, 3);
        let mut back = vec![0; (IOV_MAX + 2) * 16];
        device.read_at(0, &mut back).unwrap();
        assert!(back[..(IOV_MAX + 1) * 16].iter().all(|&b| b == 7));
        assert!(back[(IOV_MAX + 1) * 16..].iter().all(|&b| b == 0));
        device.write_batch(&[]).unwrap();
        assert_eq!(device.counts().writes, 3);
    }
}

//! Space on the host for metadata: a sparse image has none where nothing was ever written.
//!
//! # Invariants
//! A block of metadata has its space before a handle first changes it, so that `ENOSPC` reaches the operation that needs
//! the block. A host that is full all the same (copy-on-write, a quota) is for the checkpoint: `JournalError::HostFull`.
//!
//! # Locking
//! None: a bit for each chunk of the device, set once the host gave it its space.

use crate::prelude::*;
use crate::run::Run;
use crate::volume::Volume;

/// The most chunks that are kept apart, which take 512 KiB.
const CHUNKS_MAX: u64 = 1 << 22;
/// The smallest chunk, in bytes.
const CHUNK_BYTES_MIN: u64 = 64 << 10;

/// Which parts of the device have their space.
#[derive(Debug)]
pub(crate) struct HostSpace {
    /// In bytes.
    chunk: u64,
    has: Box<[AtomicU64]>,
}

impl HostSpace {
    /// Of a device of so many bytes, of which nothing is known.
    pub fn new(bytes: u64) -> HostSpace {
        let chunk = bytes
            .div_ceil(CHUNKS_MAX)
            .next_power_of_two()
            .max(CHUNK_BYTES_MIN);
        let words = bytes.div_ceil(chunk).div_ceil(64);
        HostSpace {
            chunk,
            has: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn bit(&self, chunk: u64) -> (&AtomicU64, u64) {
        let word = usize::try_from(chunk / 64).unwrap_or(usize::MAX);
        (&self.has[word], 1 << (chunk % 64))
    }

    /// Forgets what is known of a range, whose space is returned to the host.
    pub fn forget(&self, offset: u64, len: u64) {
        for chunk in offset / self.chunk..(offset + len).div_ceil(self.chunk) {
            let (word, bit) = self.bit(chunk);
            word.fetch_and(!bit, Relaxed);
        }
    }
}

impl Volume {
    /// Gives blocks of metadata their space on the host.
    ///
    /// # Locks
    /// May wait for the host: no lock of rank `group` or below may be held.
    ///
    /// # Errors
    /// [`Ext4Error::HostFull`]; the device's.
    pub(crate) fn allocate_on_host(&self, run: Run) -> Result<()> {
        let (first, bytes) = (
            run.pblk.0 * self.block_size(),
            u64::from(run.len) * self.block_size(),
        );
        let space = self.host_space();
        for chunk in first / space.chunk..(first + bytes).div_ceil(space.chunk) {
            let (word, bit) = space.bit(chunk);
            if word.load(Relaxed) & bit != 0 {
                continue;
            }
            let start = chunk * space.chunk;
            let len = space.chunk.min(self.device().len() - start);
            match self.device().allocate(start, len) {
                Ok(()) => word.fetch_or(bit, Relaxed),
                Err(why) if why.raw_os_error() == Some(Errno::ENOSPC.0) => {
                    return Err(Ext4Error::HostFull(Box::new(why)));
                }
                Err(why) => return Err(why.into()),
            };
        }
        Ok(())
    }
}

impl Volume {
    /// Gives a bitmap that is going to be changed its space on the host.
    pub(crate) fn allocate_bitmap(&self, pblk: Pblk) -> Result<()> {
        match self.is_read_only() {
            true => Ok(()),
            false => self.allocate_on_host(Run { pblk, len: 1 }),
        }
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use crate::fixture::*;
    use uext4_block::BlockOp;

    const CHUNK: u64 = 64 << 10;

    #[test]
    fn each_chunk_of_the_host_is_asked_for_once() {
        let bytes = (6 << 20) + (10 << 10);
        let device = image(bytes, "");
        let fs = mount(&device);
        let asked = |pblk, len| {
            device.take_calls(BlockOp::Allocate);
            let pblk = Pblk(pblk);
            let done = fs.volume.allocate_on_host(Run { pblk, len });
            done.expect("space");
            device.take_calls(BlockOp::Allocate)
        };
        assert_eq!(asked(100, 1), [(CHUNK, 2 * CHUNK)]);
        assert_eq!(asked(127, 1), []);
        assert_eq!(
            asked(127, 66),
            [(2 * CHUNK, 3 * CHUNK), (3 * CHUNK, 4 * CHUNK)]
        );
        assert_eq!(asked(64, 192), []);
        assert_eq!(
            asked(6150, 2),
            [(6 << 20, bytes)],
            "not past the end of the device"
        );
        fs.volume.host_space().forget(2 * CHUNK + 1, CHUNK);
        assert_eq!(
            asked(64, 192),
            [(2 * CHUNK, 3 * CHUNK), (3 * CHUNK, 4 * CHUNK)]
        );
    }

    #[test]
    fn bitmaps_are_used_only_with_space_on_the_host() {
        let device = image(8 << 20, "");
        let fs = mount(&device);
        device.fail(BlockOp::Allocate, 0..u64::MAX, Errno::ENOSPC);
        let group = fs.volume.group(GroupNo(0)).expect("a group");
        let blocks = fs.blocks.block_bits(group).map(drop);
        assert!(matches!(blocks, Err(Ext4Error::HostFull(_))), "{blocks:?}");
        let inodes = fs.numbers.inode_bits(group).map(drop);
        assert!(matches!(inodes, Err(Ext4Error::HostFull(_))), "{inodes:?}");
        device.work();
        fs.blocks.block_bits(group).expect("read");
        fs.numbers.inode_bits(group).expect("read");
    }

    #[test]
    fn a_host_that_fails_is_not_full() {
        let device = image(8 << 20, "");
        let fs = mount(&device);
        device.fail(BlockOp::Allocate, 0..u64::MAX, Errno::EIO);
        let pblk = Pblk(5000);
        let done = fs.volume.allocate_on_host(Run { pblk, len: 1 });
        assert_eq!(done.expect_err("no space").errno(), Errno::EIO);
    }
}

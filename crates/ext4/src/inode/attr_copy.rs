//! What stat(2) shows of an inode, to be read by many threads without a lock.

use crate::prelude::*;
use uext4_sync::WordCopy;
use uext4_vfs::attr::Timestamp;

/// Words for all attributes but the block size. What never changes is among them: the inode has it beside its lock, on a cache
/// line that writers write.
const WORDS: usize = 13;

/// A copy of an inode's attributes; see [`WordCopy`].
#[derive(Debug)]
pub(crate) struct AttrCopy(WordCopy<WORDS>);

impl AttrCopy {
    /// Nothing is copied yet.
    pub fn new() -> AttrCopy {
        AttrCopy(WordCopy::new())
    }

    /// The attributes; if the copy is not current, `attr` reads them under a lock and sets it.
    #[inline(always)]
    pub fn read_or(&self, block_size: u32, attr: impl FnOnce() -> Attr) -> Attr {
        // Both in words, so that the attributes are written once, where the caller wants them.
        let words = self.0.read().unwrap_or_else(|| pack(&attr()));
        unpack(&words, block_size)
    }

    /// Says that attributes change.
    ///
    /// # Locks
    /// The caller holds the inode's state.
    #[inline]
    pub fn changed(&self) {
        self.0.changed();
    }

    /// Copies the attributes.
    ///
    /// # Locks
    /// The caller holds the inode's state, and has held it since it read them.
    pub fn set(&self, attr: &Attr) {
        self.0.set(pack(attr));
    }
}

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn pack(attr: &Attr) -> [u64; WORDS] {
    [
        attr.size,
        attr.blocks,
        attr.atime.sec.cast_unsigned(),
        attr.mtime.sec.cast_unsigned(),
        attr.ctime.sec.cast_unsigned(),
        attr.crtime.sec.cast_unsigned(),
        pair(attr.atime.nsec, attr.mtime.nsec),
        pair(attr.ctime.nsec, attr.crtime.nsec),
        pair(attr.uid, attr.gid),
        pair(attr.nlink, attr.flags),
        pair(attr.generation, attr.st_mode()),
        pair(attr.rdev_major, attr.rdev_minor),
        attr.ino,
    ]
}

#[inline(always)]
fn unpack(words: &[u64; WORDS], block_size: u32) -> Attr {
    let [
        size,
        blocks,
        atime,
        mtime,
        ctime,
        crtime,
        access_nsec,
        change_nsec,
        owner,
        links,
        generation,
        rdev,
        ino,
    ] = *words;
    let time = |sec: u64, nsec| Timestamp {
        sec: sec.cast_signed(),
        nsec,
    };
    let (atime_nsec, mtime_nsec) = halves(access_nsec);
    let (ctime_nsec, crtime_nsec) = halves(change_nsec);
    let (uid, gid) = halves(owner);
    let (nlink, flags) = halves(links);
    let (generation, mode) = halves(generation);
    let (rdev_major, rdev_minor) = halves(rdev);
    Attr {
        ino,
        generation,
        kind: FileKind::from_mode_bits(mode).unwrap_or(FileKind::Regular),
        mode: mode as u16 & 0o7777,
        nlink,
        uid,
        gid,
        size,
        blocks,
        block_size,
        atime: time(atime, atime_nsec),
        mtime: time(mtime, mtime_nsec),
        ctime: time(ctime, ctime_nsec),
        crtime: time(crtime, crtime_nsec),
        rdev_major,
        rdev_minor,
        flags,
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_is_copied() {
        let time = |sec, nsec| Timestamp { sec, nsec };
        let attr = Attr {
            ino: 1,
            generation: u32::MAX - 2,
            kind: FileKind::CharDevice,
            mode: 0o7773,
            nlink: u32::MAX - 4,
            uid: u32::MAX - 5,
            gid: u32::MAX - 6,
            size: u64::MAX - 7,
            blocks: u64::MAX - 8,
            block_size: 4096,
            atime: time(i64::MIN + 9, 999_999_910),
            mtime: time(-11, 999_999_912),
            ctime: time(13, 999_999_914),
            crtime: time(i64::MAX - 15, 999_999_916),
            rdev_major: u32::MAX - 17,
            rdev_minor: u32::MAX - 18,
            flags: u32::MAX - 19,
        };
        assert_eq!(unpack(&pack(&attr), 4096), attr);
    }
}

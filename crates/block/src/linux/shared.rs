//! What of a file other files share on the host, as copies by reference do (`cp --reflink`).

use super::align::file_system_magic;
use super::host_extents::{HostExtentsOf, host_extents};
use rustix::ioctl::{Getter, ioctl, opcode};
use std::os::fd::OwnedFd;

/// File systems that give a place once: btrfs in all its devices, XFS in one, but for a realtime device.
const BTRFS_MAGIC: u64 = 0x9123_683E;
const XFS_MAGIC: u64 = 0x5846_5342;

/// `struct fsxattr` of linux/fs.h.
#[repr(C)]
struct Fsxattr {
    xflags: u32,
    others: [u32; 6],
}

const FS_IOC_FSGETXATTR: rustix::ioctl::Opcode = opcode::read::<Fsxattr>(b'X', 31);
const XFLAG_REALTIME: u32 = 1;

const SHARED: u32 = 0x2000;
/// Unknown, delayed, encoded, encrypted, not aligned, inline, packed or unwritten: not the bytes at that place.
const NOT_THERE: u32 = 0x0002 | 0x0004 | 0x0008 | 0x0080 | 0x0100 | 0x0200 | 0x0400 | 0x0800;

/// A run of bytes, and where the host keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    len: u64,
    at: u64,
}

/// The shared runs of a file, in order, as they were when they were asked for.
#[derive(Debug)]
pub(super) struct SharedRuns(Vec<Run>);

impl SharedRuns {
    /// None where the host does not say.
    pub(super) fn of(fd: &OwnedFd) -> SharedRuns {
        // Data in memory is written before, so that no block is meant to be another.
        let of = HostExtentsOf {
            xattrs: false,
            synced: true,
        };
        let asked = has_places(fd).then(|| host_extents(fd, of).ok());
        let extents = asked.flatten().unwrap_or_default();
        let is_shared = |flags: u32| flags & SHARED != 0 && flags & NOT_THERE == 0;
        let shared = extents.into_iter().filter(|e| is_shared(e.flags));
        let runs = shared.map(|e| Run {
            first: e.logical,
            len: e.len,
            at: e.physical,
        });
        SharedRuns(runs.collect())
    }

    /// Where the file system of the host keeps what is at `offset`, if it is shared; and for how many bytes from there on that
    /// holds.
    pub(super) fn find(&self, offset: u64) -> (Option<u64>, u64) {
        let i = self.0.partition_point(|run| run.first + run.len <= offset);
        match self.0.get(i) {
            Some(run) if run.first <= offset => {
                let skipped = offset - run.first;
                (Some(run.at + skipped), run.len - skipped)
            }
            Some(run) => (None, run.first - offset),
            None => (None, u64::MAX),
        }
    }
}

/// Whether two files of the file system have the same bytes where they are at the same place.
fn has_places(fd: &OwnedFd) -> bool {
    match file_system_magic(fd) {
        Some(BTRFS_MAGIC) => true,
        Some(XFS_MAGIC) => {
            // SAFETY: FS_IOC_FSGETXATTR writes the structure.
            let attributes = unsafe { ioctl(fd, Getter::<FS_IOC_FSGETXATTR, Fsxattr>::new()) };
            attributes.is_ok_and(|found| found.xflags & XFLAG_REALTIME == 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_with_what_is_left_of_them() {
        let run = |first, len, at| Run { first, len, at };
        let runs = SharedRuns(vec![run(10, 5, 100), run(15, 5, 300), run(40, 10, 900)]);
        for (offset, found) in [
            (0, (None, 10)),
            (10, (Some(100), 5)),
            (14, (Some(104), 1)),
            (15, (Some(300), 5)),
            (20, (None, 20)),
            (49, (Some(909), 1)),
            (50, (None, u64::MAX)),
        ] {
            assert_eq!(runs.find(offset), found, "{offset}");
        }
    }

    #[test]
    fn a_file_of_its_own_shares_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 10_000]).unwrap();
        let fd = OwnedFd::from(file.reopen().unwrap());
        let runs = SharedRuns::of(&fd);
        assert_eq!(runs.find(0), (None, u64::MAX));
    }
}

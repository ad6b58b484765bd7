//! What direct I/O on a file of the host needs.

use super::bounce::Bounce;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
use std::os::fd::OwnedFd;

/// `BLKSSZGET` of `linux/fs.h`; it has no direction in its number, and writes an `int`.
const BLKSSZGET: Opcode = opcode::none(0x12, 104);

/// The alignment if the host does not report one: no sector is larger.
const FALLBACK: u32 = 4096;

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// `RAMFS_MAGIC` of the same.
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// Alignments in bytes, powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Of offsets and lengths.
    pub offset: u32,
    /// Of memory.
    pub memory: u32,
}

impl Alignment {
    /// What direct I/O on `fd`, which is open for it, needs: as the host reports it, else a large one that is
    /// tried.
    ///
    /// # Errors
    /// `EINVAL` when the host takes no direct I/O on it.
    pub fn of(fd: &OwnedFd, is_block: bool) -> rustix::io::Result<Alignment> {
        if let Some(told) = told_by_statx(fd) {
            return Ok(told);
        }
        if is_block {
            let sector = sector_bytes(fd)?;
            return Ok(Alignment {
                offset: sector,
                memory: sector,
            });
        }
        // A file without bytes answers nothing, and is taken at its open's word.
        let mut bounce = Bounce::default();
        rustix::io::pread(fd, bounce.bytes(FALLBACK as usize, FALLBACK as usize), 0)?;
        Ok(Alignment {
            offset: FALLBACK,
            memory: FALLBACK,
        })
    }
}

/// Whether the file is on a tmpfs. It accepts `O_DIRECT` since Linux 6.6 and ignores it: there is no cache to bypass, and
/// nothing to align for or to wait for.
pub(crate) fn ignores_direct(fd: &OwnedFd) -> bool {
    file_system_magic(fd) == Some(TMPFS_MAGIC)
}

/// Whether the file is in memory only, flushed or not: on a tmpfs or a ramfs.
pub(crate) fn is_volatile(fd: &OwnedFd) -> bool {
    matches!(file_system_magic(fd), Some(TMPFS_MAGIC | RAMFS_MAGIC))
}

pub(super) fn file_system_magic(fd: &OwnedFd) -> Option<u64> {
    let found = rustix::fs::fstatfs(fd).ok()?;
    Some(found.f_type as u64)
}

/// The logical sector of a block device of the host.
pub(crate) fn sector_bytes(fd: &OwnedFd) -> rustix::io::Result<u32> {
    // SAFETY: BLKSSZGET writes one int.
    let sector = unsafe { ioctl(fd, Getter::<BLKSSZGET, u32>::new()) }?;
    match sector.is_power_of_two() {
        true => Ok(sector),
        false => Err(Errno::INVAL),
    }
}

/// Known since Linux 6.1, on the file systems that report it.
fn told_by_statx(fd: &OwnedFd) -> Option<Alignment> {
    let found = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if found.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return None;
    }
    let told = Alignment {
        offset: found.stx_dio_offset_align,
        memory: found.stx_dio_mem_align,
    };
    (told.offset.is_power_of_two() && told.memory.is_power_of_two()).then_some(told)
}

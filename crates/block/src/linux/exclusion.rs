//! Other users of an image: locks on the file, and loop devices that it backs.

use crate::error::{BlockError, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, open, stat};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `LOOP_GET_STATUS64` of `linux/loop.h`.
const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// `struct loop_info64` in words: the first is the backing file's device, the second its inode.
type LoopInfo = [u64; 29];

/// How long a lock that conflicts may take to go. A child that another thread forks has the image open
/// until it executes its program, though no process uses it any more.
const PATIENCE: Duration = Duration::from_millis(300);

/// Locks an open image: shared for readers, exclusive for a writer. The lock goes with the file
/// description, so that it ends with the process. Waits a moment for one that conflicts.
///
/// # Errors
/// `EBUSY` when the lock of another process conflicts.
pub fn lock_image(path: &Path, fd: &OwnedFd, read_only: bool) -> Result<()> {
    let operation = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    let since = Instant::now();
    let mut locked = flock(fd, operation);
    while locked == Err(Errno::WOULDBLOCK) && since.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
        locked = flock(fd, operation);
    }
    match locked {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(BlockError::Busy {
            path: path.to_owned(),
            // Only a reader's lock lets another reader in.
            mode: match flock(fd, FlockOperation::NonBlockingLockShared) {
                Ok(()) => "read-only",
                Err(_) => "read-write",
            },
        }),
        Err(errno) => Err(BlockError::Open {
            path: path.to_owned(),
            source: errno.into(),
        }),
    }
}

/// Releases the lock.
pub fn unlock_image(fd: &OwnedFd) {
    // Nothing is lost where that fails: the lock goes with the file description.
    let _ = flock(fd, FlockOperation::NonBlockingUnlock);
}

/// Refuses to read a block device that the kernel writes to: what is read of it is neither old nor new. Mounted
/// read-only it holds still.
///
/// # Errors
/// `EBUSY`.
pub fn refuse_mounted(path: &Path, rdev: u64) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let since = Instant::now();
    // Another reader that asks the same has it for a moment.
    while open(path, flags, Mode::empty()).err() == Some(Errno::BUSY) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        match mounted_at(&mounts, rdev) {
            Some((_, true)) => return Ok(()),
            Some((dir, false)) => {
                return Err(BlockError::Mounted {
                    path: path.to_owned(),
                    dir,
                });
            }
            None if since.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            // Mounted where this process can't see it, or a part of another device.
            None => {
                return Err(BlockError::Busy {
                    path: path.to_owned(),
                    mode: "read-write",
                });
            }
        }
    }
    Ok(())
}

/// Where a device is mounted according to mountinfo, and whether its file system is read-only.
fn mounted_at(mountinfo: &str, rdev: u64) -> Option<(PathBuf, bool)> {
    let device = format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
    mountinfo.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        if mount.next() != Some(&device) {
            return None;
        }
        let dir = mount.nth(1)?;
        let options = source.split(' ').nth(2)?;
        Some((PathBuf::from(dir), options.split(',').any(|o| o == "ro")))
    })
}

/// Refuses a file that backs a loop device; a read-only loop device doesn't bother a reader.
///
/// # Errors
/// `EBUSY`.
pub fn refuse_loop_backing(path: &Path, image: &Stat, read_only: bool) -> Result<()> {
    // Without sysfs loop devices cannot be found, and there are hardly any.
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(backing) = fs::read(entry.path().join("loop/backing_file")) else {
            continue;
        };
        if !backs(&name, &backing, image) {
            continue;
        }
        let loop_is_read_only =
            fs::read(entry.path().join("ro")).is_ok_and(|ro| ro.starts_with(b"1"));
        if !(read_only && loop_is_read_only) {
            return Err(BlockError::BacksLoop {
                path: path.to_owned(),
                loop_device: format!("/dev/{name}"),
            });
        }
    }
    Ok(())
}

/// Whether loop device `name` is backed by `image`. The driver knows; a caller that may not ask it uses the
/// path in sysfs, which is another's in another mount namespace.
fn backs(name: &str, backing: &[u8], image: &Stat) -> bool {
    if let Some(info) = loop_info(name) {
        return info[0] == image.st_dev && info[1] == image.st_ino;
    }
    backing_paths(backing)
        .iter()
        .filter_map(|path| stat(path).ok())
        .any(|found| found.st_dev == image.st_dev && found.st_ino == image.st_ino)
}

fn loop_info(name: &str) -> Option<LoopInfo> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = open(format!("/dev/{name}"), flags, Mode::empty()).ok()?;
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, 232 bytes without padding.
    unsafe { ioctl(fd.as_fd(), Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) }.ok()
}

/// The paths that a line of `backing_file` may mean: a file unlinked since is marked, but a name may
/// also end like the mark.
fn backing_paths(line: &[u8]) -> Vec<PathBuf> {
    let line = String::from_utf8_lossy(line);
    let line = line.strip_suffix('\n').unwrap_or(&line);
    let mut paths = vec![PathBuf::from(line)];
    paths.extend(line.strip_suffix(" (deleted)").map(PathBuf::from));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_mark() {
        assert_eq!(backing_paths(b"/a b\n"), [PathBuf::from("/a b")]);
        assert_eq!(
            backing_paths(b"/a (deleted)\n"),
            [PathBuf::from("/a (deleted)"), PathBuf::from("/a")]
        );
    }

    /// Without a node to ask, as where `/dev` is closed to the user.
    #[test]
    fn the_path_tells_where_the_driver_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (image, other) = (dir.path().join("image"), dir.path().join("other"));
        fs::write(&image, b"").unwrap();
        fs::write(&other, b"").unwrap();
        let found = stat(&image).unwrap();
        let line = |path: &Path, mark: &str| format!("{}{mark}\n", path.display()).into_bytes();
        assert!(backs("none", &line(&image, ""), &found));
        assert!(backs("none", &line(&image, " (deleted)"), &found));
        assert!(!backs("none", &line(&other, ""), &found));
        assert!(!backs("none", &line(&dir.path().join("gone"), ""), &found));
    }

    #[test]
    fn mounts_are_found_by_their_device() {
        let mountinfo = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
                         37 35 7:1 / /mnt rw - ext4 /dev/loop1 ro\n";
        let of = |major, minor| mounted_at(mountinfo, rustix::fs::makedev(major, minor));
        assert_eq!(of(98, 0), Some(("/mnt2".into(), false)));
        assert_eq!(of(7, 1), Some(("/mnt".into(), true)));
        assert_eq!(of(7, 2), None);
    }

    #[test]
    fn loop_info_has_the_kernel_s_size() {
        assert_eq!(size_of::<LoopInfo>(), 232);
    }
}

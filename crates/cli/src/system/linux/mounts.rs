//! Images that are mounted here, and the kernel's mounts.

use rustix::fs::{Mode, OFlags, ext4_ioc_resize_fs, major, minor};
use serde_json::Value;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use uext4_mountd::mountinfo::MountEntry;
use uext4_mountd::{second_mount, stats};

pub use uext4_mountd::resize::{MountedImage, ResizeError};
pub use uext4_mountd::second_mount::mounted_at;

/// The statistics of the mount at `dir`, if its server answers.
pub fn statistics(dir: &Path) -> Option<Value> {
    stats::read_from_afar(dir).ok().flatten()
}

/// Where an image is mounted, if its files there are those that are stored.
pub fn shown_as_stored_at(image: &Path) -> Option<PathBuf> {
    let dir = second_mount::mounted_at(image)?;
    // With other owners, or as a part, it shows something else than what is stored.
    let is_as_stored = stats::read(&dir).is_ok_and(|stats| stats["as_stored"] == true);
    is_as_stored.then_some(dir)
}

/// What is used of the mount at `dir`: bytes of a block; blocks, free ones, available ones; inodes, free ones.
pub fn usage(dir: &Path) -> Option<(u64, [u64; 3], [u64; 2])> {
    let s = rustix::fs::statvfs(dir).ok()?;
    let blocks = [s.f_blocks, s.f_bfree, s.f_bavail];
    Some((s.f_frsize, blocks, [s.f_files, s.f_ffree]))
}

/// The kernel's mount of a block device.
pub struct KernelMount(MountEntry);

impl KernelMount {
    /// That of a block device that holds an image, if there is one.
    pub fn of(image: &Path) -> Option<KernelMount> {
        let there = std::fs::metadata(image).ok()?;
        if !there.file_type().is_block_device() {
            return None;
        }
        let device = format!("{}:{}", major(there.rdev()), minor(there.rdev()));
        let is_of = |entry: &MountEntry| {
            entry.device == device && matches!(entry.kind.as_str(), "ext2" | "ext3" | "ext4")
        };
        let found = MountEntry::all().ok()?.into_iter().find(is_of);
        found.map(KernelMount)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Its options, as mount(8) lists them.
    pub fn options(&self) -> &str {
        &self.0.options
    }

    /// Makes it larger.
    ///
    /// # Errors
    /// The kernel's.
    pub fn grow(&self, blocks: u64) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(self.dir(), flags, Mode::empty())?;
        Ok(ext4_ioc_resize_fs(dir, blocks)?)
    }
}

//! An image that is mounted already, shown at a second directory.
//!
//! Linux gives both directories one superblock. So does this, by a bind mount of the first: two servers could not
//! work on one image. Like a second mount of the kernel's, it has the first one's options but for those of a mount
//! alone: `ro`, `nosuid`, `nodev`, `noexec` and the rules for times of access.

use crate::mountinfo::MountEntry;
use crate::options::Options;
use crate::unmount::{UnmountMode, unmount};
use rustix::mount::{MountFlags, mount_bind, mount_remount};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use uext4::ImageName;

/// A mounted image is shown nowhere else.
#[derive(Debug, thiserror::Error)]
pub enum SecondMountError {
    /// The same image on the same directory.
    #[error(
        "image is already open: it is mounted on {dir}; `uext4 mount -o remount,OPTIONS {dir}` changes its options",
        dir = .0.display()
    )]
    Same(PathBuf),
    /// It would show something else than the first mount.
    #[error(
        "image is already open: it is mounted on {}, and a second mount shows the same; uid, gid, umask, fakeroot, subdir, \
         offset and sizelimit are for the first",
        .0.display()
    )]
    Different(PathBuf),
    /// Only root makes bind mounts, and only of what it has mounted itself.
    #[error(
        "image is already open: it is mounted on {dir}; use its files there, or `uext4 umount {dir}` first; only root can \
         show it at a second directory, and only what root has mounted",
        dir = .0.display()
    )]
    RootOnly(PathBuf),
    /// It would have to be written.
    #[error(
        "image is already open: it is mounted read-only on {}; mount it with -o ro, or unmount it first",
        .0.display()
    )]
    ReadOnly(PathBuf),
    /// The host says no.
    #[error("image is already open: it is mounted on {}, and can't be shown elsewhere too: {why}", first.display())]
    Host {
        /// Where it is mounted.
        first: PathBuf,
        /// The host's error.
        why: io::Error,
    },
}

/// Shows `image` at `dir`, a path as [`Path::canonicalize`] gives it, if it is mounted already, and returns where that
/// is; `None` if it is not.
///
/// # Errors
/// It is mounted and can't be shown at a second directory.
pub fn mount_second(
    image: &Path,
    dir: &Path,
    options: &Options,
) -> Result<Option<PathBuf>, SecondMountError> {
    let Some(first) = find(image) else {
        return Ok(None);
    };
    if MountEntry::at(dir).is_ok_and(|there| there.is_some_and(|t| t.device == first.device)) {
        return Err(SecondMountError::Same(first.dir));
    }
    if options.shows_other_files() {
        return Err(SecondMountError::Different(first.dir));
    }
    // Anyone can name an image as the source of a mount; what root has mounted, root's monitor has named.
    if !rustix::process::geteuid().is_root() || first.user != Some(0) {
        return Err(SecondMountError::RootOnly(first.dir));
    }
    let flags = options.kernel_flags();
    if first.flags.read_only && !flags.read_only {
        return Err(SecondMountError::ReadOnly(first.dir));
    }
    let failed = |e: rustix::io::Errno| SecondMountError::Host {
        first: first.dir.clone(),
        why: e.into(),
    };
    mount_bind(&first.dir, dir).map_err(failed)?;
    if let Err(e) = mount_remount(dir, MountFlags::BIND | flags.mount_flags(), c"") {
        // Not by force, which would end the first as well.
        let _ = unmount(dir, UnmountMode::Lazy);
        return Err(failed(e));
    }
    Ok(Some(first.dir))
}

/// Where an image is mounted, if it is.
pub fn mounted_at(image: &Path) -> Option<PathBuf> {
    find(image).map(|entry| entry.dir)
}

/// The same for a name that may be of an image on a server, which mounts have as it was given.
pub fn named(image: &Path) -> Option<PathBuf> {
    if !ImageName::parse(image).is_remote() {
        return mounted_at(image);
    }
    let mut entries = MountEntry::all().ok()?;
    entries.retain(|entry| entry.is_ours() && entry.source == image);
    entries.pop().map(|entry| entry.dir)
}

/// Where all of an image is mounted; root's mounts before others.
fn find(image: &Path) -> Option<MountEntry> {
    let name = ImageName::parse(image);
    let image = std::fs::metadata(name.path()).ok()?;
    let is_of = |entry: &MountEntry| {
        let source = ImageName::parse(&entry.source);
        entry.is_ours()
            && entry.root == Path::new("/")
            && entry.source.is_absolute()
            && source.partition() == name.partition()
            && std::fs::metadata(source.path()).is_ok_and(|source| is_same(&source, &image))
    };
    let mut entries = MountEntry::all().ok()?;
    entries.retain(is_of);
    entries.sort_by_key(|entry| entry.user != Some(0));
    entries.into_iter().next()
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    match one.file_type().is_block_device() && other.file_type().is_block_device() {
        true => one.rdev() == other.rdev(),
        false => (one.dev(), one.ino()) == (other.dev(), other.ino()),
    }
}

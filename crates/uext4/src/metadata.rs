//! The attributes of a file.

use uext4_ondisk::InodeFlags;
use uext4_vfs::{Attr, FileKind, Timestamp};

/// The attributes of a file, as statx(2) reports them: a copy, taken when it was asked for.
///
/// ```
/// # use uext4::*;
/// # let device = std::sync::Arc::new(MemoryDevice::new(16 << 20));
/// # mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
/// # let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
/// fs.write("/hostname", "demo\n")?;
/// let metadata = fs.metadata("/hostname")?;
/// assert!(metadata.is_file());
/// assert_eq!((metadata.len(), metadata.permissions()), (5, 0o644));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata(Attr);

impl Metadata {
    pub(crate) fn new(attr: Attr) -> Metadata {
        Metadata(attr)
    }

    /// What the file is.
    pub fn file_kind(&self) -> FileKind {
        self.0.kind
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0.kind == FileKind::Directory
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.kind == FileKind::Regular
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.kind == FileKind::Symlink
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "as std::fs::Metadata has it")]
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// The 12 permission bits: set-id and sticky bits, and rwx for owner, group and others.
    pub fn permissions(&self) -> u16 {
        self.0.mode
    }

    /// Inode number.
    pub fn ino(&self) -> u64 {
        self.0.ino
    }

    /// The generation, which distinguishes uses of one inode number.
    pub fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Number of names.
    pub fn nlink(&self) -> u32 {
        self.0.nlink
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// Space used, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.0.blocks
    }

    /// The unit of efficient reads and writes, in bytes.
    pub fn blksize(&self) -> u32 {
        self.0.block_size
    }

    /// Last access.
    pub fn accessed(&self) -> Timestamp {
        self.0.atime
    }

    /// Last change of the data.
    pub fn modified(&self) -> Timestamp {
        self.0.mtime
    }

    /// Last change of the data or of the attributes.
    pub fn changed(&self) -> Timestamp {
        self.0.ctime
    }

    /// Creation.
    pub fn created(&self) -> Timestamp {
        self.0.crtime
    }

    /// Major and minor number of a device file; zeros for other files.
    pub fn rdev(&self) -> (u32, u32) {
        (self.0.rdev_major, self.0.rdev_minor)
    }

    /// The flags that chattr(1) sets.
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.0.flags)
    }
}

#[cfg(feature = "unstable")]
impl std::ops::Deref for Metadata {
    type Target = Attr;

    fn deref(&self) -> &Attr {
        &self.0
    }
}

//! What a file is opened for.

use crate::{Errno, File, FileSystem, Filesystem, InodeRef, NewKind, NewNode, Result};
use std::path::Path;
use uext4_vfs::filesystem::open_or_create;
use uext4_vfs::{OpenFile, OpenFlags, WalkFlags};

/// What a file is opened for, as `std::fs::OpenOptions` has it.
///
/// ```
/// # use std::sync::Arc;
/// # use uext4::*;
/// # let device = Arc::new(MemoryDevice::new(16 << 20));
/// # mkfs_on(&*device, &MkfsOptions::default(), &NoProgress)?;
/// # let fs = Filesystem::open_device(device, &OpenOptions::read_write())?;
/// let log = FileOptions::new().append(true).create(true).open(&fs, "/log")?;
/// log.write_all(b"started\n")?;
/// assert_eq!(fs.read("/log")?, b"started\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of open(2)"
)]
pub struct FileOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    direct: bool,
    data_sync: bool,
    sync: bool,
    mode: u16,
}

impl FileOptions {
    /// Nothing asked for yet; a file that is made gets mode 0644.
    pub const fn new() -> FileOptions {
        FileOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            direct: false,
            data_sync: false,
            sync: false,
            mode: 0o644,
        }
    }

    /// For reading.
    pub const fn read(mut self, on: bool) -> FileOptions {
        self.read = on;
        self
    }

    /// For writing.
    pub const fn write(mut self, on: bool) -> FileOptions {
        self.write = on;
        self
    }

    /// For writing, every write at the end.
    pub const fn append(mut self, on: bool) -> FileOptions {
        self.append = on;
        self
    }

    /// Cut to nothing; needs [`FileOptions::write`].
    pub const fn truncate(mut self, on: bool) -> FileOptions {
        self.truncate = on;
        self
    }

    /// Made if there is none.
    pub const fn create(mut self, on: bool) -> FileOptions {
        self.create = on;
        self
    }

    /// Made, and refused where there is one.
    pub const fn create_new(mut self, on: bool) -> FileOptions {
        self.create_new = on;
        self
    }

    /// Every read and write goes straight between the caller's memory and the device (`O_DIRECT`): offset,
    /// length and memory are multiples of [`File::direct_alignment`].
    pub const fn direct(mut self, on: bool) -> FileOptions {
        self.direct = on;
        self
    }

    /// A write returns once what is needed to read it back is durable (`O_DSYNC`).
    pub const fn data_sync(mut self, on: bool) -> FileOptions {
        self.data_sync = on;
        self
    }

    /// A write returns once all of the file is durable (`O_SYNC`).
    pub const fn sync(mut self, on: bool) -> FileOptions {
        self.sync = on;
        self
    }

    /// The permission bits of a file that is made.
    pub const fn mode(mut self, mode: u16) -> FileOptions {
        self.mode = mode & 0o7777;
        self
    }

    /// Opens the file at `path`; a last symbolic link is followed.
    ///
    /// # Errors
    /// `EEXIST`: `create_new` and the name exists. `EISDIR`: a directory, to be written. `EINVAL`:
    /// options that make no sense together. `EACCES`, and those of a path and of making a file.
    pub fn open(&self, fs: &Filesystem, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let makes = self.create || self.create_new;
        if makes && !(self.write || self.append) {
            return Err(Errno::EINVAL.into());
        }
        if !makes {
            return self.open_node(fs, fs.resolve(path, WalkFlags::FOLLOW_LAST)?);
        }
        let follow = if self.create_new {
            WalkFlags::empty()
        } else {
            WalkFlags::FOLLOW_LAST
        };
        let parent = fs.resolve_parent(path, follow)?;
        if parent.must_be_dir {
            return Err(Errno::EISDIR.into());
        }
        self.open_in(fs, &parent.dir, &parent.name)
    }

    /// Opens or makes `name` in `dir`.
    pub(crate) fn open_in(&self, fs: &Filesystem, dir: &InodeRef, name: &[u8]) -> Result<File> {
        let new = NewNode {
            mode: self.mode,
            kind: NewKind::Regular,
        };
        if self.create_new {
            let node = fs.vfs().create(&fs.caller, dir, name, &new)?;
            return Ok(self.made(fs, node));
        }
        let (node, made) = open_or_create(fs.vfs(), &fs.caller, dir, name, &new)?;
        if made {
            Ok(self.made(fs, node))
        } else {
            self.open_node(fs, node)
        }
    }

    /// Opens a file that exists.
    pub(crate) fn open_node(&self, fs: &Filesystem, node: InodeRef) -> Result<File> {
        let open = OpenFile::open(fs.mount.clone(), &fs.caller, node, self.flags())?;
        Ok(File::new(open, fs.caller.clone()))
    }

    fn made(&self, fs: &Filesystem, node: InodeRef) -> File {
        let open = OpenFile::new(fs.mount.clone(), &fs.caller, node, self.flags());
        File::new(open, fs.caller.clone())
    }

    fn flags(&self) -> OpenFlags {
        let mut flags = OpenFlags::empty();
        flags.set(OpenFlags::READ, self.read);
        flags.set(OpenFlags::WRITE, self.write || self.append);
        flags.set(OpenFlags::APPEND, self.append);
        flags.set(OpenFlags::TRUNCATE, self.truncate);
        flags.set(OpenFlags::DIRECT, self.direct);
        flags.set(OpenFlags::DSYNC, self.data_sync);
        flags.set(OpenFlags::SYNC, self.sync);
        flags
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions::new()
    }
}

//! How a file is opened.

use crate::file::File;
use crate::session::Session;
use uext4_ext4::InodeRef;
use uext4_vfs::filesystem::open_or_create;
use uext4_vfs::{Errno, FileSystem, NewKind, NewNode, OpenFile, OpenFlags, Result, WalkFlags};

/// How a file is opened, as [`std::fs::OpenOptions`].
///
/// ```
/// # use std::io::Write;
/// # use uext4::*;
/// # let device = std::sync::Arc::new(MemoryDevice::new(16 << 20));
/// # mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
/// # let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
/// let mut log = OpenOptions::new().append(true).create(true).open(&fs, "/log")?;
/// log.write_all(b"started\n")?;
/// assert_eq!(fs.read("/log")?, b"started\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of open(2)"
)]
pub struct OpenOptions {
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

/// For reading.
pub(crate) const READ: OpenOptions = OpenOptions::new().read(true);
/// For writing: created, or truncated.
pub(crate) const CREATE: OpenOptions = OpenOptions::new().write(true).create(true).truncate(true);

impl OpenOptions {
    /// No access yet; a new file gets mode 0644.
    pub const fn new() -> OpenOptions {
        OpenOptions {
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
    pub const fn read(mut self, on: bool) -> OpenOptions {
        self.read = on;
        self
    }

    /// For writing.
    pub const fn write(mut self, on: bool) -> OpenOptions {
        self.write = on;
        self
    }

    /// For writing, each write at the end of the file.
    pub const fn append(mut self, on: bool) -> OpenOptions {
        self.append = on;
        self
    }

    /// Truncates the file to length 0; needs [`OpenOptions::write`].
    pub const fn truncate(mut self, on: bool) -> OpenOptions {
        self.truncate = on;
        self
    }

    /// Creates the file if it does not exist; needs write or append access.
    pub const fn create(mut self, on: bool) -> OpenOptions {
        self.create = on;
        self
    }

    /// Creates the file, and fails if the name exists; needs write or append access.
    pub const fn create_new(mut self, on: bool) -> OpenOptions {
        self.create_new = on;
        self
    }

    /// Transfers data between the caller's memory and the device without a copy (`O_DIRECT`): offset, length and
    /// memory are multiples of [`File::direct_alignment`].
    pub const fn direct(mut self, on: bool) -> OpenOptions {
        self.direct = on;
        self
    }

    /// A write returns when its data, and what is needed to read it back, is durable (`O_DSYNC`).
    pub const fn data_sync(mut self, on: bool) -> OpenOptions {
        self.data_sync = on;
        self
    }

    /// A write returns when the whole file is durable (`O_SYNC`).
    pub const fn sync(mut self, on: bool) -> OpenOptions {
        self.sync = on;
        self
    }

    /// The 12 permission bits of a new file, before the caller's umask. Default 0644.
    pub const fn mode(mut self, mode: u16) -> OpenOptions {
        self.mode = mode & 0o7777;
        self
    }

    /// Opens the file at `path`; a symbolic link at its end is followed.
    pub(crate) fn open_path(&self, session: &Session, path: &[u8]) -> Result<File> {
        if !self.creates()? {
            let node = session.resolve(path, WalkFlags::FOLLOW_LAST)?;
            return self.open_node(session, node);
        }
        let follow = if self.create_new {
            WalkFlags::empty()
        } else {
            WalkFlags::FOLLOW_LAST
        };
        let parent = session.resolve_parent(path, follow)?;
        if parent.must_be_dir {
            return Err(Errno::EISDIR.into());
        }
        self.create_at(session, &parent.dir, &parent.name)
    }

    /// Opens or creates `name` in `dir`; a symbolic link is refused.
    pub(crate) fn open_at(&self, session: &Session, dir: &InodeRef, name: &[u8]) -> Result<File> {
        if self.creates()? {
            return self.create_at(session, dir, name);
        }
        let node = session.vfs().lookup(&session.caller, dir, name)?;
        self.open_node(session, node)
    }

    /// Opens a file that exists.
    pub(crate) fn open_node(&self, session: &Session, node: InodeRef) -> Result<File> {
        let (mount, caller) = (session.mount.of_file(), &session.caller);
        let open = OpenFile::open(mount, caller, node, self.flags())?;
        Ok(File::new(open, caller.clone()))
    }

    /// Whether a file may be created, for which it must be open for writing.
    fn creates(&self) -> Result<bool> {
        let creates = self.create || self.create_new;
        if creates && !(self.write || self.append) {
            return Err(Errno::EINVAL.into());
        }
        Ok(creates)
    }

    fn create_at(&self, session: &Session, dir: &InodeRef, name: &[u8]) -> Result<File> {
        let new = NewNode {
            mode: self.mode,
            kind: NewKind::Regular,
        };
        let caller = &session.caller;
        let (node, created) = if self.create_new {
            (session.vfs().create(caller, dir, name, &new)?, true)
        } else {
            open_or_create(session.vfs(), caller, dir, name, &new)?
        };
        if !created {
            return self.open_node(session, node);
        }
        let open = OpenFile::new(session.mount.of_file(), caller, node, self.flags());
        Ok(File::new(open, caller.clone()))
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

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::new()
    }
}

//! An open image.

use crate::dir::Dir;
use crate::file::File;
use crate::image_options::ImageOptions;
use crate::image_path::ImagePath;
use crate::mount::Mount;
use crate::open_options::{CREATE, OpenOptions, READ};
use crate::operation;
use crate::session::Session;
use crate::statfs::StatFs;
use std::path::Path;
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_vfs::{Caller, FileHandle, FileSystem, Result, WalkFlags};

/// An open image. Cheap to clone; the clones share the mount, which ends with the last of them and of
/// the files and directories opened through it, or with [`Filesystem::unmount`].
///
/// Paths are absolute or relative to the root, which is the same here.
#[derive(Clone, Debug)]
pub struct Filesystem {
    pub(crate) session: Session,
}

impl Filesystem {
    /// Opens the image in a file, on a block device, or on a server: with the feature `nbd` a path can be `nbd://HOST[:PORT]/EXPORT` or
    /// `nbd+unix:///EXPORT?socket=PATH`, with `nbd-tls` also `nbds://` and `nbds+unix://`; with `s3` `s3://BUCKET/PREFIX`, with `rbd`
    /// `rbd:POOL[/NAMESPACE]/NAME[@SNAP]`.
    ///
    /// Opened to read only, an image whose journal needs recovery is recovered in memory. An image that
    /// is open in this process already, with the same options, is shared: each open is a mount of it, and
    /// the image is closed with the last.
    ///
    /// # Locks
    /// May sleep; waits for another thread that opens or closes the image.
    ///
    /// # Errors
    /// `EBUSY`: in use elsewhere, or behind a loop device; or open in this process with other options,
    /// for example read-only while it is requested read-write, or the reverse; or on a server, to be written, without `mmp` or left behind by
    /// another host ([`ImageOptions::exclusive_elsewhere`]); or in Ceph, where a live client has the lock. `EINVAL`: not ext4, or an unknown
    /// feature. `EUCLEAN`: damage. `ENOENT`, `EACCES`: from the host.
    pub fn open(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Filesystem> {
        let (path, config) = (path.as_ref(), options.config());
        let name = path.as_os_str().as_encoded_bytes();
        operation::run("open_image", None, name, || {
            let mount = Mount::open(path, config)?;
            Ok(Filesystem::new(mount, config.caller.clone()))
        })
    }

    /// Opens the image on a device; the same device, opened again, is shared.
    ///
    /// # Errors
    /// As [`Filesystem::open`].
    pub fn open_device(device: Arc<dyn BlockDevice>, options: &ImageOptions) -> Result<Filesystem> {
        Filesystem::open_devices(device, None, options)
    }

    /// Opens the image on a device whose journal is on another one. For a process that gives up the right to
    /// open files before it reads an image.
    ///
    /// # Errors
    /// As [`Filesystem::open`].
    pub fn open_devices(
        device: Arc<dyn BlockDevice>,
        journal: Option<Arc<dyn BlockDevice>>,
        options: &ImageOptions,
    ) -> Result<Filesystem> {
        let config = options.config();
        operation::run("open_image", None, b"", || {
            let mount = Mount::open_device(device, journal, config)?;
            Ok(Filesystem::new(mount, config.caller.clone()))
        })
    }

    fn new(mount: Mount, caller: Caller) -> Filesystem {
        Filesystem {
            session: Session::new(mount, caller),
        }
    }

    /// The same mount, used on behalf of another caller.
    pub fn with_caller(&self, caller: Caller) -> Filesystem {
        let mut session = self.session.clone();
        session.caller = caller;
        Filesystem { session }
    }

    /// The caller that operations act for.
    pub fn caller(&self) -> &Caller {
        &self.session.caller
    }

    /// The root directory.
    ///
    /// # Errors
    /// `EUCLEAN`: damage.
    pub fn root(&self) -> Result<Dir> {
        let root = operation::run("root", None, b"", || self.vfs().root().cloned())?;
        Ok(Dir::new(self.session.clone(), root))
    }

    /// The directory at `path`, for operations on names in it.
    ///
    /// # Errors
    /// `ENOTDIR`, and those of a path: `ENOENT`, `EACCES`, `ELOOP`, `ENAMETOOLONG`.
    pub fn open_dir(&self, path: impl ImagePath) -> Result<Dir> {
        let path = path.as_bytes();
        operation::run("open_dir", None, path, || {
            let node = self.session.resolve(path, WalkFlags::FOLLOW_LAST)?;
            Dir::of(self.session.clone(), node)
        })
    }

    /// The file at `path`, for reading.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open_file(&self, path: impl ImagePath) -> Result<File> {
        READ.open(self, path)
    }

    /// The file at `path`, for writing: created if it does not exist, otherwise truncated.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn create_file(&self, path: impl ImagePath) -> Result<File> {
        CREATE.open(self, path)
    }

    /// Identifies the file at `path` independently of its name; a symbolic link at the end is followed.
    ///
    /// # Errors
    /// Those of a path.
    pub fn handle(&self, path: impl ImagePath) -> Result<FileHandle> {
        self.on("handle", path, WalkFlags::FOLLOW_LAST, |_, node| {
            Ok(self.vfs().handle(node))
        })
    }

    /// Opens the file that `handle` identifies. Options that create a file have no effect.
    ///
    /// # Errors
    /// `ESTALE`: the file was deleted, whether its inode is used again or not, or its generation changed
    /// ([`File::set_generation`], [`File::swap_boot`]). `EACCES`: no permission on the file itself; directories
    /// above it are not checked, so a handle is a capability. `EISDIR`: a directory, opened for writing.
    pub fn open_handle(&self, handle: FileHandle, options: &OpenOptions) -> Result<File> {
        operation::run("open_handle", None, b"", || {
            let node = self.vfs().open_handle(handle)?;
            options.open_node(&self.session, node)
        })
    }

    /// Makes every change durable that was made before the call.
    ///
    /// # Errors
    /// `EIO`: the device failed, or the journal was aborted.
    pub fn sync(&self) -> Result<()> {
        operation::run("sync", None, b"", || self.vfs().syncfs())
    }

    /// Discards the free space of an image, in runs of at least `least` bytes: a sparse file returns it to
    /// its host (the ioctl `FITRIM`). Returns how many bytes that were.
    ///
    /// # Errors
    /// `EROFS`; `EINVAL`: `least` is more than a group of blocks. `EIO`.
    pub fn trim(&self, least: u64) -> Result<u64> {
        let fs = &self.session.mount;
        operation::run("trim", None, b"", || {
            fs.volume.report(fs.blocks.trim(0, u64::MAX, least))
        })
    }

    /// Makes the image larger while it is open: as many blocks as `bytes` hold, or as many of them as make groups, since a last group that is
    /// too short for its metadata is left out. Returns the new size in bytes. Nothing changes if there are as many blocks. A file gets the
    /// length that is needed; a block device must have it.
    ///
    /// # Locks
    /// Waits for the changes that run; changes wait while the new size becomes durable.
    ///
    /// # Errors
    /// `EINVAL`: it is larger already, its device is too short, or there are no numbers for so many blocks or inodes. `EOPNOTSUPP`: no
    /// blocks are reserved for more group descriptors. `EROFS`. `EBUSY`: it is frozen, or another growth runs. `EUCLEAN`:
    /// damage was found, now or before. `ENOSPC`: the host is full, or the journal is too small. `EIO`. After an error the size is the old
    /// one, but the file may be longer.
    ///
    /// # Crash
    /// Recovery finds the old size or the new one, and every file. Without a journal, the image must be checked, as after any crash.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # uext4::mkfs(&image, &uext4::MkfsOptions::new().size(16 << 20), &uext4::NoProgress)?;
    /// use uext4::{Filesystem, ImageOptions};
    ///
    /// let fs = Filesystem::open(&image, &ImageOptions::read_write())?;
    /// assert_eq!(fs.grow(64 << 20)?, 64 << 20);
    /// fs.write("/large", vec![1; 32 << 20])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn grow(&self, bytes: u64) -> Result<u64> {
        let fs = &self.session.mount;
        let block_size = u64::from(fs.volume.geometry().block_size);
        operation::run("grow", None, b"", || {
            let blocks = fs.volume.report(fs.grow(bytes / block_size))?;
            Ok(blocks * block_size)
        })
    }

    /// Sizes and free space.
    ///
    /// # Errors
    /// `EIO`.
    pub fn statfs(&self) -> Result<StatFs> {
        let statfs = operation::run("statfs", None, b"", || self.vfs().statfs())?;
        Ok(StatFs::new(&statfs))
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.session.mount.volume.is_read_only()
    }

    /// Ends the mount: writes everything back and, if the image is open nowhere else in this process, leaves
    /// it clean and unlocked. Files that are still open cannot be used further: writing fails, and what
    /// they read may be out of date.
    ///
    /// # Crash
    /// Before it returns the image may need recovery, which the next open does.
    ///
    /// # Errors
    /// `EIO`: the device failed, or the journal was aborted.
    pub fn unmount(self) -> Result<()> {
        operation::run("unmount", None, b"", || self.session.mount.end())
    }

    /// Advances to the newest state of an image that is open read-only and that another host writes, in a store of objects: operations
    /// on this value from now on see what the writer last made durable, all of it or nothing. Files and directories that are open,
    /// and clones of this value, stay at the state that they have, which the store keeps for them.
    ///
    /// # Locks
    /// May sleep: reads from the store, and recovers the journal in memory.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the device has no such states; a snapshot of Ceph is one of them that is opened by its name. `EINVAL`: it is open to be
    /// written. `EIO`: the store can't be reached. After an error it is at the state that it had.
    ///
    /// # Examples
    /// ```no_run
    /// use uext4::{Filesystem, ImageOptions};
    ///
    /// let mut fs = Filesystem::open("s3://bucket/image", &ImageOptions::read_only())?;
    /// loop {
    ///     println!("{}", String::from_utf8_lossy(&fs.read("/status")?));
    ///     std::thread::sleep(std::time::Duration::from_secs(60));
    ///     fs.refresh()?;
    /// }
    /// # #[allow(unreachable_code)]
    /// # Ok::<(), uext4::Error>(())
    /// ```
    pub fn refresh(&mut self) -> Result<()> {
        let newest = operation::run("refresh", None, b"", || self.session.mount.newest())?;
        self.session = Session::new(newest, self.session.caller.clone());
        Ok(())
    }

    /// The mount through the trait of all file systems, so that errors are those of every front end.
    pub(crate) fn vfs(&self) -> &impl FileSystem<Node = uext4_ext4::InodeRef> {
        self.session.vfs()
    }
}

impl OpenOptions {
    /// Opens the file at `path`; a symbolic link at its end is followed.
    ///
    /// # Errors
    /// `EEXIST`: [`OpenOptions::create_new`] and the name exists. `EISDIR`: a directory, opened for writing.
    /// `EINVAL`: options that contradict each other. `EACCES`: no permission. Those of a path, and of creating
    /// a file: `ENOSPC`, `EROFS`, `EIO`.
    ///
    /// # Crash
    /// A file that was created exists in recovery once its directory, the file or the image was synced.
    pub fn open(&self, fs: &Filesystem, path: impl ImagePath) -> Result<File> {
        let path = path.as_bytes();
        operation::run("open", None, path, || self.open_path(&fs.session, path))
    }
}

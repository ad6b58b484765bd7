//! An open image.

use crate::mount::Mount;
use crate::{
    BlockDevice, Caller, Dir, Ext4, File, FileHandle, FileOptions, FileSystem, InodeRef,
    OpenOptions, Result, StatFs,
};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use uext4_vfs::{Parent, WalkFlags, resolve, resolve_parent};

/// An open image. Cheap to clone; the clones share the mount, which ends with the last of them and of
/// the files and directories opened through it, or with [`Filesystem::unmount`].
///
/// Paths are absolute or relative to the root, which is the same here.
#[derive(Clone, Debug)]
pub struct Filesystem {
    pub(crate) mount: Mount,
    pub(crate) caller: Caller,
}

impl Filesystem {
    /// Opens the image in a file, or on a block device.
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
    /// be it read-only while it is asked for read-write, or the reverse. `EINVAL`: not ext4, or an unknown
    /// feature. `EUCLEAN`: damage. `ENOENT`, `EACCES`: as the host says.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Filesystem> {
        Ok(Filesystem {
            mount: Mount::open(path.as_ref(), options)?,
            caller: options.caller.clone(),
        })
    }

    /// Opens the image on a device; the same device, opened again, is shared.
    ///
    /// # Errors
    /// As [`Filesystem::open`].
    pub fn open_device(device: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Filesystem> {
        Filesystem::open_devices(device, None, options)
    }

    /// Opens the image on a device whose journal is on another one. For a process that can open no files any
    /// more when it begins to read what is in them.
    ///
    /// # Errors
    /// As [`Filesystem::open`].
    pub fn open_devices(
        device: Arc<dyn BlockDevice>,
        journal: Option<Arc<dyn BlockDevice>>,
        options: &OpenOptions,
    ) -> Result<Filesystem> {
        Ok(Filesystem {
            mount: Mount::open_device(device, journal, options)?,
            caller: options.caller.clone(),
        })
    }

    /// The same mount, used on behalf of another.
    pub fn with_caller(&self, caller: Caller) -> Filesystem {
        Filesystem {
            mount: self.mount.clone(),
            caller,
        }
    }

    /// Who calls act for.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What every class of locks cost since [`lock_stat::reset`](crate::lock_stat::reset), the longest
    /// waiting first. Nothing is counted before [`lock_stat::enable`](crate::lock_stat::enable).
    ///
    /// The counters are those of the whole process: of every mount in it.
    pub fn lock_stats(&self) -> Vec<crate::lock_stat::LockStat> {
        crate::lock_stat::snapshot()
    }

    /// How often the stages of creating a file ran, and how long they took; counted with the locks.
    pub fn stage_stats(&self) -> Vec<crate::stage_stat::StageStat> {
        crate::stage_stat::snapshot()
    }

    /// The operations by inode, which front ends use: [`Ext4`] is a [`FileSystem`].
    pub fn inode(&self) -> &Arc<Ext4> {
        self.mount.fs()
    }

    /// The root directory.
    ///
    /// # Errors
    /// `EUCLEAN`: damage.
    pub fn root(&self) -> Result<Dir> {
        Ok(Dir::new(self.clone(), self.vfs().root()?))
    }

    /// The directory at `path`, for operations on names in it.
    ///
    /// # Errors
    /// `ENOTDIR`, and those of a path: `ENOENT`, `EACCES`, `ELOOP`, `ENAMETOOLONG`.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> Result<Dir> {
        let node = self.resolve(path.as_ref(), WalkFlags::FOLLOW_LAST)?;
        Dir::of(self.clone(), node)
    }

    /// The file at `path`, for reading.
    ///
    /// # Errors
    /// As [`FileOptions::open`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        FileOptions::new().read(true).open(self, path)
    }

    /// The file at `path`, for writing: made if there is none, else cut to nothing.
    ///
    /// # Errors
    /// As [`FileOptions::open`].
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        FileOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(self, path)
    }

    /// What finds the file at `path` again whatever its name is then; a last symbolic link is followed.
    ///
    /// # Errors
    /// Those of a path.
    pub fn handle(&self, path: impl AsRef<Path>) -> Result<FileHandle> {
        Ok(self
            .vfs()
            .handle(&self.resolve(path.as_ref(), WalkFlags::FOLLOW_LAST)?))
    }

    /// Opens the file that `handle` was made for, for reading, and with `write` for writing.
    ///
    /// # Errors
    /// `ESTALE`: it is gone, whether its inode is used again or not, or it has another generation since
    /// ([`File::set_generation`], [`File::swap_boot`]). `EACCES`: no permission on the file itself; the
    /// way to it is not asked for, so a handle is a key. `EISDIR`: a directory, to be written.
    pub fn open_handle(&self, handle: FileHandle, write: bool) -> Result<File> {
        let node = self.vfs().open_handle(handle)?;
        FileOptions::new()
            .read(true)
            .write(write)
            .open_node(self, node)
    }

    /// Makes everything durable that was done before the call.
    ///
    /// # Errors
    /// `EIO`: the device failed, or the journal was aborted.
    pub fn sync(&self) -> Result<()> {
        self.vfs().syncfs()
    }

    /// Discards the free space of an image, in runs of at least `least` bytes: a sparse file gives it back to
    /// its host (the ioctl `FITRIM`). Tells how many bytes that were.
    ///
    /// # Errors
    /// `EROFS`; `EINVAL`: `least` is more than a group of blocks. `EIO`.
    pub fn trim(&self, least: u64) -> Result<u64> {
        let fs = self.inode();
        fs.volume.report(fs.blocks.trim(0, u64::MAX, least))
    }

    /// Sizes and free space.
    ///
    /// # Errors
    /// `EIO`.
    pub fn statfs(&self) -> Result<StatFs> {
        self.vfs().statfs()
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.mount.volume.is_read_only()
    }

    /// Ends the mount: writes everything back and, if the image is open nowhere else in this process, leaves
    /// it clean and to others. Files that are still open are of no use from then on: writing fails, and what
    /// they read may be out of date.
    ///
    /// # Crash
    /// Before it returns the image may need recovery, which the next open does.
    ///
    /// # Errors
    /// `EIO`: the device failed, or the journal was aborted.
    pub fn unmount(self) -> Result<()> {
        self.mount.end()
    }

    /// The mount as any file system, so that errors are those of every front end.
    #[inline(always)]
    pub(crate) fn vfs(&self) -> &impl FileSystem<Node = InodeRef> {
        &*self.mount
    }

    pub(crate) fn resolve(&self, path: &Path, flags: WalkFlags) -> Result<InodeRef> {
        let root = self.vfs().root()?;
        resolve(
            self.vfs(),
            &self.caller,
            &root,
            path.as_os_str().as_bytes(),
            flags,
        )
    }

    pub(crate) fn resolve_parent<'p>(
        &self,
        path: &'p Path,
        flags: WalkFlags,
    ) -> Result<Parent<'p, InodeRef>> {
        let root = self.vfs().root()?;
        resolve_parent(
            self.vfs(),
            &self.caller,
            &root,
            path.as_os_str().as_bytes(),
            flags,
        )
    }
}

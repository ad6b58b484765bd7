//! Changes of an image that are made together.

use crate::filesystem::Filesystem;
use crate::image_options::ImageOptions;
use crate::mount::device_error;
use crate::operation;
use std::path::Path;
use std::sync::Arc;
use uext4_block::{BlockDevice, OverlayDevice, open_image};
use uext4_ext4::{Ext4, Ext4Error, MmpHold, read_superblock, read_superblock_to_recover};
use uext4_vfs::{Errno, Error, Result};

/// Changes of an image that are made together, or not at all: they are kept in memory until [`Edit::commit`], and forgotten without it.
///
/// ```
/// # use uext4::*;
/// # let device = std::sync::Arc::new(MemoryDevice::new(16 << 20));
/// # mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
/// let edit = Edit::open_device(device, None, &ImageOptions::read_write())?;
/// edit.fs().create_dir("/etc")?;
/// edit.fs().write("/etc/hostname", b"sandbox\n")?;
/// edit.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Edit {
    device: Arc<dyn BlockDevice>,
    journal: Option<Arc<dyn BlockDevice>>,
    above: Arc<OverlayDevice>,
    fs: Filesystem,
    /// Against other hosts, of an image with `mmp`.
    hold: Option<MmpHold>,
}

impl Edit {
    /// Opens the image with this name, which is kept locked. A journal that needs recovery is recovered first.
    ///
    /// # Errors
    /// As [`Filesystem::open`].
    pub fn open(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Edit> {
        let open = |path: &Path| open_image(path, &options.config().device()).map_err(device_error);
        let journal = options.config().journal.as_deref().map(open).transpose()?;
        Edit::open_device(open(path.as_ref())?, journal, options)
    }

    /// The same of an image on a device, with the device of its journal if that is another.
    ///
    /// # Errors
    /// As [`Filesystem::open`].
    pub fn open_device(
        device: Arc<dyn BlockDevice>,
        journal: Option<Arc<dyn BlockDevice>>,
        options: &ImageOptions,
    ) -> Result<Edit> {
        operation::run("edit", None, b"", || {
            let mount = |e: Ext4Error| e.of_mount();
            let sb = read_superblock_to_recover(&*device).map_err(mount)?.0;
            let hold = match device.is_read_only() {
                true => None,
                false => MmpHold::acquire(&device, &sb, options.config().mount.exclusion)
                    .map_err(mount)?,
            };
            // What another process left is not a part of these changes.
            Ext4::recover(&device, journal.as_ref(), hold.as_ref()).map_err(mount)?;
            let above = Arc::new(OverlayDevice::new(Arc::clone(&device)));
            let log = journal
                .clone()
                .map(|journal| Arc::new(OverlayDevice::new(journal)) as Arc<dyn BlockDevice>);
            let options = options.clone().held();
            let fs = Filesystem::open_devices(Arc::clone(&above) as _, log, &options)?;
            Ok(Edit {
                device,
                journal,
                above,
                fs,
                hold,
            })
        })
    }

    /// The image with the changes so far.
    pub fn fs(&self) -> &Filesystem {
        &self.fs
    }

    /// Makes the changes; returns the bytes that differ in the image. All other users of [`Edit::fs`] must have ended.
    ///
    /// # Crash
    /// After a crash all are there, or none, if the image has a journal. When this returns they are durable.
    ///
    /// # Errors
    /// `EFBIG`: the journal of the image is too small to take them at once, and nothing was changed. `ENOSPC`: the host has no space.
    /// `EIO`: the device failed. After these two, all are there or none when the image is opened again, if it has a journal.
    pub fn commit(self) -> Result<u64> {
        operation::run("commit_edit", None, b"", || {
            self.fs.clone().unmount()?;
            let replace = || {
                let sb = read_superblock(&*self.device)?;
                let changed = self.above.changed(u64::from(sb.geometry.block_size))?;
                let journal = self.journal.as_ref();
                let hold = self.hold.as_ref();
                Ext4::replace_blocks(&self.device, journal, &changed, &*self.above, hold)
            };
            let replaced = replace().map_err(|e| match e.is_too_large_for_log() {
                true => Error::from_source(Errno::EFBIG, e),
                false => e.of_mount(),
            })?;
            let released = self.hold.map_or(Ok(()), MmpHold::release);
            released.map(|()| replaced).map_err(Ext4Error::of_mount)
        })
    }
}

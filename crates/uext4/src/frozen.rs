//! A freeze of an open image.

use crate::filesystem::Filesystem;
use crate::mount::Mount;
use crate::operation;
use std::fmt;
use uext4_vfs::Result;

/// A freeze of an open image, which ends with this value. See [`Filesystem::freeze`].
pub struct Frozen {
    /// Nothing once it has ended.
    mount: Option<Mount>,
}

impl Filesystem {
    /// Freezes the image until the result is dropped: waits for changes that run, makes everything durable, and leaves the file
    /// or device on its own as clean as after an unmount. So it can be copied, and the copy needs no recovery. Files that
    /// are open without a name are deleted when the copy is first opened to be written.
    ///
    /// Reads continue, and their access times are not stored. A sync returns at once. Changes wait, whatever handle of the image
    /// they come through: the thread that froze it must not change anything before it thaws.
    /// [Closing the image (by the last [`Filesystem::unmount`]) ends the freeze.
    ///
    /// # Locks
    /// Waits for changes that run.
    ///
    /// # Errors
    /// `EBUSY`: it is frozen. `EIO`: the device failed, or the journal was aborted. `ENOSPC`: the host is full. After an error it
    /// is not frozen.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let (image, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    /// # let options = uext4::MkfsOptions::new().size(16 << 20);
    /// # uext4::mkfs(&image, &options, &uext4::NoProgress)?;
    /// use uext4::{Filesystem, ImageOptions};
    ///
    /// let fs = Filesystem::open(&image, &ImageOptions::read_write())?;
    /// fs.write("/note", "kept")?;
    /// let frozen = fs.freeze()?;
    /// std::fs::copy(&image, &copy)?;
    /// frozen.thaw()?;
    /// fs.write("/note", "changed")?;
    ///
    /// let copy = Filesystem::open(&copy, &ImageOptions::read_only())?;
    /// assert_eq!(copy.read("/note")?, b"kept");
    /// # Ok(())
    /// # }
    /// ```
    pub fn freeze(&self) -> Result<Frozen> {
        let mount = self.session.mount.counted_apart();
        operation::run("freeze", None, b"", || mount.volume.report(mount.freeze()))?;
        Ok(Frozen { mount: Some(mount) })
    }
}

impl Frozen {
    /// Ends the freeze: changes continue. Dropping does the same, and logs an error.
    ///
    /// # Errors
    /// `EINVAL`: an unmount has ended it. `EIO`: the device failed; then the image is open, read-only.
    pub fn thaw(mut self) -> Result<()> {
        match self.mount.take() {
            Some(mount) => operation::run("thaw", None, b"", || mount.volume.report(mount.thaw())),
            None => Ok(()),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let Some(mount) = self.mount.take() else {
            return;
        };
        // An unmount may have ended it.
        if mount.is_frozen()
            && let Err(why) = mount.volume.report(mount.thaw())
        {
            tracing::error!("not thawed: {why}");
        }
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Frozen").field(&self.mount).finish()
    }
}

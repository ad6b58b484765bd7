//! How an image is opened.

use std::path::PathBuf;
use std::time::Duration;
use uext4_block::OpenOptions as DeviceOptions;
use uext4_ext4::{
    AtimeUpdate, DataMode, EnforcedQuotas, Exclusion, FsVerityReads, KeyRing, MountOptions,
};
use uext4_ondisk::ErrorsBehaviour;
use uext4_vfs::errno::{Error, Result};
use uext4_vfs::{Caller, Errno};

/// How an image is opened: how it is mounted, on whose behalf, and whether other processes are kept out.
///
/// ```
/// use uext4::{Caller, ImageOptions};
///
/// let options = ImageOptions::read_write()
///     .caller(Caller::user(1000, 1000))
///     .lazytime(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ImageOptions {
    config: ImageConfig,
}

impl ImageOptions {
    /// For reading and writing, as the superuser.
    pub fn read_write() -> ImageOptions {
        ImageOptions {
            config: ImageConfig::read_write(),
        }
    }

    /// For reading, as the superuser. The image is not written, even if its journal needs recovery.
    pub fn read_only() -> ImageOptions {
        let mut options = ImageOptions::read_write();
        options.config.mount.read_only = true;
        options
    }

    /// For an image that was held against other hosts already (`mmp`).
    pub(crate) fn held(mut self) -> ImageOptions {
        self.config.mount.exclusion = Exclusion::Held;
        self
    }

    /// The keys of encrypted files.
    pub(crate) fn keys(mut self, keys: &KeyRing) -> ImageOptions {
        self.config.mount.keys = keys.clone();
        self
    }

    /// The caller that operations act for. Default: the superuser.
    pub fn caller(mut self, caller: Caller) -> ImageOptions {
        self.config.caller = caller;
        self
    }

    /// Keeps other processes out: one writer, or any number of readers. Default true; with false nothing
    /// is locked and nothing is checked.
    pub fn exclusive(mut self, on: bool) -> ImageOptions {
        self.config.exclusive = on;
        self
    }

    /// Says that no other host has the image open, where that can't be found out: on a server (NBD) an image without the feature `mmp`
    /// is not written else, nor one that another host left behind. Default false.
    pub fn exclusive_elsewhere(mut self, on: bool) -> ImageOptions {
        self.config.mount.exclusion = match on {
            true => Exclusion::Alone,
            false => Exclusion::Hold,
        };
        self
    }

    /// Reads and writes the image past the cache of the host (`O_DIRECT`). Default false.
    pub fn direct(mut self, on: bool) -> ImageOptions {
        self.config.direct = on;
        self
    }

    /// The file or block device of the journal, for a file system whose journal is on another device. It is
    /// opened as the image is; a journal of another file system is refused.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> ImageOptions {
        self.config.journal = Some(path.into());
        self
    }

    /// A master key of encrypted files, in its raw bytes: 16 to 64. May be called for several. Files whose key is missing can be listed and removed, not
    /// read. The bytes are overwritten when the image is closed.
    ///
    /// # Errors
    /// `EINVAL`: another length.
    pub fn encryption_key(self, key: &[u8]) -> Result<ImageOptions> {
        self.add_key(key, None)
    }

    /// The same, with the descriptor by which encryption policies of version 1 name the key, where that does not follow from it.
    ///
    /// # Errors
    /// `EINVAL`: another length.
    pub fn encryption_key_named(self, key: &[u8], descriptor: [u8; 8]) -> Result<ImageOptions> {
        self.add_key(key, Some(descriptor))
    }

    fn add_key(self, key: &[u8], descriptor: Option<[u8; 8]>) -> Result<ImageOptions> {
        match self.config.mount.keys.add_as(key, descriptor) {
            Some(_) => Ok(self),
            None => Err(Error::new(Errno::EINVAL).context("an encryption key has 16 to 64 bytes")),
        }
    }

    /// Does not recover the journal (`noload`); only for [`ImageOptions::read_only`]. Default false.
    pub fn skip_recovery(mut self, on: bool) -> ImageOptions {
        self.config.mount.noload = on;
        self
    }

    /// What the journal does with data. Default: what the superblock says, else [`DataMode::Ordered`].
    pub fn data(mut self, mode: DataMode) -> ImageOptions {
        self.config.mount.data = Some(mode);
        self
    }

    /// What happens when damage is found. Default: what the superblock says.
    pub fn errors(mut self, behaviour: ErrorsBehaviour) -> ImageOptions {
        self.config.mount.errors = Some(behaviour);
        self
    }

    /// The age at which a transaction is committed. Default 5 seconds.
    pub fn commit_interval(mut self, age: Duration) -> ImageOptions {
        self.config.mount.commit_interval = age;
        self
    }

    /// Flushes the device around a commit. Default true; without it a crash of the host can lose what was
    /// synced.
    pub fn barrier(mut self, on: bool) -> ImageOptions {
        self.config.mount.barrier = on;
        self
    }

    /// What reads of files with fs-verity do. Default: data is compared with the hashes that the file has of it.
    pub fn fs_verity(mut self, reads: FsVerityReads) -> ImageOptions {
        self.config.mount.fs_verity = reads;
        self
    }

    /// Discards freed blocks on the device once their deletion is durable. Default false.
    pub fn discard(mut self, on: bool) -> ImageOptions {
        self.config.mount.discard = on;
        self
    }

    /// Keeps changed timestamps in memory until the inode is written for another reason, for at most a day.
    /// Default false.
    pub fn lazytime(mut self, on: bool) -> ImageOptions {
        self.config.mount.lazytime = on;
        self
    }

    /// When reading changes the access time. Default: as `relatime`.
    pub fn atime(mut self, update: AtimeUpdate) -> ImageOptions {
        self.config.mount.atime = update;
        self
    }

    /// The kinds of owners whose limits are enforced against callers without [`Capabilities::SYS_RESOURCE`](uext4_vfs::Capabilities),
    /// of an image with the feature `quota`. Default: none; usage is kept in any case.
    pub fn quotas(mut self, enforced: EnforcedQuotas) -> ImageOptions {
        self.config.mount.quotas = enforced;
        self
    }

    /// The clean metadata blocks to keep in memory, in bytes. Default 256 MiB.
    pub fn cache_bytes(mut self, bytes: u64) -> ImageOptions {
        self.config.mount.cache_bytes = bytes;
        self
    }

    pub(crate) fn config(&self) -> &ImageConfig {
        &self.config
    }
}

impl Default for ImageOptions {
    fn default() -> Self {
        ImageOptions::read_write()
    }
}

#[cfg(feature = "unstable")]
impl From<ImageConfig> for ImageOptions {
    fn from(config: ImageConfig) -> ImageOptions {
        ImageOptions { config }
    }
}

/// What [`ImageOptions`] hold, every option of a mount included.
#[derive(Clone, Debug)]
pub struct ImageConfig {
    /// How the image is mounted.
    pub mount: MountOptions,
    /// The caller that operations by path and by directory act for.
    pub caller: Caller,
    /// Keep other processes out.
    pub exclusive: bool,
    /// The image is read and written past the cache of the host.
    pub direct: bool,
    /// The file or block device of the journal, if it is not in the image.
    pub journal: Option<PathBuf>,
}

impl ImageConfig {
    /// Those of [`ImageOptions::read_write`].
    pub fn read_write() -> ImageConfig {
        ImageConfig {
            mount: MountOptions::default(),
            caller: Caller::root(),
            exclusive: true,
            direct: false,
            journal: None,
        }
    }

    /// How the image's device is opened, and the journal's: for a process that opens them itself, and then
    /// mounts them ([`Filesystem::open_devices`](crate::Filesystem::open_devices)).
    pub fn device(&self) -> DeviceOptions {
        let access = match self.mount.read_only {
            true => DeviceOptions::read_only(),
            false => DeviceOptions::read_write(),
        };
        access.exclusive(self.exclusive).direct(self.direct)
    }
}

//! What an image is made with.

use crate::image_path::ImagePath;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use uext4_block::partitions::{ALIGN_BYTES, disk_bytes, write_gpt};
use uext4_block::{BlockDevice, RangeDevice};
use uext4_build::MkfsOptions as BuildOptions;
use uext4_build::{IdRange, Input, InputKind, MkfsError, NamedTree, TreeSource, VerityOptions};
use uext4_ext4::{Exclusion, KeyRing};
use uext4_vfs::errno::{Errno, Error};
use uuid::Uuid;

/// What an image is made with. The default is an empty file system as mke2fs makes it; it needs
/// [`MkfsOptions::size`] or [`MkfsOptions::from`], unless the device or the file to fill exists.
///
/// Values out of range are refused when the image is made.
///
/// ```
/// use uext4::MkfsOptions;
///
/// let options = MkfsOptions::new()
///     .size(64 << 20)
///     .label("data")
///     .features("^has_journal")?;
/// # let _ = options;
/// # Ok::<(), uext4::MkfsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MkfsOptions {
    build: BuildOptions,
    pub(crate) format: ImageFormat,
    /// The name of the partition that the image becomes.
    pub(crate) partition: Option<String>,
    /// Whether the report has the digest of the image.
    pub(crate) digest: bool,
    /// How other hosts are kept from what is overwritten.
    pub(crate) exclusion: Exclusion,
    /// Of encrypted files in images that are copied.
    pub(crate) keys: KeyRing,
}

/// The format of a file that holds an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageFormat {
    /// The bytes of the image, and nothing else.
    #[default]
    Raw,
    /// qcow2, version 3, with clusters of 64 KiB. Which cluster is where depends on the order in which threads write.
    Qcow2,
}

impl MkfsOptions {
    /// The defaults.
    pub fn new() -> MkfsOptions {
        MkfsOptions::default()
    }

    /// Bytes of the image. Default: with a tree, what the tree needs and 5 % more; else as large as the device
    /// or the file.
    pub fn size(mut self, bytes: u64) -> MkfsOptions {
        self.build.size = Some(bytes);
        self
    }

    /// What fills the image: a directory of the host, a tar archive or container image, or another image. Each further call adds a source, whose
    /// names replace those of earlier ones.
    pub fn from(mut self, source: impl Into<PathBuf>) -> MkfsOptions {
        self.build.from.push(Input::from(source.into()));
        self
    }

    /// As [`MkfsOptions::from`], from `SOURCE` or `/PATH=SOURCE`, which puts it below a path; `SOURCE` is as `uext4 mkfs --from` takes it:
    /// a path, `-` for standard input, `tar:FILE`, or `oci:PATH[:TAG][@DIGEST]`.
    pub fn from_named(mut self, source: impl AsRef<OsStr>) -> MkfsOptions {
        self.build.from.push(Input::parse(source.as_ref()));
        self
    }

    /// As [`MkfsOptions::from`], from a tree that the program provides, such as an open [`Filesystem`](crate::Filesystem), below a path of
    /// the image; errors have `name`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use uext4::{Filesystem, ImageOptions, MemoryDevice, MkfsOptions, NoProgress, mkfs_on};
    ///
    /// let device = Arc::new(MemoryDevice::new(8 << 20));
    /// mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
    /// let old = Filesystem::open_device(device, &ImageOptions::read_write())?;
    /// old.write("/greeting", b"hello")?;
    ///
    /// let device = Arc::new(MemoryDevice::new(16 << 20));
    /// let options = MkfsOptions::new().size(16 << 20).from_tree("/copy", "old", Arc::new(old));
    /// mkfs_on(&*device, &options, &NoProgress)?;
    /// let new = Filesystem::open_device(device, &ImageOptions::read_only())?;
    /// assert_eq!(new.read("/copy/greeting")?, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_tree(
        mut self,
        below: impl ImagePath,
        name: impl Into<PathBuf>,
        tree: Arc<dyn TreeSource>,
    ) -> MkfsOptions {
        let kind = InputKind::Tree(NamedTree::new(name, tree));
        self.build.from.push(Input::at(below.as_bytes(), kind));
        self
    }

    /// Most bytes that archives and container images may expand to. Default 64 GiB.
    pub fn limit(mut self, bytes: u64) -> MkfsOptions {
        self.build.limit = bytes;
        self
    }

    /// Which of several platforms' container images is meant: `os/architecture` or `os/architecture/variant`. Default: Linux, on this machine's
    /// architecture.
    pub fn platform(mut self, platform: impl Into<String>) -> MkfsOptions {
        self.build.platform = Some(platform.into());
        self
    }

    /// Bytes of a block: a power of two from 1024 to 65536. The default of 4096 is the most that Linux before 6.19 mounts on x86.
    pub fn block_size(mut self, bytes: u32) -> MkfsOptions {
        self.build.block_size = bytes;
        self
    }

    /// Bytes of a cluster, with the feature `bigalloc`: a power of two from the block size to 128 MiB. Default 16 blocks.
    pub fn cluster_size(mut self, bytes: u32) -> MkfsOptions {
        self.build.cluster_size = Some(bytes);
        self
    }

    /// Bytes of an inode: a power of two from 128 to the block size. Default 256.
    pub fn inode_size(mut self, bytes: u16) -> MkfsOptions {
        self.build.inode_size = bytes;
        self
    }

    /// Number of inodes, rounded up to fill the inode tables. Default: one for each
    /// [`MkfsOptions::inode_ratio`] bytes, or what the tree needs.
    pub fn inodes(mut self, count: u32) -> MkfsOptions {
        self.build.inodes = Some(count);
        self
    }

    /// Bytes of the image for each inode. Default 16384.
    pub fn inode_ratio(mut self, bytes: u32) -> MkfsOptions {
        self.build.inode_ratio = bytes;
        self
    }

    /// Switches features on, and off with `^`: a comma-separated list of the names in
    /// [`feature_names`](crate::feature_names), applied to those set so far.
    ///
    /// # Errors
    /// [`MkfsError::UnknownFeature`], [`MkfsError::UnsupportedFeature`].
    pub fn features(mut self, list: &str) -> Result<MkfsOptions, MkfsError> {
        self.build.features = self.build.features.changed(list)?;
        Ok(self)
    }

    /// Bytes of the journal. Default: by the size of the image, as mke2fs has it.
    pub fn journal_size(mut self, bytes: u64) -> MkfsOptions {
        self.build.journal_size = Some(bytes);
        self
    }

    /// The UUID. Default: a random one.
    pub fn uuid(mut self, uuid: [u8; 16]) -> MkfsOptions {
        self.build.uuid = Some(Uuid::from_bytes(uuid));
        self
    }

    /// The label, of at most 16 bytes. Default: empty.
    pub fn label(mut self, label: impl Into<String>) -> MkfsOptions {
        self.build.label = label.into();
        self
    }

    /// Blocks that only the superuser can use, in percent of all, 0 to 50. Default 5, or 0 for an image whose
    /// size follows from a tree.
    pub fn reserved_percent(mut self, percent: f64) -> MkfsOptions {
        self.build.reserved_percent = Some(percent);
        self
    }

    /// Time of creation in seconds since 1970, as `SOURCE_DATE_EPOCH` has it. Default: the current time.
    ///
    /// With a time and a UUID, one tree always gives one image, byte for byte: no file of it was changed
    /// later than that time, and times that copies of a tree do not keep are that time.
    pub fn time(mut self, seconds: i64) -> MkfsOptions {
        self.build.time = Some(seconds);
        self
    }

    /// Groups whose metadata is placed together: a power of two. Default 16.
    pub fn flex_bg_size(mut self, groups: u32) -> MkfsOptions {
        self.build.flex_bg_size = groups;
        self
    }

    /// Allocates the space of the whole image on the host. Default false: the image is sparse.
    pub fn preallocate(mut self, on: bool) -> MkfsOptions {
        self.build.preallocate = on;
        self
    }

    /// User and group that own all files. Default: those of the tree.
    pub fn owner(mut self, uid: u32, gid: u32) -> MkfsOptions {
        self.build.owner = Some((uid, gid));
        self
    }

    /// Puts the hash tree of dm-verity behind the image; the report has its root hash. Each hash begins with `salt`, at most 256 bytes;
    /// `None` derives 32 from the UUID.
    pub fn verity(mut self, salt: Option<Vec<u8>>) -> MkfsOptions {
        self.build.verity = Some(VerityOptions { salt });
        self
    }

    /// Computes the SHA-256 of the image when it is complete, for [`MkfsReport::digest`](crate::MkfsReport::digest). All of it is read once more.
    pub fn digest(mut self) -> MkfsOptions {
        self.digest = true;
        self
    }

    /// Leaves out what a pattern matches, with all below it: one with a slash matches paths from the root of the image, one without names at any
    /// depth, as in `*.pyc`; `**` matches slashes too. Each further call adds a pattern. A file with a name that is not left out keeps that.
    pub fn exclude(mut self, pattern: impl Into<String>) -> MkfsOptions {
        self.build.exclude.push(pattern.into());
        self
    }

    /// Users of the sources from `outside` on are, one after the other, those of the image from `inside` on, `count` of them, as in a user
    /// namespace; a user in no range is an error. Each further call adds a range. Default: users are the same.
    pub fn map_uid(mut self, inside: u32, outside: u32, count: u32) -> MkfsOptions {
        self.build.map_uid.push(IdRange {
            inside,
            outside,
            count,
        });
        self
    }

    /// As [`MkfsOptions::map_uid`], of groups.
    pub fn map_gid(mut self, inside: u32, outside: u32, count: u32) -> MkfsOptions {
        self.build.map_gid.push(IdRange {
            inside,
            outside,
            count,
        });
        self
    }

    /// Maps users and groups as `podman unshare` does for the caller, which is root of the image, by /etc/subuid and /etc/subgid.
    ///
    /// # Errors
    /// [`MkfsError::Tree`]: these files can't be read, or have no range for the caller.
    #[cfg(target_os = "linux")]
    pub fn map_subordinate_ids(mut self) -> Result<MkfsOptions, MkfsError> {
        let (users, groups) = uext4_build::subordinate_ids()?;
        self.build.map_uid.extend(users);
        self.build.map_gid.extend(groups);
        Ok(self)
    }

    /// A file of lines `PATTERN KEY=VALUE...`, by which files of all sources are given owners, permission and attributes, and files are made that no
    /// source has; later lines count more. Keys are `uid`, `gid`, `mode`, `xattr.NAME` (text, or bytes after `0x`), and to make a file `type` (`char`,
    /// `block`, `fifo`, `dir`, `file`, `link`) with `major`, `minor`, `target` and `contents`, a file of the host. A file that begins with `#mtree` is
    /// in the format of mtree(5).
    pub fn manifest(mut self, file: impl Into<PathBuf>) -> MkfsOptions {
        self.build.manifest = Some(file.into());
        self
    }

    /// A file of labels of SELinux, `file_contexts`: files get the label of the last line that matches their path.
    pub fn contexts(mut self, file: impl Into<PathBuf>) -> MkfsOptions {
        self.build.contexts = Some(file.into());
        self
    }

    /// Gives regular files that a pattern of the sources matches, as [`MkfsOptions::exclude`] has it, fs-verity: the kernel checks each read of
    /// them, and they can't be written. The report has their digests. Each further call adds a pattern. Needs blocks of 4096 bytes.
    pub fn fsverity(mut self, pattern: impl Into<String>) -> MkfsOptions {
        self.build.fsverity.push(pattern.into());
        self
    }

    /// Threads that read the tree and write the image. Default 0: one for each CPU.
    pub fn threads(mut self, count: usize) -> MkfsOptions {
        self.build.threads = count;
        self
    }

    /// Says that no other host has open what is on a device, as [`ImageOptions::exclusive_elsewhere`](crate::ImageOptions::exclusive_elsewhere).
    /// Default false.
    pub fn exclusive_elsewhere(mut self, on: bool) -> MkfsOptions {
        self.exclusion = match on {
            true => Exclusion::Alone,
            false => Exclusion::Hold,
        };
        self
    }

    /// The format of the file. Default [`ImageFormat::Raw`].
    pub fn format(mut self, format: ImageFormat) -> MkfsOptions {
        self.format = format;
        self
    }

    /// Makes a disk with a GPT and one partition, which is the image; `name` may be empty. [`MkfsOptions::size`] is that of the
    /// disk, 2 MiB more than the partition. The identifiers are made from the UUID of the file system.
    pub fn partition(mut self, name: impl Into<String>) -> MkfsOptions {
        self.partition = Some(name.into());
        self
    }

    /// A master key of encrypted files in images that are copied, as [`ImageOptions::encryption_key`](crate::ImageOptions::encryption_key). In the
    /// new image, they are not encrypted.
    ///
    /// # Errors
    /// `EINVAL`: it has not 16 to 64 bytes.
    pub fn encryption_key(self, key: &[u8]) -> crate::Result<MkfsOptions> {
        self.add_key(key, None)
    }

    /// The same, with the descriptor by which encryption policies of version 1 name the key, where that does not follow from it.
    ///
    /// # Errors
    /// `EINVAL`: another length.
    pub fn encryption_key_named(
        self,
        key: &[u8],
        descriptor: [u8; 8],
    ) -> crate::Result<MkfsOptions> {
        self.add_key(key, Some(descriptor))
    }

    fn add_key(self, key: &[u8], descriptor: Option<[u8; 8]>) -> crate::Result<MkfsOptions> {
        match self.keys.add_as(key, descriptor) {
            Some(_) => Ok(self),
            None => Err(Error::new(Errno::EINVAL).context("an encryption key has 16 to 64 bytes")),
        }
    }

    /// What is planned: a partition is smaller than the disk whose size is asked for.
    pub(crate) fn for_plan(&self) -> Result<BuildOptions, MkfsError> {
        let mut options = crate::mkfs_sources::prepared(&self.build, &self.keys)?;
        options.size = options.size.map(|bytes| self.inside(bytes));
        Ok(options)
    }

    /// Bytes of the file system on a device of `len` bytes.
    pub(crate) fn inside(&self, len: u64) -> u64 {
        match self.partition {
            Some(_) => (len / ALIGN_BYTES).saturating_sub(2) * ALIGN_BYTES,
            None => len,
        }
    }

    /// Bytes of the device for a file system of `len` bytes.
    pub(crate) fn around(&self, len: u64) -> u64 {
        match self.partition {
            Some(_) => disk_bytes(len),
            None => len,
        }
    }

    /// Refuses what a device, or an existing partition, cannot become.
    pub(crate) fn check_for_device(&self, is_partition: bool) -> Result<(), MkfsError> {
        let refused = |name, value: &str, why| {
            let value = value.to_owned();
            Err(MkfsError::Option { name, value, why })
        };
        match &self.partition {
            _ if self.format != ImageFormat::Raw => {
                refused("format", "qcow2", "only a file has a format")
            }
            Some(name) if is_partition => refused("partition", name, "the image is a partition"),
            _ => Ok(()),
        }
    }

    /// What of a device the file system is to fill: with a partition, a GPT is written first.
    pub(crate) fn lay_out(
        &self,
        device: Arc<dyn BlockDevice>,
        uuid: Option<Uuid>,
    ) -> Result<Arc<dyn BlockDevice>, MkfsError> {
        let Some(name) = &self.partition else {
            return Ok(device);
        };
        if name.encode_utf16().count() > 36 {
            let (name, value) = ("partition", name.clone());
            let why = "a name has at most 36 characters";
            return Err(MkfsError::Option { name, value, why });
        }
        let uuid = uuid.unwrap_or_else(Uuid::new_v4);
        let part = write_gpt(&*device, name, uuid.into_bytes())?;
        Ok(Arc::new(RangeDevice::new(
            device,
            part.start,
            Some(part.len),
        )?))
    }

    pub(crate) fn build(&self) -> &BuildOptions {
        &self.build
    }
}

#[cfg(feature = "unstable")]
impl From<BuildOptions> for MkfsOptions {
    fn from(options: BuildOptions) -> MkfsOptions {
        MkfsOptions {
            build: options,
            ..MkfsOptions::default()
        }
    }
}

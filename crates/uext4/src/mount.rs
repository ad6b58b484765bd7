//! Mounts of images: which image is open in this process, and how.
//!
//! # Invariants
//! - An image is mounted once in a process, however often it is opened: one superblock for each, in the
//!   registry of [`Ext4`] superblocks. Opening it again the same way shares it; another way is refused.
//! - An image that is opened without keeping others out is a superblock of its own.
//!
//! # Locking
//! A mount's superblock is guarded by a lock of class `mount_table`, taken to end it.

use crate::image_options::ImageConfig;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use uext4_block::{
    BlockDevice, BlockError, DeviceId, ImageFiles, ImageName, OverlayDevice, open_image,
};
use uext4_ext4::{Exclusion, Ext4, Ext4Error, MountOptions, read_superblock_to_recover};
use uext4_ondisk::Incompat;
use uext4_sync::{CachePadded, Mutex, class};
use uext4_vfs::{
    Errno, Error, FileSystem, Registry, Result, SuperKey, SuperRef, SuperVariant, Superblock,
};

/// The images that are open in this process.
static IMAGES: LazyLock<Registry<ImageId, Image>> =
    LazyLock::new(|| Registry::new(SuperVariant::default()));

/// What makes two opens those of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ImageId {
    /// The file or block device.
    Device(DeviceId),
    /// A device that has no identity but its address.
    Object(usize),
    /// Not shared.
    Private(u64),
}

impl SuperKey for ImageId {
    fn spread(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::new().hash_one(self)
    }
}

/// How an image is opened; an open with the same arguments shares it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenArgs {
    mount: MountOptions,
    direct: bool,
    journal: Option<PathBuf>,
    /// The partition that the name of the image asks for.
    partition: Option<String>,
    /// The address of a device that the caller brought.
    object: Option<usize>,
}

/// Which image is mounted.
struct Which {
    id: ImageId,
    partition: Option<String>,
    object: Option<usize>,
}

/// A device that was just opened, or that the caller brought.
enum Opened {
    Files(ImageFiles),
    Object(Arc<dyn BlockDevice>),
}

/// An open image.
struct Image {
    fs: Arc<Ext4>,
    args: OpenArgs,
    /// What was opened by its name, and is locked against others.
    files: Option<ImageFiles>,
}

impl Superblock for Image {
    fn shutdown(&self) -> Result<()> {
        let unmounted = self.fs.unmount();
        // Files that are still open keep the device, without excluding others.
        for file in self.files.iter().flat_map(ImageFiles::files) {
            file.unlock();
        }
        self.fs.volume.report(unmounted)
    }

    fn is_read_only(&self) -> bool {
        self.args.mount.read_only
    }
}

/// A mount of an image, which its clones and open files share. It ends with the last of them, or by
/// [`Mount::end`]; the image is closed with its last mount.
#[derive(Clone)]
pub(crate) struct Mount(Arc<CachePadded<Reference>>);

/// What a mount and its clones share.
struct Reference {
    fs: Arc<Ext4>,
    mounted: Arc<Mounted>,
}

struct Mounted {
    /// Nothing once it has ended.
    superblock: Mutex<Option<SuperRef<ImageId, Image>>>,
}

impl Deref for Mount {
    type Target = Ext4;

    #[inline(always)]
    fn deref(&self) -> &Ext4 {
        &self.0.fs
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fs.fmt(f)
    }
}

impl Mount {
    /// Mounts the image with this name.
    ///
    /// # Errors
    /// As [`crate::Filesystem::open`].
    pub fn open(path: &Path, options: &ImageConfig) -> Result<Mount> {
        let name = ImageName::parse(path);
        let partition = name.partition().map(str::to_owned);
        let device_options = options.device();
        loop {
            let id = name.identity().map_err(device_error)?;
            // Another file may take the name before it is opened.
            let (mut is_first, mut replaced) = (false, false);
            let open = || {
                is_first = true;
                let files = ImageFiles::open(path, &device_options).map_err(device_error)?;
                replaced = files.identity() != Some(id);
                match replaced {
                    true => Err(Errno::ESTALE.into()),
                    false => Ok(Opened::Files(files)),
                }
            };
            let which = Which {
                id: ImageId::Device(id),
                partition: partition.clone(),
                object: None,
            };
            let mounted = Mount::get(which, options, open, None);
            match mounted {
                Err(_) if replaced => {}
                Err(e) if !is_first => return Err(e.context(path.display().to_string())),
                other => return other,
            }
        }
    }

    /// Mounts the image on `device`; its journal is on `journal`, if that is given, else where `options` say.
    ///
    /// # Errors
    /// As [`crate::Filesystem::open`].
    pub fn open_device(
        device: Arc<dyn BlockDevice>,
        journal: Option<Arc<dyn BlockDevice>>,
        options: &ImageConfig,
    ) -> Result<Mount> {
        let address = Arc::as_ptr(&device).cast::<()>().addr();
        let id = match device.identity() {
            Some(id) => ImageId::Device(id),
            None => ImageId::Object(address),
        };
        let which = Which {
            id,
            partition: None,
            object: Some(address),
        };
        Mount::get(which, options, || Ok(Opened::Object(device)), journal)
    }

    fn get(
        which: Which,
        options: &ImageConfig,
        open: impl FnOnce() -> Result<Opened>,
        journal: Option<Arc<dyn BlockDevice>>,
    ) -> Result<Mount> {
        static PRIVATE: AtomicU64 = AtomicU64::new(0);
        let args = OpenArgs {
            mount: options.mount.clone(),
            direct: options.direct,
            journal: options.journal.clone(),
            partition: which.partition,
            object: which.object,
        };
        let id = which.id;
        let fill = || {
            let (device, files) = match open()? {
                Opened::Files(files) => (files.device(0, None).map_err(device_error)?, Some(files)),
                Opened::Object(device) => (device, None),
            };
            Ok(Image {
                fs: mount_device(device, journal, options)?,
                args: args.clone(),
                files,
            })
        };
        let alike = |live: &Image| match live.args == args {
            true => Ok(()),
            false => {
                let why = "is open in this process with other options";
                Err(Error::from_source(Errno::EBUSY, why))
            }
        };
        let superblock = if options.exclusive {
            IMAGES.get_tree_bdev::<Error>(id, args.mount.read_only, alike, fill)?
        } else {
            let id = ImageId::Private(PRIVATE.fetch_add(1, Ordering::Relaxed));
            IMAGES.get_tree_nodev::<Error>(id, fill)?
        };
        let fs = Arc::clone(&superblock.fs);
        let superblock = Mutex::new(&class::MOUNT_TABLE, Some(superblock));
        let mounted = Arc::new(Mounted { superblock });
        Ok(Mount::of(Reference { fs, mounted }))
    }

    /// A mount of the newest snapshot of what this one is a snapshot of, with its options.
    ///
    /// # Errors
    /// As [`crate::Filesystem::refresh`].
    pub fn newest(&self) -> Result<Mount> {
        let refused = |errno, why: &'static str| Err(Error::from_source(errno, why));
        let options = {
            let superblock = self.0.mounted.superblock.lock();
            let Some(image) = superblock.as_ref() else {
                return refused(Errno::ESTALE, "it is closed");
            };
            if !image.args.mount.read_only {
                return refused(
                    Errno::EINVAL,
                    "it is open to be written, and always the newest",
                );
            }
            if image.args.journal.is_some() {
                return refused(Errno::EOPNOTSUPP, "its journal is on a device of its own");
            }
            ImageConfig {
                mount: image.args.mount.clone(),
                exclusive: false,
                ..ImageConfig::read_write()
            }
        };
        let Some(device) = self.0.fs.volume.device().newest().map_err(device_error)? else {
            let why = "its device has no snapshots to advance to, as a store of objects has; another snapshot of Ceph is opened by its name (@SNAP)";
            return refused(Errno::EOPNOTSUPP, why);
        };
        Mount::open_device(device, None, &options)
    }

    fn of(reference: Reference) -> Mount {
        Mount(Arc::new(CachePadded::new(reference)))
    }

    /// The same mount, whose clones are counted on a cache line of their own.
    pub fn counted_apart(&self) -> Mount {
        Mount::of(Reference {
            fs: Arc::clone(&self.0.fs),
            mounted: Arc::clone(&self.0.mounted),
        })
    }

    /// The file system.
    pub fn fs(&self) -> &Arc<Ext4> {
        &self.0.fs
    }

    /// Whether both are mounts of one superblock.
    pub fn is_same_as(&self, other: &Mount) -> bool {
        Arc::ptr_eq(&self.0.fs, &other.0.fs)
    }

    /// Ends this mount; the last of the image leaves it clean, others what was done before durable.
    ///
    /// # Errors
    /// `EIO`: the device failed, or the journal was aborted.
    pub fn end(&self) -> Result<()> {
        let superblock = self.0.mounted.superblock.lock().take();
        let Some(superblock) = superblock else {
            return Ok(());
        };
        // What another mount that ends later fails to write is reported there.
        let synced = match superblock.is_shared() {
            true => FileSystem::syncfs(&*self.0.fs),
            false => Ok(()),
        };
        superblock.deactivate()?;
        synced
    }
}

fn mount_device(
    device: Arc<dyn BlockDevice>,
    journal: Option<Arc<dyn BlockDevice>>,
    options: &ImageConfig,
) -> Result<Arc<Ext4>> {
    let mut mount = options.mount.clone();
    mount.read_only |= device.is_read_only();
    let journal = match (journal, &options.journal) {
        (None, Some(path)) => Some(open_image(path, &options.device()).map_err(device_error)?),
        (journal, _) => journal,
    };
    // Recovered for reading, neither of them is changed.
    let overlaid = mount.read_only && !mount.noload && needs_recovery(&*device)?;
    if overlaid {
        mount.exclusion = Exclusion::Held;
    }
    let over = |device: Arc<dyn BlockDevice>| match overlaid {
        true => Arc::new(OverlayDevice::new(device)) as Arc<dyn BlockDevice>,
        false => device,
    };
    let (device, journal) = (over(device), journal.map(over));
    Ext4::mount_with_journal(device, journal, mount).map_err(Ext4Error::of_mount)
}

fn needs_recovery(device: &dyn BlockDevice) -> Result<bool> {
    let (sb, torn) = read_superblock_to_recover(device).map_err(Ext4Error::of_mount)?;
    Ok(torn.is_some() || sb.incompat.contains(Incompat::RECOVER))
}

/// The errno of a device's error, the reason kept.
pub(crate) fn device_error(e: BlockError) -> Error {
    let errno = e.raw_os_error().map_or(Errno::EIO, Errno);
    Error::from_source(errno, e)
}

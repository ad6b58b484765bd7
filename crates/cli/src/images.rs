//! The images that a command has open, each once, and the operands that name files in them.

use crate::endpoint::{self, Endpoint, Image, Target};
use crate::location::{InImage, Location};
use crate::system::{mounts, paths};
use crate::{device, diagnostics, expand, failures, interrupt, mode, show, superblock};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use uext4::unstable::ondisk::Incompat;
use uext4::unstable::{MmpHold, RawKey, split_key_descriptor};
use uext4::{
    BlockDevice, Caller, DeviceId, DeviceOptions, Edit, Filesystem, ImageName, ImageOptions,
};

/// Where the journal of images is that have it on another device.
static JOURNAL: OnceLock<PathBuf> = OnceLock::new();

/// Says where that is; at most once.
pub fn set_journal(device: PathBuf) {
    let _ = JOURNAL.set(device);
}

/// Where it is, if that was said.
pub fn journal() -> Option<&'static Path> {
    JOURNAL.get().map(PathBuf::as_path)
}

/// Keys of encrypted files.
static KEYS: OnceLock<Vec<RawKey>> = OnceLock::new();

/// Reads keys from these files; at most once.
///
/// # Errors
/// A file can't be read, or has none.
pub fn set_keys(files: &[PathBuf]) -> Result<()> {
    let keys: Vec<RawKey> = files
        .iter()
        .map(|file| read_key(file))
        .collect::<Result<_>>()?;
    let _ = KEYS.set(keys);
    Ok(())
}

/// The keys that were read.
pub fn keys() -> &'static [RawKey] {
    KEYS.get().map_or(&[], Vec::as_slice)
}

/// The key that is all of a file; that of the standard input if it is `-`. The descriptor may be before the file, with a colon.
///
/// # Errors
/// The file can't be read, or has another length than keys.
pub fn read_key(file: &Path) -> Result<RawKey> {
    let (descriptor, file) = split_key_descriptor(file.as_os_str().as_encoded_bytes());
    let file = paths::word(file.to_vec());
    let file = Path::new(&file);
    let opened: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(file).map_err(|e| diagnostics::on_host(file, e))?),
    };
    let key = RawKey::read(opened).map_err(|e| diagnostics::on_host(file, e))?;
    let key =
        key.with_context(|| format!("{}: an encryption key has 16 to 64 bytes", file.display()))?;
    Ok(key.named(descriptor))
}

/// The options with the keys that were read.
fn with_keys(options: ImageOptions) -> Result<ImageOptions> {
    let mut keys = keys().iter();
    Ok(
        keys.try_fold(options, |options, key| match key.descriptor() {
            None => options.encryption_key(key.as_bytes()),
            Some(descriptor) => options.encryption_key_named(key.as_bytes(), descriptor),
        })?,
    )
}

/// Whether an image was opened to be changed.
static HAS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Whether no other host has the images open.
static EXCLUSIVE_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Says that no other host has them open.
pub fn set_exclusive_elsewhere() {
    EXCLUSIVE_ELSEWHERE.store(true, Ordering::Relaxed);
}

/// Whether that was said.
pub fn is_exclusive_elsewhere() -> bool {
    EXCLUSIVE_ELSEWHERE.load(Ordering::Relaxed)
}

/// The image that all commands of a script change.
static EDITED: OnceLock<(Key, Filesystem)> = OnceLock::new();

/// Opens an image to be changed by several commands, which find it open. What is not to be `committed` is only read.
///
/// # Errors
/// One that says what to do; it is not to be committed, and the journal needs recovery.
pub fn edit(image: &Path, committed: bool) -> Result<Edit> {
    let failed = |e: &uext4::Error| diagnostics::opening_to_write(image, e);
    let open = |path: &Path| {
        let options = match committed {
            true => DeviceOptions::read_write(),
            false => DeviceOptions::read_only(),
        };
        let device = device::open(path, &options);
        device.map_err(|e| failed(&diagnostics::of_device(e)))
    };
    let journal = journal().map(open).transpose()?;
    let device = open(image)?;
    let needs_recovery = || {
        let sb = uext4::unstable::read_superblock(&*device);
        sb.is_ok_and(|sb| sb.incompat.contains(Incompat::RECOVER))
    };
    if !committed && needs_recovery() {
        anyhow::bail!(
            "{}: its journal needs recovery, which writes; every command that changes the image does it",
            image.display()
        );
    }
    let waits = committed && warn_of_wait(image, &device, is_exclusive_elsewhere());
    let edit = opening(waits, || {
        let options = ImageOptions::read_write();
        let options = with_keys(options.exclusive_elsewhere(is_exclusive_elsewhere()))?;
        let edit = Edit::open_device(device, journal, &options);
        edit.map_err(|e| failed(&e))
    })?;
    check_writable(image, edit.fs())?;
    let _ = EDITED.set((key(image), edit.fs().with_caller(caller())));
    Ok(edit)
}

/// Refuses to change something else than the image of a script, which is all that a failure leaves as it was.
///
/// # Errors
/// There is such an image.
pub fn check_outside(path: &Path) -> Result<()> {
    if EDITED.get().is_some() {
        anyhow::bail!(
            "{}: a script changes files of its image alone",
            path.display()
        );
    }
    Ok(())
}

fn edited(key: &Key) -> Option<&'static Filesystem> {
    let (other, fs) = EDITED.get()?;
    (other == key).then_some(fs)
}

/// What a command makes gets the modes that the host's programs would give it.
fn caller() -> Caller {
    Caller::root().with_umask(mode::umask())
}

fn check_writable(image: &Path, fs: &Filesystem) -> Result<()> {
    if fs.is_read_only() {
        anyhow::bail!(
            "{}: can only be read: it has features that are not written, which `uext4 info` lists, or damage, which `uext4 check` finds",
            image.display()
        );
    }
    Ok(())
}

/// An image that is open in this process.
struct Open {
    key: Key,
    endpoint: Arc<Image>,
}

/// The images that a command has open.
#[derive(Default)]
pub struct Images {
    open: Vec<Open>,
    mounted: Vec<(Key, Arc<dyn Endpoint>)>,
}

impl Images {
    /// The image in the file `image`, opened unless it is. Ask for those to be written first: one
    /// that was opened to read is not opened again.
    ///
    /// # Errors
    /// One that says what to do.
    pub fn get(&mut self, image: &Path, write: bool) -> Result<Arc<Image>> {
        let key = key(image);
        if let Some(open) = self.open.iter().find(|open| open.key == key) {
            return Ok(Arc::clone(&open.endpoint));
        }
        let fs = match edited(&key) {
            Some(fs) => fs.clone(),
            None => {
                if write {
                    check_outside(image)?;
                }
                open(image, write)?
            }
        };
        let endpoint = Arc::new(Image::new(self.next_id(), image.to_owned(), fs));
        self.open.push(Open {
            key,
            endpoint: Arc::clone(&endpoint),
        });
        Ok(endpoint)
    }

    /// The files of an image, to be changed.
    ///
    /// # Errors
    /// One that says what to do.
    pub fn target(&mut self, image: &Path) -> Result<Arc<dyn Target>> {
        Ok(self.get(image, true)?)
    }

    /// The files of an image, to be read; of one that is mounted here, its files through that mount.
    ///
    /// # Errors
    /// One that says what to do.
    pub fn source(&mut self, image: &Path) -> Result<Arc<dyn Endpoint>> {
        let key = key(image);
        if let Some((_, mounted)) = self.mounted.iter().find(|(k, _)| *k == key) {
            return Ok(Arc::clone(mounted));
        }
        if device::offset() == 0
            && self.open.iter().all(|open| open.key != key)
            && let Some(dir) = mounts::shown_as_stored_at(image)
            && let Some(mounted) = endpoint::of_mount(self.next_id(), image, &dir)
        {
            self.mounted.push((key, Arc::clone(&mounted)));
            return Ok(mounted);
        }
        Ok(self.get(image, false)?)
    }

    /// The files that operands name as `IMAGE:/path`, patterns expanded, to be read. A failure is reported, and the rest is returned.
    ///
    /// # Errors
    /// One that ends the command.
    pub fn operands(&mut self, paths: Vec<OsString>) -> Result<Vec<(Arc<dyn Endpoint>, InImage)>> {
        let mut found = Vec::new();
        for path in paths {
            let at = InImage::parse(path);
            let done = self.source(&at.image).and_then(|endpoint| {
                for at in expand::expand(&*endpoint, &at)? {
                    found.push((Arc::clone(&endpoint), at));
                }
                Ok(())
            });
            done.or_else(failures::report)?;
        }
        Ok(found)
    }

    fn next_id(&self) -> usize {
        self.open.len() + self.mounted.len() + 1
    }

    /// Closes all; what was written is on the device then.
    ///
    /// # Errors
    /// A device that failed.
    pub fn close(self) -> Result<()> {
        for open in self.open {
            if edited(&open.key).is_some() {
                continue;
            }
            let image = open.endpoint.image().to_owned();
            let closed = open.endpoint.fs().clone().unmount();
            closed.map_err(|e| diagnostics::opening(&image, &e))?;
        }
        Ok(())
    }
}

/// What identifies an image, whatever it is called.
#[derive(PartialEq, Eq)]
enum Key {
    Found(DeviceId, Option<String>),
    /// Opening it fails as well, with the better message.
    Missing(OsString),
}

fn key(image: &Path) -> Key {
    let name = ImageName::parse(image);
    match name.identity() {
        Ok(id) => Key::Found(id, name.partition().map(str::to_owned)),
        Err(_) => Key::Missing(image.as_os_str().to_owned()),
    }
}

/// Whether two names are of one image.
pub fn is_same(image: &Path, other: &Path) -> bool {
    key(image) == key(other)
}

/// Calls `work` for each of the files that `paths` name as `IMAGE:/path`, patterns expanded. A failure is reported, and the rest is done.
///
/// # Errors
/// One that ends the command.
pub fn read_each(
    paths: Vec<OsString>,
    mut work: impl FnMut(&dyn Endpoint, &InImage) -> Result<()>,
) -> Result<()> {
    let mut images = Images::default();
    for path in paths {
        let at = InImage::parse(path);
        let done = images.source(&at.image).and_then(|endpoint| {
            for at in expand::expand(&*endpoint, &at)? {
                work(&*endpoint, &at).or_else(failures::report)?;
            }
            Ok(())
        });
        done.or_else(failures::report)?;
    }
    images.close()
}

/// Calls `work` for each of the files that `paths` name as `IMAGE:/path`, patterns expanded, with their images open to be changed. A
/// failure is reported, and the rest is done; an error of an image is one about that file. A signal ends it between two files. What was
/// done is durable when it returns.
///
/// # Errors
/// One that ends the command, or a device that failed.
pub fn change_each(
    paths: Vec<OsString>,
    mut work: impl FnMut(&Filesystem, &InImage) -> Result<()>,
) -> Result<()> {
    interrupt::catch()?;
    let mut images = Images::default();
    let changed = each_path(&mut images, paths, &mut work);
    // Also where the rest was not done.
    let closed = images.close();
    changed.and(closed)
}

fn each_path(
    images: &mut Images,
    paths: Vec<OsString>,
    work: &mut impl FnMut(&Filesystem, &InImage) -> Result<()>,
) -> Result<()> {
    // All are found before the first is changed: a name that is gone by then would be taken as a pattern.
    let mut found = Vec::new();
    for path in paths {
        let at = match Location::parse(path) {
            Location::Image(at) => at,
            Location::Host(path) => {
                failures::report(diagnostics::no_file_named(&path))?;
                continue;
            }
        };
        let expanded = images.get(&at.image, true).and_then(|image| {
            let named = expand::expand(&*image, &at)?.into_iter();
            found.extend(named.map(|at| (Arc::clone(&image), at)));
            Ok(())
        });
        expanded.or_else(failures::report)?;
    }
    for (image, at) in found {
        interrupt::check()?;
        let done = work(image.fs(), &at).map_err(|e| about(image.fs(), &at, e));
        done.or_else(failures::report)?;
    }
    Ok(())
}

/// An error of an image as one about that file.
fn about(fs: &Filesystem, at: &InImage, e: anyhow::Error) -> anyhow::Error {
    match e.downcast() {
        Ok(e) => diagnostics::changing(fs, at, e),
        Err(e) => e,
    }
}

/// Opens an image.
///
/// # Errors
/// One that says what to do.
pub fn open(image: &Path, write: bool) -> Result<Filesystem> {
    let mut options = if write {
        ImageOptions::read_write()
    } else {
        ImageOptions::read_only()
    };
    if let Some(device) = journal() {
        options = options.journal(device);
    }
    options = with_keys(options.exclusive_elsewhere(is_exclusive_elsewhere()))?;
    let fs = match write {
        true => open_to_write(image, &options)?,
        false => open_to_read(image, &options)?,
    };
    Ok(fs.with_caller(caller()))
}

fn open_image(
    image: &Path,
    device: &DeviceOptions,
    options: &ImageOptions,
) -> uext4::Result<Filesystem> {
    if device::offset() == 0 {
        return Filesystem::open(image, options);
    }
    let device = device::open(image, device).map_err(diagnostics::of_device)?;
    Filesystem::open_device(device, options)
}

/// Opens an image to be changed.
fn open_to_write(image: &Path, options: &ImageOptions) -> Result<Filesystem> {
    if superblock::asked_for().is_some() {
        anyhow::bail!("{}: with --superblock it can only be read", image.display());
    }
    let waits = warn_before_opening(image, is_exclusive_elsewhere());
    let fs = opening(waits, || {
        let fs = open_image(image, &DeviceOptions::read_write(), options);
        fs.map_err(|e| diagnostics::opening_to_write(image, &e))
    })?;
    HAS_WRITTEN.store(true, Ordering::Relaxed);
    check_writable(image, &fs)?;
    Ok(fs)
}

/// Says why opening it to be changed will take seconds, and whether it will.
pub fn warn_before_opening(image: &Path, is_exclusive_elsewhere: bool) -> bool {
    let unlocked = DeviceOptions::read_only().exclusive(false);
    device::open(image, &unlocked)
        .is_ok_and(|device| warn_of_wait(image, &device, is_exclusive_elsewhere))
}

fn warn_of_wait(image: &Path, device: &Arc<dyn BlockDevice>, is_exclusive_elsewhere: bool) -> bool {
    let is_remote = device.identity().is_some_and(DeviceId::is_remote);
    if is_remote && !device.is_fenced() && !is_exclusive_elsewhere {
        // It is refused.
        return false;
    }
    let holder = MmpHold::holder(device).ok().flatten();
    let Some((holder, wait)) = holder.and_then(|holder| holder.wait.map(|wait| (holder, wait)))
    else {
        return false;
    };
    show::warn(format_args!(
        "{}: host {} opened it last and did not close it; waits {} s to see whether it still has it open (multi-mount protection)",
        show::image(image),
        holder.host,
        wait.as_secs()
    ));
    true
}

/// Opens an image; a signal ends what `waits`, unless another image is open that must be closed.
fn opening<T>(waits: bool, open: impl FnOnce() -> Result<T>) -> Result<T> {
    match waits && !HAS_WRITTEN.load(Ordering::Relaxed) {
        true => interrupt::opening(open),
        false => open(),
    }
}

/// Opens an image to read, with a backup of its superblock if that is damaged.
fn open_to_read(image: &Path, options: &ImageOptions) -> Result<Filesystem> {
    let failed = |e| diagnostics::opening(image, &e);
    let mut why = None;
    if superblock::asked_for().is_none() {
        match open_image(image, &DeviceOptions::read_only(), options) {
            Ok(fs) => return Ok(fs),
            Err(e) if diagnostics::of_server(image, &e).is_some() => return Err(failed(e)),
            Err(e) => why = Some(e),
        }
    }
    match (superblock::open(image, &DeviceOptions::read_only()), why) {
        (Ok(opened), None) => Filesystem::open_device(opened.device, options).map_err(failed),
        (Ok(opened), Some(_)) if opened.is_damaged => {
            Filesystem::open_device(opened.device, options).map_err(failed)
        }
        (_, Some(e)) => Err(failed(e)),
        (Err(e), None) => Err(diagnostics::opening_device(image, e)),
    }
}

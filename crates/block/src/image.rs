//! Images by name: which file, in which format, and which partition of it.

use crate::FileDevice;
use crate::device::BlockDevice;
use crate::device_id::DeviceId;
use crate::error::{BlockError, Result};
use crate::open::OpenOptions;
use crate::partitions::{self, Partition};
use crate::qcow2::Qcow2Device;
use crate::qcow2::header::{Header, MAGIC, read_head};
use crate::range::RangeDevice;
use crate::remote::RemoteAddress;
use crate::scheme::{NBD, RBD, S3, SOCKET};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Files that an image may consist of, itself included.
const FILES_MAX: usize = 16;
/// Partitions that an error names.
const NAMED_MAX: usize = 6;
/// What stands between a file's name and a partition.
const SEPARATOR: &str = "?partition=";
/// The magic number of ext4, and where it is.
const EXT4_MAGIC: (u64, [u8; 2]) = (1080, [0x53, 0xef]);

/// What a name of a file can begin with, so that it is not taken for another.
const FILE: &str = "file:";

/// The name of an image: `PATH` or `file:PATH`, on an NBD server `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`, with TLS
/// `nbds://` and `nbds+unix://`, on Ceph
/// `rbd:POOL[/NAMESPACE]/NAME[@SNAP]`, in a store of objects `s3://BUCKET/PREFIX`; with `?partition=N` behind it a partition, by its number or name. A path that exists as a whole is meant as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageName {
    /// Of a file; the name of an export as it is. Not a path, as two of those are equal with more slashes in one.
    path: OsString,
    partition: Option<String>,
    is_remote: bool,
}

impl ImageName {
    /// Reads a name.
    pub fn parse(name: &Path) -> ImageName {
        let of_path = |path: &OsStr, partition: Option<&str>, is_remote| ImageName {
            path: path.to_owned(),
            partition: partition.map(str::to_owned),
            is_remote,
        };
        if name.symlink_metadata().is_ok() {
            return of_path(name.as_os_str(), None, false);
        }
        let (path, partition) = match split(name.as_os_str()) {
            Some((path, partition)) => (path, Some(partition)),
            None => (name.as_os_str(), None),
        };
        let scheme = scheme(path);
        match path.to_str().and_then(|path| path.strip_prefix(FILE)) {
            Some(file) => of_path(OsStr::new(file), partition, false),
            None => of_path(path, partition, scheme.is_some()),
        }
    }

    /// The bytes that `name` begins with that belong to the name of an image, whatever colons they have.
    pub fn prefix_len(name: &OsStr) -> Option<usize> {
        let text = name.to_str()?;
        match scheme(name) {
            Some(scheme) => Some(text.find(SOCKET).unwrap_or(scheme.len())),
            None => text.starts_with(FILE).then_some(FILE.len()),
        }
    }

    /// The file; of what a server has its address, which is not a path of the host.
    pub fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// The name of what a server has as any process of this host can use it: the path of a socket is absolute.
    ///
    /// # Errors
    /// [`BlockError::Image`]: an address that is none.
    pub fn remote_path(&self) -> Result<PathBuf> {
        let address = self.address()?.to_string();
        Ok(self.with_path(Path::new(&address)))
    }

    /// Whether a server elsewhere has it.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Whether its client opens connections and files after it has opened the image, which a sandbox forbids.
    pub fn connects(&self) -> bool {
        self.is_remote && scheme(&self.path).is_some_and(|scheme| [RBD, S3].contains(&scheme))
    }

    /// Whether it is a device or a part of one, which has its size and can't be replaced: a partition, or what a server has.
    pub fn is_within(&self) -> bool {
        self.is_remote || self.partition.is_some()
    }

    /// What identifies the file, the block device or the export.
    ///
    /// # Errors
    /// As [`DeviceId::of_path`]; [`BlockError::Image`]: an address that is none.
    pub fn identity(&self) -> Result<DeviceId> {
        match self.is_remote {
            true => Ok(self.address()?.identity()),
            false => DeviceId::of_path(self.path()),
        }
    }

    fn address(&self) -> Result<RemoteAddress> {
        let name = self.path.to_str().ok_or("is not UTF-8");
        name.and_then(RemoteAddress::parse)
            .map_err(|why| self.error(why))
    }

    /// The partition, if one is named.
    pub fn partition(&self) -> Option<&str> {
        self.partition.as_deref()
    }

    /// The name of a partition of the disk at `path`.
    pub fn in_disk(path: &Path, partition: u32) -> PathBuf {
        let name = ImageName {
            path: path.as_os_str().to_owned(),
            partition: Some(partition.to_string()),
            is_remote: false,
        };
        name.with_path(path)
    }

    /// The same with another path to the file.
    pub fn with_path(&self, path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        if let Some(partition) = &self.partition {
            name.push(SEPARATOR);
            name.push(partition);
        }
        PathBuf::from(name)
    }

    fn error(&self, why: impl Into<String>) -> BlockError {
        let (path, why) = (PathBuf::from(&self.path), why.into());
        BlockError::Image { path, why }
    }
}

#[cfg(unix)]
fn split(name: &OsStr) -> Option<(&OsStr, &str)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = name.as_bytes();
    let separator = SEPARATOR.as_bytes();
    let mut windows = bytes.windows(separator.len());
    let at = windows.rposition(|window| window == separator)?;
    let partition = std::str::from_utf8(&bytes[at + separator.len()..]).ok()?;
    Some((OsStr::from_bytes(&bytes[..at]), partition))
}

#[cfg(not(unix))]
fn split(name: &OsStr) -> Option<(&OsStr, &str)> {
    let (path, partition) = name.to_str()?.rsplit_once(SEPARATOR)?;
    Some((OsStr::new(path), partition))
}

/// What `name` begins with if a server has it.
fn scheme(name: &OsStr) -> Option<&'static str> {
    let name = name.to_string_lossy();
    let mut schemes = NBD.into_iter().chain([RBD, S3]);
    schemes.find(|scheme| name.starts_with(scheme))
}

/// The open files of an image. Of an image that is not qcow2 nothing was read but whether it is; of one that is, its header, as
/// that names a backing file. What a server has is not read: it is raw.
#[derive(Debug)]
pub struct ImageFiles {
    name: ImageName,
    /// The image, then the backing file of each; none if a server has it.
    files: Vec<Arc<FileDevice>>,
    /// What a server has.
    remote: Option<Arc<dyn BlockDevice>>,
    /// Whether each is a qcow2 image.
    formats: Vec<bool>,
}

impl ImageFiles {
    /// Opens the file that `name` leads to and, to be read, its backing files.
    ///
    /// # Errors
    /// As [`FileDevice::open`]; [`BlockError::Image`]: a qcow2 image is refused.
    pub fn open(name: &Path, options: &OpenOptions) -> Result<ImageFiles> {
        let name = ImageName::parse(name);
        if name.is_remote {
            return Ok(ImageFiles {
                remote: Some(name.address()?.open(options)?),
                name,
                files: Vec::new(),
                formats: Vec::new(),
            });
        }
        let file = Arc::new(FileDevice::open(name.path(), options)?);
        let mut is_qcow2 = read_head(&*file, MAGIC.len())? == MAGIC;
        let mut path = name.path().to_owned();
        let (mut files, mut formats) = (vec![file], vec![is_qcow2]);
        while let (true, Some(file)) = (is_qcow2, files.last()) {
            let Some(backing) = Header::read(&path, &**file)?.backing else {
                break;
            };
            path = backing_path(&path, &backing.name)?;
            if files.len() == FILES_MAX {
                return Err(name.error(format!(
                    "has a chain of more than {FILES_MAX} backing files"
                )));
            }
            let file = FileDevice::open(&path, &options.for_backing());
            let file = file.map_err(|e| match path.exists() {
                true => e,
                false => name.error(format!(
                    "needs its backing file {}, which is not there; copy it there, or `qemu-img rebase -u -b FILE` names another",
                    path.display()
                )),
            })?;
            if files
                .iter()
                .any(|other| other.identity() == file.identity())
            {
                return Err(name.error(format!("has the backing file {} twice", path.display())));
            }
            files.push(Arc::new(file));
            formats.push(backing.is_qcow2);
            is_qcow2 = backing.is_qcow2;
        }
        Ok(ImageFiles {
            name,
            files,
            remote: None,
            formats,
        })
    }

    /// What identifies it.
    pub fn identity(&self) -> Option<DeviceId> {
        match &self.remote {
            Some(remote) => remote.identity(),
            None => self.files.first()?.identity(),
        }
    }

    /// The files: that of the image, then those that it is based on; none if a server has it.
    pub fn files(&self) -> &[Arc<FileDevice>] {
        &self.files
    }

    /// Whether the image can't be written.
    pub fn is_read_only(&self) -> bool {
        match &self.remote {
            Some(remote) => remote.is_read_only(),
            None => self.files.iter().take(1).any(|file| file.is_read_only()),
        }
    }

    /// The device: the image, or the partition that its name asks for, from byte `offset` on, `len` bytes or all.
    ///
    /// # Errors
    /// [`BlockError::Image`]: a qcow2 image is refused, it has no such partition, or it is a disk with partitions and the
    /// name has none. Else the device's.
    pub fn device(&self, offset: u64, len: Option<u64>) -> Result<Arc<dyn BlockDevice>> {
        let mut device = self.disk()?;
        if let Some(wanted) = &self.name.partition {
            let found = partitions::find(&*device)?;
            let partition = self.choose(&found, wanted)?;
            let (start, len) = (partition.start, partition.len);
            let part = RangeDevice::new(device, start, Some(len)).map_err(|_| {
                self.name.error(format!(
                    "ends before partition {} does; was it copied as a whole?",
                    partition.number
                ))
            })?;
            device = Arc::new(part);
        } else if (offset, len) == (0, None) {
            self.refuse_disk(&*device)?;
        }
        match (offset, len) {
            (0, None) => Ok(device),
            _ => Ok(Arc::new(RangeDevice::new(device, offset, len)?)),
        }
    }

    /// The partitions of the image as a whole.
    ///
    /// # Errors
    /// As [`ImageFiles::device`].
    pub fn partitions(&self) -> Result<(Arc<dyn BlockDevice>, Vec<Partition>)> {
        let disk = self.disk()?;
        let found = partitions::find(&*disk)?;
        Ok((disk, found))
    }

    /// The image as a whole.
    fn disk(&self) -> Result<Arc<dyn BlockDevice>> {
        let mut below: Option<Arc<dyn BlockDevice>> = self.remote.clone();
        for (file, is_qcow2) in self.files.iter().zip(&self.formats).rev() {
            let whole = Arc::clone(file);
            below = Some(match is_qcow2 {
                false => whole,
                true => Arc::new(Qcow2Device::open(file.path(), whole, below)?),
            });
        }
        below.ok_or_else(|| self.name.error("has no file"))
    }

    fn choose<'a>(&self, found: &'a [Partition], wanted: &str) -> Result<&'a Partition> {
        let number: Option<u32> = wanted.parse().ok();
        let mut fitting = found.iter().filter(|p| match number {
            Some(number) => p.number == number,
            None => p.name == wanted,
        });
        match (fitting.next(), fitting.next()) {
            (Some(partition), None) => Ok(partition),
            (Some(_), Some(_)) => {
                let what = format!("has several partitions {wanted}: {}", in_words(found));
                Err(self.name.error(what))
            }
            (None, _) if found.is_empty() => Err(self.name.error("has no partitions")),
            (None, _) => {
                let what = format!("has no partition {wanted}, but {}", in_words(found));
                Err(self.name.error(what))
            }
        }
    }

    /// Refuses a disk that has a GPT and is not a file system.
    fn refuse_disk(&self, device: &dyn BlockDevice) -> Result<()> {
        let mut magic = [0; 2];
        let (at, expected) = EXT4_MAGIC;
        if device.len() > at + 2 {
            device.read_at(at, &mut magic)?;
        }
        if magic == expected {
            return Ok(());
        }
        match partitions::gpt(device)?.as_deref() {
            None | Some([]) => Ok(()),
            Some(found @ [first, ..]) => Err(self.name.error(format!(
                "is a disk with the partitions {}; {}{SEPARATOR}{} names the first",
                in_words(found),
                self.name.path().display(),
                first.number
            ))),
        }
    }
}

/// The partitions in one line.
fn in_words(found: &[Partition]) -> String {
    let one = |p: &Partition| match p.name.as_str() {
        "" => format!("{} ({}, {} bytes)", p.number, p.kind, p.len),
        name => format!("{} ({name}, {}, {} bytes)", p.number, p.kind, p.len),
    };
    let mut words: Vec<String> = found.iter().take(NAMED_MAX).map(one).collect();
    if found.len() > NAMED_MAX {
        words.push(format!("{} more", found.len() - NAMED_MAX));
    }
    words.join(", ")
}

/// Opens an image by its name: the one way from a name to a device.
///
/// # Errors
/// As [`ImageFiles::open`] and [`ImageFiles::device`].
pub fn open_image(name: &Path, options: &OpenOptions) -> Result<Arc<dyn BlockDevice>> {
    ImageFiles::open(name, options)?.device(0, None)
}

/// The path of a backing file: in the directory of the image, or below. Any other file of the host could be anything.
fn backing_path(image: &Path, name: &str) -> Result<PathBuf> {
    let outside = || BlockError::Image {
        path: image.to_owned(),
        why: format!(
            "has the backing file {name}, which is not in its directory; \
             `qemu-img rebase -u` gives it a name relative to that, and `qemu-img convert` needs none"
        ),
    };
    let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(name).components().all(is_inside) {
        return Err(outside());
    }
    let dir = image.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    let path = dir.join(name);
    // Links must not lead elsewhere. What does not exist is reported when it is opened.
    match (dir.canonicalize(), path.canonicalize()) {
        (Ok(dir), Ok(path)) if !path.starts_with(&dir) => Err(outside()),
        _ => Ok(path),
    }
}

//! The device and image a benchmark runs on.

use anyhow::{Context as _, bail};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;
use uext4_block::{
    BlockDevice, FileDevice, ImageName, LatencyDevice, MemoryDevice, OpenOptions, open_image,
};
use uext4_build::{MkfsOptions, NoProgress};
use uext4_ondisk::{EXT4_MAGIC, SUPERBLOCK_OFFSET};

/// Where the image lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// In memory.
    Mem,
    /// In a file, which is opened for real.
    File(PathBuf),
}

impl std::str::FromStr for DeviceSpec {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s.strip_prefix("file:") {
            Some(path) if !path.is_empty() => Ok(DeviceSpec::File(path.into())),
            _ if s == "mem" => Ok(DeviceSpec::Mem),
            _ => Err(format!("`{s}` is neither mem nor file:PATH")),
        }
    }
}

impl DeviceSpec {
    /// The file that holds an image already, if there is one.
    pub fn found(&self) -> anyhow::Result<Option<&Path>> {
        let DeviceSpec::File(path) = self else {
            return Ok(None);
        };
        let Ok(meta) = std::fs::metadata(path) else {
            return Ok(None);
        };
        if holds_image(path) {
            return Ok(Some(path));
        }
        let name = path.display();
        if meta.file_type().is_block_device() {
            bail!("{name}: a block device without ext4; `uext4 mkfs {name}` makes it");
        }
        bail!("{name}: something else than an ext4 image; give another name, or remove it first");
    }
}

fn holds_image(path: &Path) -> bool {
    const MAGIC_OFFSET: u64 = SUPERBLOCK_OFFSET + 56;
    let mut magic = [0; 2];
    File::open(path)
        .and_then(|file| file.read_exact_at(&mut magic, MAGIC_OFFSET))
        .is_ok_and(|()| u16::from_le_bytes(magic) == EXT4_MAGIC)
}

/// A size in bytes, with K, M, G or T.
pub fn parse_size(s: &str) -> Result<u64, String> {
    let digits = s.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match s.get(digits.len()..).unwrap_or("") {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        "T" | "t" => 1u64 << 40,
        other => return Err(format!("unknown unit `{other}`: use K, M, G or T")),
    };
    let n: u64 = digits.parse().map_err(|_| format!("`{s}` is not a size"))?;
    n.checked_mul(unit)
        .ok_or_else(|| format!("`{s}` is too large"))
}

/// A size as [`parse_size`] takes it: in the largest unit that divides it.
pub fn size_name(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let fits = |(shift, _): &&(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match units.iter().find(fits) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// What a device is to take the time of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Of a request.
    pub latency: Duration,
    /// Requests served at a time.
    pub parallelism: usize,
}

/// The device that takes the time of a modelled one.
pub type ModelDevice = LatencyDevice<Arc<dyn BlockDevice>>;

/// What image to make.
#[derive(Clone, Debug)]
pub struct ImageSpec {
    pub device: DeviceSpec,
    /// Bytes of the image.
    pub bytes: u64,
    /// Bytes of the journal; 0 for none.
    pub journal_bytes: u64,
    /// Bytes of file data that the run puts into it.
    pub data_bytes: u64,
    /// Inodes it must hold.
    pub inodes: u32,
    /// The image was there before the run: it is used as it is, and the rest is ignored.
    pub found: bool,
    /// An image file that the run made stays.
    pub keep: bool,
    /// What the mounted device takes the time of; making and checking the image do not wait for it.
    pub model: Option<Model>,
    /// A file is opened past the cache of the host.
    pub direct: bool,
}

impl ImageSpec {
    /// About what the image takes of the memory once the run has filled it, if it lies there, with what
    /// a mount of it keeps.
    pub fn memory_bytes(&self) -> u64 {
        const PER_INODE: u64 = 1024;
        self.journal_bytes + self.data_bytes + u64::from(self.inodes) * PER_INODE + (256 << 20)
    }
}

/// An open image, or a raw device.
pub struct Image {
    /// What holds the bytes.
    pub device: Arc<dyn BlockDevice>,
    /// The modelled device around it, if there is one.
    pub model: Option<Arc<ModelDevice>>,
}

impl Image {
    fn new(device: Arc<dyn BlockDevice>, model: Option<Model>) -> Image {
        let around =
            |m: Model| LatencyDevice::new(Arc::clone(&device), m.latency, m.parallelism).into();
        Image {
            model: model.map(around),
            device,
        }
    }

    pub fn measured(&self) -> Arc<dyn BlockDevice> {
        match &self.model {
            Some(model) => Arc::clone(model) as Arc<dyn BlockDevice>,
            None => Arc::clone(&self.device),
        }
    }
}

/// Opens the image that is there, or makes it.
pub fn open(spec: &ImageSpec) -> anyhow::Result<Image> {
    if let DeviceSpec::File(path) = &spec.device
        && spec.found
    {
        let device = open_file(path, spec, OpenOptions::read_write())?;
        return Ok(Image::new(device, spec.model));
    }
    let device = make(&spec.device, spec, spec.bytes, spec.keep)?;
    let mut options = MkfsOptions {
        size: Some(spec.bytes),
        inodes: Some(spec.inodes),
        ..MkfsOptions::default()
    };
    if spec.journal_bytes == 0 {
        options.features.set("has_journal", false)?;
    } else {
        options.journal_size = Some(spec.journal_bytes);
    }
    uext4_build::mkfs(&*device, &options, &NoProgress)?;
    Ok(Image::new(device, spec.model))
}

/// Makes a device of the same kind with no file system, of `bytes` bytes: in memory, or a file beside the
/// image.
pub fn open_bare(spec: &ImageSpec, bytes: u64) -> anyhow::Result<Image> {
    let device = match &spec.device {
        DeviceSpec::Mem => DeviceSpec::Mem,
        DeviceSpec::File(path) => {
            if std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device()) {
                bail!("{}: nothing lies beside a block device", path.display());
            }
            let mut name = path.clone().into_os_string();
            name.push(".bare");
            let beside = PathBuf::from(name);
            if beside.exists() {
                bail!("{}: is there already", beside.display());
            }
            DeviceSpec::File(beside)
        }
    };
    let device = make(&device, spec, bytes, false)?;
    Ok(Image::new(device, spec.model))
}

fn open_file(
    path: &Path,
    spec: &ImageSpec,
    options: OpenOptions,
) -> anyhow::Result<Arc<dyn BlockDevice>> {
    let options = match spec.direct {
        true => options.direct(true),
        false => options,
    };
    if ImageName::parse(path).is_remote() {
        return Ok(open_image(path, &options)?);
    }
    let device = FileDevice::open(path, &options);
    let name = || format!("open the image {}", path.display());
    let device = device.with_context(name)?;
    if spec.direct {
        static SAID: Once = Once::new();
        let engine = device.engine();
        SAID.call_once(|| eprintln!("batches of requests go out by {engine}"));
    }
    Ok(Arc::new(device))
}

/// A new device at `device`, otherwise as `spec` says. A file that is not kept loses its name at once, so that
/// nothing stays of a run that is interrupted.
fn make(
    device: &DeviceSpec,
    spec: &ImageSpec,
    bytes: u64,
    keep: bool,
) -> anyhow::Result<Arc<dyn BlockDevice>> {
    let DeviceSpec::File(path) = device else {
        return Ok(Arc::new(MemoryDevice::new(bytes)));
    };
    // An earlier round's, kept for the last.
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    let device = open_file(path, spec, OpenOptions::create(bytes))?;
    if !keep {
        std::fs::remove_file(path)?;
    }
    Ok(device)
}

/// Checks the image after a run.
pub fn verify(device: &dyn BlockDevice) -> anyhow::Result<()> {
    let report = uext4_check::check(
        device,
        &uext4_check::CheckOptions::default(),
        &uext4_check::NoProgress,
    )?;
    if let Some(fault) = report.faults.first() {
        bail!(
            "the image is damaged after the run ({} faults): {fault}",
            report.faults_total
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sizes() {
        for name in ["512", "4K", "1025K", "1M", "3G"] {
            assert_eq!(size_name(parse_size(name).unwrap()), name);
        }
    }
}

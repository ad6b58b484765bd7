//! The device and image a benchmark runs on.

use anyhow::{Context as _, bail};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4_block::{BlockDevice, FileDevice, MemoryDevice, OpenOptions};
use uext4_mkfs::{MkfsOptions, NoProgress};
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
    ///
    /// # Errors
    /// Something else is there, which is not overwritten.
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
///
/// # Errors
/// What is wrong with it.
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
    let n: u64 = digits.parse().map_err(|_| format!("`{s}` is no size"))?;
    n.checked_mul(unit)
        .ok_or_else(|| format!("`{s}` is too large"))
}

/// What image to make.
#[derive(Clone, Debug)]
pub struct ImageSpec {
    /// Where.
    pub device: DeviceSpec,
    /// Bytes of the image.
    pub bytes: u64,
    /// Bytes of the journal; 0 for none.
    pub journal_bytes: u64,
    /// Inodes it must hold.
    pub inodes: u32,
    /// The image was there before the run: it is used as it is, and the rest is not looked at.
    pub found: bool,
    /// An image file that the run made stays.
    pub keep: bool,
}

impl ImageSpec {
    /// About what the image takes of the memory once the run has filled it, if it lies there, with what
    /// a mount of it keeps.
    pub fn memory_bytes(&self) -> u64 {
        const PER_INODE: u64 = 1024;
        self.journal_bytes + u64::from(self.inodes) * PER_INODE + (256 << 20)
    }
}

/// A file that a run made, removed when it is dropped.
#[derive(Debug)]
pub struct MadeFile(PathBuf);

impl Drop for MadeFile {
    fn drop(&mut self) {
        // Nothing depends on it: the next run says if it is still there.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An open image.
pub struct Image {
    /// The device it lies on. Declared first: closed before the file goes.
    pub device: Arc<dyn BlockDevice>,
    _made: Option<MadeFile>,
}

/// Opens the image that is there, or makes it.
///
/// # Errors
/// A device that fails, or an image that cannot hold what is asked.
pub fn open(spec: &ImageSpec) -> anyhow::Result<Image> {
    let opened = |path: &Path, options: &OpenOptions| -> anyhow::Result<Arc<dyn BlockDevice>> {
        let device = FileDevice::open(path, options);
        Ok(Arc::new(device.with_context(|| {
            format!("open the image {}", path.display())
        })?))
    };
    let (device, made) = match &spec.device {
        DeviceSpec::File(path) if spec.found => {
            return Ok(Image {
                device: opened(path, &OpenOptions::read_write())?,
                _made: None,
            });
        }
        DeviceSpec::Mem => {
            let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(spec.bytes));
            (device, None)
        }
        DeviceSpec::File(path) => {
            // An earlier round's, kept for the last.
            if path.exists() {
                std::fs::remove_file(path)?;
            }
            let device = opened(path, &OpenOptions::create(spec.bytes))?;
            (device, (!spec.keep).then(|| MadeFile(path.clone())))
        }
    };
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
    uext4_mkfs::mkfs(&*device, &options, &NoProgress)?;
    Ok(Image {
        device,
        _made: made,
    })
}

/// Checks the image after a run.
///
/// # Errors
/// The first fault of a damaged image.
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

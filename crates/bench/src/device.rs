//! The device and image a benchmark runs on.

use anyhow::{Context as _, bail};
use std::path::PathBuf;
use std::sync::Arc;
use uext4_block::{BlockDevice, FileDevice, MemoryDevice, OpenOptions};
use uext4_mkfs::{MkfsOptions, NoProgress};

/// Where the image lies.
#[derive(Clone, Debug)]
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
}

/// Makes the image and opens it.
///
/// # Errors
/// A device that fails, or an image that cannot hold what is asked.
pub fn make(spec: &ImageSpec) -> anyhow::Result<Arc<dyn BlockDevice>> {
    let device: Arc<dyn BlockDevice> = match &spec.device {
        DeviceSpec::Mem => Arc::new(MemoryDevice::new(spec.bytes)),
        DeviceSpec::File(path) => {
            let options = OpenOptions::create(spec.bytes);
            Arc::new(
                FileDevice::open(path, &options)
                    .with_context(|| format!("make the image {}", path.display()))?,
            )
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
    Ok(device)
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

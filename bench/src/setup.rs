//! What every workload that mounts takes from the command line: the image, the variants and the output.

use crate::device::{DeviceSpec, ImageSpec, Model, parse_size};
use crate::variants::{Variant, VariantArgs, parse_duration, parse_threads};
use anyhow::bail;
use clap::Args;
use std::time::Duration;

/// Blocks of the images made here, in bytes.
const BLOCK_BYTES: u64 = 4096;
/// A group holds so many inodes at most, as its bitmap is a block.
const GROUP_INODES_MAX: u64 = 8 * BLOCK_BYTES;
const GROUP_BYTES: u64 = 8 * BLOCK_BYTES * BLOCK_BYTES;

/// The image, the variants and the output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Image and output")]
pub struct SetupArgs {
    /// Where the image lies: an image that is there is used as it is, otherwise one is made
    #[arg(long, default_value = "mem", value_name = "mem|file:PATH")]
    pub device: DeviceSpec,
    /// Opens image files with O_DIRECT, past the cache of the host
    #[arg(long)]
    pub direct: bool,
    /// The mounted device takes so long for each request (80us), as a modelled one would
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub device_latency: Option<Duration>,
    /// Requests that the modelled device serves at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_threads)]
    pub device_parallelism: usize,
    /// Bytes of the image [default: what the run needs]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub image_size: Option<u64>,
    /// Bytes of the journal, 0 for none [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub journal_size: Option<u64>,
    /// Inodes of the image [default: what the run needs]
    #[arg(long, value_name = "N", value_parser = parse_inodes)]
    pub inodes: Option<u32>,
    /// Keeps an image file that the run made
    #[arg(long)]
    pub keep: bool,
    /// One more round counts locks and stages; counting costs some speed, so it is in no other figure
    #[arg(long)]
    pub lock_stat: bool,
    /// Prints one JSON document
    #[arg(long)]
    pub json: bool,
    /// Leaves the image unchecked
    #[arg(long, hide = true)]
    pub no_check: bool,
    /// The variants.
    #[command(flatten)]
    pub variants: VariantArgs,
}

/// A number of inodes, also with K or M.
fn parse_inodes(text: &str) -> Result<u32, String> {
    let count = parse_size(text)?;
    u32::try_from(count).map_err(|_| format!("{count} inodes are more than ext4 has"))
}

/// What a run puts into an image.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Files and directories at one time.
    pub inodes: u64,
    /// Bytes of their data.
    pub data_bytes: u64,
}

impl SetupArgs {
    /// The variants of the run.
    pub fn variants(&self) -> Vec<Variant> {
        self.variants.variants()
    }

    /// The image to use or make.
    pub fn image(&self, need: Need) -> anyhow::Result<ImageSpec> {
        let shaped =
            self.image_size.is_some() || self.journal_size.is_some() || self.inodes.is_some();
        if self.direct && self.device == DeviceSpec::Mem {
            bail!("--direct: there is no cache to pass by in memory; give --device file:PATH");
        }
        let found = self.device.found()?;
        if let Some(path) = found
            && shaped
        {
            let name = path.display();
            bail!(
                "{name}: an image is there, and is used as it is; leave --image-size, --journal-size \
                 and --inodes away, or remove it"
            );
        }
        let needed = need.inodes + need.inodes / 8 + 4096;
        let inodes = match self.inodes {
            Some(inodes) => inodes,
            None => u32::try_from(needed)
                .map_err(|_| anyhow::anyhow!("{needed} inodes are more than ext4 has"))?,
        };
        let journal_bytes = self.journal_size.unwrap_or(1 << 30);
        Ok(ImageSpec {
            device: self.device.clone(),
            bytes: self
                .image_size
                .unwrap_or_else(|| image_bytes(u64::from(inodes), journal_bytes, need)),
            journal_bytes,
            data_bytes: need.data_bytes,
            inodes,
            found: found.is_some(),
            keep: self.keep,
            model: self.model(),
            direct: self.direct,
        })
    }

    /// What the mounted device takes the time of.
    pub fn model(&self) -> Option<Model> {
        self.device_latency.map(|latency| Model {
            latency,
            parallelism: self.device_parallelism,
        })
    }

    /// Rounds that are run: those that give the figures, and the one that counts locks.
    pub fn rounds(&self, iterations: usize) -> usize {
        iterations + usize::from(self.lock_stat)
    }
}

/// Room for everything, in whole groups.
fn image_bytes(inodes: u64, journal_bytes: u64, need: Need) -> u64 {
    let for_inodes = inodes.div_ceil(GROUP_INODES_MAX);
    let directories = need.inodes * 64;
    // A journal may take half of an image.
    let data =
        journal_bytes * 2 + inodes * 256 + directories + need.data_bytes * 9 / 8 + (512 << 20);
    for_inodes.max(data.div_ceil(GROUP_BYTES)) * GROUP_BYTES
}

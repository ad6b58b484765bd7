//! `uext4 resize`.
//!
//! | module | holds |
//! | --- | --- |
//! | `defragment` | files whose blocks are put together |
//! | `mounted` | an image that is mounted |

mod defragment;
mod mounted;

use super::tune::planned;
use crate::bar::Bar;
use crate::size::FsSize;
use crate::{device, diagnostics, quoted, show};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::unstable::{
    ChangeError, RepairPlan, UndoPlace, apply_repair, plan_grow, plan_shrink, read_superblock,
    resume_repair,
};
use uext4::{BlockDevice, CheckOptions, DeviceOptions, ImageName};

/// Make an image larger or smaller, or put files together
///
/// A file gets the size; a device is filled, or as much of it as SIZE says. The image is checked with its new size in memory, and
/// nothing is written unless it passes. A crash leaves the old size or the new one, and every file. To make an image without a journal
/// smaller needs --undo: run again after a crash, it first puts back what was begun.
///
/// A mounted image becomes larger while it is in use, with its file: IMAGE is the directory then. It may need blocks that the image reserves
/// for descriptors of groups; what is not mounted needs none. Only an image that is not mounted becomes smaller.
///
/// With --defragment the size stays, and files are put together that lie in pieces: their data is copied to free space, and only then found
/// there. Files without extents, and those whose data is journaled, stay as they are.
#[derive(Debug, clap::Args)]
#[command(
    aliases = ["grow", "shrink", "resize2fs"],
    after_help = "Examples:\n  \
    uext4 resize disk.img 4G\n  \
    uext4 resize --minimum disk.img  as small as it can be\n  \
    uext4 resize /dev/vg/root        all of the device\n  \
    uext4 resize /mnt 8G             while it is mounted\n  \
    uext4 resize --defragment all disk.img"
)]
pub struct Args {
    /// The image, which no one has open, or the directory at which it is mounted
    image: PathBuf,
    /// New size: 4G, 8192s (sectors), or a number of blocks of the image; that of the file or device unless given
    #[arg(value_name = "SIZE", value_parser = FsSize::parse)]
    size: Option<FsSize>,
    /// As small as it can be
    #[arg(short = 'M', long, conflicts_with = "size")]
    minimum: bool,
    /// Put the blocks of a file together, of the files below a directory, or of `all`
    #[arg(long, value_name = "PATH", conflicts_with_all = ["size", "minimum", "undo"])]
    defragment: Option<PathBuf>,
    /// Where to keep old bytes of an image without a journal until all is done
    #[arg(long, value_name = "FILE")]
    undo: Option<PathBuf>,
    /// Threads of the check; 0 means one for each CPU
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors; no progress
    #[arg(long, short)]
    quiet: bool,
}

/// The size, as JSON has it.
#[derive(Serialize)]
struct Json {
    changed: bool,
    bytes: u64,
    blocks: u64,
    block_size: u64,
}

/// The size of an image that is not mounted, after it was to change.
pub struct Resized {
    /// It did.
    pub changed: bool,
    /// Blocks that it has.
    pub blocks: u64,
    /// Their size.
    pub block_size: u64,
}

impl Args {
    /// What makes an image of a file or device as large as `size`, or with `None` as small as it can be, and prints nothing.
    pub fn of(image: &Path, size: Option<FsSize>, undo: Option<&Path>) -> Args {
        Args {
            image: image.to_owned(),
            size,
            minimum: size.is_none(),
            defragment: None,
            undo: undo.map(Path::to_owned),
            threads: 0,
            json: false,
            quiet: true,
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    if let Some(path) = &args.defragment {
        return defragment::run(args, path);
    }
    if args.image.is_dir() {
        return mounted::run(args);
    }
    let resized = resize(args)?;
    print(args, resized.changed, resized.blocks, resized.block_size)
}

/// Changes the size of an image that is not mounted.
///
/// # Errors
/// It can't be opened, checked or written; it can't have the size.
pub fn resize(args: &Args) -> Result<Resized> {
    let image = &args.image;
    let device = device::open(image, &DeviceOptions::read_write())
        .map_err(|e| diagnostics::device(image, e))?;
    if let Some(undo) = &args.undo {
        resume_repair(&*device, &UndoPlace::new(undo))?;
    }
    let superblock =
        || read_superblock(&*device).map_err(|e| diagnostics::opening(image, &e.of_mount()));
    let before = superblock()?.geometry;
    let block_size = u64::from(before.block_size);
    let bytes = match args.size {
        Some(size) => size.bytes(Some(block_size)),
        // What follows in the file may be another partition.
        None if device::offset() > 0 && !args.minimum => {
            bail!("{}: with --offset give SIZE", image.display())
        }
        None => device.len(),
    };
    let blocks = bytes / block_size;
    if before.blocks_count.saturating_mul(block_size) > device.len() {
        bail!(
            "{}: is shorter than its file system; `uext4 check` says what is missing",
            image.display()
        );
    }
    let shrinks = args.minimum || blocks < before.blocks_count;
    let old_len = device.len();
    // A file of its own, not a container, ends with the file system.
    let is_own = std::fs::metadata(image).is_ok_and(|file| file.is_file() && file.len() == old_len);
    let resizer = Resizer {
        args,
        device: &device,
    };
    let changed = match shrinks {
        true => resizer.shrink((!args.minimum).then_some(blocks), block_size)?,
        false => resizer.grow(blocks, block_size)?,
    };
    let after = superblock()?.geometry;
    let size = after.blocks_count * block_size;
    let ends_there = old_len / block_size == before.blocks_count && device::offset() == 0;
    if changed && is_own && ends_there {
        let cut = device.set_len(size);
        cut.map_err(|e| diagnostics::device(image, e))?;
    }
    Ok(Resized {
        changed,
        blocks: after.blocks_count,
        block_size,
    })
}

/// Reports the size, as the options ask for.
fn print(args: &Args, changed: bool, blocks: u64, block_size: u64) -> Result<()> {
    if args.json {
        return show::json(&Json {
            changed,
            bytes: blocks * block_size,
            blocks,
            block_size,
        });
    }
    if !args.quiet {
        let name = show::image(&args.image);
        writeln!(
            std::io::stdout(),
            "{name}: {blocks} blocks of {block_size} bytes"
        )?;
    }
    Ok(())
}

struct Resizer<'a> {
    args: &'a Args,
    device: &'a Arc<dyn BlockDevice>,
}

impl Resizer<'_> {
    /// True if it was larger.
    fn shrink(&self, blocks: Option<u64>, block_size: u64) -> Result<bool> {
        let options = CheckOptions::new().threads(self.args.threads);
        let bar = Bar::unless(self.args.quiet || self.args.json);
        let plans = planned(&self.args.image, self.device, || {
            plan_shrink(&**self.device, blocks, &options, &bar)
        });
        drop(bar);
        self.apply(&plans.map_err(|e| self.too_small(e, block_size))?)
    }

    /// The same error, with the least size as people read it.
    fn too_small(&self, e: anyhow::Error, block_size: u64) -> anyhow::Error {
        let Some(ChangeError::TooSmall { least }) = e.downcast_ref() else {
            return e;
        };
        let (least, image) = (*least, &self.args.image);
        let bytes = show::bytes(least.saturating_mul(block_size));
        let e = ChangeError::TooSmall { least };
        let said = format!(
            "{}: {e} of {block_size} bytes, {bytes}; `uext4 resize --minimum {}` makes it as small as it can be",
            image.display(),
            quoted::path(image)
        );
        anyhow::Error::new(e).context(said)
    }

    /// True if it was smaller.
    fn grow(&self, blocks: u64, block_size: u64) -> Result<bool> {
        let options = CheckOptions::new().threads(self.args.threads);
        let (image, device, len) = (&self.args.image, self.device, blocks * block_size);
        let is_device = std::fs::metadata(image).is_ok_and(|device| !device.is_file());
        if len > device.len() && (is_device || ImageName::parse(image).is_within()) {
            let (name, has) = (image.display(), show::bytes(device.len()));
            bail!("{name}: the device has {has}: make it larger first, or give a smaller SIZE");
        }
        let bar = Bar::unless(self.args.quiet || self.args.json);
        let plans = planned(image, device, || {
            plan_grow(&**device, blocks, &options, &bar)
        });
        drop(bar);
        let plans = plans?;
        if !plans.is_empty() && len > device.len() {
            let grown = device.set_len(len);
            grown.map_err(|e| diagnostics::device(image, e))?;
        }
        self.apply(&plans)
    }

    fn apply(&self, plans: &[RepairPlan]) -> Result<bool> {
        for plan in plans {
            // The journal does it, where there is one.
            let needs_undo = plan.is_whole && !plan.log_stays;
            let undo = self.args.undo.as_deref().filter(|_| needs_undo);
            let applied = apply_repair(self.device, plan, undo.map(UndoPlace::new).as_ref());
            applied.with_context(|| self.args.image.display().to_string())?;
            // What one step has moved can't be put back once the next one has used its place.
            if let Some(undo) = undo {
                std::fs::remove_file(undo).map_err(|e| diagnostics::on_host(undo, e))?;
            }
        }
        Ok(!plans.is_empty())
    }
}

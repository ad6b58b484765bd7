//! resize2fs: `resize2fs DEVICE [SIZE]`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`online`] | file systems that are mounted |

mod online;

use super::undo::with_undo;
use super::{Program, exit, image};
use crate::bar::Bar;
use crate::commands::{resize, tune};
use crate::size::FsSize;
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use uext4::unstable::ondisk::{Feature, Incompat, STATE_CLEAN, STATE_ERROR, Superblock};
use uext4::unstable::to_stderr;
use uext4::unstable::{ChangeError, Tuning, plan_shrink};
use uext4::{BlockDevice, CheckOptions, DeviceOptions, ImageName};

const USAGE: &str = "Usage: resize2fs [-d debug_flags] [-f] [-F] [-M] [-P] [-p] device [-b|-s|new_size] [-S RAID-stride] [-z undo_file]\n";

/// What is resized, and how.
struct Job<'a> {
    program: &'a Program,
    image: &'a Path,
    sb: Superblock,
    force: bool,
}

pub fn run(program: &Program) -> Result<u8> {
    to_stderr(format_args!("{}", program.version()));
    let words = program.read("d:fFhMPpS:bsz:", USAGE, 1)?;
    let (image, size) = match words.operands.as_slice() {
        [image] if !words.has('h') => (Path::new(image), None),
        [image, size] if !words.has('h') => (Path::new(image), Some(size)),
        _ => return Err(exit(1, USAGE)),
    };
    if words.has('z') {
        return Err(exit(
            1,
            "resize2fs: -z: no undo file can be written; leave it out, as a crash leaves the old size or the new one",
        ));
    }
    check_there(image)?;
    if let Some(mount) = online::find(image).filter(|_| !words.has('P')) {
        let minimum = words.has('M');
        return mount.resize(program, image, size.map(OsString::as_os_str), minimum);
    }
    let opened = image::look_at(image).map_err(|e| {
        let report = e.report(program, image, 1);
        let _ = writeln!(
            std::io::stdout(),
            "Couldn't find valid filesystem superblock."
        );
        report
    })?;
    let job = Job {
        program,
        image,
        sb: opened.sb,
        force: words.has('f'),
    };
    job.check_clean()?;
    if words.has('P') {
        return job.estimate(&*opened.device);
    }
    drop(opened.device);
    if let Some(text) = words.text('S') {
        job.set_stride(&text)?;
    }
    match (words.has('b'), words.has('s')) {
        (true, false) => return job.convert(true),
        (false, true) => return job.convert(false),
        (true, true) => return Err(exit(1, USAGE)),
        (false, false) => {}
    }
    match (words.has('M'), size) {
        (true, _) => job.resize(None),
        (false, Some(size)) => job.resize(Some(job.size(&size.to_string_lossy())?)),
        (false, None) => {
            let device = image::look_at(image)
                .map_err(|e| e.report(program, image, 1))?
                .device;
            let bytes = device.len();
            drop(device);
            job.resize(Some(FsSize::Bytes(bytes)))
        }
    }
}

/// Refuses a file that is not there, before anything else is said of it.
fn check_there(image: &Path) -> Result<()> {
    if let Err(e) = std::fs::metadata(ImageName::parse(image).path())
        && !ImageName::parse(image).is_remote()
    {
        return Err(exit(
            1,
            format!(
                "open: {} while opening {}",
                image::host_error_text(&e),
                image.display()
            ),
        ));
    }
    Ok(())
}

/// Reads a size: a number of blocks, or one with `s`, K, M, G or T.
pub fn parse_size(program: &Program, text: &str) -> Result<FsSize> {
    let is_of_resize2fs = text.ends_with(|c: char| c.is_ascii_digit() || "skKmMgGtT".contains(c));
    match FsSize::parse(text) {
        Ok(size) if is_of_resize2fs => Ok(size),
        _ => Err(exit(
            1,
            format!("{}: Invalid new size: {text}\n", program.name),
        )),
    }
}

/// `4k`, as messages name blocks.
pub fn unit(block_size: u64) -> String {
    format!("{}k", block_size / 1024)
}

impl Job<'_> {
    fn block_size(&self) -> u64 {
        self.sb.geometry.block_size.into()
    }

    /// Refuses a file system that was not unmounted or that has errors, as resize2fs does unless `-f` is given: what is done here checks all of
    /// it in any case.
    fn check_clean(&self) -> Result<()> {
        let raw = &self.sb.raw;
        let state = raw.state.get();
        let checked = u64::from(raw.lastcheck_hi) << 32 | u64::from(raw.lastcheck.get());
        let is_unclean = state & STATE_ERROR != 0
            || state & STATE_CLEAN == 0
            || self.sb.incompat.contains(Incompat::RECOVER)
            || checked < raw.mount_time();
        match is_unclean && !self.force {
            true => Err(self.run_e2fsck()),
            false => Ok(()),
        }
    }

    fn run_e2fsck(&self) -> anyhow::Error {
        exit(
            1,
            format!("Please run 'e2fsck -f {}' first.\n", self.image.display()),
        )
    }

    fn size(&self, text: &str) -> Result<FsSize> {
        parse_size(self.program, text)
    }

    /// Prints the fewest blocks that the image can have.
    fn estimate(&self, device: &dyn BlockDevice) -> Result<u8> {
        let bar = Bar::unless(true);
        let blocks = match plan_shrink(device, None, &CheckOptions::new(), &bar) {
            Ok(plans) => plans.last().map(|plan| plan.after.blocks_total),
            Err(ChangeError::Pending | ChangeError::Faulty) => return Err(self.run_e2fsck()),
            Err(e) => return Err(anyhow::Error::new(e).context(self.image.display().to_string())),
        };
        let geometry = &self.sb.geometry;
        let blocks = blocks.map(|clusters| clusters * u64::from(geometry.cluster_ratio));
        let blocks = blocks.unwrap_or(geometry.blocks_count);
        writeln!(
            std::io::stdout(),
            "Estimated minimum size of the filesystem: {blocks}"
        )?;
        Ok(0)
    }

    fn set_stride(&self, text: &str) -> Result<()> {
        let blocks = text
            .parse()
            .map_err(|_| exit(1, format!("Invalid RAID stride: {text}\n{USAGE}")))?;
        let tuning = Tuning {
            stride: Some(blocks),
            ..Tuning::default()
        };
        self.tune(&tuning)
    }

    fn tune(&self, tuning: &Tuning) -> Result<()> {
        with_undo(self.image, None, |undo| {
            tune::change(self.image, tuning, &CheckOptions::new(), undo, true)
        })?;
        Ok(())
    }

    /// Makes block numbers wide or narrow.
    fn convert(&self, wide: bool) -> Result<u8> {
        let bits = if wide { "64" } else { "32" };
        if self.sb.incompat.contains(Incompat::BIT64) == wide {
            to_stderr(format_args!("The filesystem is already {bits}-bit."));
            return Ok(0);
        }
        let verb = format!("Converting the filesystem to {bits}-bit.");
        writeln!(std::io::stdout(), "{verb}")?;
        self.tune(&Tuning {
            features: vec![(Feature::Incompat(Incompat::BIT64), wide)],
            ..Tuning::default()
        })?;
        let blocks = self.sb.geometry.blocks_count;
        self.print_done(blocks)?;
        Ok(0)
    }

    /// Gives the image this size, or the smallest.
    fn resize(&self, size: Option<FsSize>) -> Result<u8> {
        let block_size = self.block_size();
        let wanted = size.map(|size| size.bytes(Some(block_size)) / block_size);
        if let Some(blocks) = wanted {
            self.check_room(blocks)?;
        }
        let resized = with_undo(self.image, None, |undo| {
            let args = resize::Args::of(self.image, wanted.map(FsSize::Blocks), undo);
            resize::resize(&args)
        });
        let resized = resized.map_err(|e| self.refused(e))?;
        if !resized.changed {
            let (blocks, unit) = (resized.blocks, unit(block_size));
            to_stderr(format_args!(
                "The filesystem is already {blocks} ({unit}) blocks long.  Nothing to do!\n"
            ));
            return Ok(0);
        }
        self.announce(resized.blocks)?;
        self.print_done(resized.blocks)?;
        Ok(0)
    }

    fn announce(&self, blocks: u64) -> Result<()> {
        let (name, unit) = (self.image.display(), unit(self.block_size()));
        Ok(writeln!(
            std::io::stdout(),
            "Resizing the filesystem on {name} to {blocks} ({unit}) blocks."
        )?)
    }

    fn print_done(&self, blocks: u64) -> Result<()> {
        let (name, unit) = (self.image.display(), unit(self.block_size()));
        Ok(writeln!(
            std::io::stdout(),
            "The filesystem on {name} is now {blocks} ({unit}) blocks long.\n"
        )?)
    }

    /// Refuses more blocks than a device has; a file grows.
    fn check_room(&self, blocks: u64) -> Result<()> {
        let name = ImageName::parse(self.image);
        let is_file = std::fs::metadata(name.path()).is_ok_and(|there| there.is_file());
        if is_file && !name.is_within() {
            return Ok(());
        }
        let options = DeviceOptions::read_only().exclusive(false);
        let device =
            image::open(self.image, &options).map_err(|e| e.report(self.program, self.image, 1))?;
        let has = device.device.len() / self.block_size();
        if blocks <= has {
            return Ok(());
        }
        let unit = unit(self.block_size());
        Err(exit(
            1,
            format!(
                "The containing partition (or device) is only {has} ({unit}) blocks.\nYou requested a new size of {blocks} blocks.\n"
            ),
        ))
    }

    /// Why the size did not change, as resize2fs says it.
    fn refused(&self, e: anyhow::Error) -> anyhow::Error {
        match e.downcast_ref() {
            Some(ChangeError::TooSmall { least }) => exit(
                1,
                format!(
                    "{}: New size smaller than minimum ({least})\n",
                    self.program.name
                ),
            ),
            Some(ChangeError::Faulty) => self.run_e2fsck(),
            _ => e,
        }
    }
}

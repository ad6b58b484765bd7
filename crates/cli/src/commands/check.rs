//! `uext4 check`.

use crate::bar::Bar;
use crate::{diagnostics, failures, interrupt, quoted, show, superblock};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use uext4::{CheckOptions, CheckReport, DeviceOptions};

/// The exit code when faults were found, as of e2fsck.
const FAULTS: u8 = 4;
/// The exit code when the check could not be done, as of e2fsck.
pub const OPERATIONAL: u8 = 8;

/// Verify everything of images, and change nothing
///
/// Exits with 0 when there is nothing wrong, 4 when there is, 8 when the check could not be done; of several images,
/// with the largest of these. Notes report what is unusual but not damage, such as a backup superblock that differs;
/// they do not change the exit code. An image that something else writes to is refused. An image whose superblock is
/// damaged is checked with a backup. Options of e2fsck are understood; nothing is repaired.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "fsck",
    after_help = "Examples:\n  \
        uext4 check disk.img\n  \
        uext4 check --json a.img b.img   one document, a list of both"
)]
pub struct Args {
    /// The images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Threads; 0 means one for each CPU
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// The most faults to name; all are counted
    #[arg(long, default_value_t = 1000)]
    faults: usize,
    /// Check an image that is in use too; what changes meanwhile may be reported as faults
    #[arg(long)]
    force: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
    /// Change nothing, as always
    #[arg(short = 'n')]
    no_changes: bool,
    /// Check an image that is marked clean too, as always
    #[arg(short = 'f')]
    even_clean: bool,
    /// Repair, which is not done: faults are reported, and `e2fsck -fy` is named
    #[arg(short = 'y', short_alias = 'p', alias = "repair")]
    repair: bool,
    #[arg(short = 'a', hide = true)]
    preen: bool,
    /// Block of the superblock to use, as --superblock
    #[arg(short = 'b', value_name = "BLOCK")]
    backup: Option<u64>,
    #[arg(short = 'B', hide = true, value_name = "BYTES")]
    block_size: Option<u64>,
    #[arg(short = 'v', hide = true)]
    verbose: bool,
    #[arg(short = 't', hide = true, action = clap::ArgAction::Count)]
    timing: u8,
    #[arg(short = 'C', hide = true, value_name = "FD")]
    completion: Option<i32>,
}

#[derive(Serialize)]
struct Json {
    image: String,
    clean: bool,
    incomplete: bool,
    needs_recovery: bool,
    errors_recorded: bool,
    orphans: u64,
    inodes_used: u64,
    inodes_total: u64,
    files: u64,
    directories: u64,
    symlinks: u64,
    specials: u64,
    blocks_used: u64,
    blocks_total: u64,
    block_size: u32,
    faults_total: u64,
    faults: Vec<FaultJson>,
    notes_total: u64,
    notes: Vec<FaultJson>,
}

#[derive(Serialize)]
struct FaultJson {
    what: &'static str,
    inode: Option<u32>,
    block: Option<u64>,
    group: Option<u32>,
    detail: Option<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(block) = args.backup {
        superblock::set(block);
    }
    interrupt::catch()?;
    let (mut code, mut documents) = (0, Vec::new());
    for image in &args.images {
        match check(args, image) {
            Ok((report, superblock_is_damaged)) => {
                let clean = report.is_clean() && !report.incomplete && !superblock_is_damaged;
                code = code.max(if clean { 0 } else { FAULTS });
                match args.json {
                    true => documents.push(json(image, &report)),
                    false => text(image, &report, superblock_is_damaged)?,
                }
                if !clean && (args.repair || args.preen) {
                    let name = quoted::path(image);
                    show::warn(format_args!(
                        "{}: nothing is repaired; `e2fsck -fy {name}` repairs it",
                        image.display()
                    ));
                }
            }
            Err(e) => {
                failures::report(e)?;
                code = code.max(OPERATIONAL);
            }
        }
    }
    if args.json {
        show::json_of(&args.images, documents)?;
    }
    Ok(ExitCode::from(code))
}

/// Checks an image; whether its superblock is damaged comes with the report, as that is of a backup then.
fn check(args: &Args, image: &Path) -> Result<(CheckReport, bool)> {
    let options = CheckOptions::new()
        .threads(args.threads)
        .faults_max(args.faults);
    let device = DeviceOptions::read_only().exclusive(!args.force);
    let opened = superblock::open_to_check(image, &device)
        .map_err(|e| diagnostics::opening_device(image, e))?;
    let bar = Bar::unless(args.quiet || args.json);
    let checked = uext4::check_on(&*opened.device, &options, &bar);
    drop(bar);
    interrupt::check()?;
    let report = checked.map_err(|e| diagnostics::checking(image, e))?;
    Ok((report, opened.is_damaged))
}

fn text(image: &Path, report: &CheckReport, superblock_is_damaged: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let name = show::image(image);
    for fault in &report.faults {
        writeln!(out, "{name}: {fault}")?;
    }
    let unnamed = report.faults_total - report.faults.len() as u64;
    if unnamed > 0 {
        writeln!(out, "{name}: {unnamed} more faults")?;
    }
    for note in &report.notes {
        writeln!(out, "{name}: note: {note}")?;
    }
    let unnamed = report.notes_total - report.notes.len() as u64;
    if unnamed > 0 {
        writeln!(out, "{name}: {unnamed} more notes")?;
    }
    if report.incomplete {
        writeln!(out, "{name}: the rest can't be checked")?;
    }
    if report.needs_recovery {
        writeln!(
            out,
            "{name}: journal needs recovery; checked as recovery would leave it"
        )?;
    }
    if report.errors_recorded {
        writeln!(out, "{name}: errors were recorded while it was mounted")?;
    }
    let verdict = match report.faults_total {
        0 if superblock_is_damaged => "clean but for its superblock".to_owned(),
        0 => "clean".to_owned(),
        1 => "1 fault".to_owned(),
        n => format!("{n} faults"),
    };
    writeln!(
        out,
        "{name}: {verdict}, {}/{} inodes ({} files, {} directories, {} symlinks), {}/{} blocks",
        report.inodes_used,
        report.inodes_total,
        report.files,
        report.directories,
        report.symlinks,
        report.blocks_used,
        report.blocks_total
    )?;
    Ok(())
}

fn json(image: &Path, report: &CheckReport) -> Json {
    let fault = |f: &uext4::Fault| FaultJson {
        what: f.kind.text(),
        inode: f.ino.map(|i| i.0),
        block: f.pblk.map(|b| b.0),
        group: f.group.map(|g| g.0),
        detail: f.detail.as_deref().map(str::to_owned),
    };
    Json {
        image: image.display().to_string(),
        clean: report.is_clean(),
        incomplete: report.incomplete,
        needs_recovery: report.needs_recovery,
        errors_recorded: report.errors_recorded,
        orphans: report.orphans,
        inodes_used: report.inodes_used,
        inodes_total: report.inodes_total,
        files: report.files,
        directories: report.directories,
        symlinks: report.symlinks,
        specials: report.specials,
        blocks_used: report.blocks_used,
        blocks_total: report.blocks_total,
        block_size: report.block_size,
        faults_total: report.faults_total,
        faults: report.faults.iter().map(fault).collect(),
        notes_total: report.notes_total,
        notes: report.notes.iter().map(fault).collect(),
    }
}

//! `uext4 check`.

use crate::bar::Bar;
use crate::{diagnostics, show};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use uext4::{CheckOptions, CheckReport, DeviceOptions, FileDevice};

/// The exit code when faults were found, as of e2fsck.
const FAULTS: u8 = 4;
/// The exit code when the check could not be done, as of e2fsck.
pub const OPERATIONAL: u8 = 8;

/// Verify everything of an image, and change nothing.
///
/// Exits with 0 when there is nothing wrong, 4 when there is, 8 when the check could not be done.
/// Notes report what is unusual but not damage, such as a backup superblock that differs; they do not
/// change the exit code. An image that something else writes to is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 check disk.img")]
pub struct Args {
    /// The image
    image: PathBuf,
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
    let options = CheckOptions::new()
        .threads(args.threads)
        .faults_max(args.faults);
    let bar = Bar::new();
    let device = DeviceOptions::read_only().exclusive(!args.force);
    let device = FileDevice::open(&args.image, &device);
    let checked = match device {
        Ok(device) => uext4::check_on(&device, &options, &bar),
        Err(e) => Err(e.into()),
    };
    drop(bar);
    let report = checked.map_err(|e| diagnostics::checking(&args.image, e))?;
    if args.json {
        show::json(&json(args, &report))?;
    } else {
        text(args, &report)?;
    }
    let clean = report.is_clean() && !report.incomplete;
    Ok(ExitCode::from(if clean { 0 } else { FAULTS }))
}

fn text(args: &Args, report: &CheckReport) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let name = show::image(&args.image);
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

fn json(args: &Args, report: &CheckReport) -> Json {
    let fault = |f: &uext4::Fault| FaultJson {
        what: f.kind.text(),
        inode: f.ino.map(|i| i.0),
        block: f.pblk.map(|b| b.0),
        group: f.group.map(|g| g.0),
        detail: f.detail.as_deref().map(str::to_owned),
    };
    Json {
        image: args.image.display().to_string(),
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

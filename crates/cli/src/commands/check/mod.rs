//! `uext4 check`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`confined`] | what a check by root gives up |
//! | [`paths`] | names of what was found |
//! | [`repair`] | repairs |

pub mod confined;
mod paths;
pub mod repair;

use crate::bar::Bar;
use crate::system::paths::bytes;
use crate::{diagnostics, failures, interrupt, show, superblock};
use anyhow::Result;
use repair::{Choice, RepairJson};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use uext4::unstable::{RepairPolicy, UndoPlace};
use uext4::{CheckReport, Fault, FaultLevel};

/// The exit code when faults were found, as of e2fsck.
pub const FAULTS: u8 = 4;
/// The exit code when the check could not be done, as of e2fsck.
pub const OPERATIONAL: u8 = 8;

/// Verify everything of images, and repair them if asked to
///
/// Exits with 0 when there is nothing wrong, 1 when everything was repaired, 4 when faults are left, 8 when the check
/// could not be done; of several images, with the largest of these. Notes report what is unusual but not damage, such as a backup superblock that differs;
/// they do not change the exit code. An image that something else writes to is refused. An image whose superblock is
/// damaged is checked with a backup. Options of e2fsck are understood. A repair is planned first: nothing is written until the
/// result has passed the check. It is written through the journal of the image, all of it or nothing. Where there is no sound journal, a power loss leaves a
/// part of it, from which another repair continues. With --undo, what it replaces is kept, and an interrupted repair is undone when it is run again.
/// Run by root, the process opens the images and the file of --undo, which stays empty if nothing is replaced, and then gives up
/// every path, capability and network, so that it can be run on images that are not trusted; not with images on servers.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "fsck",
    after_help = "Examples:\n  \
        uext4 check disk.img\n  \
        uext4 check --json a.img b.img   one document, a list of both\n  \
        uext4 check --repair disk.img   asks about each fault\n  \
        uext4 check -y --undo disk.undo disk.img && uext4 undo disk.undo disk.img"
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
    /// Print faults only: nothing about images that are clean, no notes, no progress
    #[arg(long, short)]
    quiet: bool,
    /// Change nothing, which is what happens without --repair, -p and -y
    #[arg(short = 'n')]
    no_changes: bool,
    /// Check an image that is marked clean too, as always
    #[arg(short = 'f')]
    even_clean: bool,
    /// Repair: asks about each fault, with what the repair does and may lose
    #[arg(long, conflicts_with_all = ["no_changes", "force"])]
    repair: bool,
    /// Repair everything that can be repaired, without questions
    #[arg(short = 'y', conflicts_with_all = ["no_changes", "force"])]
    all: bool,
    /// Repair what has one right outcome and loses nothing, without questions
    #[arg(short = 'p', visible_short_alias = 'a', conflicts_with_all = ["all", "no_changes", "force"])]
    safe: bool,
    /// Keep what a repair replaces in this file, for `uext4 undo`
    #[arg(long, value_name = "FILE")]
    undo: Option<PathBuf>,
    /// Keep the rights of root, which are given up before the images are read
    #[arg(long)]
    no_sandbox: bool,
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
    superblock_is_damaged: bool,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<Vec<RepairJson>>,
}

#[derive(Serialize)]
struct FaultJson {
    #[serde(flatten)]
    path: Option<show::PathJson>,
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
    let mut opened = interrupt::catch_after(|| confined::enter(args))?;
    let (mut code, mut documents) = (0, Vec::new());
    for image in &args.images {
        if let Some(e) = opened.failure(image) {
            failures::report(e)?;
            code = code.max(OPERATIONAL);
            continue;
        }
        if let Some(choice) = args.repairs() {
            match repair_one(args, image, choice, opened.undo.as_ref()) {
                Ok((found, document)) => {
                    code = code.max(found);
                    documents.extend(document);
                }
                Err(e) => {
                    failures::report(e)?;
                    code = code.max(OPERATIONAL);
                }
            }
            continue;
        }
        match check(args, image) {
            Ok((report, superblock_is_damaged)) => {
                let clean = report.is_clean() && !report.incomplete && !superblock_is_damaged;
                code = code.max(if clean { 0 } else { FAULTS });
                let paths = paths_of(image, &report)?;
                match args.json {
                    true => documents.push(json(image, &report, &paths, superblock_is_damaged)),
                    false if args.quiet => list(image, &report, FaultLevel::Fault, &paths)?,
                    false => text(image, &report, &paths, superblock_is_damaged)?,
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

impl Args {
    /// What checks one image, and repairs what `choice` says.
    pub fn of(image: &Path, choice: Option<Choice>, undo: Option<&Path>) -> Args {
        let is = |policy| matches!(choice, Some(Choice::Without(p)) if p == policy);
        Args {
            images: vec![image.to_owned()],
            threads: 0,
            faults: 1000,
            force: false,
            json: false,
            quiet: false,
            no_changes: choice.is_none(),
            even_clean: true,
            repair: matches!(choice, Some(Choice::Ask)),
            all: is(RepairPolicy::All),
            safe: is(RepairPolicy::Safe),
            undo: undo.map(Path::to_owned),
            no_sandbox: false,
            backup: None,
            block_size: None,
            verbose: false,
            timing: 0,
            completion: None,
        }
    }

    /// How faults are chosen that are repaired, if any are.
    fn repairs(&self) -> Option<Choice> {
        match (self.all, self.safe, self.repair) {
            (true, ..) => Some(Choice::Without(RepairPolicy::All)),
            (_, true, _) => Some(Choice::Without(RepairPolicy::Safe)),
            (.., true) => Some(Choice::Ask),
            _ => None,
        }
    }
}

/// Repairs an image and prints what was done; returns the exit code, and the document with --json.
fn repair_one(
    args: &Args,
    image: &Path,
    choice: Choice,
    undo: Option<&UndoPlace>,
) -> Result<(u8, Option<Json>)> {
    let (plan, code) = repair::repair(args, image, choice, undo)?;
    let paths = paths_of(image, &plan.after)?;
    if args.json {
        let mut document = json(image, &plan.after, &paths, false);
        document.repairs = Some(repair::json(&plan, &paths));
        return Ok((code, Some(document)));
    }
    repair::text(image, &plan)?;
    if !args.quiet {
        text(image, &plan.after, &paths, false)?;
    }
    Ok((code, None))
}

/// Checks an image; whether its superblock is damaged comes with the report, as that is of a backup then.
///
/// # Errors
/// The image can't be opened or checked.
pub fn check(args: &Args, image: &Path) -> Result<(CheckReport, bool)> {
    let opened = superblock::open_to_check(image, &args.device())
        .map_err(|e| diagnostics::opening_device(image, e))?;
    let bar = Bar::unless(args.quiet || args.json);
    let checked = uext4::check_on(&*opened.device, &args.options(), &bar);
    drop(bar);
    interrupt::check()?;
    let report = checked.map_err(|e| diagnostics::checking(image, e))?;
    Ok((report, opened.is_damaged))
}

/// Paths by inode.
type Paths = HashMap<u64, PathBuf>;

/// Those of what was found.
fn paths_of(image: &Path, report: &CheckReport) -> Result<Paths> {
    let all = report.faults.iter().chain(&report.notes);
    let wanted: HashSet<u64> = all.filter_map(|f| f.ino).map(|ino| ino.0.into()).collect();
    match wanted.is_empty() {
        true => Ok(Paths::new()),
        false => paths::find(image, &wanted),
    }
}

fn path_of<'a>(fault: &Fault, paths: &'a Paths) -> Option<&'a Path> {
    let path = fault.ino.and_then(|ino| paths.get(&ino.0.into()));
    path.map(PathBuf::as_path)
}

/// Prints the faults that are named, or the notes, with the files that they are about, and how many more there are.
fn list(image: &Path, report: &CheckReport, level: FaultLevel, paths: &Paths) -> Result<()> {
    let (found, total, mark, one, many) = match level {
        FaultLevel::Note => (&report.notes, report.notes_total, "note: ", "note", "notes"),
        _ => (&report.faults, report.faults_total, "", "fault", "faults"),
    };
    let mut out = std::io::stdout().lock();
    let name = show::image(image);
    for fault in found {
        let path = path_of(fault, paths).map(|path| format!(":{}", show::path_inside(path)));
        writeln!(out, "{name}{}: {mark}{fault}", path.unwrap_or_default())?;
    }
    let unnamed = total - found.len() as u64;
    if unnamed > 0 {
        writeln!(out, "{name}: {} more", show::count(unnamed, one, many))?;
    }
    Ok(())
}

/// Prints all that was found.
fn text(
    image: &Path,
    report: &CheckReport,
    paths: &Paths,
    superblock_is_damaged: bool,
) -> Result<()> {
    list(image, report, FaultLevel::Fault, paths)?;
    list(image, report, FaultLevel::Note, paths)?;
    let mut out = std::io::stdout().lock();
    let name = show::image(image);
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
        writeln!(out, "{name}: errors were recorded when it was last in use")?;
    }
    let verdict = match report.faults_total {
        0 if superblock_is_damaged => "clean but for its superblock".to_owned(),
        0 => "clean".to_owned(),
        n => show::count(n, "fault", "faults"),
    };
    writeln!(
        out,
        "{name}: {verdict}, {}/{} inodes ({}, {}, {}), {}/{} blocks",
        report.inodes_used,
        report.inodes_total,
        show::count(report.files, "file", "files"),
        show::count(report.directories, "directory", "directories"),
        show::count(report.symlinks, "symlink", "symlinks"),
        report.blocks_used,
        report.blocks_total
    )?;
    Ok(())
}

fn fault_json(f: &Fault, paths: &Paths) -> FaultJson {
    FaultJson {
        path: path_of(f, paths).map(|path| show::PathJson::new(&bytes(path))),
        what: f.kind.text(),
        inode: f.ino.map(|i| i.0),
        block: f.pblk.map(|b| b.0),
        group: f.group.map(|g| g.0),
        detail: f.detail.as_deref().map(str::to_owned),
    }
}

fn json(image: &Path, report: &CheckReport, paths: &Paths, superblock_is_damaged: bool) -> Json {
    let fault = |f: &Fault| fault_json(f, paths);
    Json {
        image: image.display().to_string(),
        clean: report.is_clean() && !superblock_is_damaged,
        superblock_is_damaged,
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
        repairs: None,
    }
}

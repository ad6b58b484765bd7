//! e2fsck: checks a file system, and repairs it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`text`] | what is printed |

mod text;

use super::getopt::Words;
use super::{Program, exit, image, undo};
use crate::commands::check::repair::{Choice, repair};
use crate::commands::check::{self, Args, confined};
use crate::commands::tune;
use crate::system::mounts::KernelMount;
use crate::{diagnostics, images, interrupt, superblock};
use anyhow::Result;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use uext4::unstable::ondisk::{Incompat, STATE_CLEAN, STATE_ERROR, Superblock};
use uext4::unstable::to_stderr;
use uext4::unstable::{RepairPolicy, Tuning, UndoPlace, read_superblock};
use uext4::{CheckOptions, DeviceOptions, Errno};

pub use check::OPERATIONAL;

/// The exit code of a wrong command line.
const USAGE_CODE: u8 = 16;
/// The exit code after a signal.
const CANCELED: u8 = 32;

const USAGE: &str = "\
Usage: e2fsck [-panyrcdfktvDFV] [-b superblock] [-B blocksize]
\t\t[-l|-L bad_blocks_file] [-C fd] [-j external_journal]
\t\t[-E extended-options] [-z undo_file] device

Emergency help:
 -p                   Automatic repair (no questions)
 -n                   Make no changes to the filesystem
 -y                   Assume \"yes\" to all questions
 -f                   Force checking even if filesystem is marked clean
 -v                   Be verbose
 -b superblock        Use alternative superblock
 -B blocksize         Force blocksize of the alternative superblock
 -j external_journal  Set location of the external journal
 -z undo_file         Create an undo file
";

/// How faults are dealt with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// `-p`: what is safe is repaired.
    Preen,
    /// `-n`: nothing is.
    No,
    /// `-y`: everything is.
    Yes,
    /// Each is asked about.
    Ask,
}

/// What is checked, and how.
struct Job<'a> {
    program: &'a Program,
    image: &'a Path,
    mode: Mode,
    verbose: bool,
    undo: Option<&'a Path>,
}

pub fn run(program: &Program) -> Result<u8> {
    let words = program.read("panyrcC:B:dE:fvtFVb:I:j:P:l:L:N:Dkz:", USAGE, USAGE_CODE)?;
    if words.has('V') {
        return Ok(program.print_version("e2fsck"));
    }
    let [device] = words.operands.as_slice() else {
        return Err(exit(USAGE_CODE, USAGE));
    };
    let job = Job {
        program,
        image: Path::new(device),
        mode: mode(&words)?,
        verbose: words.has('v'),
        undo: words.value('z').map(Path::new),
    };
    if job.mode != Mode::Preen {
        to_stderr(format_args!("{}", program.version_of("e2fsck")));
    }
    if job.mode == Mode::Ask && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal())
    {
        return Err(exit(
            OPERATIONAL,
            "e2fsck: need terminal for interactive repairs",
        ));
    }
    take_places(&words)?;
    check_completion(&words)?;
    let only_journal = extended(&words)?;
    if words.has('D') && job.mode == Mode::No {
        return Err(exit(
            OPERATIONAL,
            "e2fsck: The -n and -D options are incompatible.",
        ));
    }
    if job.undo.is_some() && job.mode == Mode::No {
        return Err(exit(
            OPERATIONAL,
            "e2fsck: -z is for repairs; leave it out with -n",
        ));
    }
    let done = job.run(words.has('f'), only_journal);
    if let (Ok(1), Some(undo)) = (&done, job.undo) {
        writeln!(std::io::stdout(), "{}", undo::hint(job.image, undo))?;
    }
    done.map_err(|e| match e.is::<interrupt::Interrupted>() {
        true => exit(
            CANCELED,
            format!("{}: e2fsck canceled.", job.image.display()),
        ),
        false => e,
    })
}

fn mode(words: &Words) -> Result<Mode> {
    let modes = [
        (words.has('p') || words.has('a'), Mode::Preen),
        (words.has('n'), Mode::No),
        (words.has('y'), Mode::Yes),
    ];
    let mut given = modes
        .iter()
        .filter(|(given, _)| *given)
        .map(|(_, mode)| *mode);
    let mode = given.next().unwrap_or(Mode::Ask);
    match given.next() {
        Some(_) => Err(exit(
            OPERATIONAL,
            "e2fsck: Only one of the options -p/-a, -n or -y may be specified.",
        )),
        None => Ok(mode),
    }
}

/// Takes `-b` and `-j`, and refuses lists of bad blocks.
fn take_places(words: &Words) -> Result<()> {
    if words.has('c') || words.has('l') || words.has('L') {
        return Err(exit(
            OPERATIONAL,
            "e2fsck: bad blocks can't be searched or listed here; `badblocks DEVICE` tests a disk",
        ));
    }
    if let Some(text) = words.text('b') {
        match text.parse() {
            Ok(block) => superblock::set(block),
            Err(_) => return Err(not_a_number('b', &text)),
        }
    }
    if let Some(device) = words.value('j') {
        images::set_journal(device.into());
    }
    Ok(())
}

fn not_a_number(letter: char, text: &str) -> anyhow::Error {
    let why = format!("Invalid non-numeric argument to -{letter} (\"{text}\")");
    exit(1, why)
}

/// Checks that `-C` names a descriptor that is open. Nothing is written to it.
fn check_completion(words: &Words) -> Result<()> {
    let Some(text) = words.text('C') else {
        return Ok(());
    };
    let fd: i32 = text.parse().map_err(|_| not_a_number('C', &text))?;
    let fd = fd.unsigned_abs();
    let open = Path::new("/proc/self/fd").join(fd.to_string());
    if fd != 0 && open.symlink_metadata().is_err() {
        let why = format!(
            "Error validating file descriptor {fd}: Bad file descriptor\ne2fsck: Invalid completion information file descriptor"
        );
        return Err(exit(OPERATIONAL, why));
    }
    Ok(())
}

/// Reads `-E`; true if only the journal is recovered.
fn extended(words: &Words) -> Result<bool> {
    let mut only_journal = false;
    for word in words.list('E').unwrap_or_default().split(',') {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "ea_ver" if !matches!(value, "1" | "2") => {
                return Err(exit(1, "Invalid EA version."));
            }
            "journal_only" => only_journal = true,
            // How it is done, or what is done anyway.
            ""
            | "discard"
            | "nodiscard"
            | "fragcheck"
            | "fixes_only"
            | "readahead_kb"
            | "ea_ver"
            | "no_optimize_extents"
            | "optimize_extents"
            | "inode_count_fullmap" => {}
            "bmap2extent" | "unshare_blocks" | "check_encoding" => {
                return Err(exit(
                    USAGE_CODE,
                    format!("e2fsck: -E {name} can't be done here; leave it out"),
                ));
            }
            _ => return Err(exit(1, format!("Unknown extended option: {name}"))),
        }
    }
    Ok(only_journal)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Why a file system is checked that is not asked to be, if it is.
fn reason(sb: &Superblock) -> Option<String> {
    let raw = &sb.raw;
    let (state, mounts) = (raw.state.get(), raw.mnt_count.get());
    let max = raw.max_mnt_count.get().cast_signed();
    let checked = u64::from(raw.lastcheck_hi) << 32 | u64::from(raw.lastcheck.get());
    let since = now().saturating_sub(checked);
    let interval = u64::from(raw.checkinterval.get());
    if state & STATE_ERROR != 0 {
        return Some(" contains a file system with errors".to_owned());
    }
    if state & STATE_CLEAN == 0 {
        return Some(" was not cleanly unmounted".to_owned());
    }
    if max > 0 && mounts >= max.cast_unsigned() {
        return Some(format!(
            " has been mounted {mounts} times without being checked"
        ));
    }
    if interval > 0 && since >= interval {
        return Some(format!(
            " has gone {} days without being checked",
            since / 86_400
        ));
    }
    None
}

/// Prints both sizes if the device ends before the file system, which is damage of one that is marked clean too.
fn print_if_short(sb: &Superblock, device_bytes: u64) -> Result<bool> {
    let geometry = &sb.geometry;
    let there = device_bytes / u64::from(geometry.block_size);
    let is_short = there < geometry.blocks_count;
    if is_short {
        writeln!(
            std::io::stdout(),
            "The filesystem size (according to the superblock) is {} blocks\nThe physical size of the device is {there} blocks\nEither the superblock or the partition table is likely to be corrupt!",
            geometry.blocks_count
        )?;
    }
    Ok(is_short)
}

impl Job<'_> {
    fn run(&self, force: bool, only_journal: bool) -> Result<u8> {
        let found = match image::look_at(self.image) {
            Ok(opened) => Some(opened),
            Err(e) if e.code == image::BAD_MAGIC && superblock::asked_for().is_none() => None,
            Err(e) => {
                writeln!(std::io::stdout(), "Possibly non-existent device?")?;
                return Err(e.report(self.program, self.image, OPERATIONAL));
            }
        };
        let Some(image::Opened { device, mut sb }) = found else {
            return self.with_backup();
        };
        let device_bytes = device.len();
        drop(device);
        let mut name = text::name(&sb, self.image);
        self.check_use(&sb)?;
        if sb.incompat.contains(Incompat::RECOVER) {
            if self.mode == Mode::No {
                to_stderr(format_args!(
                    "Warning: skipping journal recovery because doing a read-only filesystem check."
                ));
            } else {
                writeln!(std::io::stdout(), "{name}: recovering journal")?;
                if let Err(e) = image::recover(self.image, &sb) {
                    // A check finds what is wrong with the journal, and a repair makes another.
                    to_stderr(format_args!("{name}: {}", diagnostics::one_line(&e)));
                    return self.check(&name);
                }
                sb = image::look_at(self.image)
                    .map_err(|e| e.report(self.program, self.image, OPERATIONAL))?
                    .sb;
                name = text::name(&sb, self.image);
            }
        }
        if only_journal {
            return Ok(0);
        }
        let is_short = print_if_short(&sb, device_bytes)?;
        let reason = reason(&sb);
        if !force && reason.is_none() && superblock::asked_for().is_none() && !is_short {
            writeln!(std::io::stdout(), "{}", text::clean(&name, &sb))?;
            return Ok(0);
        }
        if let Some(reason) = reason.filter(|_| !force) {
            writeln!(std::io::stdout(), "{name}{reason}, check forced.")?;
        }
        self.check(&name)
    }

    /// Refuses what is mounted or otherwise in use, unless nothing is written, or it is the root of the host that is read only and clean.
    fn check_use(&self, sb: &Superblock) -> Result<()> {
        let (name, mount) = (self.image.display(), KernelMount::of(self.image));
        if self.mode == Mode::No {
            if mount.is_some() {
                writeln!(std::io::stdout(), "Warning!  {name} is mounted.")?;
            }
            return Ok(());
        }
        let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
        let is_root = mount
            .as_ref()
            .is_some_and(|mount| mount.dir() == Path::new("/") && is_read_only(mount.options()));
        let is_clean = reason(sb).is_none() && !sb.incompat.contains(Incompat::RECOVER);
        if is_root && is_clean {
            return Ok(());
        }
        let why = match image::open(self.image, &DeviceOptions::read_write()) {
            Ok(_) if mount.is_none() => return Ok(()),
            Err(e) if e.errno() != Errno::EBUSY => {
                return Err(e.report(self.program, self.image, OPERATIONAL));
            }
            _ if mount.is_some() => "mounted",
            _ => "in use",
        };
        writeln!(std::io::stdout(), "{name} is {why}.")?;
        Err(exit(OPERATIONAL, "e2fsck: Cannot continue, aborting.\n\n"))
    }

    /// Checks an image whose superblock is damaged, if it has a backup.
    fn with_backup(&self) -> Result<u8> {
        let options = DeviceOptions::read_only().exclusive(false);
        if self.mode == Mode::Preen {
            return self.without_superblock();
        }
        writeln!(
            std::io::stdout(),
            "ext2fs_open2: Bad magic number in super-block\ne2fsck: Superblock invalid, trying backup blocks..."
        )?;
        match superblock::open(self.image, &options) {
            Ok(opened) if opened.is_damaged => {
                let sb = read_superblock(&*opened.device);
                let name = sb.map(|sb| text::name(&sb, self.image));
                drop(opened.device);
                self.check(&name.unwrap_or_else(|_| self.image.display().to_string()))
            }
            _ => self.without_superblock(),
        }
    }

    fn without_superblock(&self) -> Result<u8> {
        writeln!(std::io::stdout(), "{}", text::NO_SUPERBLOCK)?;
        let name = self.image.display();
        let why = format!("e2fsck: Bad magic number in super-block while trying to open {name}");
        Err(exit(OPERATIONAL, why))
    }

    fn choice(&self) -> Option<Choice> {
        match self.mode {
            Mode::No => None,
            Mode::Preen => Some(Choice::Without(RepairPolicy::Safe)),
            Mode::Yes => Some(Choice::Without(RepairPolicy::All)),
            Mode::Ask => Some(Choice::Ask),
        }
    }

    /// Checks all of it.
    fn check(&self, name: &str) -> Result<u8> {
        let args = Args::of(self.image, self.choice(), self.undo);
        let mut opened = interrupt::catch_after(|| confined::enter(&args))?;
        if let Some(e) = opened.failure(self.image) {
            return Err(e);
        }
        if self.mode != Mode::Preen {
            writeln!(std::io::stdout(), "{}", text::PASSES)?;
        }
        let Some(choice) = self.choice() else {
            let (report, superblock_is_damaged) = check::check(&args, self.image)?;
            return text::found(name, &report, superblock_is_damaged, self.verbose);
        };
        let (plan, code) = repair(&args, self.image, choice, opened.undo.as_ref())?;
        text::repaired(name, &plan, self.mode == Mode::Preen)?;
        if code == check::FAULTS {
            return text::unrepaired(name, &plan.after, self.mode == Mode::Preen);
        }
        self.note_check(opened.undo.as_ref())?;
        if code == check::repair::REPAIRED && self.mode != Mode::Preen {
            writeln!(
                std::io::stdout(),
                "\n{name}: ***** FILE SYSTEM WAS MODIFIED *****"
            )?;
        }
        text::summary(name, &plan.after, self.verbose)?;
        Ok(code)
    }

    /// Writes down when the image was checked.
    fn note_check(&self, undo: Option<&UndoPlace>) -> Result<()> {
        if undo.is_some() {
            // It keeps one change.
            return Ok(());
        }
        let tuning = Tuning {
            last_check: Some(now()),
            mount_count: Some(0),
            ..Tuning::default()
        };
        tune::change(self.image, &tuning, &CheckOptions::new(), None, true)?;
        Ok(())
    }
}

//! The command `uext4`: ext4 images made, read, written and checked.
//!
//! | module | holds |
//! | --- | --- |
//! | [`commands`] | a file for each command |
//! | [`location`], [`expand`], [`images`] | operands: `IMAGE:/path`, patterns in it, and the images that a command has open |
//! | [`mount_helper`] | the command lines of mount(8) and umount(8) |
//! | [`names`] | the programs of e2fsprogs, by their names |
//! | [`accounts`], [`acl`] | names of users and groups; access control lists |
//! | [`endpoint`] | one interface to the files of the host, of an image, and of a mounted image |
//! | [`internal_error`] | what happens on a panic |
//! | [`diagnostics`] | errors as one line that says what to do |
//! | [`failures`] | failures that do not end a command |
//! | [`interrupt`] | signals that end a command |
//! | [`probe`] | what a file or device holds already |
//! | [`system`] | what differs between Linux, macOS and Windows |
//! | [`device`], [`superblock`] | what an image is read from; images whose superblock is damaged |
//! | [`near_names`] | names that may have been meant |
//! | [`chattr_flags`] | flags as chattr(1) writes them |
//! | [`ask`], [`mode`], [`quoted`], [`timestamp`] | questions, permission bits, names for a shell, and times, as coreutils have them |
//! | [`bar`], [`show`], [`colors`], [`time_format`], [`size`], [`glob`] | output and input forms |
#![forbid(unsafe_code)]
// They panic where the output can not be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod accounts;
mod acl;
mod ask;
mod bar;
mod chattr_flags;
mod colors;
mod commands;
mod device;
mod diagnostics;
mod endpoint;
mod expand;
mod failures;
mod glob;
mod images;
mod internal_error;
mod interrupt;
mod location;
mod mode;
#[cfg(target_os = "linux")]
mod mount_helper;
mod names;
mod near_names;
mod probe;
mod quoted;
mod show;
mod size;
mod superblock;
mod system;
mod time_format;
mod timestamp;
mod undecrypted;

use clap::error::ErrorKind;
use clap::{Args, FromArgMatches, Parser};
use commands::Command;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use system::process::SIGPIPE;
use uext4::unstable::{Reporter, level_asked_for, printable, to_stderr};
use uext4_malloc as _;

/// Makes, reads, writes and checks ext4 images, without root and without a kernel driver.
///
/// A file in an image is named IMAGE:/path. Sizes take K, M, G and T.
///
/// IMAGE is a file or a block device, raw or qcow2. disk.img?partition=2 is a partition of it, by number or name. Backing
/// files of qcow2 are opened if they are in the directory of the image. nbd://HOST[:PORT]/EXPORT and
/// nbd+unix:///EXPORT?socket=PATH are what an NBD server has; nbds:// and nbds+unix:// the same with TLS, with
/// tls-certificates=DIR and tls-hostname=NAME. s3://BUCKET/PREFIX and rbd:POOL/NAME are images in S3 and Ceph, in builds with their clients.
/// file:NAME is a file whatever its name.
#[derive(Debug, Parser)]
#[command(
    name = "uext4",
    version,
    arg_required_else_help = true,
    args_override_self = true,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(after_help = "Example: uext4 mkfs disk.img --from rootfs && uext4 ls -l disk.img:/etc")]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

/// Options of all commands.
#[derive(Debug, clap::Args)]
struct Options {
    /// Where the journal is, of an image that has it on another device
    #[arg(long, global = true, value_name = "DEVICE", help_heading = GLOBAL)]
    journal: Option<PathBuf>,
    /// Read an encryption key of files (fscrypt) from FILE, its raw bytes: several times for several keys. DESCRIPTOR, 16 digits, is what policies of version 1 have for it, if it does not follow from the key. /dev/fd/N is a file descriptor
    #[arg(long, global = true, value_name = "[DESCRIPTOR:]FILE", action = clap::ArgAction::Append)]
    #[arg(help_heading = GLOBAL)]
    encryption_key: Vec<PathBuf>,
    /// Show how far the work is, also where standard error is not a terminal
    #[arg(long, global = true, overrides_with = "no_progress", help_heading = GLOBAL)]
    progress: bool,
    /// Do not show how far the work is
    #[arg(long, global = true, overrides_with = "progress", help_heading = GLOBAL)]
    no_progress: bool,
    /// Read an image with the backup of its superblock in this block, as e2fsck -b
    #[arg(long, global = true, value_name = "BLOCK", help_heading = GLOBAL)]
    superblock: Option<u64>,
    /// Take names as they are, with nothing in them a pattern: for lists of names
    #[arg(long, global = true, help_heading = GLOBAL)]
    no_glob: bool,
    /// Where the image begins in its file, such as that of a disk with partitions: 1M, or 2048s in sectors
    #[arg(long, global = true, value_name = "BYTES", value_parser = size::parse)]
    #[arg(help_heading = GLOBAL)]
    offset: Option<u64>,
    /// Open an image for writing though it is not known whether another host has it open (NBD): if one has, the image is destroyed
    #[arg(long, global = true, help_heading = GLOBAL)]
    exclusive_elsewhere: bool,
}

impl Options {
    /// Whether some are given that are for a process, not for a command.
    fn are_of_process(&self) -> bool {
        let is_given = [
            self.progress,
            self.no_progress,
            self.no_glob,
            self.exclusive_elsewhere,
        ];
        is_given.contains(&true)
            || self.journal.is_some()
            || self.superblock.is_some()
            || !self.encryption_key.is_empty()
            || self.offset.is_some()
    }
}

/// The heading of the options that every command has.
const GLOBAL: &str = "Options of all commands";

/// What a wrong command line exits with.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    internal_error::abort_on_panic();
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = names::run(&args) {
        return code;
    }
    let Cli { options, command } = parse(&arguments(args));
    if matches!(command, Command::Batch(_))
        && (options.journal.is_some()
            || !options.encryption_key.is_empty()
            || options.no_glob
            || options.exclusive_elsewhere)
    {
        let why = "--journal, --encryption-key, --no-glob and --exclusive-elsewhere are for each job: put them into the lines of the list";
        let why = diagnostics::Usage(why.to_owned());
        return ExitCode::from(end(&why.into(), USAGE));
    }
    if let Some(device) = options.journal {
        images::set_journal(device);
    }
    if let Err(why) = images::set_keys(&options.encryption_key) {
        return ExitCode::from(end(&why, USAGE));
    }
    bar::set_mode(match (options.progress, options.no_progress) {
        (true, _) => bar::Mode::Always,
        (_, true) => bar::Mode::Never,
        _ => bar::Mode::Auto,
    });
    for (is_given, option, of_mount) in [
        (options.superblock.is_some(), "--superblock", "ro,sb=BLOCK"),
        (options.offset.is_some(), "--offset", "offset=BYTES"),
    ] {
        if is_given && !command.opens_images() {
            let why =
                format!("{option} is for commands that open an image; mount has -o {of_mount}");
            let mut cli = commands::help::command();
            cli.error(ErrorKind::ArgumentConflict, why).exit();
        }
    }
    if let Some(block) = options.superblock {
        superblock::set(block);
    }
    if options.exclusive_elsewhere {
        images::set_exclusive_elsewhere();
    }
    if options.no_glob {
        expand::turn_off();
    }
    if let Some(bytes) = options.offset {
        device::set_offset(bytes);
    }
    let level = match level_asked_for() {
        Ok(level) => level.filter(|_| !command.is_server()),
        Err(why) => return ExitCode::from(end(&why.into(), USAGE)),
    };
    if let Some(level) = level {
        let reporter = Reporter::new(level, |_, line| {
            to_stderr(format_args!("uext4: {}", printable(&line)))
        });
        // Nothing else in this process installs one.
        let _ = reporter.install();
    }
    let code_of_failure = command.failure_code();
    match command.run() {
        Ok(code) if code != ExitCode::SUCCESS || !failures::any() => code,
        Ok(_) => ExitCode::from(code_of_failure),
        Err(e) => ExitCode::from(end(&e, code_of_failure)),
    }
}

/// The command line; exits where it is wrong. Only the command that it names is described to clap, unless there is something to say of others:
/// that takes a third of the time.
fn parse(arguments: &[OsString]) -> Cli {
    let named = arguments.get(1).and_then(|word| word.to_str());
    let matches = named
        .and_then(only)
        .and_then(|cli| cli.try_get_matches_from(arguments).ok());
    let matches = matches.unwrap_or_else(|| {
        let all = commands::help::command().try_get_matches_from(arguments);
        all.unwrap_or_else(|e| commands::help::exit(e))
    });
    Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit())
}

/// The command line of one command; `None` if no command has that name.
fn only(name: &str) -> Option<clap::Command> {
    let command = Command::described(name)?;
    let cli = clap::Command::new("uext4").args_override_self(true);
    let cli = cli.disable_help_subcommand(true);
    Some(Options::augment_args(cli).subcommand(command))
}

/// Reports what ended a command; what it exits with, where `failed` is for what has no code of its own.
fn end(e: &anyhow::Error, failed: u8) -> u8 {
    if diagnostics::is_closed_pipe(e) {
        // As a command that SIGPIPE ends.
        return 128 + SIGPIPE.unsigned_abs() as u8;
    }
    show::warn(diagnostics::one_line(e));
    if let Some(interrupted) = e.downcast_ref::<interrupt::Interrupted>() {
        return interrupted.exit_code();
    }
    match e.is::<diagnostics::Usage>() {
        true => USAGE,
        false => failed,
    }
}

/// The arguments, where mount(8)'s are `mount`'s.
#[cfg(target_os = "linux")]
fn arguments(args: Vec<OsString>) -> Vec<OsString> {
    mount_helper::arguments(&args, is_command).unwrap_or(args)
}

/// The arguments.
#[cfg(not(target_os = "linux"))]
fn arguments(args: Vec<OsString>) -> Vec<OsString> {
    args
}

/// Whether that is the name of a command.
#[cfg(target_os = "linux")]
fn is_command(name: &std::ffi::OsStr) -> bool {
    let cli = <Cli as clap::CommandFactory>::command();
    name == "help"
        || cli
            .get_subcommands()
            .any(|command| command.get_name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_can_be_described_alone() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            only(name).expect(name).debug_assert();
        }
    }
}

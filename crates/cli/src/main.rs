//! The command `uext4`: ext4 images made, read, written and checked.
//!
//! | module | holds |
//! | --- | --- |
//! | [`commands`] | a file for each command |
//! | [`location`], [`expand`], [`images`] | operands: `IMAGE:/path`, patterns in it, and the images that a command has open |
//! | [`mount_helper`] | the command lines of mount(8) and umount(8) |
//! | [`accounts`], [`acl`] | names of users and groups; access control lists |
//! | [`endpoint`] | one interface to the files of the host, of an image, and of a mounted image |
//! | [`internal_error`] | what happens on a panic |
//! | [`diagnostics`] | errors as one line that says what to do |
//! | [`failures`] | failures that do not end a command |
//! | [`interrupt`] | signals that end a command |
//! | [`probe`] | what a file or device holds already |
//! | [`superblock`] | images whose superblock is damaged |
//! | [`near_names`] | names that may have been meant |
//! | [`chattr_flags`] | flags as chattr(1) writes them |
//! | [`ask`], [`mode`], [`quoted`], [`timestamp`] | questions, permission bits, names for a shell, and times, as coreutils have them |
//! | [`bar`], [`show`], [`time_format`], [`size`], [`glob`] | output and input forms |
#![forbid(unsafe_code)]

mod accounts;
mod acl;
mod ask;
mod bar;
mod chattr_flags;
mod commands;
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
mod mount_helper;
mod near_names;
mod probe;
mod quoted;
mod show;
mod size;
mod superblock;
mod time_format;
mod timestamp;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use commands::Command;
use signal_hook::consts::SIGPIPE;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use uext4_mountd::Log;
use uext4_mountd::report::{self, Reporter};

/// Makes, reads, writes and checks ext4 images, without root and without a kernel driver.
///
/// A file in an image is named IMAGE:/path. Sizes take K, M, G and T.
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
    /// Where the journal is, of an image that has it on another device
    #[arg(long, global = true, value_name = "DEVICE")]
    journal: Option<PathBuf>,
    /// Show how far the work is, also where standard error is not a terminal
    #[arg(long, global = true, overrides_with = "no_progress")]
    progress: bool,
    /// Do not show how far the work is
    #[arg(long, global = true, overrides_with = "progress")]
    no_progress: bool,
    /// Read an image with the backup of its superblock in this block, as e2fsck -b
    #[arg(long, global = true, value_name = "BLOCK")]
    superblock: Option<u64>,
    #[command(subcommand)]
    command: Command,
}

/// What a wrong command line exits with.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    internal_error::abort_on_panic();
    let matches = commands::help::command().try_get_matches_from(arguments());
    let matches = matches.unwrap_or_else(|e| commands::help::exit(e));
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(e) => e.exit(),
    };
    if let Some(device) = cli.journal {
        images::set_journal(device);
    }
    bar::set_mode(match (cli.progress, cli.no_progress) {
        (true, _) => bar::Mode::Always,
        (_, true) => bar::Mode::Never,
        _ => bar::Mode::Auto,
    });
    let command = cli.command;
    if let Some(block) = cli.superblock {
        if !command.opens_images() {
            let why = "--superblock is for commands that read an image";
            let mut cli = commands::help::command();
            cli.error(ErrorKind::ArgumentConflict, why).exit();
        }
        superblock::set(block);
    }
    if let (Some(level), false) = (
        report::level_asked_for(),
        matches!(command, Command::Serve(_)),
    ) {
        let reporter = Reporter::new(level, |severity, line| Log::Terminal.say(severity, line));
        // Nothing else in this process installs one.
        let _ = reporter.install();
    }
    let code_of_failure = command.failure_code();
    match command.run() {
        Ok(code) if code != ExitCode::SUCCESS || !failures::any() => code,
        Ok(_) => ExitCode::from(code_of_failure),
        // As a command that SIGPIPE ends.
        Err(e) if diagnostics::is_closed_pipe(&e) => {
            ExitCode::from(128 + SIGPIPE.unsigned_abs() as u8)
        }
        Err(e) => {
            show::warn(diagnostics::one_line(&e));
            let interrupted = e.downcast_ref::<interrupt::Interrupted>();
            let code = match e.is::<diagnostics::Usage>() {
                true => USAGE,
                false => code_of_failure,
            };
            ExitCode::from(interrupted.map_or(code, |e| e.exit_code()))
        }
    }
}

/// The arguments, where mount(8)'s are `mount`'s.
fn arguments() -> Vec<OsString> {
    let args: Vec<OsString> = std::env::args_os().collect();
    mount_helper::arguments(&args, is_command).unwrap_or(args)
}

/// Whether that is the name of a command.
fn is_command(name: &OsStr) -> bool {
    let cli = Cli::command();
    name == "help"
        || cli
            .get_subcommands()
            .any(|command| command.get_name() == name)
}

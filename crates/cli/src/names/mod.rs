//! The established names: invoked as a program of e2fsprogs, by a link of that name, `uext4` acts as that program.
//!
//! A program reads its command line as the original does, calls what the commands of `uext4` call, and writes what scripts parse as the
//! original writes it. The manual pages of e2fsprogs 1.47 are the source of options, its programs' behaviour that of output and exit codes.
//!
//! | module | acts as |
//! | --- | --- |
//! | [`mke2fs`] | mke2fs, mkfs.ext2, mkfs.ext3, mkfs.ext4 |
//! | [`e2fsck`] | e2fsck, fsck.ext2, fsck.ext3, fsck.ext4 |
//! | [`resize2fs`], [`tune2fs`], [`e2label`] | the programs of those names |
//! | [`dumpe2fs`] | dumpe2fs |
//! | [`debugfs`], [`e2image`] | the programs of those names |
//! | [`chattr`], [`lsattr`] | chattr and lsattr, of files of the host and of images |
//! | [`filefrag`] | filefrag, of files of the host and of images |
//! | [`fuse2fs`] | fuse2fs |
//! | [`fields`] | the superblock as dumpe2fs and tune2fs -l list it |
//! | [`getopt`] | command lines |
//! | [`undo`] | changes that need an undo file |
//! | [`image`] | opening an image, with the messages of e2fsprogs |

mod chattr;
mod debugfs;
mod dumpe2fs;
mod e2fsck;
mod e2image;
mod e2label;
mod fields;
mod filefrag;
#[cfg(target_os = "linux")]
mod fuse2fs;
mod getopt;
mod image;
mod lsattr;
mod mke2fs;
mod resize2fs;
mod tune2fs;
mod undo;

use crate::system::process::SIGPIPE;
use crate::{diagnostics, interrupt};
use anyhow::Result;
use getopt::{BadOption, Words};
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use uext4::unstable::to_stderr;

/// The version of e2fsprogs whose options and output the programs have.
const OF_E2FSPROGS: &str = "1.47.0";

/// What a program does; returns the exit code.
type Run = fn(&Program) -> Result<u8>;

/// The names, what runs under each, and what it exits with when it fails.
const NAMES: &[(&str, Run, u8)] = &[
    ("mke2fs", mke2fs::run, 1),
    ("mkfs.ext2", mke2fs::run, 1),
    ("mkfs.ext3", mke2fs::run, 1),
    ("mkfs.ext4", mke2fs::run, 1),
    ("e2fsck", e2fsck::run, e2fsck::OPERATIONAL),
    ("fsck.ext2", e2fsck::run, e2fsck::OPERATIONAL),
    ("fsck.ext3", e2fsck::run, e2fsck::OPERATIONAL),
    ("fsck.ext4", e2fsck::run, e2fsck::OPERATIONAL),
    ("resize2fs", resize2fs::run, 1),
    ("tune2fs", tune2fs::run, 1),
    ("dumpe2fs", dumpe2fs::run, 1),
    ("e2label", e2label::run, 1),
    ("chattr", chattr::run, 1),
    ("lsattr", lsattr::run, 1),
    #[cfg(target_os = "linux")]
    ("fuse2fs", fuse2fs::run, 1),
    ("debugfs", debugfs::run, 1),
    ("e2image", e2image::run, 1),
    ("filefrag", filefrag::run, 1),
];

/// Runs as the program that the first argument names; `None` if it names none of e2fsprogs.
pub fn run(args: &[OsString]) -> Option<ExitCode> {
    let (first, words) = args.split_first()?;
    let called = Path::new(first).file_name()?.to_str()?;
    let called = called.strip_suffix(EXE_SUFFIX).unwrap_or(called);
    let (name, run, failed) = *NAMES.iter().find(|(name, ..)| *name == called)?;
    let words = words.to_vec();
    let program = Program { name, words };
    let code = run(&program).unwrap_or_else(|e| program.end(&e, failed));
    Some(ExitCode::from(code))
}

/// A program, as it was invoked.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub words: Vec<OsString>,
}

/// A failure that has been reported, or that has a code of its own.
#[derive(Debug)]
struct Exit {
    code: u8,
    message: Option<String>,
}

impl Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message.as_deref().unwrap_or("failed"))
    }
}

impl std::error::Error for Exit {}

/// A failure with an exit code, whose message is written to standard error as it is.
fn exit(code: u8, message: impl Into<String>) -> anyhow::Error {
    let message = Some(message.into());
    Exit { code, message }.into()
}

/// A failure that has been reported.
fn reported(code: u8) -> anyhow::Error {
    let message = None;
    Exit { code, message }.into()
}

impl Program {
    /// `mke2fs 1.47.0 (uext4 1.0.0)`: scripts compare the number behind the name.
    pub fn version(&self) -> String {
        self.version_of(self.name)
    }

    /// The same under the name that the original gives in it.
    pub fn version_of(&self, name: &str) -> String {
        let ours = env!("CARGO_PKG_VERSION");
        format!("{name} {OF_E2FSPROGS} (uext4 {ours})")
    }

    /// What `-V` prints to standard error.
    pub fn print_version(&self, name: &str) -> u8 {
        to_stderr(format_args!("{}", self.version_of(name)));
        to_stderr(format_args!(
            "\tUsing EXT2FS Library version {OF_E2FSPROGS} (uext4)"
        ));
        0
    }

    /// Reads the arguments; a wrong one is reported, with `usage` behind it, and exits with `code`.
    ///
    /// # Errors
    /// A wrong argument.
    pub fn read(&self, letters: &str, usage: &str, code: u8) -> Result<Words> {
        Words::read(&self.words, letters).map_err(|BadOption(why)| {
            to_stderr(format_args!("{}: {why}", self.name));
            exit(code, usage)
        })
    }

    /// Says something on standard error.
    pub fn warn(&self, what: impl Display) {
        to_stderr(format_args!("{}: {what}", self.name));
    }

    /// Reports what ended the program; what it exits with, where `failed` is for what has no code of its own.
    fn end(&self, e: &anyhow::Error, failed: u8) -> u8 {
        if diagnostics::is_closed_pipe(e) {
            return 128 + SIGPIPE.unsigned_abs() as u8;
        }
        match e.downcast_ref::<Exit>() {
            Some(Exit { code, message }) => {
                if let Some(message) = message {
                    to_stderr(format_args!("{message}"));
                }
                *code
            }
            None => {
                self.warn(diagnostics::one_line(e));
                let interrupted = e.downcast_ref::<interrupt::Interrupted>();
                interrupted.map_or(failed, |interrupted| interrupted.exit_code())
            }
        }
    }
}

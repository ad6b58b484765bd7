//! A process that creates, stats and unlinks files of its own, on commands from its input.
//!
//! It says `ready`, and then for each phase that it reads when it began and ended, in nanoseconds of the
//! monotonic clock, which all processes share.

use super::process::READY;
use crate::variants::Named;
use anyhow::Context as _;
use clap::Args;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, openat, statat, unlinkat};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead as _, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The files of a client.
#[derive(Clone, Debug, Args)]
pub struct ClientArgs {
    /// The directory that the files are in
    pub dir: PathBuf,
    /// How many
    #[arg(long)]
    pub files: u64,
}

/// What all clients do at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// openat(2) with O_CREAT and O_EXCL, and close(2).
    Create,
    /// fstatat(2).
    Stat,
    /// unlinkat(2).
    Remove,
}

impl Named for Phase {
    const NAMES: &'static [(Phase, &'static str)] = &[
        (Phase::Create, "create"),
        (Phase::Stat, "stat"),
        (Phase::Remove, "remove"),
    ];
}

/// Does phases until its input ends.
pub fn run(args: &ClientArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(CWD, &args.dir, how, Mode::empty())
        .with_context(|| args.dir.display().to_string())?;
    writeln!(out, "{READY}")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let phase = Phase::named(&line?).map_err(anyhow::Error::msg)?;
        let began = now_ns();
        each_file(&dir, args.files, phase)
            .with_context(|| format!("{} in {}", phase.name(), args.dir.display()))?;
        fsync(&dir)?;
        writeln!(out, "{began} {}", now_ns())?;
        out.flush()?;
    }
    Ok(())
}

fn each_file(dir: &OwnedFd, files: u64, phase: Phase) -> anyhow::Result<()> {
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    for number in 0..files {
        let name = format!("file.{number}");
        match phase {
            Phase::Create => drop(openat(dir, &name, how, Mode::from(0o644))?),
            Phase::Stat => drop(statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?),
            Phase::Remove => unlinkat(dir, &name, AtFlags::empty())?,
        }
    }
    Ok(())
}

/// The monotonic clock, which all processes share, in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

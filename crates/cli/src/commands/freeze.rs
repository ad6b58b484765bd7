//! `uext4 freeze`, `uext4 thaw`.

use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};
use uext4_mountd::freeze::{FreezeError, freeze, thaw};
use uext4_mountd::second_mount;

/// Freeze a mounted image, so that its file can be copied
///
/// Everything written before is in the file, which is as clean as after an unmount. Reads continue, changes wait until
/// `uext4 thaw`. It stays frozen when this command ends; an unmount thaws it.
///
/// A mount over io_uring can't be frozen: where /sys/module/fuse/parameters/enable_uring is Y, mount with -o transport=dev. A copy of an
/// image with mmp says that this host has it open: the first open for writing waits 22 s.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 freeze /mnt && { cp disk.img backup.img; uext4 thaw /mnt; }\n  \
    uext4 freeze /mnt && { cp disk.img b.img; rc=$?; uext4 thaw /mnt; exit $rc; }")]
pub struct Args {
    /// A directory, or an image that is mounted
    #[arg(value_name = "DIR|IMAGE")]
    target: PathBuf,
}

/// Let the changes of a frozen mount continue
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 thaw /mnt")]
pub struct ThawArgs {
    /// A directory, or an image that is mounted
    #[arg(value_name = "DIR|IMAGE")]
    target: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    on_mount(&args.target, freeze)
}

pub fn run_thaw(args: &ThawArgs) -> Result<()> {
    on_mount(&args.target, thaw)
}

fn on_mount(target: &Path, work: fn(&Path) -> Result<(), FreezeError>) -> Result<()> {
    let dir = match target.is_dir() {
        true => target.to_owned(),
        false => second_mount::named(target).unwrap_or_else(|| target.to_owned()),
    };
    work(&dir).map_err(|e| anyhow!("{}: {e}", target.display()))
}

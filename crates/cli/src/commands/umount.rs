//! `uext4 umount`.

use crate::{failures, show};
use anyhow::Result;
use std::path::{Path, PathBuf};
use uext4_mountd::mountinfo::{self, MountEntry};
use uext4_mountd::second_mount;

/// Unmount directories or images, and wait until they are closed
///
/// Then the image may be copied, checked, or mounted again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uext4 umount /mnt\n  uext4 umount disk.img        wherever it is mounted"
)]
pub struct Args {
    /// Also while files are open: the directory is empty at once, the image is closed after the last of them
    #[arg(short, long)]
    lazy: bool,
    /// A directory, or an image that is mounted
    #[arg(required = true, value_name = "DIR|IMAGE")]
    targets: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    for target in &args.targets {
        unmount_all(target, args.lazy).or_else(failures::report)?;
    }
    Ok(())
}

/// Unmounts a directory, or an image from every directory that it is mounted on.
fn unmount_all(target: &Path, lazy: bool) -> Result<()> {
    // A directory is not looked up: its server may hang.
    let is_directory = mountinfo::absolute(target)
        .is_ok_and(|dir| MountEntry::at(&dir).is_ok_and(|entry| entry.is_some()));
    let mut mounted = second_mount::named(target).filter(|_| !is_directory);
    if mounted.is_none() {
        return unmount(target, lazy);
    }
    while let Some(dir) = mounted {
        unmount(&dir, lazy)?;
        let before = dir;
        // Where a mount lies over another one, its directory is found again.
        mounted = second_mount::named(target).filter(|dir| !lazy || *dir != before);
    }
    Ok(())
}

fn unmount(path: &Path, lazy: bool) -> Result<()> {
    let dir = path.display();
    let ended = uext4_mountd::shutdown::shut_down(path, lazy);
    let ended = ended.map_err(|e| anyhow::anyhow!("{dir}: {e}"))?;
    if let Some(elsewhere) = &ended.elsewhere {
        let (source, elsewhere) = (ended.source.display(), elsewhere.display());
        show::warn(format_args!(
            "{dir}: unmounted; {source} stays open, as it is mounted on {elsewhere} too"
        ));
    } else if ended.was_dead {
        show::warn(format_args!(
            "{dir}: unmounted; its server was gone, and the next mount of {} recovers it",
            ended.source.display()
        ));
    } else if !ended.closed && !lazy {
        show::warn(format_args!(
            "{dir}: unmounted; its server did not identify itself, so it may still be closing {}",
            ended.source.display()
        ));
    }
    Ok(())
}

//! `uext4 umount`.

use crate::show;
use anyhow::Result;
use std::path::PathBuf;

/// Unmount a directory, and wait until the image is closed: then it may be copied, checked, or mounted again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 umount /mnt")]
pub struct Args {
    /// Also while files are open: the directory is empty at once, the image is closed after the last of them
    #[arg(short, long)]
    lazy: bool,
    /// The directory
    dir: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let dir = args.dir.display();
    let ended = uext4_mountd::shutdown::shut_down(&args.dir, args.lazy);
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
    } else if !ended.closed && !args.lazy {
        show::warn(format_args!(
            "{dir}: unmounted; its server did not identify itself, so it may still be closing {}",
            ended.source.display()
        ));
    }
    Ok(())
}

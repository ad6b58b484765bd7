//! The servers that `fuse` and `mq --mounted` measure, as `uext4 mount -f` and `uext4 mqueue mount -f` run them.

use anyhow::Context as _;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use uext4_mountd::process::{monitor, server};
use uext4_mountd::{Log, MountRequest, Source, WirePath};

/// What is mounted, and where.
#[derive(Clone, Debug, Args)]
pub struct MountArgs {
    /// Mount options, a comma list
    #[arg(short = 'o')]
    options: String,
    /// The image; without one, a new namespace of message queues
    #[arg(long)]
    image: Option<PathBuf>,
    /// The mount point
    dir: PathBuf,
}

/// The command that serves `image` (or message queues) at `dir` until it is unmounted.
pub fn command(image: Option<&Path>, dir: &Path, options: &str) -> Command {
    let mut command = this_program();
    command.args(["mount", "-o", options]).stdin(Stdio::null());
    if let Some(image) = image {
        command.arg("--image").arg(image);
    }
    command.arg(dir);
    command
}

/// This program, even if its file has been replaced.
pub fn this_program() -> Command {
    Command::new("/proc/self/exe")
}

/// Mounts, and serves until it is unmounted.
pub fn run(args: &MountArgs) -> anyhow::Result<()> {
    let absolute = |path: &Path| {
        let found = path.canonicalize();
        found.with_context(|| path.display().to_string())
    };
    let source = match &args.image {
        Some(image) => Source::Image(WirePath(absolute(image)?)),
        None => Source::Queues,
    };
    let request = MountRequest {
        source,
        dir: WirePath(absolute(&args.dir)?),
        options: vec![args.options.clone()],
        journal: None,
        sandbox: true,
        lock_stat: false,
        metrics: None,
        keys: Vec::new(),
        replaces: false,
    };
    let served = monitor::run(&request, &Log::Terminal, None, |_warnings| Ok(()));
    served.map_err(|e| anyhow::anyhow!("{e}"))
}

/// The process that `run` starts to serve the mount.
pub fn serve() -> anyhow::Result<()> {
    server::run().map_err(|e| anyhow::anyhow!("{e}"))
}

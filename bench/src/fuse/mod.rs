//! fuse: workloads through a mounted directory, ours beside fuse2fs, the kernel's ext4 and a server that
//! keeps nothing but names.
//!
//! | module | holds |
//! | --- | --- |
//! | `workload` | which workloads there are |
//! | `target` | the targets, and what each needs of the machine |
//! | `scratch`, `location`, `mount` | the image of a turn, mounted, unmounted and checked |
//! | `null` | a server that keeps names and nothing else |
//! | `create`, `client`, `process` | processes that create, stat and unlink files |
//! | `randrw`, `seq` | random and sequential I/O of one file |
//! | `tar` | a tree unpacked and removed |
//! | `rounds`, `interrupt` | turns of the targets, until the user wants no more |
//! | `print` | tables |
//!
//! # Invariants
//! Every turn has an image of its own, made by mke2fs the same way, and ends with `e2fsck -fn`. What a
//! figure counts is durable when its time ends, for all of them alike: files and directories are fsynced
//! inside the time, a tree is unmounted inside it.

pub mod client;
mod create;
pub(crate) mod interrupt;
pub(crate) mod location;
pub(crate) mod mount;
pub mod null;
mod print;
pub(crate) mod process;
mod randrw;
mod rounds;
pub(crate) mod scratch;
mod seq;
mod tar;
mod target;
mod workload;

use crate::device::parse_size;
use crate::report::{Document, Row};
use crate::variants::{
    VariantList, parse_items, parse_names, parse_rounds, parse_run_time, parse_some_names,
    parse_threads,
};
use anyhow::ensure;
use clap::Args;
use rounds::Rounds;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use target::{Peer, Target, Transport};
use workload::Workload;

/// The workload, its targets, and its size.
#[derive(Clone, Debug, Args)]
pub struct FuseArgs {
    /// What is done: create, randrw, seq, tar, or all
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = parse_some_names::<Workload>)]
    pub workload: VariantList<Workload>,
    /// How the kernel reaches our mounts: dev, uring, all or none (which leaves the peers)
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = parse_names::<Transport>)]
    pub transport: VariantList<Transport>,
    /// Mounts ours with these options too; given several times, each makes a target of its own, and an
    /// empty one is the plain mount
    #[arg(short = 'o', long, value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// What to measure beside ours: fuse2fs, kernel, null (no file system: what FUSE itself costs; it only
    /// creates), all or none
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = parse_names::<Peer>)]
    pub peer: VariantList<Peer>,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 3, value_parser = parse_rounds)]
    pub iterations: usize,
    /// create: processes, each in a directory of its own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_threads)]
    pub clients: usize,
    /// create: files of each process
    #[arg(long, value_name = "N", default_value = "8000", value_parser = parse_items)]
    pub files: u64,
    /// randrw: threads; a comma list runs each count
    #[arg(long, default_value = "1,4,24", value_delimiter = ',', value_parser = parse_threads)]
    pub threads: Vec<usize>,
    /// randrw: seconds for each count of threads
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_run_time)]
    pub time: Duration,
    /// randrw: the file, in whole MiB
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_mebibytes)]
    pub size: u64,
    /// seq: the file, in whole MiB
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_mebibytes)]
    pub seq_size: u64,
    /// tar: files of the tree
    #[arg(long, value_name = "N", default_value = "50000", value_parser = parse_items)]
    pub tar_files: u64,
    /// The image of each turn
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = parse_size)]
    pub image_size: u64,
    /// Where images and mounts are, for the time of the run
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Prints one JSON document
    #[arg(long)]
    pub json: bool,
}

fn parse_mebibytes(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => Ok(bytes),
        _ => Err(format!("`{text}` is not a whole number of MiB")),
    }
}

/// A target's figures of one operation.
#[derive(Debug, Serialize)]
struct FuseRow {
    #[serde(flatten)]
    row: Row,
    /// The workload that the operation is part of.
    workload: &'static str,
}

/// Runs the workloads for each target that the machine has, and prints.
pub fn run(args: &FuseArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let targets = target::all(args);
    ensure!(
        !targets.is_empty(),
        "no target is left to measure: see --transport and --peer"
    );
    let rows = Rounds::new(args, &targets)?.run()?;
    if args.json {
        return Document::new("fuse", rows).print_json(out);
    }
    let peers: Vec<String> = targets
        .iter()
        .filter(|target| !matches!(target, Target::Ours { .. }))
        .map(Target::name)
        .collect();
    Ok(print::print(args, &peers, &rows, out)?)
}

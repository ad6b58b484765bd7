//! fsync: each thread appends 4 KiB to a file of its own and fsyncs it, on a real disk; a kernel file
//! system on the same disk takes turns with it.

use crate::histogram::Histogram;
use crate::host_dir::{HostTree, PeerArgs};
use crate::mounted_image::MountedImage;
use crate::report::{Document, Row, print_compared};
use crate::rounds::{Rounds, Turn, Workload};
use crate::sample::{Sample, Work};
use crate::setup::{Need, SetupArgs};
use crate::tables::{count, table};
use crate::tree::{FILE, Tree};
use crate::variants::{parse_rounds, parse_run_time, parse_threads};
use crate::workers;
use anyhow::Context as _;
use clap::Args;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};
use uext4::Filesystem;
use uext4_ext4::InodeRef;
use uext4_vfs::caller::Caller;
use uext4_vfs::filesystem::FileSystem;

const APPEND: [u8; 4096] = [0x55; 4096];

/// The counts of threads, the peer, and the image and variants.
#[derive(Clone, Debug, Args)]
pub struct FsyncArgs {
    /// Threads; a comma list runs each count
    #[arg(long, default_value = "1,2,4,8,16,32,48", value_delimiter = ',', value_parser = parse_threads)]
    pub threads: Vec<usize>,
    /// Seconds for each variant, count and round
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_run_time)]
    pub time: Duration,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 3, value_parser = parse_rounds)]
    pub iterations: usize,
    /// The peer.
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The image, the variants and the output.
    #[command(flatten)]
    pub setup: SetupArgs,
}

struct Job<'a> {
    args: &'a FsyncArgs,
    /// How many variants precede the peers.
    variants: usize,
}

fn file_name(thread: usize) -> String {
    format!("fsync.{thread}")
}

/// Runs `append` in each thread until the time is over.
fn append_for(
    threads: usize,
    time: Duration,
    append: impl Fn(usize) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Work> {
    let done = workers::run(threads, Some(time), |thread, stop| {
        let mut latency = Histogram::default();
        loop {
            let since = Instant::now();
            append(thread)?;
            latency.record(since.elapsed().as_nanos() as u64);
            if !stop.is_running() {
                return Ok((latency.count(), latency));
            }
        }
    })?;
    Ok(done.into())
}

impl Workload for Job<'_> {
    type State = Tree;

    fn prepare(&self, fs: &Filesystem) -> anyhow::Result<Tree> {
        Tree::make(fs, "fsync", vec!["files".to_owned()])
    }

    fn run(
        &mut self,
        turn: Turn,
        counted: bool,
        image: &MountedImage,
        tree: &Tree,
    ) -> anyhow::Result<Vec<Sample>> {
        let fs = image.engine();
        let (threads, time) = (self.args.threads[turn.case], self.args.time);
        let root = Caller::root();
        let dir = tree.dir(0);
        let nodes: Vec<InodeRef> = (0..threads)
            .map(|i| FileSystem::create(&**fs, &root, dir, file_name(i).as_bytes(), &FILE))
            .collect::<Result<_, _>>()?;
        FileSystem::syncfs(&**fs)?;
        let sample = Sample::take(Some(fs), counted, || {
            append_for(threads, time, |thread| {
                FileSystem::append(&**fs, &nodes[thread], &APPEND)?;
                Ok(FileSystem::fsync(&**fs, &nodes[thread], false)?)
            })
        })?;
        drop(nodes);
        for i in 0..threads {
            FileSystem::unlink(&**fs, &root, dir, file_name(i).as_bytes())?;
        }
        FileSystem::syncfs(&**fs)?;
        Ok(vec![sample])
    }

    fn run_peer(&mut self, turn: Turn) -> anyhow::Result<Vec<Sample>> {
        let Some(peer) = self.args.peer.all.get(turn.series - self.variants) else {
            return Ok(Vec::new());
        };
        let tree = HostTree::make(&peer.dir, "fsync", vec!["files".to_owned()])?;
        let (threads, time) = (self.args.threads[turn.case], self.args.time);
        let sample = peer_sample(&tree, threads, time)?;
        tree.remove()?;
        Ok(vec![sample])
    }

    fn clean(&self, fs: &Filesystem, tree: Tree) -> anyhow::Result<()> {
        tree.remove(fs)
    }
}

fn peer_sample(tree: &HostTree, threads: usize, time: Duration) -> anyhow::Result<Sample> {
    let path = |i| tree.path(0).join(file_name(i));
    let make = |i| File::create_new(path(i)).with_context(|| path(i).display().to_string());
    let files: Vec<File> = (0..threads).map(make).collect::<Result<_, _>>()?;
    for file in &files {
        file.sync_all()?;
    }
    Sample::take(None, false, || {
        append_for(threads, time, |thread| {
            let mut file = &files[thread];
            file.write_all(&APPEND)?;
            Ok(file.sync_all()?)
        })
    })
}

/// Runs fsync for each count of threads, and prints.
pub fn run(args: &FsyncArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let variants = args.setup.variants();
    let names = args.peer.names(&variants);
    let grid = Rounds {
        setup: &args.setup,
        variants: &variants,
        image: args.setup.image(Need {
            inodes: 4096,
            data_bytes: 2 << 30,
        })?,
        iterations: args.iterations,
        cases: args.threads.len(),
        ops: 1,
        anew: false,
        peers: &args.peer.all_series(),
        label: &|case| format!("{} threads", args.threads[case]),
    }
    .run(&mut Job {
        args,
        variants: variants.len(),
    })?;
    let rows = grid.rows(&names, "fsync", &args.threads);
    if args.setup.json {
        return Document::new("fsync", rows).print_json(out);
    }
    print(args, &names, &rows, out)
}

fn print(
    args: &FsyncArgs,
    names: &[String],
    rows: &[Row],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
    writeln!(
        out,
        "appends of 4 KiB with fsync per second, {rounds} rounds of {time} s"
    )?;
    print_compared("threads", names, rows, &args.threads, out)?;
    let mut lines = Vec::new();
    for &threads in &args.threads {
        for row in rows.iter().filter(|row| row.threads == threads) {
            let us = row.latency_us;
            lines.push([
                threads.to_string(),
                row.variant.clone(),
                us.map_or_else(String::new, |l| count(l.p50)),
                us.map_or_else(String::new, |l| count(l.p99)),
                us.map_or_else(String::new, |l| count(l.max)),
                row.journal
                    .map_or_else(String::new, |j| count(j.commits as f64)),
            ]);
        }
    }
    let header = "threads|arm|p50 us|p99 us|max us|commits";
    writeln!(out, "{}\n", table(header, lines))?;
    for row in rows {
        row.print_tables(out)?;
    }
    Ok(())
}

//! The workloads that measure uext4, as docs/BENCHMARKS.md describes them.
//!
//! Every run ends with a check of its image: a fast run that leaves a bad image is a failure. Variants are
//! interleaved (`rounds`), each on an image of its own.
//!
//! | module | holds |
//! | --- | --- |
//! | `mdtest` | creating, statting, reading and removing files from many workers |
//! | `create_unlink` | creating and unlinking one file in a loop |
//! | `fsync` | appending and fsyncing, beside a kernel file system |
//! | `fxmark` | nineteen operations, each on what is private to a worker and on what is shared |
//! | `generation` | drawing stamps, and how often they repeat |
//! | `randrw` | random direct reads and writes of one file |
//! | `lazytime` | writing inodes whose neighbours have pending timestamps |
//! | `age` | an image that is filled and emptied for hours |
//! | `icache_shrink` | reading while the inode cache shrinks |
//! | `clone` | creating and dropping IPC namespaces, many being alive |
//! | `mq` | messages through queues |
//! | `fuse` | files through a mounted directory, beside other ext4 drivers |
//! | `conflicts` | which cache lines two calls share |
//! | `transfers` | how many cache lines move between CPUs, under a seeded scheduler |
//! | `all` | all of them, and one page that shows them |
//! | `compare` | two results, row by row |
//! | `variants`, `setup` | the variants of a run; the options that all workloads share |
//! | `device`, `mounted_image`, `tree` | images, mounts, and directories in them |
//! | `quiet_image` | images of what is counted on virtual CPUs |
//! | `host_dir`, `location` | directories of the host, and what is done in those and in ours alike |
//! | `peer` | what the kernel does of the same |
//! | `rounds`, `workers` | turns of the variants; threads that start together |
//! | `in_directories` | turns of workers that each have a directory, beside a peer |
//! | `sample`, `grid`, `histogram`, `spread`, `memory` | what is measured |
//! | `report`, `locks`, `stages`, `tables`, `host`, `progress` | what is printed |
// fork(2), in `conflicts`; clone(2), a peer; the allocator of `transfers`.
#![deny(unsafe_code)]

mod age;
mod aligned;
mod all;
pub mod chart;
mod clone;
mod compare;
mod conflicts;
mod create_unlink;
mod device;
mod fsync;
mod fuse;
mod fxmark;
mod generation;
mod grid;
mod histogram;
mod host;
mod host_dir;
mod icache_shrink;
mod in_directories;
mod lazytime;
mod location;
mod locks;
mod mdtest;
mod memory;
mod mount;
mod mounted_image;
mod mq;
mod peer;
mod progress;
#[cfg(virtual_cpus)]
mod quiet_image;
mod randrw;
mod report;
mod rounds;
mod sample;
mod setup;
mod spread;
mod stages;
mod tables;
mod transfers;
mod tree;
mod variants;
mod workers;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;

/// Measures uext4: each workload prints tables, or with --json one document.
///
/// Variants given as comma lists are interleaved, each on an image of its own, which is checked at the end.
#[derive(Debug, Parser)]
#[command(name = "uext4 bench", bin_name = "uext4 bench", max_term_width = 100)]
#[command(
    after_help = "Example: uext4 bench create-unlink --generation spinlock,beyond --lock-stat"
)]
struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Creates, stats, reads and removes files from many workers, each phase ending with a sync
    #[command(
        after_help = "Example: uext4 bench mdtest --np 48 -n 30000 -F -C -r -u -i 3 \
                            --ialloc all --lock-stat\n\
                            Example: uext4 bench mdtest --device file:/dev/shm/u.img --peer /mnt/ext4-on-tmpfs"
    )]
    Mdtest(mdtest::MdtestArgs),
    /// Creates and unlinks one file in a directory for each task, in a loop
    #[command(
        after_help = "Example: uext4 bench create-unlink --generation all --tasks 2,128 --time 1 -i 9\n\
                            Example: uext4 bench create-unlink --icache all --lazytime off,on --tasks 32\n\
                            Example: uext4 bench create-unlink --tasks 1,32 --peer /mnt/ext4-on-tmpfs"
    )]
    CreateUnlink(create_unlink::CreateUnlinkArgs),
    /// Appends 4 KiB and fsyncs, a file for each thread; give it a file on a real disk
    #[command(
        after_help = "Example: uext4 bench fsync --device file:/var/tmp/u.img --peer /mnt/ext4-on-that-disk"
    )]
    Fsync(fsync::FsyncArgs),
    /// FxMark's nineteen workloads: reads, writes, opens, listings and changes of names, each of what is a task's own and of what is shared
    #[command(
        after_help = "Example: uext4 bench fxmark --tasks 1,2 --peer /mnt/ext4-on-tmpfs\n\
                            Example: uext4 bench fxmark --tasks 2 --peer kernel=/mnt/k,fuse2fs=/mnt/f,mounted=/mnt/u\n\
                            Example: uext4 bench fxmark --only MWCM,MWUM --tasks 2,48 --lock-stat\n\
                            Example: uext4 bench fxmark --only FALLOCATE2 --balloc all --tasks 1,2,48 --image-size 64G"
    )]
    Fxmark(fxmark::FxmarkArgs),
    /// Random direct reads and writes of one file, from many threads
    #[command(
        after_help = "Example: uext4 bench randrw --device-latency 80us --dio-lock all --dioread-nolock on,off\n\
                            Example: uext4 bench randrw --device file:/dev/shm/u.img --bs 4K --numjobs 24 --runtime 5"
    )]
    Randrw(randrw::RandrwArgs),
    /// How fast inode generations are drawn, and how often they repeat
    #[command(
        after_help = "Example: uext4 bench generation --generation random,beyond --widths 8 --reuses 2^30"
    )]
    Generation(generation::GenerationArgs),
    /// Writes inodes whose neighbours in the inode table have pending timestamps, and then again, when none has
    #[command(after_help = "Example: uext4 bench lazytime --icache all --tasks 2,32 --lock-stat")]
    Lazytime(lazytime::LazytimeArgs),
    /// What a reader notices while the inode cache shrinks to its limit
    #[command(after_help = "Example: uext4 bench icache-shrink --items 1440000 --inodes-max 16384")]
    IcacheShrink(icache_shrink::IcacheShrinkArgs),
    /// Fills, ages and empties an image, round after round, with e2fsck after each
    #[command(
        after_help = "Example: uext4 bench age --seconds 3600 --results age.jsonl --charts charts"
    )]
    Age(age::AgeArgs),
    /// Creates and drops IPC namespaces of message queues, while a number of them is alive
    #[command(
        after_help = "Example: uext4 bench clone --live 10,1000,100000 --mqueue-super nodev,beyond --lock-stat\n\
                            Example: uext4 bench clone --workers 1 --live 1 --peer kernel"
    )]
    Clone(clone::CloneArgs),
    /// Sends messages through queues, from thread to thread, or from process to process
    #[command(
        after_help = "Example: uext4 bench mq --op stream,ping-pong --queues 1,32 --peer kernel\n\
                            Example: uext4 bench mq --mounted --queues 1,4 --peer kernel"
    )]
    Mq(mq::MqArgs),
    /// A process of `mq --mounted`, which starts it
    #[command(hide = true)]
    MqClient(mq::processes::client::ClientArgs),
    /// Files through a mounted directory: ours, fuse2fs and the kernel's ext4 in turn
    #[command(
        after_help = "Example: uext4 bench fuse --workload create --transport dev --peer fuse2fs,kernel\n\
                            Example: uext4 bench fuse --workload seq -o '' -o writeback --peer none"
    )]
    Fuse(fuse::FuseArgs),
    /// Every workload with every variant, beside the peers that this machine has, as one page with charts
    #[command(after_help = "Example: uext4 bench all --report report --quick\n\
                            Example: uext4 bench all --report report --only mdtest,randrw\n\
                            Peers of the kernel's ext4 need root and loop devices; what is not here is left out, and the page says so.")]
    All(all::AllArgs),
    /// What became faster or slower from one result to another, and what is within their spread
    #[command(
        after_help = "Example: uext4 bench compare A.json B.json, with what uext4 bench mdtest --json printed"
    )]
    Compare(compare::CompareArgs),
    /// Which cache lines two calls on two CPUs share, of up to 1,024 CPUs, by the code that ships
    #[command(
        after_help = "Example: make conflicts, then target/conflicts/conflicts/uext4-bench conflicts --ialloc all\n\
                            Example: uext4-bench conflicts --only Create --pairs"
    )]
    Conflicts(conflicts::ConflictsArgs),
    /// How many cache lines move, locks are taken and claims are retried on up to 1,023 CPUs, by the code that ships
    #[command(
        after_help = "Example: make transfers, then target/transfers/conflicts/uext4-bench transfers --ialloc all --cpus 1,48\n\
                            Example: uext4-bench transfers --workload mdtest --ialloc all --cpus 48 -n 30000"
    )]
    Transfers(transfers::TransfersArgs),
    /// A process of `fuse`, which starts it
    #[command(hide = true)]
    FuseClient(fuse::client::ClientArgs),
    /// A server that keeps names in memory and nothing else, which `fuse` measures
    #[command(hide = true)]
    NullMount(fuse::null::NullArgs),
    /// A mount of ours that `fuse` and `mq --mounted` measure
    #[command(hide = true)]
    Mount(mount::MountArgs),
    /// The process that serves it
    #[command(hide = true)]
    Serve,
}

/// Runs the benchmark that `args` (without the word `bench`) names, and prints to standard output.
/// Wrong usage ends the process, with the exit code 2.
///
/// # Errors
/// A device that fails, or an image that is damaged after the run.
pub fn run(args: Vec<OsString>) -> anyhow::Result<()> {
    match parse(args) {
        Ok(args) => dispatch(&args.workload, &mut std::io::stdout().lock()),
        Err(usage) => usage.exit(),
    }
}

/// As [`run`], but prints to `out` and gives wrong usage as an error.
///
/// # Errors
/// Wrong arguments, a device that fails, or an image that is damaged after the run.
pub fn run_to(args: Vec<OsString>, out: &mut dyn Write) -> anyhow::Result<()> {
    dispatch(&parse(args)?.workload, out)
}

fn parse(args: Vec<OsString>) -> Result<Args, clap::Error> {
    Args::try_parse_from(std::iter::once(OsString::from("uext4 bench")).chain(args))
}

fn dispatch(workload: &Workload, out: &mut dyn Write) -> anyhow::Result<()> {
    match workload {
        Workload::Mdtest(args) => mdtest::run(args, out),
        Workload::CreateUnlink(args) => create_unlink::run(args, out),
        Workload::Fsync(args) => fsync::run(args, out),
        Workload::Fxmark(args) => fxmark::run(args, out),
        Workload::Randrw(args) => randrw::run(args, out),
        Workload::Generation(args) => generation::run(args, out),
        Workload::Lazytime(args) => lazytime::run(args, out),
        Workload::IcacheShrink(args) => icache_shrink::run(args, out),
        Workload::Age(args) => age::run(args, out),
        Workload::Clone(args) => clone::run(args, out),
        Workload::Mq(args) => mq::run(args, out),
        Workload::MqClient(args) => mq::processes::client::run(args, out),
        Workload::Fuse(args) => fuse::run(args, out),
        Workload::All(args) => all::run(args, out),
        Workload::Compare(args) => compare::run(args, out),
        Workload::Conflicts(args) => conflicts::run(args, out),
        Workload::Transfers(args) => transfers::run(args, out),
        Workload::FuseClient(args) => fuse::client::run(args, out),
        Workload::NullMount(args) => fuse::null::run(args),
        Workload::Mount(args) => mount::run(args),
        Workload::Serve => mount::serve(),
    }
}

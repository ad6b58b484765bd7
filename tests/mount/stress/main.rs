//! A mount under everything at once: it stays whole, keeps what fsync(2) guaranteed when its server is killed, loses
//! no inode, and does not grow.
//!
//! `UEXT4_MOUNT_STRESS_SECONDS` and `UEXT4_MOUNT_KILLS` make it longer, `UEXT4_SEED` changes what is done.

mod durable;
mod worker;

use durable::DurableFiles;
use rustix::process::{Pid, Signal, kill_process};
use uext4_testkit::mounted_dir::Shape;
use uext4_testkit::prelude::*;
use uext4_testkit::server::{all_is_freed, in_use};
use worker::Workers;

const SHAPE: Shape = Shape {
    bytes: 1 << 30,
    ..Shape::DEFAULT
};
/// How long a mount is used before the next.
const MOUNT_SECONDS: u64 = 120;
/// DurableFiles of each worker that outlive a kill.
const PROMISES_KEPT: usize = 200;
/// How much a server may grow after its first half, in KiB: caches that fill.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// The resident memory of a process in KiB.
fn resident_kib(pid: Pid) -> Result<u64> {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = std::fs::read_to_string(path)?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().next());
    Ok(kib.context("no VmRSS")?.parse()?)
}

fn make_dirs(dir: &Path) -> Result<()> {
    for name in ["shared-0", "shared-1", "shared-2"] {
        std::fs::create_dir_all(dir.join(name))?;
    }
    for worker in 0..64 {
        std::fs::create_dir_all(dir.join(format!("own-{worker}")))?;
    }
    Ok(std::fs::File::open(dir)?.sync_all()?)
}

#[test]
fn mixed_work_and_remounts_leave_nothing_behind() -> Result<()> {
    require!(can_mount(), Ok(()));
    let seconds = env_number("UEXT4_MOUNT_STRESS_SECONDS", 8);
    let seed = env_number("UEXT4_SEED", 1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut calls, mut mounts) = (0, 0);
    let kinds = transports();
    let mut before = None;
    let mut mount: Option<MountedDir> = None;
    while Instant::now() < end {
        let transport = kinds[mounts % kinds.len()];
        let options = format!("transport={transport},lazytime");
        let this = match mount.take() {
            None => MountedDir::new(Driver::Ours(options), &SHAPE)?,
            Some(mut last) => {
                last.unmount()?;
                last.check()?;
                last.mount_with(&options)?;
                last
            }
        };
        let before = before.get_or_insert(in_use(this.dir())?);
        let slice = Duration::from_secs(MOUNT_SECONDS.min(seconds.div_ceil(2)));
        calls += one_mount(&this, slice, seed + mounts as u64)?;
        // The root directory keeps the blocks that it grew by.
        all_is_freed(this.dir(), *before, 8).with_context(|| format!("mount {mounts}"))?;
        mounts += 1;
        mount = Some(this);
        eprintln!("{mounts} mounts, {calls} calls");
    }
    mount.context("no time")?.finish()
}

/// Works on a mount for a while, removes all, and gives the number of calls.
fn one_mount(mount: &MountedDir, slice: Duration, seed: u64) -> Result<u64> {
    let dir = mount.dir();
    make_dirs(dir)?;
    let durable = Arc::new(DurableFiles::default());
    let server = pid_of(dir, "pid")?;
    let workers = Workers::start(dir, &durable, 6, 2, seed);
    thread::sleep(slice / 2);
    let half = resident_kib(server)?;
    thread::sleep(slice / 2);
    let full = resident_kib(server)?;
    let calls = workers.stop();
    ensure!(
        full <= half + GROWTH_KIB_MAX,
        "the server grew from {half} to {full} KiB"
    );
    let broken = durable.broken(dir);
    ensure!(broken.is_empty(), "{broken:#?}");
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() != "lost+found" {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    rustix::fs::syncfs(std::fs::File::open(dir)?)?;
    Ok(calls)
}

#[test]
fn a_killed_server_loses_nothing_that_was_durable() -> Result<()> {
    require!(can_mount(), Ok(()));
    let kills = env_number("UEXT4_MOUNT_KILLS", 3);
    let seed = env_number("UEXT4_SEED", 1);
    let mut rng = fastrand::Rng::with_seed(seed);
    let durable = Arc::new(DurableFiles::default());
    let kinds = transports();
    let mut mount = MountedDir::new(Driver::Ours("transport=dev".into()), &SHAPE)?;
    let (mut calls, mut checked) = (0, 0);
    for kill in 0..kills {
        make_dirs(mount.dir())?;
        let server = pid_of(mount.dir(), "pid")?;
        let monitor = pid_of(mount.dir(), "monitor_pid")?;
        let workers = Workers::start(mount.dir(), &durable, 4, 4, seed + kill);
        thread::sleep(Duration::from_millis(rng.u64(20..1500)));
        // One time in three no process is left to unmount.
        let both = kill % 3 == 2;
        if both {
            kill_process(monitor, Signal::KILL)?;
        }
        kill_process(server, Signal::KILL)?;
        calls += workers.stop();
        mount.abandon()?;
        mount.mount_with(&format!("transport={}", kinds[kill as usize % kinds.len()]))?;
        let broken = durable.broken(mount.dir());
        ensure!(broken.is_empty(), "seed {seed}, kill {kill}: {broken:#?}");
        checked += durable.count();
        // Else the image is full before long.
        for path in durable.retire(PROMISES_KEPT) {
            std::fs::remove_file(path)?;
        }
        mount.remount()?;
    }
    eprintln!("{kills} kills, {calls} calls, {checked} times a guarantee was kept");
    mount.finish()
}

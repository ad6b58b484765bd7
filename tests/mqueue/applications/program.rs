//! Programs that are run.

use crate::namespace::{Mounted, can_mount, preload};
use uext4_testkit::prelude::*;

/// Runs a program, and gives all that it said.
pub fn run(command: &mut Command) -> Result<String> {
    uext4_testkit::program::run(command).map(|said| said.out + &said.err)
}

/// The same, with the kernel's queues in a namespace of its own; `None`, having said so, where there can be none.
pub fn run_on_kernel(command: &Command) -> Result<Option<String>> {
    let alone = Command::new("unshare").args(["-i", "true"]).status();
    if !alone.is_ok_and(|status| status.success()) {
        eprintln!("skipped: the kernel's message queues: no IPC namespace");
        return Ok(None);
    }
    let mut unshare = Command::new("unshare");
    unshare.arg("-i").arg(command.get_program());
    unshare.args(command.get_args());
    for (name, value) in command.get_envs() {
        unshare.env(name, value.unwrap_or_default());
    }
    if let Some(dir) = command.get_current_dir() {
        unshare.current_dir(dir);
    }
    run(&mut unshare).map(Some)
}

/// How many ioctls the server was asked for: each message sent or received is one.
fn ioctls(mounted: &Mounted) -> Result<u64> {
    let all = uext4_testkit::server::statistics(mounted.dir())?;
    // What was never asked for is not there.
    Ok(all["operations"]["ioctl"]["count"].as_u64().unwrap_or(0))
}

/// The same on a new mount, and how many ioctls that were; `None` where the machine can't mount.
pub fn run_on_mount(command: &mut Command) -> Result<Option<(String, u64)>> {
    if !can_mount() {
        return Ok(None);
    }
    let mounted = Mounted::new()?;
    let before = ioctls(&mounted)?;
    preload(command, mounted.dir());
    let said = run(command)?;
    let after = ioctls(&mounted)?;
    let left = std::fs::read_dir(mounted.dir())?.count();
    ensure!(left == 0, "{command:?}: {left} queues are left: {said}");
    mounted.unmount()?;
    Ok(Some((said, after - before)))
}

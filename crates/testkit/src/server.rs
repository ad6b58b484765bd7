//! What is known of the server behind a mount.

use crate::external::*;
use rustix::process::Pid;

/// The most that an attribute can be.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// The transports that the kernel has, as the option names them.
pub fn transports() -> Vec<&'static str> {
    let enabled = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    match enabled.is_ok_and(|y| y.starts_with('Y')) {
        true => vec!["dev", "uring"],
        false => vec!["dev"],
    }
}

/// What the server reports about itself.
pub fn statistics(dir: &Path) -> Result<serde_json::Value> {
    let mut value = vec![0; VALUE_BYTES_MAX];
    let len = rustix::fs::getxattr(dir, "uext4.stats", &mut value)?;
    Ok(serde_json::from_slice(&value[..len])?)
}

/// A process of the mount: `pid` is the server, `monitor_pid` the monitor.
pub fn pid_of(dir: &Path, key: &str) -> Result<Pid> {
    let stats = statistics(dir)?;
    let pid = stats[key].as_i64().context("no pid in the statistics")?;
    Pid::from_raw(pid as i32).context("a pid")
}

/// Inodes and blocks in use.
pub fn in_use(dir: &Path) -> Result<(u64, u64)> {
    let found = rustix::fs::statvfs(dir)?;
    Ok((
        found.f_files - found.f_ffree,
        found.f_blocks - found.f_bfree,
    ))
}

/// Waits until no more is in use than `before`, but for so many blocks: the kernel reports to the server a moment later
/// which inodes it has no use for.
pub fn all_is_freed(dir: &Path, before: (u64, u64), blocks: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let left = in_use(dir)?;
        if left.0 == before.0 && left.1 <= before.1 + blocks {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{left:?} in use, {before:?} before");
        std::thread::sleep(Duration::from_millis(10));
    }
}

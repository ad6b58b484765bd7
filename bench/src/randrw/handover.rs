//! How long it takes until a thread that sleeps for an inode lock runs after the release.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;
use uext4_block::BlockDevice;
use uext4_vfs::attr::FileKind;
use uext4_vfs::ilock::{ILock, LockMode, ilock};

/// A time in nanoseconds.
pub type Nanos = u64;

/// Turns of each of the two threads.
const TURNS: usize = 300;
const READ_BYTES: usize = 4096;

/// The median time between the release of an inode lock and running with it, of two threads that take it in
/// turn, each for a request of the device; so the other one sleeps, as it does in a run.
pub fn measure(device: &dyn BlockDevice) -> anyhow::Result<Nanos> {
    let lock = ILock::new(12, FileKind::Regular);
    let start = Instant::now();
    // The thread that released it last, and when.
    let (owner, released) = (AtomicUsize::new(0), AtomicU64::new(0));
    let take_turns = |me: usize| -> anyhow::Result<Vec<Nanos>> {
        let mut times = Vec::with_capacity(TURNS);
        let mut data = vec![0; READ_BYTES];
        for _ in 0..TURNS {
            let locked = ilock(&lock, LockMode::Exclusive);
            let now = start.elapsed().as_nanos() as Nanos;
            if owner.swap(me, SeqCst) == 3 - me {
                times.push(now.saturating_sub(released.load(SeqCst)));
            }
            device.read_at(0, &mut data)?;
            released.store(start.elapsed().as_nanos() as Nanos, SeqCst);
            drop(locked);
        }
        Ok(times)
    };
    let mut times = std::thread::scope(|scope| -> anyhow::Result<Vec<Nanos>> {
        let other = scope.spawn(|| take_turns(2));
        let mut times = take_turns(1)?;
        let others = other
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        times.extend(others);
        Ok(times)
    })?;
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_block::MemoryDevice;

    #[test]
    fn measures_something() {
        let device = MemoryDevice::new(1 << 20);
        assert!(measure(&device).is_ok_and(|ns| ns < 1_000_000_000));
    }
}

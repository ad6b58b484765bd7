//! What makes a file fail for good: writes that were lost, and an image that became shorter.
//!
//! # Data model
//! The host reports lost writes once: to one flush of each open file description. The device remembers it.
//! The first change or flush in a tick of the coarse clock (10 ms at most) asks for the file's length, and so does each
//! change that reaches the end of the image. After the file was truncated underneath, changes and flushes fail from the
//! next tick on; calls beside the first check of that tick may still pass, and reads go on. A write in the same tick may
//! extend the file, but never to its old length, so that the next tick still finds it shorter.
//!
//! # Locking
//! Atomics, and class `device_sync` for a change of our own to the length: a caller that finds the file shorter than the
//! device takes it and asks again, as the two lengths change one after the other.

use crate::error::{BlockError, BlockOp, Failure, Result, check_failure};
use rustix::fs::SeekFrom;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Mutex, MutexGuard, class};

/// A change of the file's length to the device's, which only the holder makes.
#[derive(Debug)]
pub(crate) struct Resizing(());

/// Whether a device still takes changes.
#[derive(Debug)]
pub(crate) struct Health {
    failure: OnceLock<Failure>,
    /// The tick in which the file's length was asked for last.
    asked_in: AtomicU64,
    resizing: Mutex<Resizing>,
    /// Whether the length can change underneath. Immutable.
    is_file: bool,
}

impl Health {
    /// A good one; `is_file`: on a regular file.
    pub fn new(is_file: bool) -> Health {
        Health {
            failure: OnceLock::new(),
            asked_in: AtomicU64::new(0),
            resizing: Mutex::new(&class::DEVICE_SYNC, Resizing(())),
            is_file,
        }
    }

    /// Fails from now on.
    #[cold]
    pub fn fail(&self, failure: Failure) {
        let _ = self.failure.set(failure);
    }

    /// Refuses a call to a device that has failed.
    #[inline]
    pub fn check(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        check_failure(&self.failure, op, offset, len)
    }

    /// Refuses a change or a flush if the device has failed, or the file is shorter than `device_len`, which is checked
    /// once in a tick of the clock and for each change that reaches the end.
    #[inline]
    pub fn check_change(
        &self,
        fd: &OwnedFd,
        (op, offset, len): (BlockOp, u64, u64),
        device_len: &AtomicU64,
    ) -> Result<()> {
        self.check(op, offset, len)?;
        if !self.is_file {
            return Ok(());
        }
        let tick = tick();
        let reaches_end = offset.saturating_add(len) >= device_len.load(Ordering::Relaxed);
        if tick == self.asked_in.load(Ordering::Relaxed) && !reaches_end {
            return Ok(());
        }
        self.asked_in.store(tick, Ordering::Relaxed);
        self.check_len(fd, (op, offset, len), device_len)
    }

    /// Lets one caller change the file's length and the device's; refused if the device has failed or its file is too short.
    pub fn resize(
        &self,
        fd: &OwnedFd,
        call: (BlockOp, u64, u64),
        device_len: &AtomicU64,
    ) -> Result<MutexGuard<'_, Resizing>> {
        let resizing = self.resizing.lock();
        if let Some(truncated) = self.truncated(fd, call, device_len)? {
            self.fail(truncated);
        }
        self.check(call.0, call.1, call.2)?;
        Ok(resizing)
    }

    /// Refuses a call if the device has failed or its file is too short now.
    fn check_len(
        &self,
        fd: &OwnedFd,
        call: (BlockOp, u64, u64),
        device_len: &AtomicU64,
    ) -> Result<()> {
        if self.truncated(fd, call, device_len)?.is_none() {
            return self.check(call.0, call.1, call.2);
        }
        // The length may have grown, ours, between the two.
        self.resize(fd, call, device_len).map(drop)
    }

    /// The failure, if the file is shorter than the device.
    fn truncated(
        &self,
        fd: &OwnedFd,
        (op, offset, len): (BlockOp, u64, u64),
        device_len: &AtomicU64,
    ) -> Result<Option<Failure>> {
        if !self.is_file {
            return Ok(None);
        }
        // Cheaper than fstat(2), and nothing uses the position.
        let bytes = rustix::fs::seek(fd, SeekFrom::End(0))
            .map_err(|e| BlockError::io(op, offset, len, e))?;
        let device_bytes = device_len.load(Ordering::Acquire);
        Ok((bytes < device_bytes).then_some(Failure::Truncated {
            bytes,
            device_bytes,
        }))
    }
}

/// The tick of the coarse clock, in nanoseconds: a few nanoseconds to ask for, and never 0.
fn tick() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64 + 1
}

//! What a class of locks counts, and whether it does.

use crate::percpu::PerCpu;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

static ENABLED: AtomicBool = AtomicBool::new(false);

/// How a lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Shared with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) acquisitions: AtomicU64,
    pub(crate) contended: AtomicU64,
    wait_ns: AtomicU64,
    hold_ns: AtomicU64,
}

impl Counters {
    const fn new() -> Counters {
        Counters {
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            hold_ns: AtomicU64::new(0),
        }
    }
}

/// The counters of one class, both modes, per CPU; made when one is first counted.
#[derive(Debug)]
pub struct ClassStats {
    cpus: OnceLock<PerCpu<[Counters; 2]>>,
}

impl ClassStats {
    pub(crate) const fn new() -> ClassStats {
        ClassStats {
            cpus: OnceLock::new(),
        }
    }

    pub(crate) fn cell(&self, mode: Mode) -> &Counters {
        let cpus = self
            .cpus
            .get_or_init(|| PerCpu::new(|_| [Counters::new(), Counters::new()]));
        &cpus.get()[mode as usize]
    }

    pub(crate) fn acquired(&self, mode: Mode, contended: bool, wait_ns: u64) {
        let c = self.cell(mode);
        c.acquisitions.fetch_add(1, Relaxed);
        if contended {
            c.contended.fetch_add(1, Relaxed);
            c.wait_ns.fetch_add(wait_ns, Relaxed);
        }
    }

    pub(crate) fn released(&self, mode: Mode, hold_ns: u64) {
        self.cell(mode).hold_ns.fetch_add(hold_ns, Relaxed);
    }

    pub(crate) fn sum(&self, mode: Mode) -> (u64, u64, u64, u64) {
        self.all().fold((0, 0, 0, 0), |s, cpu| {
            let c = &cpu[mode as usize];
            (
                s.0 + c.acquisitions.load(Relaxed),
                s.1 + c.contended.load(Relaxed),
                s.2 + c.wait_ns.load(Relaxed),
                s.3 + c.hold_ns.load(Relaxed),
            )
        })
    }

    pub(crate) fn reset(&self) {
        for c in self.all().flatten() {
            c.acquisitions.store(0, Relaxed);
            c.contended.store(0, Relaxed);
            c.wait_ns.store(0, Relaxed);
            c.hold_ns.store(0, Relaxed);
        }
    }

    fn all(&self) -> impl Iterator<Item = &[Counters; 2]> {
        self.cpus.get().into_iter().flat_map(PerCpu::iter)
    }
}

/// Starts (or stops) counting.
pub fn enable(on: bool) {
    ENABLED.store(on, Relaxed);
}

/// Whether locks are counted.
#[inline(always)]
pub fn is_enabled() -> bool {
    ENABLED.load(Relaxed)
}

pub(crate) fn now_ns() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

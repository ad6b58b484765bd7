//! Which lines move from one virtual CPU to another, counted while a seeded scheduler runs a workload.
//!
//! Built with `--cfg shuttle --cfg virtual_cpus`, for `uext4-bench transfers`. Every atomic and every lock says when it is
//! read and written. A line moves when a CPU accesses it that has no valid copy: for a read, one of what was written last;
//! for a write, the only copy. The first access of all takes it from memory, and is not counted.
//!
//! What is between atomics and locks is not seen; most of it lies beside the lock that guards it, and moves with that. Shuttle's
//! locks are larger than the real ones, so each lock counts as one line, that of its address.
//!
//! # Locking
//! A mutex of `std`, held across no point at which Shuttle may switch.

use crate::class::LockClass;
use crate::virtual_cpus::{CPUS_MAX, cpu};
use shuttle::thread::Thread;
use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

const LINE_BYTES: usize = 64;

/// The source line of an atomic's access, or the class of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// An atomic is accessed here.
    Atomic {
        /// The file, from the root of the workspace.
        file: &'static str,
        /// The line in it.
        line: u32,
    },
    /// A lock of this class.
    Lock(&'static str),
}

/// How often lines moved to the CPU that accessed them here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where.
    pub site: Site,
    /// How often.
    pub count: u64,
}

/// The CPUs that have a valid copy of a line.
enum Copies {
    One(u16),
    Many(Box<[u64; CPUS_MAX / 64]>),
}

impl Copies {
    fn has(&self, cpu: usize) -> bool {
        match self {
            Copies::One(only) => usize::from(*only) == cpu,
            Copies::Many(set) => set[cpu / 64] & (1 << (cpu % 64)) != 0,
        }
    }

    fn add(&mut self, cpu: usize) {
        if let Copies::One(only) = *self {
            let mut set = Box::new([0; CPUS_MAX / 64]);
            set[usize::from(only) / 64] |= 1 << (only % 64);
            *self = Copies::Many(set);
        }
        if let Copies::Many(set) = self {
            set[cpu / 64] |= 1 << (cpu % 64);
        }
    }
}

#[derive(Default)]
struct Lines {
    copies: HashMap<usize, Copies>,
    moved: HashMap<Site, u64>,
}

static LINES: LazyLock<Mutex<Lines>> = LazyLock::new(Mutex::default);

fn lines() -> MutexGuard<'static, Lines> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    fn access(&mut self, address: usize, is_write: bool, site: Site) {
        let cpu = cpu();
        let only = || Copies::One(cpu as u16);
        let Some(copies) = self.copies.get_mut(&(address / LINE_BYTES)) else {
            self.copies.insert(address / LINE_BYTES, only());
            return;
        };
        let is_here = match (is_write, &*copies) {
            (true, Copies::Many(_)) => false,
            _ => copies.has(cpu),
        };
        if is_here {
            return;
        }
        match is_write {
            true => *copies = only(),
            false => copies.add(cpu),
        }
        *self.moved.entry(site).or_default() += 1;
    }
}

/// Sets every count to zero; which CPU has which line stays.
pub fn reset() {
    lines().moved.clear();
}

/// Forgets the lines of memory that is free now, and may become something else. For an allocator: the memory of the counts
/// themselves is let be.
pub fn forget(address: usize, bytes: usize) {
    let Ok(mut lines) = LINES.try_lock() else {
        return;
    };
    let freed = address / LINE_BYTES..(address + bytes).div_ceil(LINE_BYTES);
    if freed.len() > lines.copies.len() {
        lines.copies.retain(|line, _| !freed.contains(line));
        return;
    }
    for line in freed {
        lines.copies.remove(&line);
    }
}

/// Where lines moved, the most frequent first.
pub fn snapshot() -> Vec<Moved> {
    let lines = lines();
    let moved = lines.moved.iter();
    let mut all: Vec<Moved> = moved
        .map(|(site, count)| Moved {
            site: *site,
            count: *count,
        })
        .collect();
    all.sort_by_key(|moved| (std::cmp::Reverse(moved.count), moved.site));
    all
}

/// The lock of `class` at `address` is tried, was taken or is released.
pub(crate) fn lock(address: usize, class: &LockClass) {
    lines().access(address, true, Site::Lock(class.name));
}

type Queues = HashMap<usize, VecDeque<Thread>>;

/// The threads that wait for a mutex, by its address, in the order in which they came.
static QUEUES: LazyLock<Mutex<Queues>> = LazyLock::new(Mutex::default);

/// Does something with the queue of a mutex; without waiters it has none.
fn with_queue<R>(address: usize, f: impl FnOnce(&mut VecDeque<Thread>) -> R) -> R {
    let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let queue = queues.entry(address).or_default();
    let result = f(queue);
    if queue.is_empty() {
        queues.remove(&address);
    }
    result
}

/// Whether a caller of [`in_turn`] must wait for others.
pub(crate) fn has_queue(address: usize) -> bool {
    with_queue(address, |queue| !queue.is_empty())
}

/// Takes the mutex at `address` by `try_lock`, after all threads that came before, as a queued spin lock is taken: Shuttle's own
/// lets any of them have it.
pub(crate) fn in_turn<G>(address: usize, mut try_lock: impl FnMut() -> Option<G>) -> G {
    if !has_queue(address)
        && let Some(guard) = try_lock()
    {
        return guard;
    }
    let me = shuttle::thread::current();
    with_queue(address, |queue| queue.push_back(me.clone()));
    while with_queue(address, |queue| {
        queue.front().map(Thread::id) != Some(me.id())
    }) {
        shuttle::thread::park();
    }
    let guard = loop {
        if let Some(guard) = try_lock() {
            break guard;
        }
        shuttle::thread::yield_now();
    };
    let next = with_queue(address, |queue| {
        queue.pop_front();
        queue.front().cloned()
    });
    if let Some(next) = next {
        next.unpark();
    }
    guard
}

/// The atomic at `address` is accessed. A switch may precede that.
#[track_caller]
pub(crate) fn atomic(address: usize, is_write: bool) {
    let at = Location::caller();
    if shuttle::current::try_get_current_task().is_none() {
        return;
    }
    shuttle::thread::yield_now();
    let site = Site::Atomic {
        file: at.file(),
        line: at.line(),
    };
    lines().access(address, is_write, site);
}

//! The part of a readers-writer semaphore that exists once a thread had to wait for it, or many read it at once.
//!
//! # Invariants
//! While a thread waits, either a writer has the gate and the lock's word says `WAITING`, or all
//! waiting readers and the first waiting writer are awake, and about to look again under the mutex:
//! they enter, or set `WAITING` before they sleep. A writer that enters sets it for those behind it.
//! So a thread that releases the gate with `WAITING` set calls this module, which wakes the sleepers.
//!
//! # Locking
//! The mutex has the class `lock_queue`: held for a moment, and nothing is taken under it.

use crate::class;
use crate::imp::lock_atomic::AtomicU32;
use crate::{CachePadded, Condvar, Mutex, PerCpu, percpu};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Sleeping writers wait in classes by their ticket modulo this, so that few wake in vain.
const WRITER_WAKES: usize = 4;

/// Memory that the counters of all locks may take.
const WIDE_BYTES_MAX: usize = 64 << 20;

/// Locks with counters.
static WIDE_LOCKS: AtomicUsize = AtomicUsize::new(0);

/// The part of a lock that an idle one does without.
#[derive(Debug)]
pub(super) struct Busy {
    /// Readers per CPU, made when the lock first becomes wide.
    wide: OnceLock<Counters>,
    /// Away from `wide`, which readers on other CPUs read all the time.
    pub queue: CachePadded<Mutex<Queue>>,
    /// The writer that has the gate waits here until readers have left.
    pub drained: Condvar,
    pub readers: Condvar,
    writers: [Condvar; WRITER_WAKES],
}

/// The waiters for the gate.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Readers that wait.
    pub readers: u32,
    /// Counts how often all waiting readers were let in by a release of the gate.
    pub batch: u64,
    /// All waiting readers were woken, and none went back to sleep.
    pub readers_awake: bool,
    /// The ticket of the first waiting writer.
    pub first_writer: u64,
    /// The next ticket.
    pub next_writer: u64,
    /// The first writer was woken, and did not go back to sleep.
    pub writer_awake: bool,
    /// A thread waits for too long: the next release hands the gate over.
    pub starved: bool,
    /// A writer sleeps until readers have left.
    pub draining: bool,
}

/// Readers per CPU.
#[derive(Debug)]
pub(super) struct Counters(PerCpu<AtomicU32>);

impl Counters {
    fn new() -> Counters {
        WIDE_LOCKS.fetch_add(1, Relaxed);
        Counters(PerCpu::new(|_| AtomicU32::new(0)))
    }
}

impl std::ops::Deref for Counters {
    type Target = PerCpu<AtomicU32>;
    #[inline(always)]
    fn deref(&self) -> &PerCpu<AtomicU32> {
        &self.0
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        WIDE_LOCKS.fetch_sub(1, Relaxed);
    }
}

impl Busy {
    pub fn new() -> Busy {
        Busy {
            wide: OnceLock::new(),
            queue: CachePadded::new(Mutex::new(&class::LOCK_QUEUE, Queue::default())),
            drained: Condvar::new(),
            readers: Condvar::new(),
            writers: [const { Condvar::new() }; WRITER_WAKES],
        }
    }

    /// The counters, if there are any.
    #[inline(always)]
    pub fn counters(&self) -> Option<&Counters> {
        self.wide.get()
    }

    /// The counters, made now unless those of all locks take too much memory already.
    pub fn counters_or_make(&self) -> Option<&Counters> {
        let bytes = percpu::cpu_shards() * size_of::<CachePadded<AtomicU32>>();
        if self.wide.get().is_none() && WIDE_LOCKS.load(Relaxed) >= WIDE_BYTES_MAX / bytes {
            return None;
        }
        Some(self.wide.get_or_init(Counters::new))
    }

    /// Where the writer with this ticket sleeps.
    pub fn writer(&self, ticket: u64) -> &Condvar {
        &self.writers[ticket as usize % WRITER_WAKES]
    }

    /// Wakes all readers and the first writer, which then check again.
    pub fn wake(&self, queue: &mut Queue) {
        if queue.readers > 0 && !queue.readers_awake {
            queue.readers_awake = true;
            self.readers.notify_all();
        }
        if queue.has_writer() && !queue.writer_awake {
            queue.writer_awake = true;
            self.writer(queue.first_writer).notify_all();
        }
    }

    /// Lets all waiting readers in, and gives the gate to the first waiting writer.
    pub fn hand_over(&self, queue: &mut Queue) -> HandedOver {
        queue.starved = false;
        let readers = std::mem::take(&mut queue.readers);
        if readers > 0 {
            queue.batch += 1;
            self.readers.notify_all();
        }
        let writer = queue.has_writer();
        if writer {
            self.writer(queue.first_writer).notify_all();
            queue.first_writer += 1;
            queue.writer_awake = false;
        }
        HandedOver { readers, writer }
    }
}

/// The waiters that were let in.
pub(super) struct HandedOver {
    /// So many readers.
    pub readers: u32,
    /// A writer, after them.
    pub writer: bool,
}

impl Queue {
    /// A writer waits for the gate.
    pub fn has_writer(&self) -> bool {
        self.first_writer < self.next_writer
    }
}

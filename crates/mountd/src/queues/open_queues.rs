//! The open queues, by file handle: the number that the kernel has with each request for an open file.
//!
//! # Locking
//! The last bits of the handle select a shard, of class `open_files`. It is held for a look-up only. An open queue is
//! dropped after the lock is released.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use uext4::Timestamp;
use uext4::unstable::mqueue::Description;
use uext4::unstable::mqueue::queue::WatchCallback;
use uext4_sync::{CachePadded, Mutex, class};

/// Shards; a power of two.
const SHARDS: usize = 64;

/// An open queue.
pub struct OpenQueue {
    /// Its file handle.
    pub fh: u64,
    /// The description. It never waits: the reply to a call that has to wait follows later.
    pub description: Description,
    /// Makes the kernel poll again.
    pub wakeup: OnceLock<WatchCallback>,
    /// Until when threads will wait in their next receiving call, by thread.
    pub deadlines: Mutex<HashMap<u32, Timestamp>>,
}

type Shard = HashMap<u64, Arc<OpenQueue>>;

/// The open queues.
pub struct OpenQueues {
    shards: Vec<CachePadded<Mutex<Shard>>>,
    next: AtomicU64,
}

impl Default for OpenQueues {
    fn default() -> OpenQueues {
        let shard = || CachePadded::new(Mutex::new(&class::OPEN_FILES, Shard::default()));
        OpenQueues {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            next: AtomicU64::new(1),
        }
    }
}

impl OpenQueues {
    fn shard(&self, fh: u64) -> &Mutex<Shard> {
        &self.shards[fh as usize % SHARDS]
    }

    /// Adds an open queue and returns its file handle.
    pub fn insert(&self, description: Description) -> u64 {
        let fh = self.next.fetch_add(1, Relaxed);
        let opened = OpenQueue {
            fh,
            description,
            wakeup: OnceLock::new(),
            deadlines: Mutex::new(&class::OPEN_FILES, HashMap::new()),
        };
        self.shard(fh).lock().insert(fh, Arc::new(opened));
        fh
    }

    /// The open queue with that file handle.
    pub fn get(&self, fh: u64) -> Option<Arc<OpenQueue>> {
        self.shard(fh).lock().get(&fh).cloned()
    }

    /// Closes a queue.
    pub fn remove(&self, fh: u64) {
        let gone = self.shard(fh).lock().remove(&fh);
        drop(gone);
    }

    /// Closes all queues.
    pub fn clear(&self) {
        for shard in &self.shards {
            let gone = std::mem::take(&mut *shard.lock());
            drop(gone);
        }
    }
}

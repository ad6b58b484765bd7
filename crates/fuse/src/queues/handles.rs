//! Queues that are open, by the number that the kernel gives with each request for them.
//!
//! # Locking
//! A shard for each of the last bits of the number, of class `open_files`, held for a look-up alone. What is taken out is
//! dropped after that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4::Timestamp;
use uext4::mqueue::Description;
use uext4::mqueue::queue::Tell;
use uext4_sync::{CachePadded, Mutex, class};

/// Shards; a power of two.
const SHARDS: usize = 64;

/// An open queue.
pub struct Opened {
    /// Its number.
    pub fh: u64,
    /// The queue, and what may be done with it. It never waits: who waits is answered later.
    pub description: Description,
    /// Tells the kernel to poll again.
    pub tell: OnceLock<Tell>,
    /// How long threads will wait, until they do.
    pub until: Mutex<HashMap<u32, Timestamp>>,
}

type Shard = HashMap<u64, Arc<Opened>>;

/// The queues that are open.
pub struct Handles {
    shards: Vec<CachePadded<Mutex<Shard>>>,
    next: AtomicU64,
}

impl Default for Handles {
    fn default() -> Handles {
        let shard = || CachePadded::new(Mutex::new(&class::OPEN_FILES, Shard::default()));
        Handles {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            next: AtomicU64::new(1),
        }
    }
}

impl Handles {
    fn shard(&self, fh: u64) -> &Mutex<Shard> {
        &self.shards[fh as usize % SHARDS]
    }

    /// Gives a queue that was opened its number.
    pub fn insert(&self, description: Description) -> u64 {
        let fh = self.next.fetch_add(1, Relaxed);
        let opened = Opened {
            fh,
            description,
            tell: OnceLock::new(),
            until: Mutex::new(&class::OPEN_FILES, HashMap::new()),
        };
        self.shard(fh).lock().insert(fh, Arc::new(opened));
        fh
    }

    /// The queue with that number.
    pub fn get(&self, fh: u64) -> Option<Arc<Opened>> {
        self.shard(fh).lock().get(&fh).cloned()
    }

    /// Closes it.
    pub fn remove(&self, fh: u64) {
        let gone = self.shard(fh).lock().remove(&fh);
        drop(gone);
    }

    /// Closes all.
    pub fn clear(&self) {
        for shard in &self.shards {
            let gone = std::mem::take(&mut *shard.lock());
            drop(gone);
        }
    }
}

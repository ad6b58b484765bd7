//! What a transaction holds: per CPU while it runs, gathered when it is closed, and as a list of
//! blocks to be written in place once it is committed.

use crate::buffer::Buffer;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicI64, AtomicU64};
use uext4_sync::{Mutex, class};

/// A run of blocks freed in a transaction: first block and count.
pub type Freed = (u64, u32);

/// One CPU's part of the running transaction.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Handles that run and were started on this CPU.
    pub active: AtomicU64,
    /// Blocks reserved in the log that no handle has yet.
    pub credits: AtomicI64,
    /// What the handles started here attached.
    pub lists: Mutex<Lists>,
}

/// What the handles of a transaction attached.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub buffers: Vec<Arc<Buffer>>,
    pub revoked: Vec<u64>,
    pub freed: Vec<Freed>,
}

impl Shard {
    pub fn new() -> Shard {
        Shard {
            active: AtomicU64::new(0),
            credits: AtomicI64::new(0),
            lists: Mutex::new(&class::JOURNAL_LIST, Lists::default()),
        }
    }
}

impl Lists {
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty() && self.revoked.is_empty() && self.freed.is_empty()
    }

    pub fn append(&mut self, mut other: Lists) {
        self.buffers.append(&mut other.buffers);
        self.revoked.append(&mut other.revoked);
        self.freed.append(&mut other.freed);
    }
}

/// A committed transaction whose blocks are not all in place yet.
#[derive(Debug)]
pub(crate) struct Committed {
    pub tid: u64,
    /// Its first block in the log.
    pub start: u32,
    /// Blocks that were last committed in it, sorted by number; may hold some that a later
    /// transaction took over.
    pub buffers: Vec<Arc<Buffer>>,
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use uext4_sync::atomic::Ordering;

    #[test]
    fn a_shard_gives_out_what_it_has_and_no_more() {
        let shard = Shard::new();
        shard.credits.store(7, Ordering::Relaxed);
        assert!(!shard.take_credits(8));
        assert!(shard.take_credits(4) && shard.take_credits(3));
        assert!(!shard.take_credits(1));
        assert_eq!(shard.credits.load(Ordering::Relaxed), 0);
    }
}

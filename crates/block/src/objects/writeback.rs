//! What was written and is not in the store yet.

use super::page::ENTRIES;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Mutex, class};

/// Parts with a lock each.
const SHARDS: usize = 64;

/// What becomes of a block.
#[derive(Clone, Debug)]
pub enum Change {
    /// Its new bytes.
    Data(Box<[u8]>),
    /// It reads as zeros.
    Hole,
}

/// The blocks that were written between two flushes.
#[derive(Debug)]
pub struct Changes {
    shards: Vec<Mutex<HashMap<u64, Change>>>,
    bytes: AtomicU64,
    /// Whether anything was written, even if it changes nothing.
    is_touched: AtomicBool,
}

impl Default for Changes {
    fn default() -> Changes {
        let shard = || Mutex::new(&class::DEVICE, HashMap::new());
        Changes {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            bytes: AtomicU64::new(0),
            is_touched: AtomicBool::new(false),
        }
    }
}

impl Changes {
    fn shard(&self, block: u64) -> &Mutex<HashMap<u64, Change>> {
        &self.shards[(block / ENTRIES as u64) as usize % SHARDS]
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        !self.is_touched.load(Ordering::Acquire)
    }

    /// Notes that something was written.
    pub fn touch(&self) {
        self.is_touched.store(true, Ordering::Release);
    }

    /// Changes a block.
    pub fn set(&self, block: u64, change: Change) {
        self.touch();
        let bytes = |change: &Change| match change {
            Change::Data(bytes) => bytes.len() as u64,
            Change::Hole => 64,
        };
        let new = bytes(&change);
        let old = self.shard(block).lock().insert(block, change);
        self.bytes.fetch_add(new, Ordering::Relaxed);
        let old = old.as_ref().map_or(0, bytes);
        self.bytes.fetch_sub(old, Ordering::Relaxed);
    }

    /// Fills `buf`, of a block, with one that was changed, and returns whether it was.
    pub fn read(&self, block: u64, buf: &mut [u8]) -> bool {
        match self.shard(block).lock().get(&block) {
            Some(Change::Data(bytes)) => buf.copy_from_slice(bytes),
            Some(Change::Hole) => buf.fill(0),
            None => return false,
        }
        true
    }

    /// The blocks of a range that were changed.
    pub fn within(&self, blocks: &Range<u64>) -> Vec<u64> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            found.extend(shard.keys().filter(|block| blocks.contains(block)));
        }
        found
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Calls `each` with every block, in their order.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn for_each<E>(
        &self,
        mut each: impl FnMut(u64, &Change) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut blocks = self.within(&(0..u64::MAX));
        blocks.sort_unstable();
        for block in blocks {
            if let Some(change) = self.shard(block).lock().get(&block) {
                each(block, change)?;
            }
        }
        Ok(())
    }
}

/// What reads see before the root: the changes since the last flush, and those that a flush writes.
#[derive(Debug, Default)]
pub struct Pending {
    /// Since the last flush.
    pub new: Arc<Changes>,
    /// Of the flush that runs, or that failed.
    pub flushing: Option<Arc<Changes>>,
}

impl Pending {
    /// As [`Changes::read`].
    pub fn read(&self, block: u64, buf: &mut [u8]) -> bool {
        self.new.read(block, buf)
            || self
                .flushing
                .as_ref()
                .is_some_and(|old| old.read(block, buf))
    }

    /// As [`Changes::within`].
    pub fn within(&self, blocks: &Range<u64>) -> Vec<u64> {
        let mut found = self.new.within(blocks);
        found.extend(self.flushing.iter().flat_map(|old| old.within(blocks)));
        found
    }
}

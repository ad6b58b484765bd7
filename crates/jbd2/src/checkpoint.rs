//! Writing in place what is committed, so that its log can be used again.

use crate::buffer::{Buffer, BufferCache};
use crate::commit::{Committer, IN_PLACE_BYTES};
use crate::error::Result;
use std::sync::Arc;
use uext4_sync::atomic::Ordering;

/// Collects blocks in ascending order and writes runs of them.
pub(crate) struct InPlace {
    cache: Arc<BufferCache>,
    first: u64,
    bytes: Vec<u8>,
    written: u64,
}

impl InPlace {
    pub fn new(cache: Arc<BufferCache>) -> InPlace {
        InPlace {
            cache,
            first: 0,
            bytes: Vec::with_capacity(IN_PLACE_BYTES),
            written: 0,
        }
    }

    /// Takes a copy of a block, to be written by [`InPlace::finish`] at the latest.
    pub fn block(&mut self, block: u64, data: &[u8]) -> Result<()> {
        let size = self.cache.block_size();
        let next = self.first + (self.bytes.len() / size) as u64;
        if block != next || self.bytes.len() >= IN_PLACE_BYTES {
            self.write()?;
            self.first = block;
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if !self.bytes.is_empty() {
            let offset = self.first * self.cache.block_size() as u64;
            self.cache.device().write_at(offset, &self.bytes)?;
            self.written += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }

    /// Writes what is left; the bytes written in all.
    pub fn finish(mut self) -> Result<u64> {
        self.write()?;
        Ok(self.written)
    }
}

impl Committer {
    /// Writes committed blocks in place and moves the log's tail: `all` of them, or the older half.
    ///
    /// A block that the running transaction has changed again stays: its newer content is not
    /// committed. It moves to the running transaction's list when that commits.
    pub(crate) fn checkpoint(&mut self, all: bool) -> Result<()> {
        let count = if all {
            self.committed.len()
        } else {
            self.committed.len().div_ceil(2)
        };
        let last = match count.checked_sub(1).and_then(|i| self.committed.get(i)) {
            Some(last) => last.tid,
            None => return Ok(()),
        };
        let mut buffers: Vec<Arc<Buffer>> = Vec::new();
        for transaction in self.committed.iter().take(count) {
            buffers.extend(transaction.buffers.iter().map(Arc::clone));
        }
        if count > 1 {
            buffers.sort_unstable_by_key(|b| b.block());
            buffers.dedup_by(|a, b| Arc::ptr_eq(a, b));
        }
        let mut out = InPlace::new(Arc::clone(self.journal.cache()));
        for buffer in &buffers {
            let content = buffer.read();
            let journaled = content.journaled();
            let due = journaled.checkpoint != 0 && journaled.checkpoint <= last;
            if due && journaled.pending == 0 {
                out.block(buffer.block(), content.data())?;
            }
        }
        let bytes = out.finish()?;
        self.journal
            .counters
            .checkpoint_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        if self.journal.settings.barrier() {
            self.journal.cache().device().flush()?;
        }
        self.settle(count, last)
    }

    /// Takes the blocks that are in place off their transactions' lists, and moves the tail.
    fn settle(&mut self, count: usize, last: u64) -> Result<()> {
        for transaction in self.committed.iter_mut().take(count) {
            let tid = transaction.tid;
            transaction.buffers.retain(|buffer| {
                let mut content = buffer.write();
                let journaled = content.journaled();
                if journaled.checkpoint != tid {
                    return false;
                }
                if journaled.pending != 0 {
                    return true;
                }
                debug_assert!(journaled.checkpoint <= last);
                journaled.checkpoint = 0;
                false
            });
        }
        while self.committed.front().is_some_and(|t| t.buffers.is_empty()) {
            self.committed.pop_front();
        }
        let tail = self.committed.front().map(|t| (t.tid, t.start));
        let next = self.journal.running_tid();
        match &mut self.log {
            Some(log) => log.set_tail(tail, next),
            None => Ok(()),
        }
    }
}

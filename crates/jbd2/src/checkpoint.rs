//! Writing in place what is committed, so that its log can be used again.

use crate::buffer::Buffer;
use crate::commit::Committer;
use crate::error::Result;
use crate::in_place::InPlace;
use std::sync::Arc;
use std::time::Instant;
use uext4_sync::atomic::Ordering;

impl Committer {
    /// Writes committed blocks in place and moves the log's tail: `all` of them, or the older half.
    ///
    /// A block that the running transaction has changed again stays: its newer content is not
    /// committed. It moves to the running transaction's list when that commits.
    pub(crate) fn checkpoint(&mut self, all: bool) -> Result<()> {
        let start = Instant::now();
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
        buffers.sort_unstable_by_key(|b| b.block());
        buffers.dedup_by(|a, b| Arc::ptr_eq(a, b));
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
        self.settle(count, last)?;
        self.journal.counters.checkpoint.add(start.elapsed());
        Ok(())
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

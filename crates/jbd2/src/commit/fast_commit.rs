//! The commit thread's part in fast commits: it closes the running transaction for a moment, takes what was described, and writes that.
//!
//! # Data model
//! Calls that wait are in rounds: a round ends when the transaction is closed for its fast commit. While calls of the next round wait, a fast commit
//! is made durable by the flush that makes the data of the next one durable.

use super::Committer;
use crate::error::Result;
use std::sync::Arc;
use uext4_sync::atomic::Ordering::Relaxed;
use uext4_sync::clock;

impl Committer {
    /// Makes durable what threads wait for with [`crate::Journal::wait_fast_commit`], until none waits or other work is to be done.
    pub(crate) fn fast_commit(&mut self) -> Result<()> {
        // The round whose fast commit is written and not durable yet.
        let mut written = None;
        loop {
            match self.fast_commit_round(written)? {
                None => return Ok(()),
                round => written = round,
            }
        }
    }

    /// Writes the fast commit of a round and makes what was written before durable. Returns the round if its fast commit is not durable yet.
    fn fast_commit_round(&mut self, written: Option<u64>) -> Result<Option<u64>> {
        let journal = Arc::clone(&self.journal);
        let round = journal.begin_fast_commit();
        let tid = journal.close_gate();
        journal.check_aborted()?;
        let records = match journal.not_described.load(Relaxed) == tid {
            true => None,
            false => journal.client().and_then(|client| client.describe(tid)),
        };
        let blocks = match (&records, &self.log) {
            (Some(records), _) if records.is_empty() => Some(Vec::new()),
            (Some(records), Some(log)) => log.encode_fast_commit(tid, records),
            _ => None,
        };
        let Some(blocks) = blocks else {
            return self.commit().map(|()| None);
        };
        journal.open_gate_again();
        let Some(log) = &mut self.log else {
            return Ok(None);
        };
        let device = journal.cache().device();
        let barrier = journal.settings.barrier();
        let bytes = blocks.len() as u64;
        let last = match bytes {
            0 => None,
            _ => Some(log.begin_fast_commit(tid, blocks)?),
        };
        if let Some(written) = written {
            log.flush(device)?;
            journal.end_fast_commit(written);
        } else if barrier && last.is_some() {
            log.flush_before_commit(device)?;
        }
        let Some(last) = last else {
            journal.end_fast_commit(round);
            return Ok(None);
        };
        let counters = &journal.counters;
        counters.fast_commits.fetch_add(1, Relaxed);
        counters.journal_bytes.fetch_add(bytes, Relaxed);
        let now = clock::since_epoch();
        // The clock may have been set back.
        self.since = self.since.min(now);
        let age = now.saturating_sub(self.since);
        let is_later = barrier && journal.awaits_only_fast_commits(age);
        log.end_fast_commit(&last, barrier && !is_later)?;
        if is_later {
            return Ok(Some(round));
        }
        journal.end_fast_commit(round);
        Ok(None)
    }
}

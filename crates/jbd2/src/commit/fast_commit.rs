//! The commit thread's part in fast commits: it closes the running transaction for a moment, takes what was described, and writes that.

use super::Committer;
use crate::error::Result;
use std::sync::Arc;
use uext4_sync::atomic::Ordering::Relaxed;

impl Committer {
    /// Makes durable what threads wait for with [`crate::Journal::wait_fast_commit`].
    pub(crate) fn fast_commit(&mut self) -> Result<()> {
        let journal = Arc::clone(&self.journal);
        let asked = journal.state.lock().fast_requested;
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
            return self.commit();
        };
        journal.open_gate_again();
        if let Some(log) = self.log.as_mut().filter(|_| !blocks.is_empty()) {
            let barrier = journal.settings.barrier();
            log.write_fast_commit(tid, &blocks, journal.cache().device(), barrier)?;
            let counters = &journal.counters;
            counters.fast_commits.fetch_add(1, Relaxed);
            let bytes = blocks.len() as u64;
            counters.journal_bytes.fetch_add(bytes, Relaxed);
        }
        journal.state.lock().fast_done = asked;
        journal.done.notify_all();
        Ok(())
    }
}

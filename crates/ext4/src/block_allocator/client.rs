//! What the journal reports of commits.

use crate::block_allocator::BlockAllocator;
use crate::prelude::*;
use uext4_jbd2::JournalClient;

/// Releases what a durable transaction freed; weak, because the allocator's volume owns the journal.
pub(super) struct CommitClient(pub Weak<BlockAllocator>);

impl JournalClient for CommitClient {
    fn committed(&self, _tid: u64, freed: &[(u64, u32)]) {
        let Some(blocks) = self.0.upgrade() else {
            return;
        };
        if blocks.volume.settings.discard() {
            blocks.discard_freed(freed);
        }
        blocks.release_runs(freed);
        blocks.age_ahead();
    }

    fn describe(&self, tid: u64) -> Option<Vec<FastCommitRecord>> {
        let blocks = self.0.upgrade()?;
        Some(blocks.volume.fast.take(tid, &blocks.volume.params))
    }

    fn aborted(&self, why: &JournalError) {
        let Some(blocks) = self.0.upgrade() else {
            return;
        };
        tracing::error!("mounted read-only from now on: {why}");
        blocks.volume.set_read_only();
    }
}

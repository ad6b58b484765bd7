//! Opening a journal, and starting its commit thread.

use crate::buffer::BufferCache;
use crate::commit::Committer;
use crate::error::{JournalError, Result};
use crate::journal::Journal;
use crate::log::{Log, LogFeatures, Opened};
use crate::map::LogMap;
use crate::options::JournalOptions;
use std::sync::Arc;
use uext4_sync::thread;

/// Blocks a transaction without a log may hold before it is written.
const WITHOUT_LOG_ROOM: i64 = 1 << 16;

impl Journal {
    /// Opens a log that was recovered ([`crate::recover`]) or needs no recovery, and starts its commit thread. After fast
    /// commits, the first transaction replaces them: all that they record belongs into it.
    ///
    /// # Errors
    /// The log cannot be read or is damaged; [`JournalError::Unsupported`]: it is not empty, or has unknown features;
    /// [`JournalError::NoThread`].
    pub fn open(
        cache: Arc<BufferCache>,
        map: LogMap,
        features: LogFeatures,
        options: JournalOptions,
        opened: Opened,
    ) -> Result<Arc<Journal>> {
        let log = Log::open(map, features, opened)?;
        let first = log.next_tid();
        let room = log.room();
        let max = match options.fills_log {
            true => room,
            false => log.transaction_max(),
        };
        Self::launch(cache, Some(log), first, max, room, options)
    }

    /// A journal without a log: commit writes in place, and a crash may tear a transaction.
    ///
    /// # Errors
    /// [`JournalError::NoThread`].
    pub fn without_log(cache: Arc<BufferCache>, options: JournalOptions) -> Result<Arc<Journal>> {
        let room = WITHOUT_LOG_ROOM;
        Self::launch(cache, None, 1 << 32, room, room, options)
    }

    fn launch(
        cache: Arc<BufferCache>,
        log: Option<Log>,
        first: u64,
        transaction_max: i64,
        room: i64,
        options: JournalOptions,
    ) -> Result<Arc<Journal>> {
        let room = room.min(transaction_max);
        let has_fast_commits = log.as_ref().is_some_and(Log::has_fast_commits);
        let has = (log.is_some(), has_fast_commits);
        let journal = Journal::new(cache, first, transaction_max, room, has, &options);
        let journal = Arc::new(journal);
        let committer = Committer::new(Arc::clone(&journal), log);
        let thread = thread::Builder::new()
            .name("uext4-commit".into())
            .spawn(move || committer.run())
            .map_err(|e| JournalError::NoThread(Arc::new(e)))?;
        journal.set_thread(thread);
        Ok(journal)
    }
}

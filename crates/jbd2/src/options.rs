//! How a journal behaves.

use std::time::Duration;

/// How the journal behaves.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// A transaction is committed when it is this old.
    pub commit_interval: Duration,
    /// Whether commit and checkpoint flush the device. If false, a power loss may tear or lose a transaction that was
    /// reported as durable.
    pub barrier: bool,
    /// Whether a transaction may fill the log, which is for one that is alone in it; else it may have a quarter.
    pub fills_log: bool,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            commit_interval: Duration::from_secs(5),
            barrier: true,
            fills_log: false,
        }
    }
}

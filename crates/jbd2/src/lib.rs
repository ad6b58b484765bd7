//! jbd2: the journal of ext4, as Linux writes and recovers it.
//!
//! # Data model
//! A [`Handle`] groups the changes that must become durable together. Handles join the one running
//! transaction; commit closes it, opens the next, copies what the closed one changed into the log,
//! flushes the device and writes the commit block. Checkpointing writes committed blocks in place and
//! frees their log. Without a log ([`Journal::without_log`]) commit writes in place at once: the same
//! freezing, the same deferred reuse of freed blocks, no atomicity.
//!
//! # Invariants
//! - A transaction that runs has room in the log for every block it may still attach.
//! - A block attached to a transaction is copied before the next one changes it: by
//!   commit, or by the first writer of the next transaction (freezing).
//! - A block freed in a transaction is given out again only once that transaction is durable, and is
//!   revoked if it held metadata.
//! - Only the commit thread writes the log and checkpoints.
//!
//! # Locking
//! Starting a handle counts as a lock (rank `handle`): it may wait for room. It writes no line that
//! another CPU writes: the count of active handles and the credits are per CPU. `journal_state` and
//! `journal_list` are held for a few instructions and never across I/O.
//!
//! | module | holds |
//! | --- | --- |
//! | [`buffer`] | the buffer cache |
//! | [`journal`] | waiting, emptying, aborting |
//! | `open` | opening, and starting the commit thread |
//! | [`handle`] | a handle |
//! | [`transaction`] | what a transaction holds |
//! | [`commit`] | the commit thread |
//! | `copies` | copies of blocks for the log |
//! | [`checkpoint`], `in_place` | writing in place |
//! | [`log`] | the log: head, tail, room |
//! | [`map`] | where the log lies on the device |
//! | [`recovery`] | replaying a log |
//! | `settings` | what can change while it is in use |
//! | `stats` | what it did, and how long that took |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

pub mod buffer;
pub mod checkpoint;
mod client;
pub mod commit;
mod copies;
pub mod error;
pub mod handle;
mod in_place;
pub mod journal;
pub mod log;
pub mod map;
mod open;
mod options;
pub mod recovery;
mod settings;
mod stats;
pub mod transaction;

#[cfg(all(test, not(shuttle)))]
mod tests;

pub use client::JournalClient;
pub use error::{JournalError, Result};
pub use handle::Handle;
pub use journal::Journal;
pub use log::{LogFeatures, Opened};
pub use map::{LogMap, LogRun};
pub use options::JournalOptions;
pub use recovery::{RecoveryReport, clear, is_empty, recover, skip};
pub use stats::JournalStats;

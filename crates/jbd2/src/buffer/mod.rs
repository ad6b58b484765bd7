//! The metadata block cache: one [`Buffer`] for each cached block of a device.
//!
//! # Invariants
//! - There is at most one live [`Buffer`] for a block; two callers that ask for a block get the same.
//! - A buffer whose content the device does not have yet is referenced by the journal, so that it is
//!   not evicted: a buffer is evicted only when the cache holds its last reference.
//! - Content changes only through a journal handle (`jbd2::Handle::modify`), which attaches the
//!   buffer to the running transaction first.
//!
//! # Locking
//! A shard of the cache is a leaf; a buffer's content has rank `buffer`, parent before child, and may
//! be held across the read that fills it.
//!
//! | module | holds |
//! | --- | --- |
//! | `block` | one block, and what the journal knows of it |
//! | `cache` | the shards |
//! | `freeze` | the hook that completes a block before it is copied |

mod block;
mod cache;
mod dirty_parts;
mod freeze;

pub use block::{Buffer, BufferRead, BufferWrite, Journaled, OwnedChange};
pub use cache::{BufferCache, BufferError};
pub use freeze::FreezeHook;

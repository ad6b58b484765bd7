//! Message queues within one process.

mod deferred;
mod mounts;

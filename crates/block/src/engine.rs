//! How batches reach the host.

use std::fmt;

/// How batches of more than one request reach the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoEngine {
    /// All requests of a batch are in flight together.
    Uring,
    /// One request after the other.
    Plain,
}

impl fmt::Display for IoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoEngine::Uring => "io_uring",
            IoEngine::Plain => "pread/pwrite",
        })
    }
}

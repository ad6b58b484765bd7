//! What can go wrong in the journal.

use crate::buffer::BufferError;
use std::sync::Arc;
use uext4_block::BlockError;
use uext4_ondisk::Corrupt;

/// Why the journal could not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal gave up after an earlier fault; nothing more is written.
    #[error("journal aborted: {0}")]
    Aborted(Arc<str>),
    /// The device failed.
    #[error("journal: {0}")]
    Device(Arc<BlockError>),
    /// A metadata block could not be read.
    #[error(transparent)]
    Buffer(Arc<BufferError>),
    /// The log is damaged.
    #[error(transparent)]
    Corrupt(Arc<Corrupt>),
    /// The host has no room for the commit thread.
    #[error("cannot start the journal's commit thread: {0}")]
    NoThread(Arc<std::io::Error>),
    /// The log has a feature that is not known.
    #[error("journal has unsupported features: {0}")]
    Unsupported(String),
    /// The host has no space for what is to be written in place: the log keeps it, and has no room left.
    #[error("journal: the host has no space left to empty the log")]
    HostFull,
    /// It was closed, as it is before an unmount.
    #[error("the journal is closed")]
    Closed,
    /// The commit thread was asked to wait for itself.
    #[error("journal: the commit thread cannot wait for a commit")]
    OnCommitThread,
    /// One handle needs more blocks than a transaction may hold.
    #[error("journal too small: a change needs {wanted} blocks, a transaction holds {limit}")]
    TooLarge {
        /// Blocks wanted.
        wanted: u32,
        /// Blocks a transaction may hold.
        limit: u32,
    },
}

impl JournalError {
    /// Whether the device has no space for a write.
    pub(crate) fn is_no_space(&self) -> bool {
        const ENOSPC: i32 = 28;
        matches!(self, JournalError::Device(why) if why.raw_os_error() == Some(ENOSPC))
    }
}

impl From<BlockError> for JournalError {
    fn from(e: BlockError) -> Self {
        JournalError::Device(Arc::new(e))
    }
}

impl From<BufferError> for JournalError {
    fn from(e: BufferError) -> Self {
        JournalError::Buffer(Arc::new(e))
    }
}

impl From<Corrupt> for JournalError {
    fn from(e: Corrupt) -> Self {
        JournalError::Corrupt(Arc::new(e))
    }
}

/// What the journal's calls return.
pub type Result<T> = std::result::Result<T, JournalError>;

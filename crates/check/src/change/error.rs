//! Why a change of settings is not planned.

use crate::error::CheckError;
use uext4_block::BlockError;

/// A change of settings was not planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The image could not be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The image has faults, or remembers errors.
    #[error("the image has faults")]
    Faulty,
    /// A mount would first recover the journal, or delete orphans.
    #[error("the image was not unmounted: its journal or its orphans are to be dealt with first")]
    Pending,
    /// What is in use has no room in that size.
    #[error("what is in use needs at least {least} blocks")]
    TooSmall {
        /// A size that has room for what is in use, but for trees of extents that grow as data moves.
        least: u64,
    },
    /// The change can't be made.
    #[error("{0}")]
    Refused(String),
}

impl ChangeError {
    pub(crate) fn refused(why: impl Into<String>) -> ChangeError {
        ChangeError::Refused(why.into())
    }
}

impl From<BlockError> for ChangeError {
    fn from(e: BlockError) -> ChangeError {
        ChangeError::Check(e.into())
    }
}

//! Why a repair was not carried out.

use std::io;
use std::path::PathBuf;
use uext4_block::BlockError;
use uext4_check::{EDIT_UNIT, Plan};
use uext4_jbd2::JournalError;

/// A plan was not carried out, or not undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BlockError),
    /// The journal of the image failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The repair is in the journal of the image, from which it can't be completed.
    #[error(
        "the repair is complete in the journal, and writing it in place failed: {0}; run it again"
    )]
    Recovery(#[source] JournalError),
    /// The change does not fit the journal, or is one by which the journal is found, and a part of it would be damage.
    #[error(
        "the change has {bytes} bytes that no journal of the image can take at once; --undo FILE keeps the old ones, so that a crash can be undone"
    )]
    NeedsUndo {
        /// Bytes that change.
        bytes: u64,
    },
    /// The undo file can't be read or written.
    #[error("undo file {}: {source}", path.display())]
    UndoFile {
        /// The file.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The undo file is not one, or not whole.
    #[error("undo file {} is damaged or not an undo file: {why}", path.display())]
    BadUndoFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// The undo file is of a repair that was carried out.
    #[error(
        "undo file {} is of a repair that is complete; name another file, or put its blocks back with `uext4 undo`",
        path.display()
    )]
    Complete {
        /// The file.
        path: PathBuf,
    },
}

impl RepairError {
    /// The error of a plan that takes an undo file.
    pub fn needs_undo(plan: &Plan) -> RepairError {
        RepairError::NeedsUndo {
            bytes: plan.edits.len() as u64 * EDIT_UNIT as u64,
        }
    }
}

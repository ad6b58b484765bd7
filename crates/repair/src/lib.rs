//! Carries out what [`uext4_check::plan`] planned.
//!
//! [`apply()`] makes the edits one transaction of the image's journal: all are there after a crash, or none. An image without a sound journal,
//! or with one that is too small, is written in place in an order that a repair which is run again can start from. With an undo file, it is
//! written in place and the old bytes are durable in that file before the first write: [`undo()`] puts them back, and a
//! repair that was interrupted starts with that when it is run again with the same file.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod apply;
mod error;
mod log;
mod undo_file;
mod write;

pub use apply::{apply, resume, undo};
pub use error::RepairError;
pub use undo_file::UndoPlace;

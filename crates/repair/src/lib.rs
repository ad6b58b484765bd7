//! Carries out what [`uext4_check::plan`] planned.
//!
//! [`apply()`] writes the new bytes in place. With an undo file, the old bytes are durable in that file before the first
//! write: [`undo()`] puts them back, and a repair that was interrupted starts with that when it is run again with
//! the same file. Without one, a crash leaves any part of the writes; a repair that is run again starts from there.
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
mod undo_file;

pub use apply::{apply, resume, undo};
pub use error::RepairError;

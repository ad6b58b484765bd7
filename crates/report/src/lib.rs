//! Messages of the programs of uext4 as lines of text.
//!
//! | module | holds |
//! | --- | --- |
//! | [`line`] | a line for a terminal, and how bad it is |
//! | [`reporter`] | log messages and spans as lines |
#![forbid(unsafe_code)]
// They panic where the output can not be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod line;
pub mod reporter;

pub use line::{Severity, printable, to_stderr};
pub use reporter::{Reporter, level_asked_for};

//! Mounting an image: everything between the command line and the FUSE server.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`] | `-o` as mount(8) and ext4(5) write it |
#![forbid(unsafe_code)]

pub mod options;

pub use options::{OptionError, Options, Transport};

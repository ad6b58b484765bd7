//! Mounting an image: everything between the command line and the FUSE server.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`] | `-o` as mount(8) and ext4(5) write it |
//! | [`sandbox`] | what a process that parses images gives up |
#![forbid(unsafe_code)]

pub mod options;
pub mod sandbox;

pub use options::{OptionError, Options, Transport};
pub use sandbox::{Confinement, SandboxError};

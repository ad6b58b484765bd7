//! Mounting an image, or message queues: everything between the command line and the FUSE server.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`] | `-o` as mount(8) and ext4(5) write it |
//! | [`process`] | the monitor and the server, and what they say to each other |
//! | [`sandbox`] | what a process that serves strangers gives up |
//! | [`remount`], [`again`] | options that change; an image at a second directory |
//! | [`unmount`], [`end`], [`mountinfo`] | unmounting; waiting for the server; what is mounted where |
//! | [`log`] | where is said what goes wrong |
//! | [`stats`], [`metrics`] | what the server tells of itself; the same over HTTP |
#![deny(unsafe_code)]

pub mod again;
pub mod end;
mod ext4_adapter;
pub mod log;
pub mod metrics;
pub mod mountinfo;
pub mod options;
pub mod process;
mod queues;
pub mod remount;
pub mod sandbox;
pub mod stats;
pub mod unmount;

pub use log::{Log, Severity, printable};
pub use options::{OptionError, Options};
pub use process::Failure;
pub use process::request::{MountRequest, Source, WirePath};
pub use sandbox::{Confinement, SandboxError};

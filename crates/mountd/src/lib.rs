//! Mounting an image, or message queues: everything between the command line and the FUSE server.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`] | `-o` as mount(8) and ext4(5) write it |
//! | [`process`] | the monitor and the server, and their messages |
//! | [`sandbox`] | the rights that a server drops |
//! | [`freeze`], [`resize`], `ask` | an image that stays as it is, or becomes larger, while it is mounted; requests to a server |
//! | [`encryption_keys`] | keys that a mount has, gets and loses |
//! | [`remount`], [`second_mount`] | options that change; an image at a second directory |
//! | [`unmount`], [`shutdown`], [`mountinfo`] | unmounting; waiting for the server; the list of mounts |
//! | `ext4_adapter`, `queues` | ext4 and message queues over FUSE |
//! | [`log`], `failure` | where errors are reported; why there is no mount |
//! | [`host_attributes`] | generation and project of files of the host |
//! | [`stats`], [`metrics`] | the server's statistics; the same over HTTP |
#![deny(unsafe_code)]
// They panic where the output can not be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod ask;
pub mod encryption_keys;
mod ext4_adapter;
mod failure;
pub mod freeze;
mod fs_verity_ioctls;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod host_attributes;
pub mod log;
pub mod metrics;
pub mod mountinfo;
pub mod options;
pub mod process;
mod question;
mod queues;
pub mod remount;
mod replace;
pub mod resize;
pub mod sandbox;
pub mod second_mount;
pub mod shutdown;
pub mod stats;
pub mod unmount;
mod write_back;

pub use failure::Failure;
pub use log::Log;
pub use options::{OptionError, Options};
pub use process::request::{MountRequest, Source, WirePath};
pub use sandbox::{Confinement, SandboxError};

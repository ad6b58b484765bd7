//! The FUSE front end: file systems served to the kernel.
//!
//! # Data model
//! A [`Mountpoint`] is a directory that the kernel sends requests for. A [`Transport`] passes them to a [`Handler`].
//! [`Server`] is the handler that answers them from a file system ([`FuseFileSystem`]). A node of the protocol is an inode of the file system, and has its number.
//!
//! # Locking
//! Each thread reads a request, answers it and reads the next. The table of nodes that the threads share is sharded
//! (`fuse_nodes`, a leaf). All other locks are the file system's.
//!
//! # Crash
//! Changes are durable after fsync(2); other changes are as the file system's journal has them. After a crash of the
//! server, the next mount recovers the image.
//!
//! | module | holds |
//! | --- | --- |
//! | [`abi`], [`request`] | the protocol's bytes; a request |
//! | [`handler`], [`transport`] | what answers requests; how they are transported |
//! | [`mountpoint`] | mounting, through `fuser` |
//! | [`gate`] | stopping while requests arrive |
//! | [`server`], [`filesystem`] | answers from a file system; what a file system adds for this |
//! | `ownership` | owners and permissions that a mount shows instead of those stored |
//! | [`settings`] | options that change while a mount is in use |
//! | [`statistics`] | counts and latencies of requests |
#![deny(unsafe_code)]

pub mod abi;
pub mod filesystem;
pub mod gate;
pub mod handler;
mod kernel_flags;
pub mod mountpoint;
mod ownership;
pub mod request;
pub mod server;
pub mod statistics;
pub mod transport;

mod serve;
pub mod settings;

pub use filesystem::{FuseFileSystem, Invalidation, IoctlCall};
pub use handler::Handler;
pub use kernel_flags::KernelFlags;
pub use mountpoint::{KernelOptions, Mountpoint, Negotiated};
pub use ownership::Ownership;
pub use request::Request;
pub use serve::{ServeOptions, Stopper, TransportResources, serve, serve_handler, serve_over};
pub use server::{Invalidator, Server, ServerOptions};
pub use transport::{Transport, TransportKind, ask_settings, grow_mounted, open_device};

//! The FUSE front end: file systems served to the kernel.
//!
//! # Data model
//! A [`Mountpoint`] is a directory that the kernel sends requests for. A [`Transport`] takes
//! them from the kernel and gives them to a [`Handler`]; [`Server`] is the handler that answers
//! them from a file system ([`FuseFileSystem`]). A node of the protocol is an inode of the file system, and has its number.
//!
//! # Locking
//! Each thread takes a request, answers it and takes the next. Of what threads share, the table of nodes is sharded
//! (`fuse_nodes`, a leaf); all else is the file system's.
//!
//! # Crash
//! What fsync(2) returned for is durable; the rest is as the file system's journal has it. A server that dies leaves an
//! image that the next mount recovers.
//!
//! | module | holds |
//! | --- | --- |
//! | [`abi`], [`request`] | the protocol's bytes; a request |
//! | [`handler`], [`transport`] | who answers; how requests come and replies go |
//! | [`mountpoint`] | mounting, through `fuser` |
//! | [`gate`] | ending while requests come |
//! | [`server`], [`filesystem`] | answers from a file system; what a file system adds for this |
//! | [`settings`] | what changes while it is served |
//! | [`statistics`] | how many requests, how long they took |
#![deny(unsafe_code)]

pub mod abi;
pub mod filesystem;
pub mod gate;
pub mod handler;
mod kernel_flags;
pub mod mountpoint;
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
pub use request::Request;
pub use serve::{ServeOptions, Stopper, TransportResources, serve, serve_handler, serve_over};
pub use server::{Invalidator, Server, ServerOptions};
pub use transport::{Transport, TransportKind, ask_settings, open_device};

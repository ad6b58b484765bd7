//! The FUSE front end: file systems served to the kernel.
//!
//! # Data model
//! A [`Mountpoint`] is a directory that the kernel sends requests for. A [`Transport`] takes
//! them from the kernel and gives them to a [`Handler`]; [`Server`] is the handler that answers
//! them from a file system ([`Served`]). A node of the protocol is an inode of the file system, and has its number.
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
//! | [`server`], [`served`] | answers from a file system; what a file system adds for this |
//! | [`settings`] | what changes while it is served |
//! | [`queues`] | what message queues have besides |
//! | [`statistics`] | how many requests, how long they took |
#![deny(unsafe_code)]

pub mod abi;
pub mod gate;
pub mod handler;
pub mod mountpoint;
pub mod queues;
pub mod request;
pub mod served;
pub mod server;
pub mod statistics;
pub mod transport;

mod serve;
pub mod settings;

pub use handler::Handler;
pub use mountpoint::{KernelOptions, Mountpoint, Negotiated};
pub use request::Request;
pub use serve::{
    Prepared, ServeOptions, Stopper, queue_threads, serve, serve_handler, serve_queues,
};
pub use served::Served;
pub use server::{Server, ServerOptions};
pub use transport::{Transport, TransportKind, ask_settings, open_device};

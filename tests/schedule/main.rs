//! Concurrent operations, schedule by schedule (`make shuttle`).
#![cfg(shuttle)]

mod access;
mod block_allocation;
mod commit;
mod direct_io;
mod explore;
mod file_system;
mod gate;
mod inode_allocation;
mod inode_cache;
mod inode_lock;
mod lazytime;
mod mqueue;
mod mqueue_deferred;
mod mqueue_namespace;
mod one_directory;
mod registry;
mod simulation;
mod swap_boot;

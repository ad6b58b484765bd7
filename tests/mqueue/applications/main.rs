//! Programs that were not written for this project, with queues of the kernel and of a mount.

#[path = "../namespace.rs"]
mod namespace;
mod posix_ipc;
mod program;
mod stress_ng;

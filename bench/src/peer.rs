//! The kernel as a peer, for workloads that have no file system of the host beside them.

use clap::ValueEnum;
use nix::sched::{CloneFlags, unshare};

/// The peers of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// What the kernel has of the same.
    Kernel,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::Kernel => "kernel",
        }
    }
}

/// Gives the calling thread a new IPC namespace of the kernel; the one it had goes, unless others have it.
pub fn new_ipc_namespace() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWIPC)
}

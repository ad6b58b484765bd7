//! IPC namespaces of the kernel: how a worker gets a new one.

use clap::ValueEnum;
use nix::sched::{CloneFlags, unshare};

/// A system call that makes a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// unshare(CLONE_NEWIPC) by the worker, which drops the one that it had
    Kernel,
    /// clone(CLONE_NEWIPC) of a child that shares the worker's memory and ends at once, and takes its namespace with it
    KernelClone,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::Kernel => "kernel",
            Peer::KernelClone => "kernel-clone",
        }
    }

    pub fn call(self) -> &'static str {
        match self {
            Peer::Kernel => "unshare(CLONE_NEWIPC)",
            Peer::KernelClone => "clone(CLONE_NEWIPC)",
        }
    }

    /// Makes a namespace and drops one. The kernel frees it some time later.
    pub fn turn_over(self) -> nix::Result<()> {
        match self {
            Peer::Kernel => unshare(CloneFlags::CLONE_NEWIPC),
            Peer::KernelClone => super::unsafe_clone::child_in_new_namespace(),
        }
    }
}

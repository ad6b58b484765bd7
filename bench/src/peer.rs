//! The kernel as a peer, for workloads that have no file system of the host beside them.

use clap::ValueEnum;

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

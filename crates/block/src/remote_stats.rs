//! What a client of a server did for an image that is open.

use uext4_sync::Durations;

/// The right to write an image that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// This host has not asked for it: it only reads, or has not written yet.
    NotHeld,
    /// This host has it.
    Held,
    /// Another host has it, so that nothing is written here any more.
    Lost,
}

impl Lease {
    /// As statistics name it.
    pub const fn name(self) -> &'static str {
        match self {
            Lease::NotHeld => "not held",
            Lease::Held => "held",
            Lease::Lost => "lost",
        }
    }
}

/// What became of look-ups in the caches of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Found in memory.
    pub memory_hits: u64,
    /// Found on the disk of this host.
    pub disk_hits: u64,
    /// Read from the server.
    pub misses: u64,
}

/// What a client of a server did since the image was opened, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteStats {
    /// Of what kind the server is: `objects`, `rbd`, `nbd`.
    pub kind: &'static str,
    /// The right to write; `None` where the server has no such thing.
    pub lease: Option<Lease>,
    /// How often the right to write was taken, and the number of the state that is read.
    pub epoch_and_root: Option<(u32, u64)>,
    /// Connections that work.
    pub connections: Option<usize>,
    /// Flushes that had something to make durable.
    pub flushes: Durations,
    /// Its caches, if it has some.
    pub cache: Option<CacheCounts>,
}

//! An IPC namespace, as far as it has message queues, or a mount of its queues: both are the same here.

use crate::namespace::Namespace;
use std::ops::Deref;
use uext4_vfs::registry::SHARDS;
use uext4_vfs::{SuperKey, SuperRef};

/// How many series of numbers there are; as many as shards of the registry.
pub(crate) const SERIES: usize = SHARDS;

/// Names a namespace among those of a [`crate::MqueueType`]; none ever has the number of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespaceId(pub u64);

impl NamespaceId {
    /// A number of a series.
    pub(crate) fn new(series: usize, nth: u64) -> NamespaceId {
        NamespaceId(nth * SERIES as u64 + series as u64)
    }
}

impl SuperKey for NamespaceId {
    /// A series has a shard. The numbers of a series lie side by side, as they come and mostly go in turn.
    fn spread(&self) -> u64 {
        let (series, nth) = (self.0 % SERIES as u64, self.0 / SERIES as u64);
        (nth << 57) | (series << 32) | (nth & 0xffff_ffff)
    }
}

/// A namespace of message queues, shared by its clones and by the other mounts of it
/// ([`crate::MqueueType::mount`]). It ends with the last of them; queues that are open stay with who has
/// them open, and have no name then.
#[derive(Clone)]
pub struct IpcNamespace {
    superblock: SuperRef<NamespaceId, Namespace>,
}

impl IpcNamespace {
    pub(crate) fn new(superblock: SuperRef<NamespaceId, Namespace>) -> IpcNamespace {
        IpcNamespace { superblock }
    }
}

impl Deref for IpcNamespace {
    type Target = Namespace;

    #[inline(always)]
    fn deref(&self) -> &Namespace {
        &self.superblock
    }
}

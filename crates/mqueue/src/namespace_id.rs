//! The identifiers of IPC namespaces.

use uext4_vfs::SuperKey;
use uext4_vfs::registry::SHARDS;

/// How many series of numbers there are; as many as shards of the registry.
pub(crate) const SERIES: usize = SHARDS;

/// Names a namespace among those of a [`crate::mqueue_type::MqueueType`]; none ever has the number of another.
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

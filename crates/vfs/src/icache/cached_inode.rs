//! What the inode cache needs of an inode.

/// What the cache asks of an inode. It may hold its lock meanwhile, so these take no lock.
pub trait CachedInode: Send + Sync + 'static {
    /// The inode number: from 1, below 2^63.
    fn ino(&self) -> u64;

    /// Whether it is clean, so that it can be read from disk again. That no reference is left is
    /// the cache's to see.
    fn may_evict(&self) -> bool;

    /// Whether it must be written before it may go.
    fn needs_write(&self) -> bool {
        false
    }

    /// Whether a hint is for it: whether it has pending timestamps.
    fn has_pending_times(&self) -> bool {
        true
    }

    /// A reference is given out.
    fn on_get(&self) {}

    /// Whether it has no name and no user any more, so that [`InodeCache::reap`](super::InodeCache::reap) may take it.
    fn is_abandoned(&self) -> bool {
        false
    }
}

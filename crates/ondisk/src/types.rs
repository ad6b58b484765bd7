//! Numbers that name things: never bare integers across a function boundary.

use std::fmt;

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($t:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(transparent)]
        pub struct $name(pub $t);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$t> for $name {
            #[inline]
            fn from(v: $t) -> Self {
                Self(v)
            }
        }

        impl From<$name> for $t {
            #[inline]
            fn from(v: $name) -> Self {
                v.0
            }
        }
    };
}

newtype!(
    /// Inode number; the first inode is 1 and 0 means none.
    Ino(u32)
);
newtype!(
    /// The generation: distinguishes one use of an inode number from the next.
    Generation(u32)
);
newtype!(
    /// Block in a file.
    Lblk(u32)
);
newtype!(
    /// Block on disk.
    Pblk(u64)
);
newtype!(
    /// Block group.
    GroupNo(u32)
);
newtype!(
    /// A cluster on disk: what a bit of a block bitmap stands for; without `bigalloc` a block.
    Cluster(u64)
);
newtype!(
    /// Block (or cluster) relative to the start of its group.
    GroupBlk(u32)
);

impl Ino {
    /// No inode.
    pub const NONE: Ino = Ino(0);
    /// The inode that lists bad blocks.
    pub const BAD_BLOCKS: Ino = Ino(1);
    /// The root directory.
    pub const ROOT: Ino = Ino(2);
    /// User quota file.
    pub const USER_QUOTA: Ino = Ino(3);
    /// Group quota file.
    pub const GROUP_QUOTA: Ino = Ino(4);
    /// Boot loader inode (`EXT4_IOC_SWAP_BOOT`).
    pub const BOOT_LOADER: Ino = Ino(5);
    /// Reserved group descriptor blocks.
    pub const RESIZE: Ino = Ino(7);
    /// The journal.
    pub const JOURNAL: Ino = Ino(8);
    /// Replica inode, never used upstream.
    pub const REPLICA: Ino = Ino(10);
    /// First inode that is not reserved where the superblock does not say.
    pub const GOOD_OLD_FIRST: Ino = Ino(11);
}

impl Lblk {
    /// The largest number a file block can have: extents use 32 bits and one value is kept free.
    pub const MAX: Lblk = Lblk(u32::MAX - 1);
}

/// Sequence number of a jbd2 transaction; it wraps, so there is no total order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Tid(pub u32);

impl Tid {
    /// True if `self` is later than `other`, in wrapping order.
    #[inline]
    pub fn after(self, other: Tid) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }

    /// True if `self` is `other` or later.
    #[inline]
    pub fn after_eq(self, other: Tid) -> bool {
        (self.0.wrapping_sub(other.0) as i32) >= 0
    }

    /// True if `self` is earlier than `other`.
    #[inline]
    pub fn before(self, other: Tid) -> bool {
        other.after(self)
    }

    /// True if `self` is `other` or earlier.
    #[inline]
    pub fn before_eq(self, other: Tid) -> bool {
        other.after_eq(self)
    }

    /// The transaction that follows.
    #[inline]
    pub fn next(self) -> Tid {
        Tid(self.0.wrapping_add(1))
    }

    /// The transaction that precedes.
    #[inline]
    pub fn prev(self) -> Tid {
        Tid(self.0.wrapping_sub(1))
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u32> for Tid {
    fn from(v: u32) -> Self {
        Tid(v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tid_wraps() {
        let last = Tid(u32::MAX);
        assert!(last.next().after(last) && last.before_eq(last) && last.before(Tid(3)));
        assert!(!last.after(last.next()));
        assert_eq!(last.next().prev(), last);
    }
}

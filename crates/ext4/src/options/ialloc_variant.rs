//! The names of the variants of inode allocation.

/// The variants of mechanism 1 (`ialloc=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IallocVariant {
    /// `retry-unlocked` (before): a lost race starts the search again, without the group's lock,
    /// journal calls and all.
    RetryUnlocked,
    /// `retry-locked` (after): a lost race searches again with the group's lock held.
    RetryLocked,
    /// `lock-free` (beyond): an atomic operation claims the bit.
    #[default]
    LockFree,
}

uext4_vfs::variants!(
    IallocVariant,
    "ialloc",
    RetryUnlocked = "retry-unlocked",
    RetryLocked = "retry-locked",
    LockFree = "lock-free",
);

//! The names of the arms of inode allocation.

/// The arms of mechanism 1 (`ialloc=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IallocArm {
    /// `retry-unlocked` (before): a lost race starts the search again, without the group's lock,
    /// journal calls and all.
    RetryUnlocked,
    /// `retry-locked` (after): a lost race searches again with the group's lock held.
    RetryLocked,
    /// `lock-free` (beyond): an atomic operation claims the bit.
    #[default]
    LockFree,
}

uext4_vfs::arms!(
    IallocArm,
    "ialloc",
    RetryUnlocked = "retry-unlocked",
    RetryLocked = "retry-locked",
    LockFree = "lock-free",
);

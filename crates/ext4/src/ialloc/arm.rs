//! The names of the arms of inode allocation.

use std::fmt;
use std::str::FromStr;
use uext4_vfs::arm::{self, UnknownArm};

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

impl IallocArm {
    /// Every arm, the replaced one first.
    pub const ALL: [IallocArm; 3] = [
        IallocArm::RetryUnlocked,
        IallocArm::RetryLocked,
        IallocArm::LockFree,
    ];

    /// The name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            IallocArm::RetryUnlocked => "retry-unlocked",
            IallocArm::RetryLocked => "retry-locked",
            IallocArm::LockFree => "lock-free",
        }
    }
}

impl fmt::Display for IallocArm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for IallocArm {
    type Err = UnknownArm;

    fn from_str(text: &str) -> Result<IallocArm, UnknownArm> {
        arm::parse("ialloc", text, &IallocArm::ALL, IallocArm::name)
    }
}

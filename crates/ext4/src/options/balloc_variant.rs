//! The names of the variants of block allocation.

/// The variants of mechanism 6 (`balloc=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BallocVariant {
    /// `group-lock` (before): a group is searched and changed with its lock held, and one goal is shared by all
    /// requests that their own group cannot satisfy.
    GroupLock,
    /// `trylock` (after): a group whose lock is held is passed over, and files are spread over several goals.
    TryLock,
    /// `percpu` (beyond): atomic operations claim runs, from chunks that a CPU or a file has in advance.
    #[default]
    PerCpu,
}

uext4_vfs::variants!(
    BallocVariant,
    "balloc",
    GroupLock = "group-lock",
    TryLock = "trylock",
    PerCpu = "percpu",
);

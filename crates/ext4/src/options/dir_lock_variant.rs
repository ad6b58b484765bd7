//! The names of the variants of the lock of a directory's entries.

/// How changes of a directory's entries exclude each other (`dir-lock=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DirLockVariant {
    /// `exclusive` (before): a change takes the directory's `ilock` alone.
    Exclusive,
    /// `leaf` (beyond): in a directory with a tree of hashes a change shares the `ilock` and locks the leaf of its name.
    #[default]
    Leaf,
}

uext4_vfs::variants!(
    DirLockVariant,
    "dir-lock",
    Exclusive = "exclusive",
    Leaf = "leaf",
);

//! What can be damaged as a structure.

use uext4_ondisk::{DxKind, Ino};

/// A structure to be damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the inode it belongs to, and its block"
)]
pub enum Target {
    /// A block of a directory, or of the leaves of its hash tree.
    Linear { ino: Ino, block: u64 },
    /// A node of a hash tree.
    Dx { ino: Ino, block: u64, kind: DxKind },
    /// A node of a tree of extents.
    Extents { ino: Ino, block: u64 },
    /// A block of pointers.
    Indirect { ino: Ino, block: u64 },
    /// A block of attributes.
    Xattr { block: u64 },
    /// The block of a symbolic link.
    Link { ino: Ino, block: u64 },
    /// The superblock of the log.
    JournalSuper { block: u64 },
    /// A block of the orphan file.
    OrphanFile { ino: Ino, block: u64 },
    /// The block of multiple mount protection.
    Mmp { block: u64 },
    /// A block of a quota file.
    Quota { ino: Ino, block: u64 },
    /// A directory in its inode.
    InlineDir { ino: Ino },
    /// Attributes in an inode.
    InodeXattr { ino: Ino },
    /// An inode that holds the value of an attribute.
    Value { ino: Ino },
}

impl Target {
    /// Its kind, to choose among kinds evenly.
    pub fn kind(&self) -> u8 {
        match self {
            Target::Linear { .. } => 0,
            Target::Dx { .. } => 1,
            Target::Extents { .. } => 2,
            Target::Indirect { .. } => 3,
            Target::Xattr { .. } => 4,
            Target::Link { .. } => 5,
            Target::JournalSuper { .. } => 6,
            Target::OrphanFile { .. } => 7,
            Target::Mmp { .. } => 8,
            Target::Quota { .. } => 9,
            Target::InlineDir { .. } => 10,
            Target::InodeXattr { .. } => 11,
            Target::Value { .. } => 12,
        }
    }
}

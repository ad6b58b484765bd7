//! What the reads of one file with fs-verity are checked with; it stays as it is.

use uext4_ondisk::{BlockHash, BlockHasher, HashTree};

/// The tree of hashes of a file; see the module.
#[derive(Debug)]
pub(crate) struct CheckedFile {
    pub hasher: BlockHasher,
    pub tree: HashTree,
    pub root: BlockHash,
    /// Bytes of a block that is hashed.
    pub block: u64,
    /// Where the tree begins in the file.
    pub tree_at: u64,
    pub data_bytes: u64,
}

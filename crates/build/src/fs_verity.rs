//! fs-verity of files: hash trees by which the kernel checks what it reads.
//!
//! # Data model
//! The tree ([`crate::hash_tree`]) is in blocks of the file past its end, from the next 64 KiB on. The descriptor is in the block behind the
//! tree, and the last four bytes of that block are the descriptor's size. The digest of a file, by which it is known to others, is that
//! of the descriptor.
//!
//! Source: Linux documentation, filesystems/fsverity, "Merkle tree", "fs-verity descriptor"; filesystems/ext4/verity.

use uext4_ondisk::Incompat;

use crate::error::{MkfsError, Result};
use crate::features::FeatureSet;
use crate::hash_tree::{BLOCK, Hash, HashTree};

/// The tree begins at a multiple of this.
const ALIGN: u64 = 64 << 10;
/// Bytes of the descriptor.
const DESCRIPTOR: usize = 256;

/// A file with fs-verity.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FsVerityFile {
    /// Its path in the image, with a slash in front: its first name.
    pub path: Vec<u8>,
    /// What `fsverity digest` prints of it, SHA-256.
    pub digest: [u8; 32],
}

/// Refuses what can't be.
pub(crate) fn check(patterns: &[String], block_size: u32, features: &FeatureSet) -> Result<()> {
    let Some(pattern) = patterns.first() else {
        return Ok(());
    };
    if block_size as usize != BLOCK {
        let why = "4096 for files with fs-verity";
        return Err(MkfsError::option("block size", block_size, why));
    }
    if !features.incompat.contains(Incompat::EXTENT) {
        let why = "files with fs-verity need the feature extent";
        return Err(MkfsError::option("fsverity", pattern, why));
    }
    Ok(())
}

/// The tree over a file of so many bytes.
pub(crate) fn tree_of(size: u64) -> HashTree {
    HashTree::over(size.div_ceil(BLOCK as u64))
}

/// The first block of the tree in the file, and the blocks of tree and descriptor.
pub(crate) fn blocks_of(size: u64) -> (u64, u64) {
    let first = size.next_multiple_of(ALIGN) / BLOCK as u64;
    (first, tree_of(size).blocks() + 1)
}

/// The descriptor, and the block that holds it.
pub(crate) fn descriptor(size: u64, root: Hash) -> ([u8; DESCRIPTOR], Vec<u8>) {
    let mut descriptor = [0; DESCRIPTOR];
    // Version, SHA-256, the logarithm of the block size; then no salt and no signature.
    descriptor[..3].copy_from_slice(&[1, 1, BLOCK.trailing_zeros() as u8]);
    descriptor[8..16].copy_from_slice(&size.to_le_bytes());
    descriptor[16..48].copy_from_slice(&root);
    let mut block = descriptor.to_vec();
    block.resize(BLOCK - 4, 0);
    block.extend((DESCRIPTOR as u32).to_le_bytes());
    (descriptor, block)
}

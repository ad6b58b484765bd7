//! fs-verity of files: hash trees by which what is read is checked.
//!
//! # Data model
//! See [`uext4_ondisk::fs_verity`]. The trees that are made here have the blocks of the file system.

use uext4_ondisk::{FsVerity, Incompat};

use crate::error::{MkfsError, Result};
use crate::features::FeatureSet;
use crate::verity::BLOCK;

/// A file with fs-verity.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FsVerityFile {
    /// Its path in the image, with a slash in front: its first name.
    pub path: Vec<u8>,
    /// What `fsverity digest` prints of it, SHA-256.
    pub digest: [u8; 32],
}

/// Whether trees are made as these are.
pub(crate) fn is_made(verity: &FsVerity) -> bool {
    verity.algorithm == uext4_ondisk::HashAlgorithm::Sha256 && verity.block_bytes as usize == BLOCK
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

/// The first block of the tree in the file, and the blocks of tree and descriptor.
pub(crate) fn blocks_of(size: u64, verity: &FsVerity) -> (u64, u64) {
    let tree = verity.tree(size);
    let (_, end) = verity.descriptor_at(size, &tree, BLOCK as u32);
    let first = FsVerity::tree_at(size) / BLOCK as u64;
    (first, end / BLOCK as u64 - first)
}

//! fs-verity of files: hash trees by which the kernel checks what it reads.
//!
//! # Data model
//! The tree ([`crate::hash_tree`]) is in blocks of the file past its end, from the next 64 KiB on. The descriptor is in the block behind the
//! tree, with a signature behind it where a source has one; the last four bytes of the block are the size of both. The digest of a file, by which it is known to others, is that
//! of the descriptor.
//!
//! Source: Linux documentation, filesystems/fsverity, "Merkle tree", "fs-verity descriptor"; filesystems/ext4/verity.

use sha2::{Digest, Sha256};
use uext4_ondisk::Incompat;

use crate::error::{MkfsError, Result};
use crate::features::FeatureSet;
use crate::hash_tree::{BLOCK, Hash, HashTree, Hasher};

/// The tree begins at a multiple of this.
const ALIGN: u64 = 64 << 10;
/// Bytes of the descriptor.
const DESCRIPTOR: usize = 256;
/// What its first bytes are: version, SHA-256, the logarithm of the block size.
const BEGIN: [u8; 3] = [1, 1, BLOCK.trailing_zeros() as u8];
/// Where the salt is in it, and its most bytes.
const SALT: (usize, usize) = (80, 32);
/// Bytes that SHA-256 takes at once; a salt is padded to them.
const SHA256_BLOCK: usize = 64;

/// How a file gets fs-verity.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verity {
    /// What each hash begins with, unless it is empty.
    salt: Vec<u8>,
    /// A signature of the digest, which is stored behind the descriptor.
    signature: Vec<u8>,
}

impl Verity {
    /// As a descriptor has it, with a signature behind it; `None` for another algorithm or block size, with which trees are not made.
    #[cfg(target_os = "linux")]
    pub fn of_descriptor(bytes: &[u8]) -> Option<Verity> {
        let (descriptor, signature) = bytes.split_at_checked(DESCRIPTOR)?;
        let salt = descriptor.get(SALT.0..SALT.0 + SALT.1)?;
        Some(Verity {
            salt: salt.get(..usize::from(*descriptor.get(3)?))?.to_vec(),
            signature: signature.to_vec(),
        })
        .filter(|_| descriptor.starts_with(&BEGIN))
    }

    /// What hashes the blocks of the file.
    pub fn hasher(&self) -> Hasher {
        let mut salt = self.salt.clone();
        salt.resize(salt.len().next_multiple_of(SHA256_BLOCK), 0);
        Hasher::new(&salt)
    }

    /// Blocks of descriptor and signature; four bytes at the end of the last are their size.
    fn blocks(&self) -> u64 {
        (DESCRIPTOR + self.signature.len() + 4).div_ceil(BLOCK) as u64
    }

    /// The digest of a file, and the blocks of descriptor and signature.
    pub fn finish(&self, size: u64, root: Hash) -> (Hash, Vec<u8>) {
        let mut descriptor = [0; DESCRIPTOR];
        descriptor[..3].copy_from_slice(&BEGIN);
        descriptor[3] = self.salt.len() as u8;
        descriptor[8..16].copy_from_slice(&size.to_le_bytes());
        descriptor[16..48].copy_from_slice(&root);
        descriptor[SALT.0..SALT.0 + self.salt.len()].copy_from_slice(&self.salt);
        // The digest is that of a descriptor without a signature.
        let digest = Sha256::digest(descriptor).into();
        descriptor[4..8].copy_from_slice(&(self.signature.len() as u32).to_le_bytes());
        let mut blocks = [&descriptor[..], &self.signature].concat();
        let bytes = blocks.len() as u32;
        blocks.resize(self.blocks() as usize * BLOCK - 4, 0);
        blocks.extend(bytes.to_le_bytes());
        (digest, blocks)
    }
}

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
pub(crate) fn blocks_of(size: u64, verity: &Verity) -> (u64, u64) {
    let first = size.next_multiple_of(ALIGN) / BLOCK as u64;
    (first, tree_of(size).blocks() + verity.blocks())
}

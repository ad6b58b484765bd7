//! The hash tree of dm-verity behind an image, as veritysetup(8) makes it.
//!
//! # Data model
//! Behind the image is a block with the superblock, then the tree ([`uext4_ondisk::hash_tree`]). The root hash is stored nowhere.
//!
//! Source: Linux documentation, admin-guide/device-mapper/verity; cryptsetup's wiki, "DMVerity", "Verity superblock".

use sha2::{Digest, Sha256};
use uext4_block::BlockDevice;
use uext4_ondisk::{BlockHasher, HashAlgorithm, HashTree};
use uuid::Uuid;

use crate::error::{MkfsError, Result};
use crate::parallel;
use crate::progress::{Progress, go_on};

/// Bytes of a block, of the data and of trees.
pub(crate) const BLOCK: usize = 4096;
const ALGORITHM: HashAlgorithm = HashAlgorithm::Sha256;
/// Most bytes that the superblock has room for.
const SALT_MAX: usize = 256;
/// Bytes of the superblock, which has a block of its own.
const SUPERBLOCK: usize = 512;

/// How the tree is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerityOptions {
    /// Bytes that each hash begins with, at most 256; `None` derives 32 from the UUID of the image.
    pub salt: Option<Vec<u8>>,
}

/// The tree behind an image: with this, `veritysetup open` needs nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct VerityReport {
    /// The root hash, SHA-256.
    pub root_hash: [u8; 32],
    /// Bytes that each hash begins with.
    pub salt: Vec<u8>,
    /// Where the superblock of the tree is, in bytes: the end of the image, in whole blocks.
    pub hash_offset: u64,
    /// Bytes of superblock and tree.
    pub bytes: u64,
}

/// Refuses what can't be.
pub(crate) fn check(options: &VerityOptions, block_size: u32) -> Result<()> {
    if block_size as usize != BLOCK {
        let why = "4096 for an image with a hash tree of dm-verity";
        return Err(MkfsError::option("block size", block_size, why));
    }
    match options.salt.as_ref().map_or(0, Vec::len) {
        0..=SALT_MAX => Ok(()),
        len => Err(MkfsError::option("salt", len, "at most 256 bytes long")),
    }
}

/// Bytes of an image with its tree.
pub(crate) fn bytes_with_tree(image_bytes: u64) -> u64 {
    let blocks = blocks_of(image_bytes);
    (blocks + 1 + HashTree::over(blocks, ALGORITHM, BLOCK).blocks()) * BLOCK as u64
}

/// Blocks of an image; the last one may be partly behind its end.
fn blocks_of(image_bytes: u64) -> u64 {
    image_bytes.div_ceil(BLOCK as u64)
}

/// Computes the tree of the image at the beginning of a device, and writes it behind the image.
pub(crate) fn append(
    device: &dyn BlockDevice,
    image_bytes: u64,
    uuid: Uuid,
    options: &VerityOptions,
    threads: usize,
    progress: &dyn Progress,
) -> Result<VerityReport> {
    let derived = || {
        let salt = Sha256::new_with_prefix(b"uext4 dm-verity salt");
        salt.chain_update(uuid.as_bytes()).finalize().to_vec()
    };
    let salt = options.salt.clone().unwrap_or_else(derived);
    let hasher = BlockHasher::new(ALGORITHM, BLOCK, &salt);
    let blocks = blocks_of(image_bytes);
    let tree = HashTree::over(blocks, ALGORITHM, BLOCK);
    let offset = |block: u64| block * BLOCK as u64;
    let hash_offset = offset(blocks);
    let write = |at: u64, block: &[u8]| -> Result<()> {
        Ok(device.write_at(offset(blocks + 1 + at), block)?)
    };
    progress.phase("verity", hash_offset);
    let hashes = parallel::run(threads, tree.parts(), Vec::new, |buffer, i| {
        let read = |first, data: &mut [u8]| Ok(device.read_at(offset(first), data)?);
        let (bytes, hash) = tree.part(i, (&hasher, buffer), read, write)?;
        go_on(progress, bytes)?;
        Ok(hash)
    })?;
    let root = tree.finish(&hasher, hashes, write)?;
    let mut root_hash = [0; 32];
    root_hash.copy_from_slice(root.as_bytes());
    device.write_at(hash_offset, &superblock(uuid, blocks, &salt))?;
    Ok(VerityReport {
        root_hash,
        salt,
        hash_offset,
        bytes: offset(1 + tree.blocks()),
    })
}

/// A block with the superblock.
fn superblock(uuid: Uuid, blocks: u64, salt: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK);
    block.extend(b"verity\0\0");
    // Version of the superblock, and the type of hashes in which the salt precedes the data.
    block.extend([1_u32, 1].map(u32::to_le_bytes).as_flattened());
    block.extend(uuid.as_bytes());
    let mut algorithm = [0; 32];
    algorithm[..6].copy_from_slice(b"sha256");
    block.extend(algorithm);
    block.extend([BLOCK as u32; 2].map(u32::to_le_bytes).as_flattened());
    block.extend(blocks.to_le_bytes());
    block.extend((salt.len() as u16).to_le_bytes());
    block.extend([0; 6]);
    block.extend(salt);
    debug_assert!(block.len() <= SUPERBLOCK);
    block.resize(BLOCK, 0);
    block
}

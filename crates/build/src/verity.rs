//! The hash tree of dm-verity behind an image, as veritysetup(8) makes it.
//!
//! # Data model
//! Behind the image is a block with the superblock, then the levels of the tree, the highest first. A block of a level has the hashes of
//! 128 blocks of the level below, of the image's blocks at the lowest. The root hash is that of the only block of the highest level; it
//! is stored nowhere.
//!
//! Source: Linux documentation, admin-guide/device-mapper/verity; cryptsetup's wiki, "DMVerity", "Verity superblock".

use sha2::{Digest, Sha256};
use uext4_block::BlockDevice;
use uuid::Uuid;

use crate::error::{MkfsError, Result};
use crate::parallel;
use crate::progress::{Progress, go_on};

/// Bytes of a block, of the image and of the tree.
const BLOCK: usize = 4096;
const HASH: usize = 32;
const HASHES: usize = BLOCK / HASH;
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

/// Places of the levels.
struct Levels {
    /// Offset and blocks of each, the lowest first.
    levels: Vec<(u64, u64)>,
    end: u64,
}

impl Levels {
    /// Those of an image of so many blocks, behind it.
    fn of(blocks: u64) -> Levels {
        let mut sizes = Vec::new();
        let mut below = blocks;
        while below > 1 {
            below = below.div_ceil(HASHES as u64);
            sizes.push(below);
        }
        let (mut at, mut levels) = ((blocks + 1) * BLOCK as u64, Vec::new());
        for size in sizes.into_iter().rev() {
            levels.push((at, size));
            at += size * BLOCK as u64;
        }
        levels.reverse();
        Levels { levels, end: at }
    }
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
    Levels::of(blocks_of(image_bytes)).end
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
    let hasher = Hasher::new(&salt);
    let blocks = blocks_of(image_bytes);
    let hash_offset = blocks * BLOCK as u64;
    let levels = Levels::of(blocks);
    progress.phase("verity", hash_offset);
    let (lowest, lowest_blocks) = levels.levels.first().copied().unwrap_or_default();
    let make = || (vec![0; HASHES * BLOCK], vec![0; BLOCK]);
    let mut hashes = parallel::run(threads, lowest_blocks as usize, make, |(data, out), i| {
        let first = (i * HASHES) as u64;
        let count = (blocks - first).min(HASHES as u64) as usize;
        let data = &mut data[..count * BLOCK];
        device.read_at(first * BLOCK as u64, data)?;
        let hashes = data.chunks_exact(BLOCK).map(|block| hasher.hash(block));
        fill(out, hashes);
        device.write_at(lowest + (i * BLOCK) as u64, out)?;
        go_on(progress, data.len() as u64)?;
        Ok(hasher.hash(out))
    })?;
    let mut block = vec![0; BLOCK];
    for (level, _) in levels.levels.iter().skip(1) {
        let mut above = Vec::new();
        for (i, hashes) in hashes.chunks(HASHES).enumerate() {
            fill(&mut block, hashes.iter().copied());
            device.write_at(level + (i * BLOCK) as u64, &block)?;
            above.push(hasher.hash(&block));
        }
        hashes = above;
    }
    device.write_at(hash_offset, &superblock(uuid, blocks, &salt))?;
    let root_hash = hashes.first().copied().unwrap_or_default();
    Ok(VerityReport {
        root_hash,
        salt,
        hash_offset,
        bytes: levels.end - hash_offset,
    })
}

/// Fills a block of the tree.
fn fill(block: &mut [u8], hashes: impl Iterator<Item = [u8; HASH]>) {
    block.fill(0);
    for (to, hash) in block.chunks_exact_mut(HASH).zip(hashes) {
        to.copy_from_slice(&hash);
    }
}

/// Hashes with a salt.
struct Hasher {
    salted: Sha256,
    of_zeros: [u8; HASH],
}

impl Hasher {
    fn new(salt: &[u8]) -> Hasher {
        let salted = Sha256::new_with_prefix(salt);
        let of_zeros = salted.clone().chain_update([0; BLOCK]).finalize().into();
        Hasher { salted, of_zeros }
    }

    fn hash(&self, block: &[u8]) -> [u8; HASH] {
        match block.iter().all(|byte| *byte == 0) {
            true => self.of_zeros,
            false => self.salted.clone().chain_update(block).finalize().into(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_the_image_highest_first() {
        let block = BLOCK as u64;
        let of = |blocks| Levels::of(blocks).levels;
        assert_eq!(of(128), [(129 * block, 1)]);
        assert_eq!(of(129), [(131 * block, 2), (130 * block, 1)]);
        let blocks = 128 * 128 + 1;
        let first = (blocks + 1) * block;
        let expected = [(first + 3 * block, 129), (first + block, 2), (first, 1)];
        assert_eq!(of(blocks), expected);
        assert_eq!(Levels::of(blocks).end, first + 132 * block);
    }
}

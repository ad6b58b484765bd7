//! Trees of hashes, as dm-verity and fs-verity have them.
//!
//! # Data model
//! A block of a level has the hashes of 128 blocks of the level below, of the data at the lowest. The levels follow each other, the
//! highest first. The root hash is that of the only block of the highest level, or of the only block of data.

use sha2::{Digest, Sha256};

use crate::error::Result;

/// Bytes of a block, of the data and of the tree.
pub(crate) const BLOCK: usize = 4096;
/// Bytes of a hash.
const HASH: usize = 32;
/// Hashes in a block.
const HASHES: usize = BLOCK / HASH;

/// A hash.
pub(crate) type Hash = [u8; HASH];

/// The shape of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HashTree {
    /// Blocks of data.
    data: u64,
    /// First block in the tree and number of blocks of each level, the lowest first.
    levels: Vec<(u64, u64)>,
}

impl HashTree {
    /// That over so many blocks of data.
    pub fn over(data: u64) -> HashTree {
        let mut levels = Vec::new();
        let mut below = data;
        while below > 1 {
            below = below.div_ceil(HASHES as u64);
            levels.push((0, below));
        }
        let mut at = 0;
        for level in levels.iter_mut().rev() {
            level.0 = at;
            at += level.1;
        }
        HashTree { data, levels }
    }

    /// Blocks of data.
    pub fn data(&self) -> u64 {
        self.data
    }

    /// Blocks of the tree.
    pub fn blocks(&self) -> u64 {
        self.levels.iter().map(|(_, blocks)| blocks).sum()
    }

    /// Parts of the data that are hashed on their own.
    pub fn parts(&self) -> usize {
        self.data.div_ceil(HASHES as u64) as usize
    }

    /// Hashes a part: `read` fills blocks of data from the one with that number on, `write` is given a block of the lowest level and its
    /// number in the tree. The buffer holds the data
    /// and can be used again. Returns the bytes of data and the hash for [`HashTree::finish`].
    pub fn part(
        &self,
        i: usize,
        (hasher, buffer): (&Hasher, &mut Vec<u8>),
        read: impl FnOnce(u64, &mut [u8]) -> Result<()>,
        write: impl FnOnce(u64, &[u8]) -> Result<()>,
    ) -> Result<(u64, Hash)> {
        let first = (i * HASHES) as u64;
        let count = (self.data - first).min(HASHES as u64) as usize;
        buffer.resize(HASHES * BLOCK, 0);
        let data = &mut buffer[..count * BLOCK];
        read(first, data)?;
        let hash = match self.levels.first() {
            None => hasher.hash(data),
            Some((at, _)) => {
                let hashes = data.chunks_exact(BLOCK).map(|block| hasher.hash(block));
                let block = block_of(hashes);
                write(at + i as u64, &block)?;
                hasher.hash(&block)
            }
        };
        Ok((count as u64 * BLOCK as u64, hash))
    }

    /// Makes the levels above the lowest from the hashes of all parts, and returns the root hash: zeros without data.
    pub fn finish(
        &self,
        hasher: &Hasher,
        mut hashes: Vec<Hash>,
        mut write: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Hash> {
        for (at, _) in self.levels.iter().skip(1) {
            let mut above = Vec::new();
            for (i, hashes) in hashes.chunks(HASHES).enumerate() {
                let block = block_of(hashes.iter().copied());
                write(at + i as u64, &block)?;
                above.push(hasher.hash(&block));
            }
            hashes = above;
        }
        Ok(hashes.first().copied().unwrap_or_default())
    }
}

/// A block of the tree.
fn block_of(hashes: impl Iterator<Item = Hash>) -> Vec<u8> {
    let mut block: Vec<u8> = hashes.flatten().collect();
    block.resize(BLOCK, 0);
    block
}

/// Hashes blocks that a salt precedes.
pub(crate) struct Hasher {
    salted: Sha256,
    of_zeros: Hash,
}

impl Hasher {
    /// With a salt.
    pub fn new(salt: &[u8]) -> Hasher {
        let salted = Sha256::new_with_prefix(salt);
        let of_zeros = salted.clone().chain_update([0; BLOCK]).finalize().into();
        Hasher { salted, of_zeros }
    }

    fn hash(&self, block: &[u8]) -> Hash {
        match *block == [0; BLOCK] {
            true => self.of_zeros,
            false => self.salted.clone().chain_update(block).finalize().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_each_other_highest_first() {
        let of = |data| HashTree::over(data).levels;
        assert_eq!(of(0), []);
        assert_eq!(of(1), []);
        assert_eq!(of(128), [(0, 1)]);
        assert_eq!(of(129), [(1, 2), (0, 1)]);
        let data = 128 * 128 + 1;
        assert_eq!(of(data), [(3, 129), (1, 2), (0, 1)]);
        assert_eq!(HashTree::over(data).blocks(), 132);
        assert_eq!(HashTree::over(data).parts(), 129);
    }
}

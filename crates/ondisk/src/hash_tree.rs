//! Trees of hashes, as dm-verity and fs-verity have them.
//!
//! # Data model
//! A block of a level has the hashes of so many blocks of the level below as fit, of the data at the lowest. The levels follow each other, the
//! highest first. The root hash is that of the only block of the highest level, or of the only block of data.
//!
//! Source: Linux documentation, filesystems/fsverity, "Merkle tree"; admin-guide/device-mapper/verity.

use sha2::{Digest, Sha256, Sha512};

/// The hash function of a tree, with the number that fs-verity has for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum HashAlgorithm {
    /// SHA-256.
    Sha256 = 1,
    /// SHA-512.
    Sha512 = 2,
}

impl HashAlgorithm {
    /// From the byte on disk.
    pub const fn from_disk(byte: u8) -> Option<HashAlgorithm> {
        match byte {
            1 => Some(HashAlgorithm::Sha256),
            2 => Some(HashAlgorithm::Sha512),
            _ => None,
        }
    }

    /// Bytes of a hash.
    pub const fn hash_bytes(self) -> usize {
        match self {
            HashAlgorithm::Sha256 => 32,
            HashAlgorithm::Sha512 => 64,
        }
    }

    /// Bytes that the function takes at once; fs-verity pads a salt to them.
    pub const fn chunk_bytes(self) -> usize {
        match self {
            HashAlgorithm::Sha256 => 64,
            HashAlgorithm::Sha512 => 128,
        }
    }

    /// The hash of some bytes.
    pub fn hash(self, bytes: &[u8]) -> BlockHash {
        Salted::new(self, bytes).finish(&[])
    }
}

/// The most bytes of a hash.
const HASH_BYTES_MAX: usize = 64;

/// A hash: as many bytes as its function makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockHash {
    bytes: [u8; HASH_BYTES_MAX],
    len: usize,
}

impl BlockHash {
    /// From its bytes; `None` if these are more than a hash has.
    pub fn new(hash: &[u8]) -> Option<BlockHash> {
        let mut bytes = [0; HASH_BYTES_MAX];
        bytes.get_mut(..hash.len())?.copy_from_slice(hash);
        Some(BlockHash {
            bytes,
            len: hash.len(),
        })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A hash function that was given a salt.
#[derive(Clone)]
enum Salted {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Salted {
    fn new(algorithm: HashAlgorithm, salt: &[u8]) -> Salted {
        match algorithm {
            HashAlgorithm::Sha256 => Salted::Sha256(Sha256::new_with_prefix(salt)),
            HashAlgorithm::Sha512 => Salted::Sha512(Sha512::new_with_prefix(salt)),
        }
    }

    fn finish(&self, bytes: &[u8]) -> BlockHash {
        let hash = match self {
            Salted::Sha256(hash) => BlockHash::new(&hash.clone().chain_update(bytes).finalize()),
            Salted::Sha512(hash) => BlockHash::new(&hash.clone().chain_update(bytes).finalize()),
        };
        // No function makes more than there is room for.
        hash.unwrap_or(BlockHash {
            bytes: [0; HASH_BYTES_MAX],
            len: 0,
        })
    }
}

/// Hashes blocks that a salt precedes.
pub struct BlockHasher {
    salted: Salted,
    algorithm: HashAlgorithm,
    block_bytes: usize,
    of_zeros: BlockHash,
}

impl std::fmt::Debug for BlockHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockHasher")
            .field("algorithm", &self.algorithm)
            .field("block_bytes", &self.block_bytes)
            .finish_non_exhaustive()
    }
}

impl BlockHasher {
    /// Of blocks of `block_bytes`, a power of two from 1024 on, with a salt.
    pub fn new(algorithm: HashAlgorithm, block_bytes: usize, salt: &[u8]) -> BlockHasher {
        let salted = Salted::new(algorithm, salt);
        BlockHasher {
            of_zeros: salted.finish(&vec![0; block_bytes]),
            salted,
            algorithm,
            block_bytes,
        }
    }

    /// The hash of a block.
    pub fn hash(&self, block: &[u8]) -> BlockHash {
        match block.iter().all(|byte| *byte == 0) {
            true => self.of_zeros,
            false => self.salted.finish(block),
        }
    }

    /// The root hash of no data: zeros.
    fn of_nothing(&self) -> BlockHash {
        BlockHash {
            bytes: [0; HASH_BYTES_MAX],
            len: self.algorithm.hash_bytes(),
        }
    }
}

/// Where the hash of a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashPlace {
    /// The number of its block in its level.
    pub index: u64,
    /// The number of that block in the tree.
    pub block: u64,
    /// The byte in that block.
    pub offset: usize,
}

/// The shape of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashTree {
    /// Blocks of data.
    data: u64,
    /// First block in the tree and number of blocks of each level, the lowest first.
    levels: Vec<(u64, u64)>,
    hashes_per_block: usize,
    hash_bytes: usize,
}

impl HashTree {
    /// That over so many blocks of data.
    pub fn over(data: u64, algorithm: HashAlgorithm, block_bytes: usize) -> HashTree {
        let hashes_per_block = block_bytes / algorithm.hash_bytes();
        let mut levels = Vec::new();
        let mut below = data;
        while below > 1 {
            below = below.div_ceil(hashes_per_block as u64);
            levels.push((0, below));
        }
        let mut at = 0;
        for level in levels.iter_mut().rev() {
            level.0 = at;
            at += level.1;
        }
        HashTree {
            data,
            levels,
            hashes_per_block,
            hash_bytes: algorithm.hash_bytes(),
        }
    }

    /// Blocks of data.
    pub fn data(&self) -> u64 {
        self.data
    }

    /// Blocks of the tree.
    pub fn blocks(&self) -> u64 {
        self.levels.iter().map(|(_, blocks)| blocks).sum()
    }

    /// Levels of the tree, without the data.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Where level `level`, 0 for the lowest, has the hash of block `index` of what is below: data, or the level below. `None` above the highest, whose
    /// only block has the root hash.
    pub fn place(&self, level: usize, index: u64) -> Option<HashPlace> {
        let (first, _) = self.levels.get(level)?;
        let per_block = self.hashes_per_block as u64;
        Some(HashPlace {
            index: index / per_block,
            block: first + index / per_block,
            offset: (index % per_block) as usize * self.hash_bytes,
        })
    }

    /// Parts of the data that are hashed on their own.
    pub fn parts(&self) -> usize {
        self.data.div_ceil(self.hashes_per_block as u64) as usize
    }

    /// Hashes a part: `read` fills blocks of data from the one with that number on, `write` is given a block of the lowest level and its
    /// number in the tree. The buffer holds the data
    /// and can be used again. Returns the bytes of data and the hash for [`HashTree::finish`].
    ///
    /// # Errors
    /// What `read` and `write` return.
    pub fn part<E>(
        &self,
        i: usize,
        (hasher, buffer): (&BlockHasher, &mut Vec<u8>),
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>,
        write: impl FnOnce(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(u64, BlockHash), E> {
        let first = (i * self.hashes_per_block) as u64;
        let count = (self.data - first).min(self.hashes_per_block as u64);
        buffer.clear();
        buffer.resize(count as usize * hasher.block_bytes, 0);
        read(first, buffer)?;
        let hash = match self.levels.first() {
            None => hasher.hash(buffer),
            Some((at, _)) => {
                let blocks = buffer.chunks_exact(hasher.block_bytes);
                let block = block_of(blocks.map(|block| hasher.hash(block)), hasher);
                write(at + i as u64, &block)?;
                hasher.hash(&block)
            }
        };
        Ok((buffer.len() as u64, hash))
    }

    /// Makes the levels above the lowest from the hashes of all parts, and returns the root hash: zeros without data.
    ///
    /// # Errors
    /// What `write` returns.
    pub fn finish<E>(
        &self,
        hasher: &BlockHasher,
        mut hashes: Vec<BlockHash>,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<BlockHash, E> {
        for (at, _) in self.levels.iter().skip(1) {
            let mut above = Vec::new();
            for (i, hashes) in hashes.chunks(self.hashes_per_block).enumerate() {
                let block = block_of(hashes.iter().copied(), hasher);
                write(at + i as u64, &block)?;
                above.push(hasher.hash(&block));
            }
            hashes = above;
        }
        Ok(hashes.first().copied().unwrap_or(hasher.of_nothing()))
    }
}

/// A block of the tree.
fn block_of(hashes: impl Iterator<Item = BlockHash>, hasher: &BlockHasher) -> Vec<u8> {
    let mut block = Vec::with_capacity(hasher.block_bytes);
    hashes.for_each(|hash| block.extend_from_slice(hash.as_bytes()));
    block.resize(hasher.block_bytes, 0);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(data: u64) -> HashTree {
        HashTree::over(data, HashAlgorithm::Sha256, 4096)
    }

    #[test]
    fn levels_follow_each_other_highest_first() {
        let of = |data| over(data).levels;
        assert_eq!(of(0), []);
        assert_eq!(of(1), []);
        assert_eq!(of(128), [(0, 1)]);
        assert_eq!(of(129), [(1, 2), (0, 1)]);
        let data = 128 * 128 + 1;
        assert_eq!(of(data), [(3, 129), (1, 2), (0, 1)]);
        assert_eq!(over(data).blocks(), 132);
        assert_eq!(over(data).parts(), 129);
    }

    #[test]
    fn each_block_has_its_hash_in_the_level_above() {
        let tree = over(128 * 128 + 1);
        let place = |level, index| {
            tree.place(level, index)
                .map(|p| (p.index, p.block, p.offset))
        };
        assert_eq!(place(0, 0), Some((0, 3, 0)));
        assert_eq!(place(0, 129), Some((1, 4, 32)));
        assert_eq!(place(1, 128), Some((1, 2, 0)));
        assert_eq!(place(2, 1), Some((0, 0, 32)));
        assert_eq!(place(3, 0), None);
    }
}

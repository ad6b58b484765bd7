//! What a file with fs-verity has behind its data: a tree of hashes and a descriptor.
//!
//! # Data model
//! The tree ([`crate::hash_tree`]) is in blocks of the file past its end, from the next 64 KiB on. The descriptor is in the block of the file system behind the
//! tree, with a signature behind it where there is one; the last four bytes of the last block are the size of both. The digest of a file, by which it is known to others, is that
//! of the descriptor without its signature.
//!
//! Source: Linux documentation, filesystems/fsverity, "Merkle tree", "fs-verity descriptor"; filesystems/ext4/verity.

use crate::hash_tree::{BlockHash, BlockHasher, HashAlgorithm, HashTree};

/// The tree begins at a multiple of this.
const ALIGN: u64 = 64 << 10;
/// Bytes of the descriptor.
const DESCRIPTOR: usize = 256;
/// The most bytes of a salt.
const SALT_MAX: usize = 32;
/// Fields of the descriptor.
const SIGNATURE_BYTES_AT: usize = 4;
const DATA_BYTES_AT: usize = 8;
const ROOT_AT: usize = 16;
const SALT_AT: usize = 80;
/// Bytes of the size behind the descriptor.
const SIZE: usize = 4;

/// The fewest and the most bytes of a descriptor with its signature.
pub const VERITY_DESCRIPTOR_BYTES: std::ops::RangeInclusive<u64> = 256..=16384;

/// How a file gets fs-verity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsVerity {
    /// The hash function.
    pub algorithm: HashAlgorithm,
    /// Bytes of a block that is hashed: a power of two from 1024 to 65536.
    pub block_bytes: u32,
    /// What each hash begins with, at most 32 bytes; nothing if it is empty.
    pub salt: Vec<u8>,
    /// A signature of the digest, which is stored and not checked.
    pub signature: Vec<u8>,
}

impl Default for FsVerity {
    fn default() -> FsVerity {
        FsVerity {
            algorithm: HashAlgorithm::Sha256,
            block_bytes: 4096,
            salt: Vec::new(),
            signature: Vec::new(),
        }
    }
}

impl FsVerity {
    /// Whether all of it is in range.
    pub fn is_valid(&self) -> bool {
        let bytes = (DESCRIPTOR + self.signature.len()) as u64;
        self.block_bytes.is_power_of_two()
            && (1024..=65536).contains(&self.block_bytes)
            && self.salt.len() <= SALT_MAX
            && VERITY_DESCRIPTOR_BYTES.contains(&bytes)
    }

    /// What hashes the blocks of the file.
    pub fn hasher(&self) -> BlockHasher {
        let mut salt = self.salt.clone();
        let padded = salt.len().next_multiple_of(self.algorithm.chunk_bytes());
        salt.resize(padded, 0);
        BlockHasher::new(self.algorithm, self.block_bytes as usize, &salt)
    }

    /// Where the tree of a file of so many bytes begins, in bytes.
    pub fn tree_at(data_bytes: u64) -> u64 {
        data_bytes.next_multiple_of(ALIGN)
    }

    /// The tree over a file of so many bytes.
    pub fn tree(&self, data_bytes: u64) -> HashTree {
        let blocks = data_bytes.div_ceil(u64::from(self.block_bytes));
        HashTree::over(blocks, self.algorithm, self.block_bytes as usize)
    }

    /// Where the descriptor of a file of so many bytes is, and where its last block ends, in a file system with blocks of `block_size`.
    pub fn descriptor_at(&self, data_bytes: u64, tree: &HashTree, block_size: u32) -> (u64, u64) {
        let block = u64::from(block_size);
        let tree_bytes = tree.blocks() * u64::from(self.block_bytes);
        let at = (FsVerity::tree_at(data_bytes) + tree_bytes).next_multiple_of(block);
        let bytes = (DESCRIPTOR + self.signature.len() + SIZE) as u64;
        (at, at + bytes.next_multiple_of(block))
    }
}

/// The descriptor of a file with fs-verity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsVerityDescriptor {
    /// How it got it.
    pub verity: FsVerity,
    /// Bytes of the file.
    pub data_bytes: u64,
    /// The root hash of its tree.
    pub root: BlockHash,
}

impl FsVerityDescriptor {
    /// From its bytes, with the signature behind it; `None` if a field is out of range.
    pub fn decode(bytes: &[u8]) -> Option<FsVerityDescriptor> {
        let (fixed, signature) = bytes.split_at_checked(DESCRIPTOR)?;
        let field = |at: usize, len: usize| fixed.get(at..at + len);
        let [version, algorithm, log_block, salt_bytes] = *fixed.first_chunk()?;
        let algorithm = HashAlgorithm::from_disk(algorithm)?;
        let signature_bytes = u32::from_le_bytes(field(SIGNATURE_BYTES_AT, 4)?.try_into().ok()?);
        let salt = field(SALT_AT, SALT_MAX)?.get(..usize::from(salt_bytes))?;
        let descriptor = FsVerityDescriptor {
            verity: FsVerity {
                algorithm,
                block_bytes: 1u32.checked_shl(u32::from(log_block))?,
                salt: salt.to_vec(),
                signature: signature.to_vec(),
            },
            data_bytes: u64::from_le_bytes(field(DATA_BYTES_AT, 8)?.try_into().ok()?),
            root: BlockHash::new(field(ROOT_AT, algorithm.hash_bytes())?)?,
        };
        let is_whole = signature_bytes as usize == signature.len();
        (version == 1 && is_whole && descriptor.verity.is_valid()).then_some(descriptor)
    }

    /// Its bytes, without the signature.
    fn fixed(&self) -> [u8; DESCRIPTOR] {
        let FsVerity {
            algorithm,
            block_bytes,
            salt,
            ..
        } = &self.verity;
        let mut bytes = [0; DESCRIPTOR];
        let log_block = block_bytes.trailing_zeros() as u8;
        let mut put = |at: usize, field: &[u8]| {
            let room = bytes.iter_mut().skip(at);
            room.zip(field).for_each(|(to, from)| *to = *from);
        };
        put(0, &[1, *algorithm as u8, log_block, salt.len() as u8]);
        put(DATA_BYTES_AT, &self.data_bytes.to_le_bytes());
        put(ROOT_AT, self.root.as_bytes());
        put(SALT_AT, salt);
        bytes
    }

    /// The digest of the file, as `fsverity digest` prints it.
    pub fn digest(&self) -> BlockHash {
        self.verity.algorithm.hash(&self.fixed())
    }

    /// Descriptor and signature.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.fixed().to_vec();
        let signature = &self.verity.signature;
        let size = (signature.len() as u32).to_le_bytes();
        bytes.splice(SIGNATURE_BYTES_AT..SIGNATURE_BYTES_AT + size.len(), size);
        bytes.extend_from_slice(signature);
        bytes
    }

    /// The blocks of a file system that hold it, `len` bytes: it, the signature, and in the last bytes the size of both.
    pub fn encode_blocks(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.encode();
        let size = bytes.len() as u32;
        bytes.resize(len.saturating_sub(SIZE), 0);
        bytes.extend(size.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_decoded_as_it_was_encoded() {
        for (algorithm, signature) in [
            (HashAlgorithm::Sha256, &b""[..]),
            (HashAlgorithm::Sha512, b"signed"),
        ] {
            let descriptor = FsVerityDescriptor {
                verity: FsVerity {
                    algorithm,
                    block_bytes: 1024,
                    salt: vec![1, 2, 3],
                    signature: signature.to_vec(),
                },
                data_bytes: 1 << 40,
                root: algorithm.hash(b"root"),
            };
            let bytes = descriptor.encode();
            assert_eq!(FsVerityDescriptor::decode(&bytes), Some(descriptor.clone()));
            for (at, wrong) in [(0, 2), (1, 3), (2, 9), (2, 17), (2, 40), (3, 33), (4, 1)] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                let found = FsVerityDescriptor::decode(&bytes);
                assert_eq!(found, None, "byte {at} is {wrong}");
            }
            assert_eq!(FsVerityDescriptor::decode(&bytes[..255]), None);
            let blocks = descriptor.encode_blocks(4096);
            assert_eq!(blocks[4092..], (bytes.len() as u32).to_le_bytes());
        }
    }
}

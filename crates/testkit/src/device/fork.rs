//! Copies of an image that share the blocks which neither has changed.
//!
//! # Data model
//! An [`Image`] is immutable: blocks, most of them shared with other images, and the hash of each. An
//! [`ForkDevice`] is an image and the blocks that differ from it, sorted; a fork shares both. The hash of
//! the whole content is the exclusive or of the blocks' hashes, each of which depends on its place, so that
//! it costs what was written since it was asked for last.
//!
//! # Locking
//! One lock of class `device` for what differs, held to copy bytes.

use crate::external::*;
use rustix::io::Errno;
use std::hash::{DefaultHasher, Hash, Hasher};
use uext4_block::error::{BlockError, BlockOp, Result, check_range};
use uext4_sync::{Mutex, assert_may_block, class};

/// An image that doesn't change.
#[derive(Clone)]
pub struct Image {
    blocks: Arc<[Arc<[u8]>]>,
    hashes: Arc<[u64]>,
    hash: u64,
    block_bytes: usize,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("len", &self.len())
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Of `bytes`, whole blocks of `block_bytes` each.
    pub fn new(bytes: &[u8], block_bytes: usize) -> Image {
        let mut shared: HashMap<&[u8], Arc<[u8]>> = HashMap::new();
        let blocks: Arc<[Arc<[u8]>]> = bytes
            .chunks(block_bytes)
            .map(|block| Arc::clone(shared.entry(block).or_insert_with(|| Arc::from(block))))
            .collect();
        let hashes: Arc<[u64]> = (0..)
            .zip(blocks.iter())
            .map(|(number, block)| hash_of(number, block))
            .collect();
        Image {
            hash: hashes.iter().fold(0, |all, hash| all ^ hash),
            blocks,
            hashes,
            block_bytes,
        }
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        (self.blocks.len() * self.block_bytes) as u64
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The hash of all bytes.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The bytes of a block; empty past the end.
    pub fn block(&self, number: u64) -> &[u8] {
        let block = usize::try_from(number)
            .ok()
            .and_then(|n| self.blocks.get(n));
        block.map_or(&[], |block| block)
    }
}

/// A block that differs from the image.
#[derive(Clone, Debug)]
struct Changed {
    number: u32,
    bytes: Arc<[u8]>,
    /// Once it was asked for.
    hash: Option<u64>,
}

/// A device that holds what differs from an [`Image`].
pub struct ForkDevice {
    image: Image,
    /// Ascending by number.
    changed: Mutex<Vec<Changed>>,
}

impl std::fmt::Debug for ForkDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForkDevice")
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

/// The part of a call that falls into one block.
struct Piece {
    number: u32,
    within: Range<usize>,
    at: Range<usize>,
}

impl ForkDevice {
    /// What holds the bytes of `image`.
    pub fn new(image: Image) -> ForkDevice {
        ForkDevice::with(image, Vec::new())
    }

    fn with(image: Image, changed: Vec<Changed>) -> ForkDevice {
        ForkDevice {
            image,
            changed: Mutex::new(&class::DEVICE, changed),
        }
    }

    /// A copy, which shares all bytes with this one until either writes.
    pub fn fork(&self) -> ForkDevice {
        ForkDevice::with(self.image.clone(), self.changed.lock().clone())
    }

    /// An image of what this holds now.
    pub fn freeze(&self) -> Image {
        let mut changed = self.changed.lock();
        let mut image = self.image.clone();
        image.hash = self.hash_locked(&mut changed, |_| true);
        let (mut blocks, mut hashes) = (image.blocks.to_vec(), image.hashes.to_vec());
        for one in changed.iter() {
            let number = one.number as usize;
            blocks[number] = Arc::clone(&one.bytes);
            hashes[number] = one.hash.unwrap_or_default();
        }
        (image.blocks, image.hashes) = (blocks.into(), hashes.into());
        image
    }

    /// How many blocks were written.
    pub fn changed_blocks(&self) -> usize {
        self.changed.lock().len()
    }

    /// The numbers of the blocks whose bytes differ from those of `other`, a fork of the same image.
    pub fn differing_blocks(&self, other: &ForkDevice) -> Vec<u64> {
        let ours = self.changed.lock().clone();
        let theirs = other.changed.lock().clone();
        let mut numbers: Vec<u32> = ours.iter().chain(&theirs).map(|one| one.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let bytes = |all: &[Changed], number: u32| match find(all, number) {
            Ok(at) => Arc::clone(&all[at].bytes),
            Err(_) => Arc::clone(&self.image.blocks[number as usize]),
        };
        let differs = |number: &u32| {
            let (a, b) = (bytes(&ours, *number), bytes(&theirs, *number));
            !Arc::ptr_eq(&a, &b) && a != b
        };
        numbers.into_iter().filter(differs).map(u64::from).collect()
    }

    /// The hash of all bytes: equal for devices of equal bytes, whatever their images.
    pub fn hash(&self) -> u64 {
        self.hash_of(|_| true)
    }

    /// The hash of the bytes of the blocks that `counts` chooses. Only devices over one image can be compared.
    pub fn hash_of(&self, counts: impl Fn(u64) -> bool) -> u64 {
        self.hash_locked(&mut self.changed.lock(), counts)
    }

    fn hash_locked(&self, changed: &mut [Changed], counts: impl Fn(u64) -> bool) -> u64 {
        let mut hash = self.image.hash;
        for one in changed
            .iter_mut()
            .filter(|one| counts(u64::from(one.number)))
        {
            let own = *one
                .hash
                .get_or_insert_with(|| hash_of(u64::from(one.number), &one.bytes));
            hash ^= own ^ self.image.hashes[one.number as usize];
        }
        hash
    }

    fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = Piece> + use<> {
        let size = self.image.block_bytes;
        let (mut done, start) = (0, offset);
        std::iter::from_fn(move || {
            let at = start + done as u64;
            let within = (at % size as u64) as usize;
            let len = (len - done).min(size - within);
            let piece = Piece {
                number: (at / size as u64) as u32,
                within: within..within + len,
                at: done..done + len,
            };
            done += len;
            (len > 0).then_some(piece)
        })
    }

    /// Changes bytes by `put`, which gets a part of a block and which part of the call it is.
    fn change(&self, offset: u64, len: usize, put: impl Fn(&mut [u8], Range<usize>)) {
        let mut changed = self.changed.lock();
        for piece in self.pieces(offset, len) {
            let at = find(&changed, piece.number).unwrap_or_else(|at| {
                let one = Changed {
                    number: piece.number,
                    bytes: Arc::clone(&self.image.blocks[piece.number as usize]),
                    hash: None,
                };
                changed.insert(at, one);
                at
            });
            let one = &mut changed[at];
            one.hash = None;
            put(&mut Arc::make_mut(&mut one.bytes)[piece.within], piece.at);
        }
    }
}

fn find(changed: &[Changed], number: u32) -> std::result::Result<usize, usize> {
    changed.binary_search_by_key(&number, |one| one.number)
}

/// The hash of a block at its place.
fn hash_of(number: u64, bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (number, bytes).hash(&mut hasher);
    hasher.finish()
}

impl BlockDevice for ForkDevice {
    fn len(&self) -> u64 {
        self.image.len()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert_may_block("device read");
        check_range(BlockOp::Read, offset, buf.len() as u64, self.len())?;
        let changed = self.changed.lock();
        for piece in self.pieces(offset, buf.len()) {
            let block = match find(&changed, piece.number) {
                Ok(at) => &changed[at].bytes,
                Err(_) => &self.image.blocks[piece.number as usize],
            };
            buf[piece.at].copy_from_slice(&block[piece.within]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        assert_may_block("device write");
        check_range(BlockOp::Write, offset, buf.len() as u64, self.len())?;
        self.change(offset, buf.len(), |block, at| {
            block.copy_from_slice(&buf[at])
        });
        Ok(())
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for (offset, bytes) in writes {
            check_range(BlockOp::Write, *offset, bytes.len() as u64, self.len())?;
        }
        writes
            .iter()
            .try_for_each(|(offset, bytes)| self.write_at(*offset, bytes))
    }

    fn flush(&self) -> Result<()> {
        assert_may_block("device flush");
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        check_range(BlockOp::Discard, offset, len, self.len())?;
        self.zero(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        assert_may_block("device zero");
        check_range(BlockOp::Zero, offset, len, self.len())?;
        self.change(offset, len as usize, |block, _| block.fill(0));
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        match len == self.len() {
            true => Ok(()),
            false => Err(BlockError::io(BlockOp::SetLen, 0, len, Errno::INVAL)),
        }
    }

    fn identity(&self) -> Option<DeviceId> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        bytes
    }

    fn bytes(device: &ForkDevice) -> Vec<u8> {
        let mut all = vec![0; device.len() as usize];
        device.read_at(0, &mut all).unwrap();
        all
    }

    #[test]
    fn forks_and_images_are_independent() {
        let image = Image::new(&random(1, 64 << 10), 1024);
        let first = ForkDevice::new(image.clone());
        first.write_at(1000, &[1; 5000]).unwrap();
        let second = first.fork();
        let frozen = second.freeze();
        first.write_at(3000, &[2; 10]).unwrap();
        second.zero(1024, 1024).unwrap();
        assert_eq!(bytes(&first)[3000..3010], [2; 10]);
        assert_eq!(bytes(&second)[3000..3010], [1; 10]);
        assert_eq!(bytes(&ForkDevice::new(frozen))[1000..6000], [1; 5000]);
        assert!(bytes(&ForkDevice::new(image)) == random(1, 64 << 10));
        assert_eq!(first.differing_blocks(&second), [1, 2]);
    }

    #[test]
    fn equal_bytes_have_equal_hashes() {
        let image = Image::new(&random(2, 64 << 10), 1024);
        let mut rng = fastrand::Rng::with_seed(3);
        let device = ForkDevice::new(image);
        for _ in 0..300 {
            let at = rng.usize(..60_000);
            let data = random(rng.u64(..), rng.usize(1..3000));
            let before = device.hash();
            device.write_at(at as u64, &data).unwrap();
            assert_ne!(device.hash(), before);
            let again = Image::new(&bytes(&device), 1024);
            assert_eq!(device.hash(), again.hash());
            assert_eq!(device.freeze().hash(), again.hash());
            assert!((0..64).all(|n| device.freeze().block(n) == again.block(n)));
        }
        // Two blocks that change places are another content.
        let [a, b] = [[1; 1024], [2; 1024]];
        device.write_batch(&[(0, &a), (1024, &b)]).unwrap();
        let before = device.hash();
        device.write_batch(&[(0, &b), (1024, &a)]).unwrap();
        assert_ne!(device.hash(), before);
        assert_ne!(device.hash_of(|n| n != 1), device.hash());
    }
}

//! Blocks of the orphan file: slots for inode numbers, and a tail.
//!
//! Source: Linux documentation, filesystems/ext4, "Orphan file".

use crate::bytes::{le32, put_le32};
use crate::checksum::{InodeSeed, crc32c};
use crate::corrupt::{CorruptKind, Result};
use crate::types::{Ino, Pblk};

/// Magic of the tail.
pub const ORPHAN_MAGIC: u32 = 0x0b10_ca04;

const TAIL: usize = 8;

/// Blocks of the orphan file that mke2fs makes in a file system of so many blocks.
pub fn orphan_file_blocks_default(blocks: u64) -> u32 {
    (blocks / 4096).clamp(32, 512) as u32
}

/// Slots of a block.
pub const fn orphan_slots(block_len: usize) -> usize {
    block_len.saturating_sub(TAIL) / 4
}

/// Stores an inode in a slot, 0 to free it; false past the last slot.
pub fn orphan_slot_set(block: &mut [u8], i: usize, ino: Ino) -> bool {
    i < orphan_slots(block.len()) && put_le32(block, i * 4, ino.0).is_some()
}

/// The slots in use and their inodes.
pub fn orphan_entries(block: &[u8]) -> impl Iterator<Item = (usize, Ino)> + '_ {
    let slots = block
        .as_chunks::<4>()
        .0
        .iter()
        .take(orphan_slots(block.len()));
    slots
        .enumerate()
        .map(|(i, b)| (i, Ino(u32::from_le_bytes(*b))))
        .filter(|(_, ino)| ino.0 != 0)
}

/// Makes an empty block. The checksum is added later.
pub fn orphan_block_init(block: &mut [u8]) {
    block.fill(0);
    let at = block.len().saturating_sub(TAIL);
    // A block has at least 1024 bytes.
    let _ = put_le32(block, at, ORPHAN_MAGIC);
}

fn checksum(block: &[u8], seed: InodeSeed, at: Pblk) -> u32 {
    let crc = crc32c(seed.0, &at.0.to_le_bytes());
    crc32c(
        crc,
        block.get(..orphan_slots(block.len()) * 4).unwrap_or(&[]),
    )
}

/// Stores the checksum of the block at `at`. The last step before writing.
pub fn orphan_checksum_set(block: &mut [u8], seed: InodeSeed, at: Pblk) {
    let sum = checksum(block, seed, at);
    let tail = block.len().saturating_sub(4);
    // A block has at least 1024 bytes.
    let _ = put_le32(block, tail, sum);
}

/// Checks the magic of a block and, with a seed, the checksum of the block at `at`.
///
/// # Errors
/// [`CorruptKind::OrphanShort`], [`CorruptKind::OrphanMagic`], [`CorruptKind::OrphanChecksum`].
pub fn orphan_block_verify(block: &[u8], seed: Option<InodeSeed>, at: Pblk) -> Result<()> {
    let place = |kind: CorruptKind| crate::corrupt::Corrupt::new(kind).pblk(at);
    let Some(tail) = block.last_chunk::<TAIL>() else {
        return Err(place(CorruptKind::OrphanShort));
    };
    if le32(tail, 0) != Some(ORPHAN_MAGIC) {
        return Err(place(CorruptKind::OrphanMagic));
    }
    match seed {
        Some(seed) if le32(tail, 4) != Some(checksum(block, seed, at)) => {
            Err(place(CorruptKind::OrphanChecksum))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_corruption() {
        let mut b = vec![0; 1024];
        orphan_block_init(&mut b);
        assert!(orphan_slot_set(&mut b, 3, Ino(14)) && !orphan_slot_set(&mut b, 254, Ino(1)));
        assert_eq!(orphan_entries(&b).collect::<Vec<_>>(), [(3, Ino(14))]);
        orphan_checksum_set(&mut b, InodeSeed(2), Pblk(77));
        orphan_block_verify(&b, Some(InodeSeed(2)), Pblk(77)).unwrap();
        assert!(orphan_block_verify(&b, Some(InodeSeed(2)), Pblk(78)).is_err());
        for at in 0..1024 {
            b[at] ^= 1;
            let e = orphan_block_verify(&b, Some(InodeSeed(2)), Pblk(77)).unwrap_err();
            let magic = (1016..1020).contains(&at);
            assert_eq!(
                e.kind,
                if magic {
                    CorruptKind::OrphanMagic
                } else {
                    CorruptKind::OrphanChecksum
                }
            );
            b[at] ^= 1;
        }
        let e = orphan_block_verify(&b[..7], None, Pblk(1)).unwrap_err();
        assert_eq!(e.kind, CorruptKind::OrphanShort);
    }
}

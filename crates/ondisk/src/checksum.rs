//! Checksums: crc32c as ext4 and jbd2 chain it, crc16 of `uninit_bg`, crc32 of journal checksum v1.
//!
//! The kernel's `crc32c(seed, ..)` is the bare register: no inversion before or after, so a value can
//! be continued. ext4 starts chains with all ones.

use crc::{CRC_32_MPEG_2, Crc};

use crate::types::{Generation, Ino};

/// Register value that starts a chain.
pub const CRC_INIT: u32 = !0;

/// Continues the crc32c register `seed` over `bytes`.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// Continues the big-endian crc32 register `seed` over `bytes` (journal checksum v1).
pub fn crc32_be(seed: u32, bytes: &[u8]) -> u32 {
    const TABLE: Crc<u32> = Crc::<u32>::new(&CRC_32_MPEG_2);
    let mut digest = TABLE.digest_with_initial(seed);
    digest.update(bytes);
    digest.finalize()
}

#[allow(
    clippy::indexing_slicing,
    reason = "evaluated at compile time, where out of bounds does not build"
)]
const CRC16_TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let mut v = i as u16;
        let mut bit = 0;
        while bit < 8 {
            v = if v & 1 != 0 {
                (v >> 1) ^ 0xa001
            } else {
                v >> 1
            };
            bit += 1;
        }
        table[i] = v;
        i += 1;
    }
    table
};

/// Continues the crc16 (polynomial 0x8005, reflected) `seed` over `bytes`; `uninit_bg` starts with
/// all ones.
pub fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, b| {
        let at = usize::from((crc as u8) ^ b);
        (crc >> 8) ^ CRC16_TABLE.get(at).copied().unwrap_or(0)
    })
}

/// The register every metadata checksum of a file system starts from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CsumSeed(pub u32);

impl CsumSeed {
    /// The seed of a file system without `metadata_csum_seed`: its UUID.
    pub fn from_uuid(uuid: &[u8; 16]) -> Self {
        CsumSeed(crc32c(CRC_INIT, uuid))
    }

    /// The seed of an inode's own structures: extent nodes, directory blocks, orphan file blocks.
    #[inline]
    pub fn inode(self, ino: Ino, generation: Generation) -> InodeSeed {
        InodeSeed(crc32c(self.0, &inode_key(ino, generation)))
    }
}

/// Bytes of [`inode_key`].
pub(crate) const INODE_KEY_BYTES: usize = 8;

/// What precedes an inode's own bytes in its checksums.
#[inline]
pub(crate) fn inode_key(ino: Ino, generation: Generation) -> [u8; INODE_KEY_BYTES] {
    (u64::from(generation.0) << 32 | u64::from(ino.0)).to_le_bytes()
}

/// The register that checksums of one inode's structures start from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InodeSeed(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(!crc32c(CRC_INIT, b"123456789"), 0xe306_9283);
        assert_eq!(crc16(0xffff, b"123456789"), 0x4b37);
        assert_eq!(crc32_be(!0, b"123456789"), 0x0376_e6e7);
        assert_eq!(crc32c(7, b""), 7);
    }

    #[test]
    fn chains_at_every_split() {
        let data: Vec<u8> = (0..700u32).map(|i| (i * 7 + i / 3) as u8).collect();
        for (start, end) in [(0, 20), (0, 256), (3, 700)] {
            let whole = crc32c(CRC_INIT, &data[start..end]);
            for mid in start..end {
                let a = crc32c(CRC_INIT, &data[start..mid]);
                assert_eq!(crc32c(a, &data[mid..end]), whole);
                let a = crc32_be(9, &data[start..mid]);
                assert_eq!(crc32_be(a, &data[mid..end]), crc32_be(9, &data[start..end]));
            }
        }
    }
}

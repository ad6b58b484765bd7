//! The block of multi-mount protection.
//!
//! Source: Linux documentation, filesystems/ext4, "Multiple Mount Protection".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{CsumSeed, crc32c};
use crate::corrupt::{CorruptKind, Result};

/// Seconds between two writes of a host that has the file system mounted, in a file system that mke2fs makes.
pub const MMP_INTERVAL_DEFAULT: u16 = 5;
/// `mmp_magic`.
pub const MMP_MAGIC: u32 = 0x004d_4d50;
/// Sequence of a file system that is not mounted.
pub const MMP_SEQ_CLEAN: u32 = 0xff4d_4d50;
/// Highest sequence of a mount.
pub const MMP_SEQ_MAX: u32 = 0xe24d_4d4f;

/// The first 1024 bytes of the block.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMmp {
    magic: U32,
    seq: U32,
    time: U64,
    nodename: [u8; 64],
    bdevname: [u8; 32],
    check_interval: U16,
    pad1: U16,
    pad2: [U32; 226],
    checksum: U32,
}

const _: () = assert!(size_of::<RawMmp>() == 1024);

/// The host that has the file system mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mmp {
    /// Changes while the file system is mounted.
    pub seq: u32,
    /// Seconds since 1970 of the last update.
    pub time: u64,
    /// Host.
    pub nodename: [u8; 64],
    /// Device there.
    pub bdevname: [u8; 32],
    /// Seconds between looks.
    pub check_interval: u16,
}

fn checksum(raw: &RawMmp, seed: CsumSeed) -> u32 {
    let b = raw.as_bytes();
    crc32c(seed.0, b.get(..1020).unwrap_or(b))
}

impl Mmp {
    /// Parses a block; the seed is `None` without `metadata_csum`.
    ///
    /// # Errors
    /// [`CorruptKind::MmpShort`], [`CorruptKind::MmpMagic`], [`CorruptKind::MmpChecksum`].
    pub fn parse(block: &[u8], seed: Option<CsumSeed>) -> Result<Self> {
        let Ok((raw, _)) = RawMmp::ref_from_prefix(block) else {
            return Err(CorruptKind::MmpShort.into());
        };
        if raw.magic.get() != MMP_MAGIC {
            return Err(CorruptKind::MmpMagic.into());
        }
        if seed.is_some_and(|s| checksum(raw, s) != raw.checksum.get()) {
            return Err(CorruptKind::MmpChecksum.into());
        }
        Ok(Mmp {
            seq: raw.seq.get(),
            time: raw.time.get(),
            nodename: raw.nodename,
            bdevname: raw.bdevname,
            check_interval: raw.check_interval.get(),
        })
    }

    /// Writes a block with its checksum; the seed is `None` without `metadata_csum`. A slice under
    /// 1024 bytes is left alone.
    pub fn encode_into(&self, block: &mut [u8], seed: Option<CsumSeed>) {
        let Ok((raw, _)) = RawMmp::mut_from_prefix(block) else {
            return;
        };
        raw.magic = MMP_MAGIC.into();
        raw.seq = self.seq.into();
        raw.time = self.time.into();
        raw.nodename = self.nodename;
        raw.bdevname = self.bdevname;
        raw.check_interval = self.check_interval.into();
        raw.checksum = seed.map_or(0, |s| checksum(raw, s)).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_corruption() {
        let m = Mmp {
            seq: 5,
            time: 9,
            nodename: [b'n'; 64],
            bdevname: [b'd'; 32],
            check_interval: 5,
        };
        let mut b = vec![0; 4096];
        m.encode_into(&mut b, Some(CsumSeed(3)));
        assert_eq!(Mmp::parse(&b, Some(CsumSeed(3))).unwrap(), m);
        for at in 0..1024 {
            b[at] ^= 1;
            let kind = Mmp::parse(&b, Some(CsumSeed(3))).unwrap_err().kind;
            assert_eq!(
                kind,
                if at < 4 {
                    CorruptKind::MmpMagic
                } else {
                    CorruptKind::MmpChecksum
                }
            );
            b[at] ^= 1;
        }
        assert_eq!(
            Mmp::parse(&b[..1000], None).unwrap_err().kind,
            CorruptKind::MmpShort
        );
    }
}

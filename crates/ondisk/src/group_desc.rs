//! Block group descriptors and the checksums of what they point at.
//!
//! Source: Linux documentation, filesystems/ext4, "Block Group Descriptors".

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{le16, put_le16};
use crate::checksum::{CsumSeed, crc16, crc32c};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::geometry::Geometry;
use crate::superblock::Superblock;
use crate::types::{GroupNo, Pblk};

const CHECKSUM_AT: usize = 0x1e;

bitflags! {
    /// Flags of a group.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct GroupFlags: u16 {
        /// Inode bitmap and table were never written.
        const INODE_UNINIT = 1;
        /// The block bitmap was never written.
        const BLOCK_UNINIT = 2;
        /// The inode table is zeroed.
        const ITABLE_ZEROED = 4;
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLow {
    block_bitmap: U32,
    inode_bitmap: U32,
    inode_table: U32,
    free_blocks: U16,
    free_inodes: U16,
    used_dirs: U16,
    flags: U16,
    exclude_bitmap: U32,
    block_bitmap_csum: U16,
    inode_bitmap_csum: U16,
    itable_unused: U16,
    checksum: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHigh {
    block_bitmap: U32,
    inode_bitmap: U32,
    inode_table: U32,
    free_blocks: U16,
    free_inodes: U16,
    used_dirs: U16,
    itable_unused: U16,
    exclude_bitmap: U32,
    block_bitmap_csum: U16,
    inode_bitmap_csum: U16,
    reserved: U32,
}

/// A group descriptor, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupDesc {
    /// Block of the block bitmap.
    pub block_bitmap: Pblk,
    /// Block of the inode bitmap.
    pub inode_bitmap: Pblk,
    /// First block of the inode table.
    pub inode_table: Pblk,
    /// Free blocks, or clusters.
    pub free_blocks: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub used_dirs: u32,
    /// Inodes at the end of the table that were never used.
    pub itable_unused: u32,
    /// Flags, unknown ones kept.
    pub flags: GroupFlags,
    /// Checksum of the block bitmap; only the low half where descriptors have 32 bytes.
    pub block_bitmap_csum: u32,
    /// Checksum of the inode bitmap; only the low half where descriptors have 32 bytes.
    pub inode_bitmap_csum: u32,
    /// Checksum of the descriptor as read; [`GroupDesc::encode_into`] does not write it.
    pub checksum: u16,
}

fn join32(lo: U16, hi: U16) -> u32 {
    u32::from(hi.get()) << 16 | u32::from(lo.get())
}

fn join64(lo: U32, hi: U32) -> Pblk {
    Pblk(u64::from(hi.get()) << 32 | u64::from(lo.get()))
}

impl GroupDesc {
    /// Decodes a descriptor of `bytes.len()` bytes: `desc_size`, 32 or at least 64.
    ///
    /// # Errors
    /// [`CorruptKind::GroupDescShort`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Ok((lo, rest)) = RawLow::ref_from_prefix(bytes) else {
            return Err(CorruptKind::GroupDescShort.into());
        };
        const NONE: [u8; 32] = [0; 32];
        let zero = zerocopy::transmute_ref!(&NONE);
        let hi: &RawHigh = RawHigh::ref_from_prefix(rest).map_or(zero, |(hi, _)| hi);
        Ok(GroupDesc {
            block_bitmap: join64(lo.block_bitmap, hi.block_bitmap),
            inode_bitmap: join64(lo.inode_bitmap, hi.inode_bitmap),
            inode_table: join64(lo.inode_table, hi.inode_table),
            free_blocks: join32(lo.free_blocks, hi.free_blocks),
            free_inodes: join32(lo.free_inodes, hi.free_inodes),
            used_dirs: join32(lo.used_dirs, hi.used_dirs),
            itable_unused: join32(lo.itable_unused, hi.itable_unused),
            flags: GroupFlags::from_bits_retain(lo.flags.get()),
            block_bitmap_csum: join32(lo.block_bitmap_csum, hi.block_bitmap_csum),
            inode_bitmap_csum: join32(lo.inode_bitmap_csum, hi.inode_bitmap_csum),
            checksum: lo.checksum.get(),
        })
    }

    /// Writes every field but the checksum; reserved bytes stay. A slice under 32 bytes is left alone.
    pub fn encode_into(&self, bytes: &mut [u8]) {
        let Ok((lo, rest)) = RawLow::mut_from_prefix(bytes) else {
            return;
        };
        lo.block_bitmap = (self.block_bitmap.0 as u32).into();
        lo.inode_bitmap = (self.inode_bitmap.0 as u32).into();
        lo.inode_table = (self.inode_table.0 as u32).into();
        lo.free_blocks = (self.free_blocks as u16).into();
        lo.free_inodes = (self.free_inodes as u16).into();
        lo.used_dirs = (self.used_dirs as u16).into();
        lo.flags = self.flags.bits().into();
        lo.block_bitmap_csum = (self.block_bitmap_csum as u16).into();
        lo.inode_bitmap_csum = (self.inode_bitmap_csum as u16).into();
        lo.itable_unused = (self.itable_unused as u16).into();
        let Ok((hi, _)) = RawHigh::mut_from_prefix(rest) else {
            return;
        };
        hi.block_bitmap = ((self.block_bitmap.0 >> 32) as u32).into();
        hi.inode_bitmap = ((self.inode_bitmap.0 >> 32) as u32).into();
        hi.inode_table = ((self.inode_table.0 >> 32) as u32).into();
        hi.free_blocks = ((self.free_blocks >> 16) as u16).into();
        hi.free_inodes = ((self.free_inodes >> 16) as u16).into();
        hi.used_dirs = ((self.used_dirs >> 16) as u16).into();
        hi.itable_unused = ((self.itable_unused >> 16) as u16).into();
        hi.block_bitmap_csum = ((self.block_bitmap_csum >> 16) as u16).into();
        hi.inode_bitmap_csum = ((self.inode_bitmap_csum >> 16) as u16).into();
    }

    /// Checks counts and places against the file system.
    ///
    /// # Errors
    /// The `GroupDesc*` kind of the first check that fails, with the block named.
    pub fn validate(&self, geo: &Geometry, group: GroupNo) -> Result<()> {
        let fail = |kind, b: Option<Pblk>| {
            let e = Corrupt::new(kind).detail(format_args!("group {group}"));
            Err(match b {
                Some(b) => e.pblk(b),
                None => e,
            })
        };
        if !geo.contains_blocks(self.block_bitmap, 1) {
            return fail(CorruptKind::GroupDescBlockBitmap, Some(self.block_bitmap));
        }
        if !geo.contains_blocks(self.inode_bitmap, 1) {
            return fail(CorruptKind::GroupDescInodeBitmap, Some(self.inode_bitmap));
        }
        if !geo.contains_blocks(self.inode_table, u64::from(geo.itable_blocks_per_group)) {
            return fail(CorruptKind::GroupDescInodeTable, Some(self.inode_table));
        }
        if self.free_blocks > geo.clusters_in_group(group) {
            return fail(CorruptKind::GroupDescFreeBlocks, None);
        }
        if self.free_inodes > geo.inodes_per_group {
            return fail(CorruptKind::GroupDescFreeInodes, None);
        }
        if self.itable_unused > geo.inodes_per_group {
            return fail(CorruptKind::GroupDescUnusedInodes, None);
        }
        Ok(())
    }
}

/// How descriptors of a file system are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupCsum {
    /// Not at all.
    None,
    /// By crc16 over the UUID (`uninit_bg`).
    Crc16([u8; 16]),
    /// By crc32c (`metadata_csum`), bitmaps too.
    Crc32c(CsumSeed),
}

impl GroupCsum {
    /// The method of a file system.
    pub fn of(sb: &Superblock) -> Self {
        if sb.has_metadata_csum() {
            GroupCsum::Crc32c(sb.csum_seed)
        } else if sb.has_group_csum() {
            GroupCsum::Crc16(sb.raw.uuid)
        } else {
            GroupCsum::None
        }
    }

    /// The checksum that a descriptor's bytes ought to have.
    pub fn desc_checksum(&self, group: GroupNo, desc: &[u8]) -> u16 {
        let group = group.0.to_le_bytes();
        let before = desc.get(..CHECKSUM_AT).unwrap_or(&[]);
        let after = desc.get(CHECKSUM_AT + 2..).unwrap_or(&[]);
        match self {
            GroupCsum::None => 0,
            GroupCsum::Crc16(uuid) => {
                let crc = crc16(crc16(crc16(!0, uuid), &group), before);
                crc16(crc, after)
            }
            GroupCsum::Crc32c(seed) => {
                let crc = crc32c(crc32c(seed.0, &group), before);
                crc32c(crc32c(crc, &[0; 2]), after) as u16
            }
        }
    }

    /// Stores a descriptor's checksum. The last step before writing.
    pub fn set_desc_checksum(&self, group: GroupNo, desc: &mut [u8]) {
        if *self != GroupCsum::None {
            let sum = self.desc_checksum(group, desc);
            // A slice too short to hold it was refused by every decode.
            let _ = put_le16(desc, CHECKSUM_AT, sum);
        }
    }

    /// Checks a descriptor's checksum.
    ///
    /// # Errors
    /// [`CorruptKind::GroupDescChecksum`].
    pub fn verify_desc(&self, group: GroupNo, desc: &[u8]) -> Result<()> {
        if *self == GroupCsum::None
            || le16(desc, CHECKSUM_AT) == Some(self.desc_checksum(group, desc))
        {
            return Ok(());
        }
        Err(Corrupt::new(CorruptKind::GroupDescChecksum).detail(format_args!("group {group}")))
    }
}

/// The checksum of a bitmap; `bytes` are those that count
/// ([`Geometry::inode_bitmap_bytes`], [`Geometry::block_bitmap_bytes`]), not the whole block.
#[inline]
pub fn bitmap_checksum(seed: CsumSeed, bytes: &[u8]) -> u32 {
    crc32c(seed.0, bytes)
}

/// What of a bitmap checksum a descriptor of `desc_size` bytes keeps.
#[inline]
fn kept(desc_size: u16, sum: u32) -> u32 {
    if desc_size >= 64 { sum } else { sum & 0xffff }
}

impl GroupDesc {
    /// Checks a block bitmap against the descriptor.
    ///
    /// # Errors
    /// [`CorruptKind::BlockBitmapChecksum`].
    pub fn verify_block_bitmap(&self, seed: CsumSeed, geo: &Geometry, bitmap: &[u8]) -> Result<()> {
        let used = bitmap.get(..geo.block_bitmap_bytes()).unwrap_or(bitmap);
        if kept(geo.desc_size, bitmap_checksum(seed, used)) == self.block_bitmap_csum {
            return Ok(());
        }
        Err(Corrupt::new(CorruptKind::BlockBitmapChecksum).pblk(self.block_bitmap))
    }

    /// Checks an inode bitmap against the descriptor.
    ///
    /// # Errors
    /// [`CorruptKind::InodeBitmapChecksum`].
    pub fn verify_inode_bitmap(&self, seed: CsumSeed, geo: &Geometry, bitmap: &[u8]) -> Result<()> {
        let used = bitmap.get(..geo.inode_bitmap_bytes()).unwrap_or(bitmap);
        if kept(geo.desc_size, bitmap_checksum(seed, used)) == self.inode_bitmap_csum {
            return Ok(());
        }
        Err(Corrupt::new(CorruptKind::InodeBitmapChecksum).pblk(self.inode_bitmap))
    }

    /// Stores the checksum of a block bitmap.
    pub fn set_block_bitmap_csum(&mut self, seed: CsumSeed, geo: &Geometry, bitmap: &[u8]) {
        let used = bitmap.get(..geo.block_bitmap_bytes()).unwrap_or(bitmap);
        self.block_bitmap_csum = kept(geo.desc_size, bitmap_checksum(seed, used));
    }

    /// Stores the checksum of an inode bitmap.
    pub fn set_inode_bitmap_csum(&mut self, seed: CsumSeed, geo: &Geometry, bitmap: &[u8]) {
        let used = bitmap.get(..geo.inode_bitmap_bytes()).unwrap_or(bitmap);
        self.inode_bitmap_csum = kept(geo.desc_size, bitmap_checksum(seed, used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> GroupDesc {
        GroupDesc {
            block_bitmap: Pblk(0x1_0000_0002),
            inode_bitmap: Pblk(3),
            inode_table: Pblk(4),
            free_blocks: 0x1_0005,
            free_inodes: 6,
            used_dirs: 7,
            itable_unused: 8,
            flags: GroupFlags::ITABLE_ZEROED,
            block_bitmap_csum: 0xdead_beef,
            inode_bitmap_csum: 0x1234_5678,
            checksum: 0,
        }
    }

    #[test]
    fn round_trip() {
        let mut b = [0u8; 64];
        sample().encode_into(&mut b);
        assert_eq!(GroupDesc::decode(&b).unwrap(), sample());
        let short = GroupDesc::decode(&b[..32]).unwrap();
        assert_eq!((short.block_bitmap, short.free_blocks), (Pblk(2), 5));
        assert_eq!(
            GroupDesc::decode(&b[..31]).unwrap_err().kind,
            CorruptKind::GroupDescShort
        );
    }

    #[test]
    fn one_changed_byte_is_seen() {
        for csum in [GroupCsum::Crc16([7; 16]), GroupCsum::Crc32c(CsumSeed(9))] {
            let mut b = [0u8; 64];
            sample().encode_into(&mut b);
            csum.set_desc_checksum(GroupNo(5), &mut b);
            csum.verify_desc(GroupNo(5), &b).unwrap();
            assert!(csum.verify_desc(GroupNo(6), &b).is_err());
            for i in 0..64 {
                b[i] ^= 0x40;
                let kind = csum.verify_desc(GroupNo(5), &b).unwrap_err().kind;
                assert_eq!(kind, CorruptKind::GroupDescChecksum);
                b[i] ^= 0x40;
            }
        }
    }
}

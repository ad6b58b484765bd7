//! Extents and the pointers to extent tree nodes: the entries of [`crate::extent_node`].
//!
//! Source: Linux documentation, filesystems/ext4, "Extent Tree".

use crate::types::{Lblk, Pblk};

/// Blocks in the longest initialised extent.
pub const EXTENT_LEN_MAX: u16 = 32768;
/// Blocks in the longest unwritten extent.
pub const EXTENT_LEN_MAX_UNWRITTEN: u16 = 32767;
/// Bytes of an entry of either kind.
pub(crate) const ENTRY: usize = 12;

/// A run of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Extent {
    /// First block in the file.
    pub lblk: Lblk,
    /// Blocks: 1 to 32768, one less if unwritten.
    pub len: u16,
    /// Allocated, but reads as zeros.
    pub unwritten: bool,
    /// First block on disk.
    pub pblk: Pblk,
}

impl Extent {
    /// First block in the file after it; can be 2^32 on disk only by corruption.
    #[inline]
    pub fn end(&self) -> u64 {
        u64::from(self.lblk.0) + u64::from(self.len)
    }

    /// True if it covers the block.
    #[inline]
    pub fn contains(&self, l: Lblk) -> bool {
        l >= self.lblk && u64::from(l.0) < self.end()
    }

    /// The block on disk of a block in the file that it covers.
    #[inline]
    pub fn map(&self, l: Lblk) -> Option<Pblk> {
        if !self.contains(l) {
            return None;
        }
        self.pblk
            .0
            .checked_add(u64::from(l.0 - self.lblk.0))
            .map(Pblk)
    }

    /// True if `next` continues it in the file, on disk and in kind, and both fit one extent.
    pub fn can_merge(&self, next: &Extent) -> bool {
        let max = if self.unwritten {
            EXTENT_LEN_MAX_UNWRITTEN
        } else {
            EXTENT_LEN_MAX
        };
        self.unwritten == next.unwritten
            && self.end() == u64::from(next.lblk.0)
            && self.pblk.0.checked_add(u64::from(self.len)) == Some(next.pblk.0)
            && u32::from(self.len) + u32::from(next.len) <= u32::from(max)
    }

    #[inline]
    pub(crate) fn read(b: &[u8; ENTRY]) -> Extent {
        let raw = u16::from_le_bytes([b[4], b[5]]);
        let hi = u16::from_le_bytes([b[6], b[7]]);
        let lo = u32::from_le_bytes([b[8], b[9], b[10], b[11]]);
        let unwritten = raw > EXTENT_LEN_MAX;
        Extent {
            lblk: Lblk(u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            len: if unwritten { raw - EXTENT_LEN_MAX } else { raw },
            unwritten,
            pblk: Pblk(u64::from(hi) << 32 | u64::from(lo)),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; ENTRY] {
        let mut b = [0; ENTRY];
        let len = if self.unwritten {
            self.len | 0x8000
        } else {
            self.len
        };
        b[..4].copy_from_slice(&self.lblk.0.to_le_bytes());
        b[4..6].copy_from_slice(&len.to_le_bytes());
        b[6..8].copy_from_slice(&((self.pblk.0 >> 32) as u16).to_le_bytes());
        b[8..].copy_from_slice(&(self.pblk.0 as u32).to_le_bytes());
        b
    }
}

/// A pointer to a child node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExtentIdx {
    /// First block in the file that the child may cover.
    pub lblk: Lblk,
    /// The child's block.
    pub child: Pblk,
}

impl ExtentIdx {
    #[inline]
    pub(crate) fn read(b: &[u8; ENTRY]) -> ExtentIdx {
        let lo = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
        let hi = u16::from_le_bytes([b[8], b[9]]);
        ExtentIdx {
            lblk: Lblk(u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            child: Pblk(u64::from(hi) << 32 | u64::from(lo)),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; ENTRY] {
        let mut b = [0; ENTRY];
        b[..4].copy_from_slice(&self.lblk.0.to_le_bytes());
        b[4..8].copy_from_slice(&(self.child.0 as u32).to_le_bytes());
        b[8..10].copy_from_slice(&((self.child.0 >> 32) as u16).to_le_bytes());
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_round_trip() {
        for (len, unwritten) in [(1, false), (32768, false), (1, true), (32767, true)] {
            let e = Extent {
                lblk: Lblk(9),
                len,
                unwritten,
                pblk: Pblk(0xffff_1234_5678),
            };
            assert_eq!(Extent::read(&e.to_bytes()), e);
        }
    }
}

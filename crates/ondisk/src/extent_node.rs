//! Extent tree nodes: a header, then extents (depth 0) or index entries.
//!
//! Source: Linux documentation, filesystems/ext4, "Extent Tree".
//!
//! # Invariants
//! [`ExtentNode::validate`] runs once when a node is loaded. After it the entries are in order, in
//! bounds and disjoint. The views never panic on bytes that were not validated; they may only fail to
//! find an entry.

use std::ops::Range;

use crate::bytes::{le16, le32, put_le16, put_le32};
use crate::checksum::{InodeSeed, crc32c};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::extent::{ENTRY, Extent, ExtentIdx};
use crate::geometry::BlockBounds;
use crate::types::Lblk;

/// Header magic.
pub const EXTENT_MAGIC: u16 = 0xf30a;
/// The deepest tree there can be.
pub const EXTENT_DEPTH_MAX: u16 = 5;
/// Entries in the root, which is the 60 bytes of the inode.
pub const EXTENT_ROOT_ENTRIES: u16 = 4;

const HEADER: usize = 12;

/// Entries that fit a block. The checksum tail fits what is left over.
pub const fn extent_block_entries(block_size: u32) -> u16 {
    ((block_size as usize - HEADER) / ENTRY) as u16
}

/// What a node must satisfy beyond its own bytes.
#[derive(Clone, Copy, Debug)]
pub struct ExtentCheck {
    /// The depth its parent implies; `None` for the root.
    pub depth: Option<u16>,
    /// Blocks it may name.
    pub bounds: BlockBounds,
    /// First file block its parent gives it.
    pub lblk_min: Lblk,
    /// File block where its parent's range ends, exclusive; 2^32 for the root and the last child.
    pub lblk_end: u64,
}

impl ExtentCheck {
    /// The check of a root.
    pub const fn root(bounds: BlockBounds) -> Self {
        ExtentCheck {
            depth: None,
            bounds,
            lblk_min: Lblk(0),
            lblk_end: 1 << 32,
        }
    }
}

/// A node's bytes, read.
#[derive(Clone, Copy, Debug)]
pub struct ExtentNode<'a> {
    bytes: &'a [u8],
}

impl<'a> ExtentNode<'a> {
    /// A view of bytes that were validated when they were loaded.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        ExtentNode { bytes }
    }

    /// Checks a whole node: the 60 bytes of a root or a block.
    ///
    /// # Errors
    /// The `Extent*` kind of the first check that fails.
    pub fn validate(bytes: &'a [u8], check: &ExtentCheck) -> Result<Self> {
        let node = ExtentNode { bytes };
        node.validate_header(check.depth)?;
        if node.depth() == 0 {
            node.validate_extents(check)?;
        } else {
            node.validate_idx(check)?;
        }
        Ok(node)
    }

    /// Checks that a node which was validated is the child that `check` is of: its depth, and the range of its
    /// entries.
    ///
    /// # Errors
    /// [`CorruptKind::ExtentDepth`], [`CorruptKind::ExtentLblkRange`].
    #[inline]
    pub fn validate_place(bytes: &'a [u8], check: &ExtentCheck) -> Result<()> {
        let node = ExtentNode { bytes };
        if check.depth.is_some_and(|d| d != node.depth()) {
            return Err(Corrupt::new(CorruptKind::ExtentDepth).detail(node.depth()));
        }
        let last = usize::from(node.len()).saturating_sub(1);
        let end = match node.depth() {
            0 => node.extent(last).map_or(0, |e| e.end()),
            _ => node.lblk(last).map_or(0, |l| u64::from(l.0) + 1),
        };
        node.validate_range(check, end)
    }

    fn validate_header(&self, depth: Option<u16>) -> Result<()> {
        let Some(header) = self.bytes.first_chunk::<HEADER>() else {
            return Err(CorruptKind::ExtentShort.into());
        };
        let magic = le16(header, 0).unwrap_or(0);
        if magic != EXTENT_MAGIC {
            return Err(Corrupt::new(CorruptKind::ExtentMagic).detail(format_args!("{magic:#06x}")));
        }
        if self.depth() > EXTENT_DEPTH_MAX {
            return Err(Corrupt::new(CorruptKind::ExtentDepthMax).detail(self.depth()));
        }
        if depth.is_some_and(|d| d != self.depth()) {
            return Err(Corrupt::new(CorruptKind::ExtentDepth).detail(self.depth()));
        }
        if self.max() == 0 {
            return Err(CorruptKind::ExtentMaxZero.into());
        }
        if usize::from(self.max()) > (self.bytes.len() - HEADER) / ENTRY {
            return Err(Corrupt::new(CorruptKind::ExtentMax).detail(self.max()));
        }
        if self.len() > self.max() {
            return Err(Corrupt::new(CorruptKind::ExtentEntries).detail(self.len()));
        }
        if self.depth() > 0 && self.is_empty() {
            return Err(CorruptKind::ExtentEmptyIndex.into());
        }
        Ok(())
    }

    fn validate_extents(&self, check: &ExtentCheck) -> Result<()> {
        let mut prev_end = 0;
        for e in self.extents() {
            if e.len == 0 {
                return Err(Corrupt::new(CorruptKind::ExtentLenZero).detail(e.lblk));
            }
            // The last file block number is kept free, so that an end always fits 32 bits.
            if e.end() > u64::from(u32::MAX) {
                return Err(Corrupt::new(CorruptKind::ExtentWraps).detail(e.lblk));
            }
            if u64::from(e.lblk.0) < prev_end {
                return Err(Corrupt::new(CorruptKind::ExtentOrder).detail(e.lblk));
            }
            prev_end = e.end();
            if !check.bounds.contains(e.pblk, u64::from(e.len)) {
                return Err(Corrupt::new(CorruptKind::ExtentPblk).detail(e.pblk));
            }
        }
        self.validate_range(check, prev_end)
    }

    fn validate_idx(&self, check: &ExtentCheck) -> Result<()> {
        let mut prev: Option<Lblk> = None;
        for i in self.indexes() {
            if prev.is_some_and(|p| i.lblk <= p) {
                return Err(Corrupt::new(CorruptKind::ExtentIdxOrder).detail(i.lblk));
            }
            prev = Some(i.lblk);
            if !check.bounds.contains(i.child, 1) {
                return Err(Corrupt::new(CorruptKind::ExtentIdxPblk).detail(i.child));
            }
        }
        self.validate_range(check, prev.map_or(0, |p| u64::from(p.0) + 1))
    }

    /// The entries, in order and ending at `end`, must lie in the parent's range.
    fn validate_range(&self, check: &ExtentCheck, end: u64) -> Result<()> {
        match self.lblk(0) {
            Some(first) if first < check.lblk_min || end > check.lblk_end => {
                Err(Corrupt::new(CorruptKind::ExtentLblkRange).detail(first))
            }
            _ => Ok(()),
        }
    }

    /// Entries in use.
    #[inline]
    pub fn len(&self) -> u16 {
        le16(self.bytes, 2).unwrap_or(0)
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries there is room for.
    #[inline]
    pub fn max(&self) -> u16 {
        le16(self.bytes, 4).unwrap_or(0)
    }

    /// True if no entry can be inserted.
    pub fn is_full(&self) -> bool {
        self.len() >= self.max()
    }

    /// 0 for a leaf, else the number of levels below.
    #[inline]
    pub fn depth(&self) -> u16 {
        le16(self.bytes, 6).unwrap_or(0)
    }

    #[inline]
    fn entries(&self) -> &'a [[u8; ENTRY]] {
        let all = self.bytes.get(HEADER..).unwrap_or(&[]).as_chunks().0;
        all.get(..usize::from(self.len())).unwrap_or(all)
    }

    /// First file block of an entry of either kind.
    #[inline]
    pub fn lblk(&self, i: usize) -> Option<Lblk> {
        self.entries().get(i).map(first_lblk)
    }

    /// The extent at a position of a leaf.
    #[inline]
    pub fn extent(&self, i: usize) -> Option<Extent> {
        self.entries().get(i).map(Extent::read)
    }

    /// The index entry at a position of an inner node.
    #[inline]
    pub fn idx(&self, i: usize) -> Option<ExtentIdx> {
        self.entries().get(i).map(ExtentIdx::read)
    }

    /// The extents of a leaf.
    pub fn extents(&self) -> impl DoubleEndedIterator<Item = Extent> + ExactSizeIterator + use<'a> {
        self.entries().iter().map(Extent::read)
    }

    /// The entries of an inner node.
    pub fn indexes(
        &self,
    ) -> impl DoubleEndedIterator<Item = ExtentIdx> + ExactSizeIterator + use<'a> {
        self.entries().iter().map(ExtentIdx::read)
    }

    /// Position of the last entry that starts at or before `l`: in a leaf the one that covers `l` if
    /// any does, in an inner node the child to descend into.
    #[inline]
    pub fn find(&self, l: Lblk) -> Option<usize> {
        self.entries()
            .partition_point(|e| first_lblk(e) <= l)
            .checked_sub(1)
    }

    /// The check of the child at a position.
    pub fn child_check(&self, i: usize, parent: &ExtentCheck) -> Option<ExtentCheck> {
        Some(ExtentCheck {
            depth: Some(self.depth().checked_sub(1)?),
            bounds: parent.bounds,
            lblk_min: self.lblk(i)?,
            lblk_end: self.lblk(i + 1).map_or(parent.lblk_end, |l| u64::from(l.0)),
        })
    }
}

#[inline]
fn first_lblk(b: &[u8; ENTRY]) -> Lblk {
    Lblk(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// A node is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("extent node is full")]
pub struct NodeFull;

/// A node's bytes, to be changed.
#[derive(Debug)]
pub struct ExtentNodeMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> ExtentNodeMut<'a> {
    /// A view of bytes that were validated when they were loaded.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        ExtentNodeMut { bytes }
    }

    /// Makes an empty node that fills `bytes`: 60 of a root or a block.
    pub fn init(bytes: &'a mut [u8], depth: u16) -> Self {
        bytes.fill(0);
        let max = (bytes.len().saturating_sub(HEADER) / ENTRY) as u16;
        let mut node = ExtentNodeMut { bytes };
        node.put(0, EXTENT_MAGIC);
        node.put(4, max);
        node.put(6, depth);
        node
    }

    /// The same node, for reading.
    #[inline]
    pub fn as_node(&self) -> ExtentNode<'_> {
        ExtentNode { bytes: self.bytes }
    }

    fn put(&mut self, at: usize, v: u16) {
        // Only headers are put, and a slice that is shorter has no entries either.
        let _ = put_le16(self.bytes, at, v);
    }

    /// Sets the depth, as when the root grows or shrinks a level.
    pub fn set_depth(&mut self, depth: u16) {
        self.put(6, depth);
    }

    fn set_len(&mut self, len: usize) {
        self.put(2, len as u16);
    }

    /// All entries there is room for.
    fn slots(&mut self) -> &mut [[u8; ENTRY]] {
        let max = usize::from(self.as_node().max());
        let all = self
            .bytes
            .get_mut(HEADER..)
            .unwrap_or(&mut [])
            .as_chunks_mut()
            .0;
        let n = all.len().min(max);
        all.get_mut(..n).unwrap_or(&mut [])
    }

    fn insert(&mut self, i: usize, entry: [u8; ENTRY]) -> std::result::Result<(), NodeFull> {
        let len = usize::from(self.as_node().len());
        if i > len {
            return Err(NodeFull);
        }
        let used = self.slots().get_mut(i..len + 1).ok_or(NodeFull)?;
        used.rotate_right(1);
        *used.first_mut().ok_or(NodeFull)? = entry;
        self.set_len(len + 1);
        Ok(())
    }

    fn set(&mut self, i: usize, entry: [u8; ENTRY]) -> bool {
        let len = usize::from(self.as_node().len());
        match self.slots().get_mut(..len).and_then(|s| s.get_mut(i)) {
            Some(slot) => {
                *slot = entry;
                true
            }
            None => false,
        }
    }

    /// Inserts an extent before position `i`; the caller keeps the order.
    ///
    /// # Errors
    /// [`NodeFull`], also for a position past the end.
    pub fn insert_extent_at(&mut self, i: usize, e: Extent) -> std::result::Result<(), NodeFull> {
        self.insert(i, e.to_bytes())
    }

    /// Inserts an index entry before position `i`; the caller keeps the order.
    ///
    /// # Errors
    /// [`NodeFull`], also for a position past the end.
    pub fn insert_idx_at(&mut self, i: usize, e: ExtentIdx) -> std::result::Result<(), NodeFull> {
        self.insert(i, e.to_bytes())
    }

    /// Replaces an extent; false if there is none at `i`.
    pub fn set_extent(&mut self, i: usize, e: Extent) -> bool {
        self.set(i, e.to_bytes())
    }

    /// Replaces an index entry; false if there is none at `i`.
    pub fn set_idx(&mut self, i: usize, e: ExtentIdx) -> bool {
        self.set(i, e.to_bytes())
    }

    /// Changes where an entry of an inner node starts; false if there is none at `i`.
    pub fn set_lblk(&mut self, i: usize, l: Lblk) -> bool {
        let len = usize::from(self.as_node().len());
        let slot = self.slots().get_mut(..len).and_then(|s| s.get_mut(i));
        slot.and_then(|s| put_le32(s, 0, l.0)).is_some()
    }

    /// Removes entries; positions past the end are ignored.
    pub fn remove_range(&mut self, range: Range<usize>) {
        let len = usize::from(self.as_node().len());
        let (start, end) = (range.start.min(len), range.end.min(len));
        if start >= end {
            return;
        }
        let slots = self.slots();
        slots.copy_within(end.min(slots.len())..len.min(slots.len()), start);
        let new_len = len - (end - start);
        if let Some(gone) = slots.get_mut(new_len..len) {
            gone.fill([0; ENTRY]);
        }
        self.set_len(new_len);
    }

    /// Moves the entries from `at` on to the end of `to`.
    ///
    /// # Errors
    /// [`NodeFull`] if they do not fit; nothing changed.
    pub fn move_tail(
        &mut self,
        at: usize,
        to: &mut ExtentNodeMut<'_>,
    ) -> std::result::Result<(), NodeFull> {
        let tail = self.as_node().entries().get(at..).unwrap_or(&[]);
        let have = usize::from(to.as_node().len());
        let room = to
            .slots()
            .get_mut(have..have + tail.len())
            .ok_or(NodeFull)?;
        room.copy_from_slice(tail);
        let moved = tail.len();
        to.set_len(have + moved);
        self.remove_range(at..at + moved);
        Ok(())
    }
}

/// Where a block's checksum is: behind as many entries as the header allows.
fn tail_offset(block: &[u8]) -> Option<usize> {
    let at = HEADER + usize::from(le16(block, 4)?) * ENTRY;
    (at + 4 <= block.len()).then_some(at)
}

/// Stores the checksum of an extent block. Roots have none. The last step before writing.
pub fn extent_block_checksum_set(block: &mut [u8], seed: InodeSeed) {
    if let Some(at) = tail_offset(block) {
        let sum = crc32c(seed.0, block.get(..at).unwrap_or(&[]));
        // The offset was checked against the length.
        let _ = put_le32(block, at, sum);
    }
}

/// Checks the checksum of an extent block.
///
/// # Errors
/// [`CorruptKind::ExtentChecksum`].
pub fn extent_block_checksum_verify(block: &[u8], seed: InodeSeed) -> Result<()> {
    let ok = tail_offset(block)
        .is_some_and(|at| block.get(..at).map(|b| crc32c(seed.0, b)) == le32(block, at));
    if ok {
        Ok(())
    } else {
        Err(CorruptKind::ExtentChecksum.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Pblk;

    const BOUNDS: BlockBounds = BlockBounds {
        first: 1,
        end: 1 << 20,
    };

    fn ext(lblk: u32, len: u16, pblk: u64) -> Extent {
        Extent {
            lblk: Lblk(lblk),
            len,
            unwritten: false,
            pblk: Pblk(pblk),
        }
    }

    fn leaf() -> Vec<u8> {
        let mut b = vec![0; 1024];
        let mut n = ExtentNodeMut::init(&mut b, 0);
        for i in 0..10u32 {
            n.insert_extent_at(i as usize, ext(i * 10, 5, 100 + u64::from(i) * 7))
                .unwrap();
        }
        b
    }

    fn kind(b: &[u8]) -> CorruptKind {
        ExtentNode::validate(b, &ExtentCheck::root(BOUNDS))
            .unwrap_err()
            .kind
    }

    #[test]
    fn find_and_map() {
        let b = leaf();
        let n = ExtentNode::validate(&b, &ExtentCheck::root(BOUNDS)).unwrap();
        assert_eq!((n.len(), n.max(), n.find(Lblk(0))), (10, 84, Some(0)));
        assert_eq!(n.find(Lblk(95)), Some(9));
        let e = n.extent(n.find(Lblk(23)).unwrap()).unwrap();
        assert_eq!((e.map(Lblk(23)), e.map(Lblk(25))), (Some(Pblk(117)), None));
    }

    #[test]
    fn model_insert_remove_split() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut b, mut c) = (vec![0; 1024], vec![0; 1024]);
        let mut model: Vec<Extent> = Vec::new();
        let mut n = ExtentNodeMut::init(&mut b, 0);
        for step in 0..5000 {
            if rng.u8(..) < 150 {
                let i = rng.usize(..=model.len());
                let r = n.insert_extent_at(i, ext(step, 1, 5));
                assert_eq!(r.is_err(), model.len() == 84);
                if r.is_ok() {
                    model.insert(i, ext(step, 1, 5));
                }
            } else {
                let start = rng.usize(..=model.len());
                let end = rng.usize(start..=model.len().min(start + 3));
                n.remove_range(start..end);
                model.drain(start..end);
            }
            assert!(n.as_node().extents().eq(model.iter().copied()));
        }
        let mut to = ExtentNodeMut::init(&mut c, 0);
        let at = model.len() / 2;
        n.move_tail(at, &mut to).unwrap();
        assert!(to.as_node().extents().eq(model.drain(at..)));
        assert!(n.as_node().extents().eq(model));
    }

    #[test]
    fn each_corruption_has_its_kind() {
        let with = |at: usize, v: &[u8]| {
            let mut b = leaf();
            b[at..at + v.len()].copy_from_slice(v);
            kind(&b)
        };
        assert_eq!(kind(&[0; 4]), CorruptKind::ExtentShort);
        assert_eq!(with(0, &[0]), CorruptKind::ExtentMagic);
        assert_eq!(with(2, &[85]), CorruptKind::ExtentEntries);
        assert_eq!(with(4, &[85]), CorruptKind::ExtentMax);
        assert_eq!(with(2, &[0, 0, 0]), CorruptKind::ExtentMaxZero);
        assert_eq!(with(6, &[6]), CorruptKind::ExtentDepthMax);
        assert_eq!(with(16, &[0, 0]), CorruptKind::ExtentLenZero);
        assert_eq!(with(16, &[11]), CorruptKind::ExtentOrder);
        assert_eq!(with(20, &[0, 0, 0, 0]), CorruptKind::ExtentPblk);
        assert_eq!(with(18, &[1]), CorruptKind::ExtentPblk);
        assert_eq!(with(12 + 9 * 12, &[255; 4]), CorruptKind::ExtentWraps);
        let b = leaf();
        let mut check = ExtentCheck::root(BOUNDS);
        check.depth = Some(1);
        assert_eq!(
            ExtentNode::validate(&b, &check).unwrap_err().kind,
            CorruptKind::ExtentDepth
        );
        check = ExtentCheck {
            lblk_end: 94,
            ..ExtentCheck::root(BOUNDS)
        };
        assert_eq!(
            ExtentNode::validate(&b, &check).unwrap_err().kind,
            CorruptKind::ExtentLblkRange
        );
    }

    #[test]
    fn index_corruptions() {
        let mut b = vec![0; 1024];
        let mut n = ExtentNodeMut::init(&mut b, 1);
        assert_eq!(kind(n.bytes), CorruptKind::ExtentEmptyIndex);
        n.insert_idx_at(
            0,
            ExtentIdx {
                lblk: Lblk(0),
                child: Pblk(9),
            },
        )
        .unwrap();
        n.insert_idx_at(
            1,
            ExtentIdx {
                lblk: Lblk(50),
                child: Pblk(10),
            },
        )
        .unwrap();
        let check = ExtentCheck::root(BOUNDS);
        let child = n.as_node().child_check(0, &check).unwrap();
        assert_eq!((child.depth, child.lblk_end), (Some(0), 50));
        n.set_lblk(1, Lblk(0));
        assert_eq!(kind(n.bytes), CorruptKind::ExtentIdxOrder);
        n.set_idx(
            1,
            ExtentIdx {
                lblk: Lblk(50),
                child: Pblk(1 << 30),
            },
        );
        assert_eq!(kind(n.bytes), CorruptKind::ExtentIdxPblk);
    }

    #[test]
    fn checksum_sees_one_byte() {
        let mut b = leaf();
        extent_block_checksum_set(&mut b, InodeSeed(1));
        for at in (0..1024).filter(|at| !(4..6).contains(at)) {
            b[at] ^= 4;
            let e = extent_block_checksum_verify(&b, InodeSeed(1));
            assert_eq!(e.unwrap_err().kind, CorruptKind::ExtentChecksum);
            b[at] ^= 4;
        }
        extent_block_checksum_verify(&b, InodeSeed(1)).unwrap();
    }
}

//! Hash trees of directories: a root in the first block, inner nodes, and linear blocks as leaves.
//!
//! Source: Linux documentation, filesystems/ext4, "Hash Tree Directories".
//!
//! # Invariants
//! The first entry has no hash: its place holds limit and count, and it stands for every hash below
//! the second's. The lowest bit of a hash says that names with the same hash continue from the leaf
//! before.

use crate::bytes::{le16, le32, put_le16, put_le32};
use crate::checksum::{InodeSeed, crc32c};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::dirent::{rec_len_decode, rec_len_encode};
use crate::file_type::FileType;
use crate::hash::HashVersion;
use crate::types::{Ino, Lblk};

/// Where a root's entries start.
pub const DX_ROOT_ENTRIES_AT: usize = 32;
/// Where a node's entries start.
pub const DX_NODE_ENTRIES_AT: usize = 8;

const ENTRY: usize = 8;
const TAIL: usize = 8;
const INFO_AT: usize = 24;
const INFO_LEN: u8 = 8;
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// Which of the two kinds of block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DxKind {
    /// The first block of the directory.
    Root,
    /// Any other.
    Node,
}

impl DxKind {
    const fn entries_at(self) -> usize {
        match self {
            DxKind::Root => DX_ROOT_ENTRIES_AT,
            DxKind::Node => DX_NODE_ENTRIES_AT,
        }
    }
}

/// Entries a block has room for.
pub const fn dx_limit(kind: DxKind, block_len: usize, has_tail: bool) -> u16 {
    let tail = if has_tail { TAIL } else { 0 };
    (block_len.saturating_sub(kind.entries_at() + tail) / ENTRY) as u16
}

/// An entry: hashes from this one on are below this block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DxEntry {
    /// The lowest major hash; bit 0 is the continuation flag. 0 for the first entry.
    pub hash: u32,
    /// Block of the directory.
    pub block: Lblk,
}

/// What a root says about its tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DxRootInfo {
    /// Hash of the names, as stored: the superblock says if bytes are unsigned.
    pub hash_version: HashVersion,
    /// Levels of nodes between root and leaves.
    pub indirect_levels: u8,
}

impl DxRootInfo {
    /// Reads and checks a root's dot entries and information.
    ///
    /// # Errors
    /// The `DxRoot*` kind of the first check that fails.
    pub fn read(block: &[u8], large_dir: bool) -> Result<Self> {
        let Some(head) = block.first_chunk::<DX_ROOT_ENTRIES_AT>() else {
            return Err(CorruptKind::DxShort.into());
        };
        let byte = |at: usize| head.get(at).copied().unwrap_or(0);
        let rec_len = |at| rec_len_decode(le16(head, at).unwrap_or(0), block.len());
        if rec_len(4) != 12 || byte(6) != 1 || byte(8) != b'.' {
            return Err(CorruptKind::DxRootDot.into());
        }
        if rec_len(16) != block.len() - 12 || byte(18) != 2 || head.get(20..22) != Some(b"..") {
            return Err(CorruptKind::DxRootDotDot.into());
        }
        if le32(head, INFO_AT) != Some(0) {
            return Err(CorruptKind::DxRootReserved.into());
        }
        let Some(hash_version) = HashVersion::from_disk(byte(28)) else {
            return Err(Corrupt::new(CorruptKind::DxRootHash).detail(byte(28)));
        };
        if byte(29) != INFO_LEN {
            return Err(Corrupt::new(CorruptKind::DxRootInfoLen).detail(byte(29)));
        }
        let indirect_levels = byte(30);
        if indirect_levels >= dx_levels_max(large_dir) {
            return Err(Corrupt::new(CorruptKind::DxRootLevels).detail(indirect_levels));
        }
        if byte(31) & 1 != 0 {
            return Err(Corrupt::new(CorruptKind::DxRootFlags).detail(byte(31)));
        }
        Ok(DxRootInfo {
            hash_version,
            indirect_levels,
        })
    }
}

/// Levels of root and nodes a tree can have.
pub const fn dx_levels_max(large_dir: bool) -> u8 {
    if large_dir { 3 } else { 2 }
}

/// Stores the number of levels of a root.
pub fn dx_set_indirect_levels(root: &mut [u8], levels: u8) {
    if let Some(b) = root.get_mut(30) {
        *b = levels;
    }
}

/// A root or node, read.
#[derive(Clone, Copy, Debug)]
pub struct DxView<'a> {
    block: &'a [u8],
    kind: DxKind,
}

impl<'a> DxView<'a> {
    /// A view of a block that was validated when it was loaded.
    #[inline]
    pub fn new(block: &'a [u8], kind: DxKind) -> Self {
        DxView { block, kind }
    }

    /// Checks limit, count, order and blocks; a root's information has its own check. `dir_blocks` is
    /// the size of the directory.
    ///
    /// # Errors
    /// The `Dx*` kind of the first check that fails.
    pub fn validate(
        block: &'a [u8],
        kind: DxKind,
        has_tail: bool,
        dir_blocks: u32,
    ) -> Result<Self> {
        let v = DxView { block, kind };
        if block.len() < DX_ROOT_ENTRIES_AT + ENTRY + TAIL {
            return Err(CorruptKind::DxShort.into());
        }
        let rec_len = rec_len_decode(le16(block, 4).unwrap_or(0), block.len());
        if kind == DxKind::Node && (le32(block, 0) != Some(0) || rec_len != block.len()) {
            return Err(CorruptKind::DxNodeDirent.into());
        }
        if v.limit() != dx_limit(kind, block.len(), has_tail) {
            return Err(Corrupt::new(CorruptKind::DxLimit).detail(v.limit()));
        }
        if v.count() == 0 {
            return Err(CorruptKind::DxCountZero.into());
        }
        if v.count() > v.limit() {
            return Err(Corrupt::new(CorruptKind::DxCount).detail(v.count()));
        }
        let mut prev = 0;
        for e in v.entries() {
            if e.hash & !1 < prev {
                return Err(
                    Corrupt::new(CorruptKind::DxOrder).detail(format_args!("{:#x}", e.hash))
                );
            }
            prev = e.hash & !1;
            if e.block.0 == 0 || e.block.0 >= dir_blocks {
                return Err(Corrupt::new(CorruptKind::DxBlock).detail(e.block));
            }
        }
        Ok(v)
    }

    /// Entries in use, the first included.
    #[inline]
    pub fn count(&self) -> u16 {
        le16(self.block, self.kind.entries_at() + 2).unwrap_or(0)
    }

    /// Entries there is room for.
    #[inline]
    pub fn limit(&self) -> u16 {
        le16(self.block, self.kind.entries_at()).unwrap_or(0)
    }

    /// True if no entry can be inserted.
    pub fn is_full(&self) -> bool {
        self.count() >= self.limit()
    }

    #[inline]
    fn raw(&self) -> &'a [[u8; ENTRY]] {
        let all = self
            .block
            .get(self.kind.entries_at()..)
            .unwrap_or(&[])
            .as_chunks()
            .0;
        all.get(..usize::from(self.count())).unwrap_or(all)
    }

    /// The entry at a position.
    #[inline]
    pub fn entry(&self, i: usize) -> Option<DxEntry> {
        self.raw().get(i).map(|b| DxEntry {
            hash: if i == 0 { 0 } else { raw_hash(b) },
            block: Lblk(raw_block(b) & BLOCK_MASK),
        })
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = DxEntry> + use<'a> {
        let v = *self;
        (0..v.raw().len()).filter_map(move |i| v.entry(i))
    }

    /// Position of the child for a major hash: the last entry that does not lie above it.
    #[inline]
    pub fn find(&self, major: u32) -> usize {
        let rest = self.raw().get(1..).unwrap_or(&[]);
        rest.partition_point(|b| raw_hash(b) <= major)
    }
}

#[inline]
fn raw_hash(b: &[u8; ENTRY]) -> u32 {
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

#[inline]
fn raw_block(b: &[u8; ENTRY]) -> u32 {
    u32::from_le_bytes([b[4], b[5], b[6], b[7]])
}

/// A root or node is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("hash tree block is full")]
pub struct DxFull;

/// A root or node, to be changed.
#[derive(Debug)]
pub struct DxViewMut<'a> {
    block: &'a mut [u8],
    kind: DxKind,
}

impl<'a> DxViewMut<'a> {
    /// A view of a block that was validated when it was loaded.
    #[inline]
    pub fn new(block: &'a mut [u8], kind: DxKind) -> Self {
        DxViewMut { block, kind }
    }

    /// Makes a root with one leaf. Types are written with the `filetype` feature.
    pub fn init_root(
        block: &'a mut [u8],
        has_tail: bool,
        this: Ino,
        parent: Ino,
        filetype: bool,
        hash_version: HashVersion,
        leaf: Lblk,
    ) -> Self {
        block.fill(0);
        let kind = if filetype {
            FileType::Directory
        } else {
            FileType::Unknown
        }
        .to_dirent();
        let len = rec_len_encode(block.len().saturating_sub(12), block.len()).to_le_bytes();
        if let Some(head) = block.first_chunk_mut::<DX_ROOT_ENTRIES_AT>() {
            head[..4].copy_from_slice(&this.0.to_le_bytes());
            head[4..12].copy_from_slice(&[12, 0, 1, kind, b'.', 0, 0, 0]);
            head[12..16].copy_from_slice(&parent.0.to_le_bytes());
            head[16..24].copy_from_slice(&[len[0], len[1], 2, kind, b'.', b'.', 0, 0]);
            head[28..32].copy_from_slice(&[hash_version as u8, INFO_LEN, 0, 0]);
        }
        Self::init_entries(block, DxKind::Root, has_tail, leaf)
    }

    /// Makes a node with one child.
    pub fn init_node(block: &'a mut [u8], has_tail: bool, child: Lblk) -> Self {
        block.fill(0);
        let len = rec_len_encode(block.len(), block.len());
        // A block has at least 1024 bytes.
        let _ = put_le16(block, 4, len);
        Self::init_entries(block, DxKind::Node, has_tail, child)
    }

    fn init_entries(block: &'a mut [u8], kind: DxKind, has_tail: bool, child: Lblk) -> Self {
        let limit = dx_limit(kind, block.len(), has_tail);
        let at = kind.entries_at();
        // A block has at least 1024 bytes.
        let _ = put_le16(block, at, limit);
        let _ = put_le32(block, at + 4, child.0);
        let mut v = DxViewMut { block, kind };
        v.set_count(1);
        v
    }

    /// The same block, for reading.
    #[inline]
    pub fn as_view(&self) -> DxView<'_> {
        DxView {
            block: self.block,
            kind: self.kind,
        }
    }

    fn set_count(&mut self, n: usize) {
        // Entries exist only where the count fits.
        let _ = put_le16(self.block, self.kind.entries_at() + 2, n as u16);
    }

    /// Room for every entry.
    fn slots(&mut self) -> &mut [[u8; ENTRY]] {
        let limit = usize::from(self.as_view().limit());
        let all = self
            .block
            .get_mut(self.kind.entries_at()..)
            .unwrap_or(&mut [])
            .as_chunks_mut()
            .0;
        let n = all.len().min(limit);
        all.get_mut(..n).unwrap_or(&mut [])
    }

    /// Inserts an entry at position `i`, 1 or above; the caller keeps the order.
    ///
    /// # Errors
    /// [`DxFull`], also for a position that can't be.
    pub fn insert_at(&mut self, i: usize, e: DxEntry) -> std::result::Result<(), DxFull> {
        let count = usize::from(self.as_view().count());
        if i == 0 || i > count {
            return Err(DxFull);
        }
        let used = self.slots().get_mut(i..count + 1).ok_or(DxFull)?;
        used.rotate_right(1);
        *used.first_mut().ok_or(DxFull)? = entry_bytes(e);
        self.set_count(count + 1);
        Ok(())
    }

    /// Changes the block of an entry; false if there is none at `i`.
    pub fn set_block(&mut self, i: usize, block: Lblk) -> bool {
        let count = usize::from(self.as_view().count());
        let slot = self.slots().get_mut(..count).and_then(|s| s.get_mut(i));
        slot.and_then(|s| put_le32(s, 4, block.0)).is_some()
    }

    /// Moves the upper half of the entries into `to` (a fresh block of a node) and returns the hash
    /// that the parent needs for it; `None` if there is nothing to split.
    pub fn split_into(&mut self, to: &'_ mut [u8], has_tail: bool) -> Option<u32> {
        let count = usize::from(self.as_view().count());
        let at = count / 2;
        let first = self.as_view().entry(at).filter(|_| at > 0)?;
        let mut node = DxViewMut::init_node(to, has_tail, first.block);
        for (i, j) in (at + 1..count).enumerate() {
            let e = self.as_view().entry(j)?;
            node.insert_at(i + 1, e).ok()?;
        }
        self.truncate(at);
        Some(first.hash)
    }

    fn truncate(&mut self, n: usize) {
        let count = usize::from(self.as_view().count());
        if let Some(gone) = self.slots().get_mut(n..count) {
            gone.fill([0; ENTRY]);
        }
        self.set_count(n);
    }

    /// Makes a full root point at one node that gets all its entries (a fresh block), one level deeper.
    /// `None` if the root is not a root or the entries do not fit.
    pub fn push_down(&mut self, to: &'_ mut [u8], has_tail: bool, to_lblk: Lblk) -> Option<()> {
        if self.kind != DxKind::Root {
            return None;
        }
        let first = self.as_view().entry(0)?;
        let mut node = DxViewMut::init_node(to, has_tail, first.block);
        for i in 1..usize::from(self.as_view().count()) {
            let e = self.as_view().entry(i)?;
            node.insert_at(i, e).ok()?;
        }
        self.truncate(1);
        self.set_block(0, to_lblk);
        let levels = self.block.get_mut(30)?;
        *levels = levels.saturating_add(1);
        Some(())
    }
}

fn entry_bytes(e: DxEntry) -> [u8; ENTRY] {
    let mut b = [0; ENTRY];
    b[..4].copy_from_slice(&e.hash.to_le_bytes());
    b[4..].copy_from_slice(&e.block.0.to_le_bytes());
    b
}

/// Where a block's tail is, and the checksum it ought to hold.
fn dx_checksum(block: &[u8], kind: DxKind, seed: InodeSeed) -> Option<(usize, u32)> {
    let v = DxView { block, kind };
    let (count, limit) = (usize::from(v.count()), usize::from(v.limit()));
    let tail = kind.entries_at() + limit * ENTRY;
    if count > limit || tail + TAIL > block.len() {
        return None;
    }
    let used = block.get(..kind.entries_at() + count * ENTRY)?;
    let reserved = block.get(tail..tail + 4)?;
    let crc = crc32c(crc32c(seed.0, used), reserved);
    Some((tail + 4, crc32c(crc, &[0; 4])))
}

/// Stores the checksum of a root or node. The last step before writing.
pub fn dx_checksum_set(block: &mut [u8], kind: DxKind, seed: InodeSeed) {
    if let Some((at, sum)) = dx_checksum(block, kind, seed) {
        // The place was checked against the length.
        let _ = put_le32(block, at, sum);
    }
}

/// Checks the checksum of a root or node.
///
/// # Errors
/// [`CorruptKind::DxChecksum`].
pub fn dx_checksum_verify(block: &[u8], kind: DxKind, seed: InodeSeed) -> Result<()> {
    match dx_checksum(block, kind, seed) {
        Some((at, sum)) if le32(block, at) == Some(sum) => Ok(()),
        _ => Err(CorruptKind::DxChecksum.into()),
    }
}

/// What a block of a hashed directory is: a node starts with an empty entry spanning the block.
pub fn dx_kind_of(block: &[u8], lblk: Lblk) -> Option<DxKind> {
    if lblk.0 == 0 {
        return Some(DxKind::Root);
    }
    let spans = rec_len_decode(le16(block, 4)?, block.len()) == block.len();
    (le32(block, 0)? == 0 && spans && block.get(6) == Some(&0)).then_some(DxKind::Node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Vec<u8> {
        let mut b = vec![0; 1024];
        let mut v = DxViewMut::init_root(
            &mut b,
            true,
            Ino(12),
            Ino(2),
            true,
            HashVersion::HalfMd4,
            Lblk(1),
        );
        for i in 1..100u32 {
            v.insert_at(
                i as usize,
                DxEntry {
                    hash: i * 10,
                    block: Lblk(i + 1),
                },
            )
            .unwrap();
        }
        b
    }

    #[test]
    fn limits() {
        assert_eq!(dx_limit(DxKind::Root, 4096, false), 508);
        assert_eq!(dx_limit(DxKind::Root, 4096, true), 507);
        assert_eq!(dx_limit(DxKind::Node, 4096, false), 511);
        assert_eq!(dx_limit(DxKind::Node, 4096, true), 510);
    }

    #[test]
    fn find() {
        let b = root();
        let v = DxView::validate(&b, DxKind::Root, true, 200).unwrap();
        assert_eq!(
            (
                v.find(0),
                v.find(9),
                v.find(10),
                v.find(15),
                v.find(u32::MAX)
            ),
            (0, 0, 1, 1, 99)
        );
        assert_eq!(v.entry(99).unwrap().block, Lblk(100));
        let info = DxRootInfo::read(&b, false).unwrap();
        assert_eq!(
            (info.hash_version, info.indirect_levels),
            (HashVersion::HalfMd4, 0)
        );
    }

    #[test]
    fn split_and_push_down() {
        let (mut b, mut low, mut high) = (root(), vec![0; 1024], vec![0; 1024]);
        let mut v = DxViewMut::new(&mut b, DxKind::Root);
        v.push_down(&mut low, true, Lblk(150)).unwrap();
        assert_eq!(
            v.as_view().entries().collect::<Vec<_>>(),
            [DxEntry {
                hash: 0,
                block: Lblk(150)
            }]
        );
        let mut n = DxViewMut::new(&mut low, DxKind::Node);
        let hash = n.split_into(&mut high, true).unwrap();
        assert_eq!(hash, 500);
        v.insert_at(
            1,
            DxEntry {
                hash,
                block: Lblk(151),
            },
        )
        .unwrap();
        assert_eq!(DxRootInfo::read(&b, false).unwrap().indirect_levels, 1);
        let low = DxView::validate(&low, DxKind::Node, true, 200).unwrap();
        let high = DxView::validate(&high, DxKind::Node, true, 200).unwrap();
        assert_eq!((low.count(), high.count()), (50, 50));
        assert_eq!(
            high.entry(0).unwrap(),
            DxEntry {
                hash: 0,
                block: Lblk(51)
            }
        );
        assert_eq!(
            high.entry(1).unwrap(),
            DxEntry {
                hash: 510,
                block: Lblk(52)
            }
        );
    }

    #[test]
    fn each_corruption_has_its_kind() {
        let kind = |at: usize, v: &[u8]| {
            let mut b = root();
            b[at..at + v.len()].copy_from_slice(v);
            let info = DxRootInfo::read(&b, false).map(|_| ());
            info.and_then(|()| DxView::validate(&b, DxKind::Root, true, 200).map(|_| ()))
                .unwrap_err()
                .kind
        };
        for (at, v, want) in [
            (8, &[b'x'][..], CorruptKind::DxRootDot),
            (16, &[9], CorruptKind::DxRootDotDot),
            (24, &[1], CorruptKind::DxRootReserved),
            (28, &[7], CorruptKind::DxRootHash),
            (29, &[9], CorruptKind::DxRootInfoLen),
            (30, &[2], CorruptKind::DxRootLevels),
            (31, &[1], CorruptKind::DxRootFlags),
            (32, &[0], CorruptKind::DxLimit),
            (34, &[0], CorruptKind::DxCountZero),
            (34, &[200], CorruptKind::DxCount),
            (50, &[1], CorruptKind::DxOrder),
            (44, &[200], CorruptKind::DxBlock),
            (36, &[0], CorruptKind::DxBlock),
        ] {
            assert_eq!(kind(at, v), want, "at {at}");
        }
        let e = DxView::validate(&root(), DxKind::Node, true, 200).unwrap_err();
        assert_eq!(e.kind, CorruptKind::DxNodeDirent);
        assert_eq!(
            DxRootInfo::read(&[0; 31], false).unwrap_err().kind,
            CorruptKind::DxShort
        );
    }

    #[test]
    fn checksum_sees_one_byte() {
        let mut b = root();
        dx_checksum_set(&mut b, DxKind::Root, InodeSeed(8));
        let used = (0..832).chain(1016..1024);
        for at in used {
            b[at] ^= 8;
            let e = dx_checksum_verify(&b, DxKind::Root, InodeSeed(8));
            assert_eq!(e.unwrap_err().kind, CorruptKind::DxChecksum, "{at}");
            b[at] ^= 8;
        }
        dx_checksum_verify(&b, DxKind::Root, InodeSeed(8)).unwrap();
    }
}

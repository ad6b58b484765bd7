//! Quota files of the second version (`vfsv1`): space and inodes of each owner, and their limits.
//!
//! # Data model
//! A file of blocks of 1 KiB, whatever the file system's blocks are. Block 0 has the header, block 1 the root of a tree of
//! four levels by the bytes of the owner's id, most significant first; what the last level names is a leaf with 14 entries. Leaves with
//! free entries are a list linked both ways, blocks without a use are one linked by their first word.
//!
//! Source: Linux documentation, filesystems/quota; quota(5) and the files that mke2fs, tune2fs and the kernel make.

use crate::bytes::{le16, le32, put_le16, put_le32};
use crate::raw_superblock::RawSuperblock;
use crate::types::Ino;
use std::collections::BTreeMap;

/// Bytes of a block of a quota file.
pub const QUOTA_BLOCK: usize = 1024;
/// The version of a file that has 64-bit counts.
pub const QUOTA_VERSION: u32 = 1;
/// Levels of the tree above the leaves.
pub const QUOTA_DEPTH: u32 = 4;
/// The block of the tree's root.
pub const QUOTA_ROOT: u32 = 1;
/// References of a block of the tree.
pub const QUOTA_REFERENCES: usize = QUOTA_BLOCK / 4;
/// Bytes of a leaf before its entries.
pub const QUOTA_LEAF_HEADER: usize = 16;
/// Bytes of an entry.
pub const QUOTA_ENTRY: usize = 72;
/// Entries of a leaf.
pub const QUOTA_PER_LEAF: usize = (QUOTA_BLOCK - QUOTA_LEAF_HEADER) / QUOTA_ENTRY;
/// Bytes in the unit of limits of space.
pub const QUOTA_SPACE_UNIT: u64 = 1024;
/// Seconds of grace in a new file.
pub const QUOTA_GRACE: u32 = 7 * 86_400;

/// What an owner is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QuotaKind {
    /// The user of an inode.
    User,
    /// Its group.
    Group,
    /// Its project.
    Project,
}

impl QuotaKind {
    /// Every kind, in the order of [`quota_inodes`].
    pub const ALL: [QuotaKind; 3] = [QuotaKind::User, QuotaKind::Group, QuotaKind::Project];

    /// The first word of its file.
    pub const fn magic(self) -> u32 {
        match self {
            QuotaKind::User => 0xd9c0_1f11,
            QuotaKind::Group => 0xd9c0_1927,
            QuotaKind::Project => 0xd9c0_3f14,
        }
    }

    /// In a few lower-case letters.
    pub const fn name(self) -> &'static str {
        match self {
            QuotaKind::User => "user",
            QuotaKind::Group => "group",
            QuotaKind::Project => "project",
        }
    }
}

/// The quota files that the superblock names, whether or not it has the feature; [`Ino::NONE`] for none.
pub fn quota_inodes(raw: &RawSuperblock) -> [(QuotaKind, Ino); 3] {
    [
        (QuotaKind::User, Ino(raw.usr_quota_inum.get())),
        (QuotaKind::Group, Ino(raw.grp_quota_inum.get())),
        (QuotaKind::Project, Ino(raw.prj_quota_inum.get())),
    ]
}

/// The first block of a quota file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaHeader {
    /// [`QuotaKind::magic`].
    pub magic: u32,
    /// [`QUOTA_VERSION`].
    pub version: u32,
    /// Seconds that an owner may exceed the soft limit of space.
    pub space_grace: u32,
    /// The same of inodes.
    pub inode_grace: u32,
    /// Flags of the format; none has a meaning in this version.
    pub flags: u32,
    /// Blocks of the file.
    pub blocks: u32,
    /// The first block without a use, or 0.
    pub free_block: u32,
    /// The first leaf with a free entry, or 0.
    pub free_entry: u32,
}

impl QuotaHeader {
    /// That of a file with a header and an empty root.
    pub fn new(kind: QuotaKind) -> QuotaHeader {
        QuotaHeader {
            magic: kind.magic(),
            version: QUOTA_VERSION,
            space_grace: QUOTA_GRACE,
            inode_grace: QUOTA_GRACE,
            flags: 0,
            blocks: 2,
            free_block: 0,
            free_entry: 0,
        }
    }

    /// Decodes a block; what is beyond its end counts as zero.
    pub fn decode(block: &[u8]) -> QuotaHeader {
        let word = |at| le32(block, at).unwrap_or(0);
        QuotaHeader {
            magic: word(0),
            version: word(4),
            space_grace: word(8),
            inode_grace: word(12),
            flags: word(16),
            blocks: word(20),
            free_block: word(24),
            free_entry: word(28),
        }
    }

    /// Writes the fields into a block.
    pub fn encode_into(&self, block: &mut [u8]) {
        let words = [
            self.magic,
            self.version,
            self.space_grace,
            self.inode_grace,
            self.flags,
            self.blocks,
            self.free_block,
            self.free_entry,
        ];
        for (i, word) in words.into_iter().enumerate() {
            let _ = put_le32(block, i * 4, word);
        }
    }

    /// Whether it can be the header of a file of `blocks` blocks at most.
    pub fn is_sound(&self, blocks: u32) -> bool {
        self.version == QUOTA_VERSION
            && self.blocks <= blocks
            && self.blocks > QUOTA_ROOT
            && self.free_block.max(self.free_entry) < self.blocks
    }
}

/// What an owner has, and may have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuotaEntry {
    /// The owner.
    pub id: u32,
    /// The most inodes, 0 for any number.
    pub inodes_hard: u64,
    /// The most inodes for longer than the grace time, 0 for any number.
    pub inodes_soft: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// The most space, in units of 1 KiB, 0 for any.
    pub space_hard: u64,
    /// The most space for longer than the grace time, in units of 1 KiB, 0 for any.
    pub space_soft: u64,
    /// Bytes in use.
    pub space: u64,
    /// When the grace time of space ends, in seconds since 1970; 0 if the soft limit is not exceeded.
    pub space_time: u64,
    /// The same of inodes.
    pub inode_time: u64,
}

impl QuotaEntry {
    /// An owner without anything, and without limits.
    pub fn new(id: u32) -> QuotaEntry {
        QuotaEntry {
            id,
            ..QuotaEntry::default()
        }
    }

    /// Decodes an entry; `None` if it is free.
    pub fn decode(raw: &[u8]) -> Option<QuotaEntry> {
        let raw = raw.get(..QUOTA_ENTRY)?;
        if raw.iter().all(|b| *b == 0) {
            return None;
        }
        let long = |at: usize| {
            let word = |at| u64::from(le32(raw, at).unwrap_or(0));
            word(at + 4) << 32 | word(at)
        };
        let entry = QuotaEntry {
            id: le32(raw, 0).unwrap_or(0),
            inodes_hard: long(8),
            inodes_soft: long(16),
            inodes: long(24),
            space_hard: long(32),
            space_soft: long(40),
            space: long(48),
            space_time: long(56),
            inode_time: long(64),
        };
        let empty = QuotaEntry {
            inode_time: 1,
            ..QuotaEntry::default()
        };
        Some(match entry == empty {
            true => QuotaEntry::default(),
            false => entry,
        })
    }

    /// Writes an entry. Owner 0 without anything has a time of 1, as nothing but zeros is a free entry.
    pub fn encode_into(&self, raw: &mut [u8]) {
        let _ = put_le32(raw, 0, self.id);
        let _ = put_le32(raw, 4, 0);
        let unused = *self == QuotaEntry::default();
        let longs = [
            self.inodes_hard,
            self.inodes_soft,
            self.inodes,
            self.space_hard,
            self.space_soft,
            self.space,
            self.space_time,
            if unused { 1 } else { self.inode_time },
        ];
        for (i, v) in longs.into_iter().enumerate() {
            let _ = put_le32(raw, 8 + i * 8, v as u32);
            let _ = put_le32(raw, 12 + i * 8, (v >> 32) as u32);
        }
    }
}

/// The bytes before the entries of a leaf; of a block without a use, its place in the list of those.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuotaLeafHeader {
    /// The next block of the list, or 0.
    pub next: u32,
    /// The one before it, or 0.
    pub prev: u32,
    /// Entries in use.
    pub entries: u16,
}

impl QuotaLeafHeader {
    /// Decodes a block.
    pub fn decode(block: &[u8]) -> QuotaLeafHeader {
        QuotaLeafHeader {
            next: le32(block, 0).unwrap_or(0),
            prev: le32(block, 4).unwrap_or(0),
            entries: le16(block, 8).unwrap_or(0),
        }
    }

    /// Writes the fields into a block.
    pub fn encode_into(&self, block: &mut [u8]) {
        let _ = put_le32(block, 0, self.next);
        let _ = put_le32(block, 4, self.prev);
        let _ = put_le16(block, 8, self.entries);
    }
}

/// Where the entry `slot` of a leaf starts.
pub const fn quota_entry_at(slot: usize) -> usize {
    QUOTA_LEAF_HEADER + slot * QUOTA_ENTRY
}

/// The entries of a leaf that are in use, with their slots.
pub fn quota_entries(leaf: &[u8]) -> impl Iterator<Item = (usize, QuotaEntry)> {
    let entries = leaf.get(QUOTA_LEAF_HEADER..QUOTA_BLOCK).unwrap_or(&[]);
    let entries = entries.chunks_exact(QUOTA_ENTRY).map(QuotaEntry::decode);
    entries
        .enumerate()
        .filter_map(|(slot, entry)| Some((slot, entry?)))
}

/// The slot of an owner in a block of the tree, `level` levels above the leaves' parents.
pub const fn quota_slot(id: u32, level: u32) -> usize {
    (id >> (8 * level) & 0xff) as usize
}

/// The reference in a slot of a block of the tree; 0 for none.
pub fn quota_reference(block: &[u8], slot: usize) -> u32 {
    le32(block, slot * 4).unwrap_or(0)
}

/// Writes a reference.
pub fn quota_reference_set(block: &mut [u8], slot: usize, to: u32) {
    let _ = put_le32(block, slot * 4, to);
}

/// The blocks of a file with these entries, by owner.
pub fn quota_file(
    header: &QuotaHeader,
    entries: &BTreeMap<u32, QuotaEntry>,
) -> Vec<[u8; QUOTA_BLOCK]> {
    let mut blocks = vec![[0; QUOTA_BLOCK]; 2];
    let (mut leaf, mut in_leaf) = (0, QUOTA_PER_LEAF);
    for (id, entry) in entries {
        if in_leaf == QUOTA_PER_LEAF {
            leaf = blocks.len();
            in_leaf = 0;
            blocks.push([0; QUOTA_BLOCK]);
        }
        if let Some(block) = blocks.get_mut(leaf) {
            if let Some(raw) = block.get_mut(quota_entry_at(in_leaf)..) {
                entry.encode_into(raw);
            }
            in_leaf += 1;
            let used = QuotaLeafHeader {
                entries: in_leaf as u16,
                ..QuotaLeafHeader::default()
            };
            used.encode_into(block);
        }
        name_leaf(&mut blocks, *id, leaf as u32);
    }
    let header = QuotaHeader {
        blocks: blocks.len() as u32,
        free_block: 0,
        free_entry: match in_leaf < QUOTA_PER_LEAF {
            true => leaf as u32,
            false => 0,
        },
        ..*header
    };
    if let Some(first) = blocks.first_mut() {
        header.encode_into(first);
    }
    blocks
}

/// Makes the tree lead from an owner to its leaf.
fn name_leaf(blocks: &mut Vec<[u8; QUOTA_BLOCK]>, id: u32, leaf: u32) {
    let mut node = QUOTA_ROOT as usize;
    for level in (0..QUOTA_DEPTH).rev() {
        let slot = quota_slot(id, level);
        let below = blocks.get(node).map_or(0, |b| quota_reference(b, slot));
        let below = match (level, below) {
            (0, _) => leaf,
            (_, 0) => {
                blocks.push([0; QUOTA_BLOCK]);
                blocks.len() as u32 - 1
            }
            (_, there) => there,
        };
        if let Some(block) = blocks.get_mut(node) {
            quota_reference_set(block, slot, below);
        }
        node = below as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_a_round_trip() {
        let entry = QuotaEntry {
            id: 7,
            inodes_hard: 1,
            inodes_soft: 2,
            inodes: 3,
            space_hard: 4 << 40,
            space_soft: 5,
            space: 6 << 33,
            space_time: 8,
            inode_time: 9,
        };
        let mut raw = [0; QUOTA_ENTRY];
        assert_eq!(QuotaEntry::decode(&raw), None);
        for entry in [entry, QuotaEntry::new(0), QuotaEntry::new(5)] {
            entry.encode_into(&mut raw);
            assert_eq!(QuotaEntry::decode(&raw), Some(entry));
        }
        assert_eq!(QuotaEntry::decode(&raw[1..]), None);
    }

    #[test]
    fn every_owner_has_a_leaf() {
        let ids = [0u32, 1, 255, 256, 65536, u32::MAX];
        let many = ids.into_iter().chain(1000..1040);
        let entries: BTreeMap<u32, QuotaEntry> = many.map(|id| (id, QuotaEntry::new(id))).collect();
        let blocks = quota_file(&QuotaHeader::new(QuotaKind::User), &entries);
        for id in entries.keys() {
            let leaf = (0..QUOTA_DEPTH).rev().fold(QUOTA_ROOT, |node, level| {
                quota_reference(&blocks[node as usize], quota_slot(*id, level))
            });
            let mut found = quota_entries(&blocks[leaf as usize]);
            assert!(found.any(|(_, entry)| entry.id == *id), "{id}");
        }
        let header = QuotaHeader::decode(&blocks[0]);
        assert_eq!(header.blocks, blocks.len() as u32);
        assert!(header.is_sound(header.blocks) && !header.is_sound(header.blocks - 1));
    }
}

//! Completing metadata blocks before the journal copies them: native state is encoded, checksums are
//! computed, once per transaction and block.
//!
//! # Locking
//! Runs under the buffer's lock and takes no other: what it reads of groups is atomic.

use crate::group::{BitmapBytes, Group};
use crate::prelude::*;
use crate::quota::Quotas;
use crate::superblock::with_superblock;
use crate::volume::generations::Generations;
use crate::{group, kinds};
use uext4_jbd2::buffer::FreezeHook;
use uext4_ondisk::{CsumSeed, RawSuperblock};

/// How descriptors of groups are encoded.
#[derive(Clone, Copy, Debug)]
pub struct DescForm {
    /// How descriptors are checked.
    pub csum: GroupCsum,
    /// None without metadata checksums.
    pub seed: Option<CsumSeed>,
    /// What bitmap checksums cover.
    pub bitmap_bytes: BitmapBytes,
    /// Bytes of a descriptor.
    pub desc_size: usize,
}

impl DescForm {
    /// That of a file system.
    pub fn of(sb: &Superblock) -> DescForm {
        DescForm {
            csum: GroupCsum::of(sb),
            seed: sb.has_metadata_csum().then_some(sb.csum_seed),
            bitmap_bytes: BitmapBytes::of(&sb.geometry),
            desc_size: usize::from(sb.geometry.desc_size),
        }
    }

    /// Writes the descriptors of groups that follow each other. Of groups that are in use, only the freeze hook calls it.
    pub fn encode<'g>(&self, groups: impl Iterator<Item = &'g Arc<Group>>, data: &mut [u8]) {
        for (group, raw) in groups.zip(data.chunks_exact_mut(self.desc_size)) {
            let desc = group.encode(self.seed, self.bitmap_bytes, self.desc_size >= 64);
            desc.encode_into(raw);
            self.csum.set_desc_checksum(group.no, raw);
        }
    }
}

/// The file system's hook in the journal.
#[derive(Debug)]
pub struct Freezer {
    /// The groups, whose state is native.
    pub generations: Arc<Generations>,
    /// How their descriptors are encoded.
    pub descs: DescForm,
    /// Bytes of an inode.
    pub inode_size: usize,
    /// Where the superblock lies in its block.
    pub super_at: usize,
    /// The quota files, once they are read.
    pub quotas: Arc<OnceLock<Quotas>>,
}

impl FreezeHook for Freezer {
    fn freeze(&self, buffer: &Buffer, data: &mut [u8]) {
        match buffer.kind() {
            kinds::SUPER => self.superblock(data),
            kinds::DESCRIPTORS => self.descriptors(buffer.seed(), data),
            kinds::BLOCK_BITMAP => {
                if let Some(bits) = self.group(buffer).and_then(Group::block_bits) {
                    group::encode_words(&bits.on_disk, data);
                }
            }
            kinds::INODE_BITMAP => {
                if let Some(bits) = self.group(buffer).and_then(Group::inode_bits) {
                    group::encode_words(&bits.words, data);
                }
            }
            kinds::INODE_TABLE => self.inode_table(buffer, data),
            kinds::QUOTA_FILE => {
                if let Some(quotas) = self.quotas.get() {
                    quotas.freeze(buffer, data);
                }
            }
            kind => self.owned(kind, buffer, data),
        }
    }
}

impl Freezer {
    fn group(&self, buffer: &Buffer) -> Option<&Group> {
        let groups = &self.generations.newest().groups;
        groups.get(buffer.seed() as usize).map(|group| &**group)
    }

    fn superblock(&self, data: &mut [u8]) {
        with_superblock(data, self.super_at, RawSuperblock::update_checksum);
    }

    fn descriptors(&self, first: u32, data: &mut [u8]) {
        let groups = &self.generations.newest().groups;
        self.descs.encode(groups.iter().skip(first as usize), data);
    }

    fn inode_table(&self, buffer: &Buffer, data: &mut [u8]) {
        let Some(seed) = self.descs.seed else { return };
        buffer.take_dirty(|slot| {
            let at = slot as usize * self.inode_size;
            if let Some(raw) = data.get_mut(at..at + self.inode_size) {
                uext4_ondisk::inode_checksum_set(raw, seed, Ino(buffer.seed() + slot));
            }
        });
    }

    /// Blocks that belong to one inode.
    fn owned(&self, kind: u8, buffer: &Buffer, data: &mut [u8]) {
        let Some(fs_seed) = self.descs.seed else {
            return;
        };
        let seed = InodeSeed(buffer.seed());
        match kind {
            kinds::DIR_LEAF => uext4_ondisk::dir_checksum_set(data, seed),
            kinds::DIR_INDEX | kinds::DIR_ROOT => {
                // A node starts with an empty record that spans it, a root with `.`.
                let kind = uext4_ondisk::dx_kind_of(data, Lblk(1)).unwrap_or(DxKind::Root);
                uext4_ondisk::dx_checksum_set(data, kind, seed);
            }
            kinds::EXTENT_NODE => uext4_ondisk::extent_block_checksum_set(data, seed),
            kinds::XATTR_BLOCK => {
                uext4_ondisk::xattr_block_checksum_set(data, fs_seed, Pblk(buffer.block()));
            }
            kinds::ORPHAN_FILE => {
                uext4_ondisk::orphan_checksum_set(data, seed, Pblk(buffer.block()));
            }
            _ => {}
        }
    }
}

//! An image in memory, with what a mutator needs to find and to checksum.

use super::target::Target;
use std::ops::Range;
use uext4_ondisk::*;

/// The bytes of an image and their superblock.
#[derive(Clone)]
pub struct DamagedImage {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The superblock as it was at first.
    pub sb: Superblock,
}

impl DamagedImage {
    /// Of bytes with a valid superblock.
    ///
    /// # Panics
    /// They have none.
    pub fn new(bytes: Vec<u8>) -> DamagedImage {
        let sb = Superblock::parse(&bytes[1024..2048]).expect("superblock");
        DamagedImage { bytes, sb }
    }

    /// Where things are.
    pub fn geo(&self) -> Geometry {
        self.sb.geometry
    }

    /// The bytes of a block.
    pub fn block(&self, b: u64) -> Range<usize> {
        let size = self.geo().block_size as usize;
        b as usize * size..(b as usize + 1) * size
    }

    /// The bytes of a group descriptor.
    pub fn desc_at(&self, g: GroupNo) -> Range<usize> {
        let (block, at) = self.geo().group_desc_location(g);
        let start = self.block(block.0).start + at;
        start..start + usize::from(self.geo().desc_size)
    }

    /// A group descriptor.
    pub fn desc(&self, g: GroupNo) -> GroupDesc {
        GroupDesc::decode(&self.bytes[self.desc_at(g)]).expect("descriptor")
    }

    /// Makes the checksum of a group descriptor right again.
    pub fn fix_desc(&mut self, g: GroupNo) {
        let at = self.desc_at(g);
        GroupCsum::of(&self.sb).set_desc_checksum(g, &mut self.bytes[at]);
    }

    /// Makes the checksum of the superblock right again.
    pub fn fix_super(&mut self) {
        let mut raw = RawSuperblock::mut_from(&mut self.bytes[1024..2048])
            .expect("size")
            .clone();
        raw.update_checksum();
        *RawSuperblock::mut_from(&mut self.bytes[1024..2048]).expect("size") = raw;
    }

    /// Makes the checksums of a group's bitmaps and descriptor right again.
    pub fn fix_bitmaps(&mut self, g: GroupNo) {
        let (geo, mut desc) = (self.geo(), self.desc(g));
        if self.sb.has_metadata_csum() {
            let (b, i) = (
                self.block(desc.block_bitmap.0),
                self.block(desc.inode_bitmap.0),
            );
            desc.set_block_bitmap_csum(self.sb.csum_seed, &geo, &self.bytes[b]);
            desc.set_inode_bitmap_csum(self.sb.csum_seed, &geo, &self.bytes[i]);
        }
        let at = self.desc_at(g);
        desc.encode_into(&mut self.bytes[at]);
        self.fix_desc(g);
    }

    /// The bytes of an inode.
    pub fn inode_at(&self, ino: Ino) -> Range<usize> {
        let (g, index) = self.geo().group_of_ino(ino).expect("inode");
        let (block, at) = self.geo().itable_position(index);
        let start = self
            .block(self.desc(g).inode_table.0 + u64::from(block))
            .start
            + at;
        start..start + usize::from(self.geo().inode_size)
    }

    /// Makes the checksum of an inode right again.
    pub fn fix_inode(&mut self, ino: Ino) {
        if self.sb.has_metadata_csum() {
            let at = self.inode_at(ino);
            inode_checksum_set(&mut self.bytes[at], self.sb.csum_seed, ino);
        }
    }

    /// An inode.
    pub fn inode(&self, ino: Ino) -> Inode {
        let at = self.inode_at(ino);
        Inode::decode(&self.bytes[at], &InodeParams::of(&self.sb)).expect("inode")
    }

    /// Inodes in use by their link count.
    pub fn used(&self) -> Vec<Ino> {
        let all = (1..=self.geo().inodes_count).map(Ino);
        all.filter(|i| {
            let at = self.inode_at(*i).start;
            self.bytes[at + 0x1a] != 0
        })
        .collect()
    }

    /// Makes the checksum of a structure right again.
    pub fn fix(&mut self, t: &Target) {
        let fs = self.sb.csum_seed;
        let sums = self.sb.has_metadata_csum();
        let seed = |image: &DamagedImage, ino: Ino| image.inode(ino).seed(fs, ino);
        match *t {
            Target::InlineDir { ino } | Target::InodeXattr { ino } | Target::Value { ino } => {
                self.fix_inode(ino);
            }
            Target::JournalSuper { block } => {
                let range = self.block(block);
                let bytes = &mut self.bytes[range.start..range.start + JOURNAL_SUPER_SIZE];
                if bytes[0x28..0x2c].iter().any(|b| *b != 0) && bytes[0x2b] & 0x18 != 0 {
                    bytes[0xfc..0x100].fill(0);
                    let sum = crc32c(CRC_INIT, bytes);
                    bytes[0xfc..0x100].copy_from_slice(&sum.to_be_bytes());
                }
            }
            _ if !sums => {}
            Target::Linear { ino, block } => {
                let (range, seed) = (self.block(block), seed(self, ino));
                dir_checksum_set(&mut self.bytes[range], seed);
            }
            Target::Dx { ino, block, kind } => {
                let (range, seed) = (self.block(block), seed(self, ino));
                dx_checksum_set(&mut self.bytes[range], kind, seed);
            }
            Target::Extents { ino, block } => {
                let (range, seed) = (self.block(block), seed(self, ino));
                extent_block_checksum_set(&mut self.bytes[range], seed);
            }
            Target::OrphanFile { ino, block } => {
                let (range, seed) = (self.block(block), seed(self, ino));
                orphan_checksum_set(&mut self.bytes[range], seed, Pblk(block));
            }
            Target::Xattr { block } => {
                let range = self.block(block);
                xattr_block_checksum_set(&mut self.bytes[range], fs, Pblk(block));
            }
            Target::Mmp { block } => {
                let range = self.block(block);
                let bytes = &mut self.bytes[range.start..range.start + 1024];
                let sum = crc32c(fs.0, &bytes[..1020]);
                bytes[1020..].copy_from_slice(&sum.to_le_bytes());
            }
            Target::Link { .. } | Target::Quota { .. } | Target::Indirect { .. } => {}
        }
    }
}

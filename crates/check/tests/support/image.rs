//! An image in memory, with what a mutator needs to find and to checksum.

use std::ops::Range;
use uext4_ondisk::*;

/// A structure to be damaged.
#[derive(Clone, Debug)]
pub enum Target {
    Linear { ino: Ino, block: u64 },
    Dx { ino: Ino, block: u64, kind: DxKind },
    Extents { ino: Ino, block: u64 },
    Xattr { block: u64 },
}

/// The bytes of an image and their superblock.
#[derive(Clone)]
pub struct Image {
    pub bytes: Vec<u8>,
    pub sb: Superblock,
}

impl Image {
    pub fn new(bytes: Vec<u8>) -> Image {
        let sb = Superblock::parse(&bytes[1024..2048]).expect("superblock");
        Image { bytes, sb }
    }

    pub fn geo(&self) -> Geometry {
        self.sb.geometry
    }

    pub fn block(&self, b: u64) -> Range<usize> {
        let size = self.geo().block_size as usize;
        b as usize * size..(b as usize + 1) * size
    }

    pub fn desc_at(&self, g: GroupNo) -> Range<usize> {
        let (block, at) = self.geo().group_desc_location(g);
        let start = self.block(block.0).start + at;
        start..start + usize::from(self.geo().desc_size)
    }

    pub fn desc(&self, g: GroupNo) -> GroupDesc {
        GroupDesc::decode(&self.bytes[self.desc_at(g)]).expect("descriptor")
    }

    pub fn fix_desc(&mut self, g: GroupNo) {
        let at = self.desc_at(g);
        GroupCsum::of(&self.sb).set_desc_checksum(g, &mut self.bytes[at]);
    }

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

    pub fn inode_at(&self, ino: Ino) -> Range<usize> {
        let (g, index) = self.geo().group_of_ino(ino).expect("inode");
        let (block, at) = self.geo().itable_position(index);
        let start = self
            .block(self.desc(g).inode_table.0 + u64::from(block))
            .start
            + at;
        start..start + usize::from(self.geo().inode_size)
    }

    pub fn fix_inode(&mut self, ino: Ino) {
        if self.sb.has_metadata_csum() {
            let at = self.inode_at(ino);
            inode_checksum_set(&mut self.bytes[at], self.sb.csum_seed, ino);
        }
    }

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

    /// Everything that has a block of its own.
    pub fn targets(&self) -> Vec<Target> {
        let mut out = Vec::new();
        for ino in self.used() {
            let inode = self.inode(ino);
            if inode.file_acl.0 != 0 {
                out.push(Target::Xattr {
                    block: inode.file_acl.0,
                });
            }
            let mut blocks = Vec::new();
            if inode.flags.contains(InodeFlags::EXTENTS) {
                self.extents(ino, &inode.i_block, &mut blocks, &mut out);
            } else if inode.file_type() == FileType::Directory
                && !inode.flags.contains(InodeFlags::INLINE_DATA)
            {
                for i in 0..12u32 {
                    let at = i as usize * 4;
                    let p = u32::from_le_bytes(inode.i_block[at..at + 4].try_into().expect("four"));
                    if p != 0 {
                        blocks.push((Lblk(i), u64::from(p)));
                    }
                }
            }
            if inode.file_type() != FileType::Directory {
                continue;
            }
            for (lblk, block) in blocks {
                let bytes = &self.bytes[self.block(block)];
                let indexed = inode.flags.contains(InodeFlags::INDEX);
                match dx_kind_of(bytes, lblk).filter(|_| indexed) {
                    Some(kind) => out.push(Target::Dx { ino, block, kind }),
                    None => out.push(Target::Linear { ino, block }),
                }
            }
        }
        out
    }

    fn extents(&self, ino: Ino, node: &[u8], data: &mut Vec<(Lblk, u64)>, out: &mut Vec<Target>) {
        let node = ExtentNode::new(node);
        if node.depth() == 0 {
            for e in node.extents() {
                let each = 0..u64::from(e.len);
                data.extend(each.map(|i| (Lblk(e.lblk.0 + i as u32), e.pblk.0 + i)));
            }
            return;
        }
        for idx in node.indexes() {
            out.push(Target::Extents {
                ino,
                block: idx.child.0,
            });
            self.extents(ino, &self.bytes[self.block(idx.child.0)], data, out);
        }
    }

    /// Makes the checksum of a structure right again.
    pub fn fix(&mut self, t: &Target) {
        if !self.sb.has_metadata_csum() {
            return;
        }
        let (range, seed) = match t {
            Target::Linear { ino, block }
            | Target::Dx { ino, block, .. }
            | Target::Extents { ino, block } => {
                let seed = self.inode(*ino).seed(self.sb.csum_seed, *ino);
                (self.block(*block), Some(seed))
            }
            Target::Xattr { block } => (self.block(*block), None),
        };
        let fs = self.sb.csum_seed;
        let bytes = &mut self.bytes[range];
        match (t, seed) {
            (Target::Linear { .. }, Some(seed)) => dir_checksum_set(bytes, seed),
            (Target::Dx { kind, .. }, Some(seed)) => dx_checksum_set(bytes, *kind, seed),
            (Target::Extents { .. }, Some(seed)) => extent_block_checksum_set(bytes, seed),
            (Target::Xattr { block }, _) => xattr_block_checksum_set(bytes, fs, Pblk(*block)),
            _ => {}
        }
    }
}

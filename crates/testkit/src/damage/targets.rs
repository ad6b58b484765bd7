//! Everything in an image that has a block of its own, found by walking it.

use super::image::DamagedImage;
use super::target::Target;
use uext4_ondisk::*;

/// The blocks of one inode.
struct Walk<'a> {
    image: &'a DamagedImage,
    ino: Ino,
    data: Vec<(Lblk, u64)>,
    out: Vec<Target>,
}

/// Finds everything.
pub fn find(image: &DamagedImage) -> Vec<Target> {
    let mut out = Vec::new();
    if image.sb.incompat.contains(Incompat::MMP) {
        out.push(Target::Mmp {
            block: image.sb.raw.mmp_block.get(),
        });
    }
    for ino in image.used() {
        of_inode(image, ino, &mut out);
    }
    out
}

fn of_inode(image: &DamagedImage, ino: Ino, out: &mut Vec<Target>) {
    let inode = image.inode(ino);
    if inode.file_acl.0 != 0 {
        let block = inode.file_acl.0;
        if !out.contains(&Target::Xattr { block }) {
            out.push(Target::Xattr { block });
        }
    }
    if matches!(
        XattrArea::in_inode(&image.bytes[image.inode_at(ino)]),
        Ok(Some(_))
    ) {
        out.push(Target::InodeXattr { ino });
    }
    if inode.flags.contains(InodeFlags::EA_INODE) {
        out.push(Target::Value { ino });
    }
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        if inode.file_type() == FileType::Directory {
            out.push(Target::InlineDir { ino });
        }
        return;
    }
    blocks_of_inode(image, ino, &inode, out);
}

fn blocks_of_inode(image: &DamagedImage, ino: Ino, inode: &Inode, out: &mut Vec<Target>) {
    let mapped = matches!(
        inode.file_type(),
        FileType::Regular | FileType::Directory | FileType::Symlink
    );
    if !mapped || inode.is_fast_symlink() {
        return;
    }
    let mut walk = Walk {
        image,
        ino,
        data: Vec::new(),
        out: Vec::new(),
    };
    if inode.flags.contains(InodeFlags::EXTENTS) {
        walk.extents(&inode.i_block);
    } else {
        walk.block_map(&inode.i_block);
    }
    let Walk {
        data, out: tree, ..
    } = walk;
    out.extend(tree);
    let raw = &image.sb.raw;
    let quota = [
        raw.usr_quota_inum.get(),
        raw.grp_quota_inum.get(),
        raw.prj_quota_inum.get(),
    ];
    for (lblk, block) in data {
        match inode.file_type() {
            FileType::Directory => {
                let bytes = &image.bytes[image.block(block)];
                let indexed = inode.flags.contains(InodeFlags::INDEX);
                match dx_kind_of(bytes, lblk).filter(|_| indexed) {
                    Some(kind) => out.push(Target::Dx { ino, block, kind }),
                    None => out.push(Target::Linear { ino, block }),
                }
            }
            FileType::Symlink => out.push(Target::Link { ino, block }),
            _ if image.sb.journal_ino() == Some(ino) && lblk == Lblk(0) => {
                out.push(Target::JournalSuper { block });
            }
            _ if image.sb.orphan_file() == Some(ino) => out.push(Target::OrphanFile { ino, block }),
            _ if quota.contains(&ino.0) => out.push(Target::Quota { ino, block }),
            _ => {}
        }
    }
}

impl Walk<'_> {
    fn extents(&mut self, node: &[u8]) {
        let node = ExtentNode::new(node);
        if node.depth() == 0 {
            for e in node.extents() {
                let each = 0..u64::from(e.len);
                let data = each.map(|i| (Lblk(e.lblk.0 + i as u32), e.pblk.0 + i));
                self.data.extend(data);
            }
            return;
        }
        let (image, ino) = (self.image, self.ino);
        for idx in node.indexes() {
            let block = idx.child.0;
            self.out.push(Target::Extents { ino, block });
            self.extents(&image.bytes[image.block(block)]);
        }
    }

    fn block_map(&mut self, i_block: &[u8; 60]) {
        for (i, p) in words(i_block).enumerate() {
            let level = i.saturating_sub(11);
            self.pointer(p, level, Lblk(i as u32));
        }
    }

    /// Numbers of blocks below indirect ones do not matter here, but for being past the first.
    fn pointer(&mut self, p: u32, level: usize, lblk: Lblk) {
        let block = u64::from(p);
        if p == 0 || block >= self.image.geo().blocks_count {
            return;
        }
        if level == 0 {
            self.data.push((lblk, block));
            return;
        }
        let (image, ino) = (self.image, self.ino);
        self.out.push(Target::Indirect { ino, block });
        if ino == Ino::RESIZE && level == 1 {
            return;
        }
        for p in words(&image.bytes[image.block(block)]) {
            self.pointer(p, level - 1, Lblk(100));
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|w| u32::from_le_bytes(*w))
}

//! What an image holds, read block by block without the engine and without the verifier: names, inodes, bytes.

use std::collections::BTreeMap;
use uext4_ondisk::*;

/// A file of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub ino: Ino,
    pub file_type: FileType,
    pub size: u64,
    /// Blocks by their place in the file; zeros are left out.
    pub blocks: BTreeMap<u32, Vec<u8>>,
    /// Bytes of data in the inode, or of a short link.
    pub inline: Vec<u8>,
    /// Attributes: index, name, value or the inode that holds it.
    pub xattrs: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    pub links: u32,
}

/// Paths of an image, each with its inode, and the inodes.
#[derive(Debug, Default)]
pub struct Contents {
    pub names: BTreeMap<Vec<u8>, Ino>,
    pub files: BTreeMap<Ino, File>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    sb: Superblock,
    out: Contents,
}

impl Contents {
    /// Reads a sound image.
    pub fn read(bytes: &[u8]) -> Contents {
        let sb = Superblock::parse(&bytes[1024..2048]).expect("superblock");
        let mut reader = Reader {
            bytes,
            sb,
            out: Contents::default(),
        };
        reader.out.names.insert(b"/".to_vec(), Ino::ROOT);
        reader.directory(Ino::ROOT, b"");
        reader.out
    }
}

impl Reader<'_> {
    fn block(&self, at: u64) -> &[u8] {
        let size = self.sb.geometry.block_size as usize;
        &self.bytes[at as usize * size..][..size]
    }

    fn inode(&self, ino: Ino) -> (&[u8], Inode) {
        let geo = self.sb.geometry;
        let (g, index) = geo.group_of_ino(ino).expect("inode");
        let (block, at) = geo.group_desc_location(g);
        let desc = GroupDesc::decode(&self.block(block.0)[at..]).expect("descriptor");
        let desc = if geo.desc_size == 32 {
            GroupDesc::decode(&self.block(block.0)[at..at + 32]).expect("descriptor")
        } else {
            desc
        };
        let (rel, at) = geo.itable_position(index);
        let raw = &self.block(desc.inode_table.0 + u64::from(rel))[at..];
        let raw = &raw[..usize::from(geo.inode_size)];
        (
            raw,
            Inode::decode(raw, &InodeParams::of(&self.sb)).expect("inode"),
        )
    }

    /// The parent's word for the depth counts, as it does for e2fsck.
    fn extents(&self, node: &[u8], depth: u16, out: &mut BTreeMap<u32, u64>) {
        let mut node = node.to_vec();
        node[6..8].copy_from_slice(&depth.to_le_bytes());
        let node = ExtentNode::new(&node);
        if depth > 0 {
            for idx in node.indexes() {
                self.extents(self.block(idx.child.0), depth - 1, out);
            }
            return;
        }
        for e in node.extents().filter(|e| !e.unwritten) {
            for i in 0..u32::from(e.len) {
                out.insert(e.lblk.0 + i, e.pblk.0 + u64::from(i));
            }
        }
    }

    fn pointer(&self, p: u32, level: u32, lblk: u64, out: &mut BTreeMap<u32, u64>) {
        if p == 0 {
            return;
        }
        if level == 0 {
            out.insert(lblk as u32, p.into());
            return;
        }
        let step = u64::from(self.sb.geometry.block_size / 4).pow(level - 1);
        for (i, word) in self.block(p.into()).as_chunks::<4>().0.iter().enumerate() {
            let p = u32::from_le_bytes(*word);
            self.pointer(p, level - 1, lblk + i as u64 * step, out);
        }
    }

    fn map(&self, inode: &Inode) -> BTreeMap<u32, u64> {
        let mut out = BTreeMap::new();
        if inode.flags.contains(InodeFlags::EXTENTS) {
            let depth = ExtentNode::new(&inode.i_block).depth();
            self.extents(&inode.i_block, depth, &mut out);
            return out;
        }
        let per_block = u64::from(self.sb.geometry.block_size / 4);
        let mut lblk = 0;
        for i in 0..15u32 {
            let level = i.saturating_sub(11);
            let p = u32::from_le_bytes(
                inode.i_block[i as usize * 4..][..4]
                    .try_into()
                    .expect("four"),
            );
            self.pointer(p, level, lblk, &mut out);
            lblk += per_block.pow(level);
        }
        out
    }

    fn xattrs(&self, raw: &[u8], inode: &Inode) -> BTreeMap<(u8, Vec<u8>), Vec<u8>> {
        let mut out = BTreeMap::new();
        let mut add = |area: &XattrArea<'_>| {
            for e in area.entries() {
                let value = match e.value {
                    XattrValue::Inline(value) => value.to_vec(),
                    XattrValue::Inode { ino, .. } => ino.0.to_le_bytes().to_vec(),
                };
                out.insert((e.index.0, e.name.to_vec()), value);
            }
        };
        if inode.extra_isize != 0
            && let Ok(Some(area)) = XattrArea::in_inode(raw)
        {
            add(&area);
        }
        if inode.file_acl.0 != 0
            && let Ok(area) = XattrArea::in_block(self.block(inode.file_acl.0))
        {
            add(&area);
        }
        out
    }

    fn file(&mut self, ino: Ino) {
        if self.out.files.contains_key(&ino) {
            return;
        }
        let (raw, inode) = self.inode(ino);
        let xattrs = self.xattrs(raw, &inode);
        let file_type = inode.file_type();
        let in_inode = inode.flags.contains(InodeFlags::INLINE_DATA)
            || inode.fast_symlink_target().is_some()
            || !matches!(
                file_type,
                FileType::Regular | FileType::Directory | FileType::Symlink
            );
        let mut file = File {
            ino,
            file_type,
            size: inode.size,
            blocks: BTreeMap::new(),
            inline: Vec::new(),
            xattrs,
            links: inode.links,
        };
        if in_inode {
            file.inline = inode.i_block.to_vec();
        } else if file_type != FileType::Directory {
            for (lblk, at) in self.map(&inode) {
                let block = self.block(at);
                if block.iter().any(|b| *b != 0) {
                    file.blocks.insert(lblk, block.to_vec());
                }
            }
        }
        self.out.files.insert(ino, file);
    }

    fn directory(&mut self, ino: Ino, path: &[u8]) {
        self.file(ino);
        let (raw, inode) = self.inode(ino);
        let mut entries: Vec<(Ino, Vec<u8>)> = Vec::new();
        let mut add = |bytes: &[u8]| {
            for d in dir_entries(bytes, bytes.len()).map_while(Result::ok) {
                if d.ino.0 != 0 && !d.is_dot_or_dotdot() {
                    entries.push((d.ino, d.name.to_vec()));
                }
            }
        };
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            add(&inode.i_block[4..]);
            if let Ok(Some(area)) = XattrArea::in_inode(raw)
                && let Some(e) = area.find(XattrIndex::SYSTEM, XATTR_NAME_DATA)
                && let XattrValue::Inline(value) = e.value
            {
                add(value);
            }
        } else {
            let blocks = self.map(&inode);
            for at in blocks.values() {
                add(self.block(*at));
            }
        }
        for (child, name) in entries {
            let mut below = path.to_vec();
            below.push(b'/');
            below.extend_from_slice(&name);
            if self.out.names.insert(below.clone(), child).is_some() {
                continue;
            }
            if self.inode(child).1.file_type() == FileType::Directory && below.len() < 4096 {
                self.directory(child, &below);
            } else {
                self.file(child);
            }
        }
    }
}

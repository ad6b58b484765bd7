//! Reads all of an image, and checks every checksum on the way.

use std::collections::BTreeMap;

use uext4_ondisk::*;

use super::image::Image;

/// What a walk came across.
#[derive(Default, Debug)]
pub struct Seen {
    pub groups: u32,
    pub bitmaps: u32,
    pub inodes: u32,
    pub extent_blocks: u32,
    pub dir_blocks: u32,
    pub names: u32,
    pub dx_blocks: u32,
    pub xattr_inodes: u32,
    pub xattr_blocks: u32,
    pub orphan_blocks: u32,
    pub mmp: u32,
    pub journals: u32,
}

/// What a walk over a journal came across.
#[derive(Default, Debug)]
pub struct SeenJournal {
    pub descriptors: u32,
    pub tags: u32,
    pub escaped: u32,
    pub revokes: u32,
    pub revoked: u32,
    pub commits: u32,
}

struct Walk<'a> {
    image: &'a [u8],
    sb: Superblock,
    params: InodeParams,
    seen: Seen,
}

fn superblock(image: &[u8]) -> Superblock {
    Superblock::parse(&image[SUPERBLOCK_OFFSET as usize..]).unwrap()
}

/// Walks everything that can be reached.
pub fn walk_image(image: &Image) -> Seen {
    let bytes = image.read();
    let sb = superblock(&bytes);
    let mut raw = sb.raw.clone();
    raw.update_checksum();
    assert_eq!(
        zerocopy::IntoBytes::as_bytes(&raw),
        &bytes[1024..2048],
        "superblock written again"
    );
    compare_places(&sb, &image.dumpe2fs());
    let params = InodeParams::of(&sb);
    let mut w = Walk {
        image: &bytes,
        sb,
        params,
        seen: Seen::default(),
    };
    for g in 0..w.sb.geometry.groups_count {
        w.group(GroupNo(g));
    }
    w.mmp();
    w.seen
}

/// Every group's superblock, descriptors and reserved blocks, as dumpe2fs prints them.
fn compare_places(sb: &Superblock, text: &str) {
    let geo = &sb.geometry;
    let mut group = None;
    let mut found: BTreeMap<u32, (bool, u32, u32)> = BTreeMap::new();
    let span = |s: &str| {
        let (a, b) = s.split_once('-').unwrap_or((s, s));
        b.trim().parse::<u32>().unwrap() - a.trim().parse::<u32>().unwrap() + 1
    };
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Group ") {
            group = rest.split(':').next().and_then(|n| n.parse::<u32>().ok());
        }
        let Some(g) = group else { continue };
        let e = found.entry(g).or_default();
        for part in line.trim().split(", ") {
            e.0 |= part.contains("superblock at ");
            if let Some((_, s)) = part.split_once("Group descriptors at ") {
                e.1 = span(s);
            } else if let Some((_, s)) = part.split_once("Group descriptor at ") {
                e.1 = span(s);
            } else if let Some((_, s)) = part.split_once("Reserved GDT blocks at ") {
                e.2 = span(s);
            }
        }
    }
    assert_eq!(found.len() as u32, geo.groups_count);
    for (g, (has_super, gdt, reserved)) in found {
        let g = GroupNo(g);
        assert_eq!(
            (geo.has_super(g), geo.gdt_blocks(g)),
            (has_super, gdt),
            "group {g}"
        );
        let boot = u32::from(g.0 == 0 && geo.block_size == 1024 && geo.first_data_block == 0);
        assert_eq!(
            geo.base_meta_blocks(g),
            boot + u32::from(has_super) + gdt + reserved,
            "group {g}"
        );
    }
}

impl<'a> Walk<'a> {
    fn block(&self, b: Pblk) -> &'a [u8] {
        let at = self.sb.geometry.block_offset(b) as usize;
        &self.image[at..at + self.sb.geometry.block_size as usize]
    }

    fn group(&mut self, g: GroupNo) {
        let geo = self.sb.geometry;
        let (block, at) = geo.group_desc_location(g);
        let raw = &self.block(block)[at..at + usize::from(geo.desc_size)];
        let csum = GroupCsum::of(&self.sb);
        csum.verify_desc(g, raw).unwrap();
        let desc = GroupDesc::decode(raw).unwrap();
        desc.validate(&geo, g).unwrap();
        let mut again = raw.to_vec();
        again[..30].fill(0);
        desc.encode_into(&mut again);
        csum.set_desc_checksum(g, &mut again);
        assert_eq!(again, raw, "descriptor {g} written again");
        self.seen.groups += 1;
        if self.sb.has_metadata_csum() {
            if !desc.flags.contains(GroupFlags::BLOCK_UNINIT) {
                let b = self.block(desc.block_bitmap);
                desc.verify_block_bitmap(self.sb.csum_seed, &geo, b)
                    .unwrap();
                self.seen.bitmaps += 1;
            }
            if !desc.flags.contains(GroupFlags::INODE_UNINIT) {
                let b = self.block(desc.inode_bitmap);
                desc.verify_inode_bitmap(self.sb.csum_seed, &geo, b)
                    .unwrap();
                self.seen.bitmaps += 1;
            }
        }
        if desc.flags.contains(GroupFlags::INODE_UNINIT) {
            return;
        }
        let bitmap = self.block(desc.inode_bitmap);
        for i in 0..geo.inodes_per_group {
            let ino = geo.ino_in_group(g, i);
            assert_eq!(geo.group_of_ino(ino).unwrap(), (g, i));
            if bitmap[i as usize / 8] >> (i % 8) & 1 == 1 {
                let (rel, at) = geo.itable_position(i);
                let table = self.block(Pblk(desc.inode_table.0 + u64::from(rel)));
                self.inode(ino, &table[at..at + usize::from(geo.inode_size)]);
            }
        }
    }

    fn inode(&mut self, ino: Ino, raw: &'a [u8]) {
        let unused = raw.iter().all(|b| *b == 0);
        if unused {
            return;
        }
        let csum = self.sb.has_metadata_csum();
        if csum {
            inode_checksum_verify(raw, self.sb.csum_seed, ino).unwrap();
        }
        let inode = Inode::decode(raw, &self.params).unwrap();
        self.encode_again(ino, raw, &inode);
        self.seen.inodes += 1;
        if inode.links == 0 && ino >= self.sb.geometry.first_ino {
            return;
        }
        self.xattrs(ino, raw, &inode);
        let seed = inode.seed(self.sb.csum_seed, ino);
        let mapped = self.blocks(ino, &inode);
        if Some(ino) == self.sb.orphan_file() {
            for b in mapped.values() {
                orphan_block_verify(self.block(*b), csum.then_some(seed), *b).unwrap();
                self.seen.orphan_blocks += 1;
            }
        } else if ino == Ino::JOURNAL && !mapped.is_empty() {
            JournalSuper::parse(self.block(mapped[&0]), self.sb.geometry.block_size).unwrap();
            self.seen.journals += 1;
        } else if inode.file_type() == FileType::Directory {
            self.directory(ino, &inode, &mapped);
        } else if inode.fast_symlink_target().is_some() {
            assert_eq!(inode.fast_symlink_target(), Some(&b"short target"[..]));
        } else if inode.file_type() == FileType::BlockDevice {
            assert_eq!(inode.dev_no(), DevNo { major: 8, minor: 1 });
        } else if inode.file_type() == FileType::CharDevice {
            assert_eq!(
                inode.dev_no(),
                DevNo {
                    major: 300,
                    minor: 70000
                }
            );
        }
    }

    fn encode_again(&self, ino: Ino, raw: &[u8], inode: &Inode) {
        let mut again = raw.to_vec();
        inode.encode_into(&mut again, &self.params);
        if self.sb.has_metadata_csum() {
            again[0x7c..0x7e].fill(0);
            inode_checksum_set(&mut again, self.sb.csum_seed, ino);
        }
        assert_eq!(again, raw, "inode {ino} written again: {inode:?}");
    }

    fn xattrs(&mut self, ino: Ino, raw: &'a [u8], inode: &Inode) {
        if let Some(area) = XattrArea::in_inode(raw).unwrap() {
            area.verify_hashes().unwrap();
            let list = XattrList::from_area(&area);
            assert_eq!(list.len(), area.entries().count());
            self.seen.xattr_inodes += 1;
        }
        if inode.file_acl.0 != 0 {
            let block = self.block(inode.file_acl);
            if self.sb.has_metadata_csum() {
                xattr_block_checksum_verify(block, self.sb.csum_seed, inode.file_acl).unwrap();
            }
            let area = XattrArea::in_block(block).unwrap();
            area.verify_hashes().unwrap();
            let mut again = vec![0; block.len()];
            XattrList::from_area(&area)
                .encode_block(&mut again)
                .unwrap();
            xattr_refcount_set(&mut again, xattr_refcount(block).unwrap());
            // e2fsprogs leaves the hash of the whole block, which only helps sharing, zero.
            again[12..16].copy_from_slice(&block[12..16]);
            if self.sb.has_metadata_csum() {
                xattr_block_checksum_set(&mut again, self.sb.csum_seed, inode.file_acl);
            }
            assert!(again == block, "attributes of inode {ino} written again");
            self.seen.xattr_blocks += 1;
        }
    }

    /// File blocks, through an extent tree or a block map.
    fn blocks(&mut self, ino: Ino, inode: &Inode) -> BTreeMap<u32, Pblk> {
        let mut out = BTreeMap::new();
        let has_data = matches!(inode.file_type(), FileType::Regular | FileType::Directory)
            || inode.file_type() == FileType::Symlink && !inode.is_fast_symlink();
        if inode.flags.contains(InodeFlags::INLINE_DATA)
            || !has_data
            || inode.file_type() == FileType::Unknown
        {
            return out;
        }
        if inode.flags.contains(InodeFlags::EXTENTS) {
            let check = ExtentCheck::root(self.sb.geometry.block_bounds());
            let seed = inode.seed(self.sb.csum_seed, ino);
            self.extents(&inode.i_block, &check, seed, &mut out);
            for (l, p) in &out {
                assert!(self.sb.geometry.contains_blocks(*p, 1), "{l} {p}");
            }
        } else {
            // One level of indirect blocks is enough to see the directories of ext2.
            let (direct, indirect) = inode.i_block.split_at(48);
            let mut pointers = direct.to_vec();
            let first = u32::from_le_bytes(indirect[..4].try_into().unwrap());
            if first != 0 {
                pointers.extend(self.block(Pblk(u64::from(first))));
            }
            for (i, b) in pointers.as_chunks::<4>().0.iter().enumerate() {
                let b = u32::from_le_bytes(*b);
                if b != 0 {
                    out.insert(i as u32, Pblk(u64::from(b)));
                }
            }
        }
        out
    }

    fn extents(
        &mut self,
        bytes: &[u8],
        check: &ExtentCheck,
        seed: InodeSeed,
        out: &mut BTreeMap<u32, Pblk>,
    ) {
        let node = ExtentNode::validate(bytes, check).unwrap();
        if node.depth() == 0 {
            for e in node.extents() {
                for l in e.lblk.0..e.end() as u32 {
                    assert_eq!(node.extent(node.find(Lblk(l)).unwrap()), Some(e));
                    out.insert(l, e.map(Lblk(l)).unwrap());
                }
            }
            return;
        }
        for (i, idx) in node.indexes().enumerate() {
            let child = self.block(idx.child);
            if self.sb.has_metadata_csum() {
                extent_block_checksum_verify(child, seed).unwrap();
                let mut again = child.to_vec();
                extent_block_checksum_set(&mut again, seed);
                assert_eq!(again, child);
            }
            self.seen.extent_blocks += 1;
            self.extents(child, &node.child_check(i, check).unwrap(), seed, out);
        }
    }

    fn directory(&mut self, ino: Ino, inode: &Inode, mapped: &BTreeMap<u32, Pblk>) {
        let csum = self.sb.has_metadata_csum();
        let seed = inode.seed(self.sb.csum_seed, ino);
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            let n = dir_entries(&inode.i_block[4..], 56)
                .map(|d| d.unwrap())
                .filter(|d| d.ino.0 != 0)
                .count();
            self.seen.names += n as u32;
            return;
        }
        dir_parent(self.block(mapped[&0])).unwrap();
        if inode.flags.contains(InodeFlags::INDEX) {
            let large = self.sb.incompat.contains(Incompat::LARGE_DIR);
            let root = self.block(mapped[&0]);
            let info = DxRootInfo::read(root, large).unwrap();
            self.dx(
                inode,
                seed,
                mapped,
                0,
                info.indirect_levels,
                info.hash_version,
                (0, u32::MAX),
            );
            return;
        }
        for b in mapped.values() {
            let block = self.block(*b);
            self.leaf(block, csum, seed);
        }
    }

    fn leaf(&mut self, block: &'a [u8], csum: bool, seed: InodeSeed) -> Vec<&'a [u8]> {
        dir_validate(block, csum, self.sb.geometry.inodes_count).unwrap();
        if csum {
            dir_checksum_verify(block, seed).unwrap();
            let mut again = block.to_vec();
            dir_tail_init(&mut again);
            dir_checksum_set(&mut again, seed);
            assert_eq!(again, block);
        }
        let end = dir_data_end(block.len(), csum);
        let names: Vec<&[u8]> = dir_entries(block, end)
            .map(|d| d.unwrap())
            .filter(|d| d.ino.0 != 0)
            .map(|d| d.name)
            .collect();
        for name in &names {
            assert_eq!(dir_find(block, end, name).unwrap().unwrap().name, *name);
        }
        assert!(dir_find(block, end, b"no such name").unwrap().is_none());
        self.seen.dir_blocks += 1;
        self.seen.names += names.len() as u32;
        names
    }

    #[allow(clippy::too_many_arguments, reason = "a recursion in a test")]
    fn dx(
        &mut self,
        inode: &Inode,
        seed: InodeSeed,
        mapped: &BTreeMap<u32, Pblk>,
        at: u32,
        levels: u8,
        version: HashVersion,
        range: (u32, u32),
    ) {
        let csum = self.sb.has_metadata_csum();
        let block = self.block(mapped[&at]);
        let kind = dx_kind_of(block, Lblk(at)).unwrap();
        let dir_blocks = (inode.size / u64::from(self.sb.geometry.block_size)) as u32;
        let view = DxView::validate(block, kind, csum, dir_blocks).unwrap();
        if csum {
            dx_checksum_verify(block, kind, seed).unwrap();
            let mut again = block.to_vec();
            dx_checksum_set(&mut again, kind, seed);
            assert_eq!(again, block);
        }
        self.seen.dx_blocks += 1;
        let entries: Vec<DxEntry> = view.entries().collect();
        for (i, e) in entries.iter().enumerate() {
            let low = if i == 0 { range.0 } else { e.hash };
            let high = entries.get(i + 1).map_or(range.1, |n| n.hash);
            if levels > 0 {
                self.dx(
                    inode,
                    seed,
                    mapped,
                    e.block.0,
                    levels - 1,
                    version,
                    (low, high),
                );
                continue;
            }
            let leaf = self.block(mapped[&e.block.0]);
            for name in self.leaf(leaf, csum, seed) {
                let h = self.sb.hash.hash(version, name).major;
                assert!(h >= low & !1 && h <= high, "{low:#x} {h:#x} {high:#x}");
                if kind == DxKind::Root && h < high {
                    assert_eq!(view.find(h), i);
                }
            }
        }
    }

    /// Blocks of the journal inode, which is found through its group.
    fn journal_blocks(&mut self) -> BTreeMap<u32, Pblk> {
        let geo = self.sb.geometry;
        let (g, i) = geo.group_of_ino(Ino::JOURNAL).unwrap();
        let (block, at) = geo.group_desc_location(g);
        let desc =
            GroupDesc::decode(&self.block(block)[at..at + usize::from(geo.desc_size)]).unwrap();
        let (rel, at) = geo.itable_position(i);
        let table = self.block(Pblk(desc.inode_table.0 + u64::from(rel)));
        let inode =
            Inode::decode(&table[at..at + usize::from(geo.inode_size)], &self.params).unwrap();
        self.blocks(Ino::JOURNAL, &inode)
    }

    fn mmp(&mut self) {
        if self.sb.incompat.contains(Incompat::MMP) {
            let block = self.block(Pblk(self.sb.raw.mmp_block.get()));
            let seed = self.sb.has_metadata_csum().then_some(self.sb.csum_seed);
            let mmp = Mmp::parse(block, seed).unwrap();
            assert_eq!(mmp.seq, MMP_SEQ_CLEAN);
            let mut again = block.to_vec();
            mmp.encode_into(&mut again, seed);
            assert_eq!(again, block);
            self.seen.mmp += 1;
        }
    }
}

/// Reads the log of the journal inode, and builds every block again.
pub fn walk_journal(image: &[u8]) -> SeenJournal {
    let sb = superblock(image);
    let params = InodeParams::of(&sb);
    let mut w = Walk {
        image,
        sb,
        params,
        seen: Seen::default(),
    };
    let geo = w.sb.geometry;
    let mapped = w.journal_blocks();
    let journal = JournalSuper::parse(w.block(mapped[&0]), geo.block_size).unwrap();
    let fmt = journal.format();
    let mut seen = SeenJournal::default();
    let (mut at, mut tid) = (journal.raw.start.get(), Tid(journal.raw.sequence.get()));
    assert_ne!(at, 0);
    while let Ok(h) = JournalHeader::read(w.block(mapped[&at])) {
        if h.tid != tid {
            break;
        }
        let block = w.block(mapped[&at]);
        // debugfs leaves old bytes behind the records; their checksum was verified by the reader.
        let mut used = block.len();
        let mut again = vec![0; block.len()];
        match h.block_type {
            JournalBlockType::Descriptor => {
                let tags: Vec<BlockTag> = DescriptorReader::new(block, &fmt)
                    .unwrap()
                    .map(|t| t.unwrap())
                    .collect();
                // debugfs writes zeros for the UUID, which no reader checks.
                let uuid_at = JOURNAL_HEADER + fmt.tag_bytes();
                let uuid = block[uuid_at..uuid_at + 16].try_into().unwrap();
                let mut out =
                    DescriptorBuilder::new(&mut again, JournalFormat { uuid, ..fmt }, tid);
                for t in &tags {
                    at += 1;
                    let data = w.block(mapped[&at]);
                    t.verify_data(&fmt, tid, data).unwrap();
                    let escaped = t.flags.contains(TagFlags::ESCAPE);
                    assert!(!journal_needs_escape(data));
                    seen.escaped += u32::from(escaped);
                    assert!(out.push(t.pblk, escaped, fmt.data_checksum(tid, data)));
                }
                out.finish();
                used = uuid_at + 16 + (tags.len() - 1) * fmt.tag_bytes();
                seen.descriptors += 1;
                seen.tags += tags.len() as u32;
            }
            JournalBlockType::Revoke => {
                let blocks: Vec<Pblk> = RevokeReader::new(block, &fmt).unwrap().collect();
                let mut out = RevokeBuilder::new(&mut again, fmt, tid);
                assert!(blocks.iter().all(|b| out.push(*b)));
                out.finish();
                used = 16 + blocks.len() * if fmt.bit64 { 8 } else { 4 };
                seen.revokes += 1;
                seen.revoked += blocks.len() as u32;
            }
            JournalBlockType::Commit => {
                CommitBlock::decode(block, &fmt)
                    .unwrap()
                    .encode_into(&mut again, &fmt);
                seen.commits += 1;
                tid = tid.next();
            }
            other => panic!("{other:?} in the log"),
        }
        assert!(
            again[..used] == block[..used],
            "{:?} of transaction {} built again, {fmt:?}",
            h.block_type,
            h.tid
        );
        at += 1;
    }
    seen
}

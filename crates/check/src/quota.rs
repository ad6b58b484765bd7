//! Quota files: whether what they say of each owner's space and inodes is what the inodes add up to.
//!
//! Source: Linux documentation, filesystems/quota, and the layout of `vfsv1` files: blocks of 1 KiB, a
//! header, then a tree of four levels by the bytes of the id, leaves with a list of entries.

use crate::context::Context;
use crate::filemap::{self, Run};
use crate::journal::read_inode;
use crate::layout::is_hidden;
use crate::layout::quota_inodes;
use crate::prelude::*;
use std::collections::HashMap;
use uext4_ondisk::Inode;

/// Bytes of a block of a quota file.
pub(crate) const BLOCK: usize = 1024;
/// First words of the files of users, groups and projects.
pub(crate) const MAGIC: [u32; 3] = [0xd9c0_1f11, 0xd9c0_1927, 0xd9c0_3f14];
pub(crate) const VERSION: u32 = 1;
/// Bytes of the fields in the first block.
const BLOCKS_AT: usize = 20;
const FREE_BLOCK_AT: usize = 24;
const FREE_ENTRY_AT: usize = 28;
/// Levels of the tree above the leaves, and references of a block.
pub(crate) const DEPTH: u32 = 4;
const REFERENCES: usize = BLOCK / 4;
/// A leaf: bytes before the entries, bytes of an entry, and fields of it.
pub(crate) const LEAF_HEADER: usize = 16;
pub(crate) const ENTRY: usize = 72;
const ENTRY_INODES_AT: usize = 24;
const ENTRY_SPACE_AT: usize = 48;

/// Space and inodes of each owner, for users, groups and projects.
#[derive(Debug, Default)]
pub(crate) struct Usage([BTreeMap<u32, (u64, u64)>; 3]);

impl Usage {
    /// Space and inodes of each owner: of users (0), groups (1) or projects (2).
    pub(crate) fn of(&self, kind: usize) -> Option<&BTreeMap<u32, (u64, u64)>> {
        self.0.get(kind)
    }

    /// Counts an inode, if quota files are kept and it is not one of the file system's own.
    pub(crate) fn add(&mut self, cx: &Context<'_>, ino: Ino, inode: &Inode) {
        if !cx.ro_compat(RoCompat::QUOTA) || is_hidden(cx, ino) {
            return;
        }
        let ids = [inode.uid, inode.gid, inode.projid];
        for (map, id) in self.0.iter_mut().zip(ids) {
            let sum = map.entry(id).or_default();
            sum.0 = sum.0.saturating_add(inode.blocks.saturating_mul(512));
            sum.1 = sum.1.saturating_add(1);
        }
    }

    /// Takes over what another worker counted.
    pub(crate) fn absorb(&mut self, other: Usage) {
        for (map, part) in self.0.iter_mut().zip(other.0) {
            for (id, (space, inodes)) in part {
                let sum = map.entry(id).or_default();
                sum.0 = sum.0.saturating_add(space);
                sum.1 = sum.1.saturating_add(inodes);
            }
        }
    }
}

/// Checks every quota file.
///
/// # Errors
/// The device's.
pub(crate) fn run(cx: &Context<'_>, usage: &Usage, faults: &mut Faults) -> Result<()> {
    if !cx.ro_compat(RoCompat::QUOTA) {
        return Ok(());
    }
    let files = quota_inodes(&cx.sb.raw);
    for (((what, ino), magic), used) in files.into_iter().zip(MAGIC).zip(&usage.0) {
        if ino == Ino::NONE {
            continue;
        }
        let fault = |why: &str| {
            let detail = format!("{what} quota: {why}");
            Fault::new(FaultKind::QuotaUsage).ino(ino).detail(detail)
        };
        let Some(mut file) = QuotaFile::open(cx, ino)? else {
            faults.push(fault("file is unusable"));
            continue;
        };
        let first = file.read(0)?;
        if le32(&first, 0) != Some(magic) {
            faults.push(fault("first word is wrong").note());
        }
        if !file.check_header(&first) || !file.tree(1, DEPTH)? {
            faults.push(fault("file is damaged"));
            continue;
        }
        let ids = used.keys().chain(file.found.keys());
        let wrong = ids.copied().find(|id| {
            let want = used.get(id).copied().unwrap_or_default();
            // An owner without anything need not be there.
            file.found.get(id).copied() != Some(want)
                && (want != (0, 0) || file.found.contains_key(id))
        });
        if let Some(id) = wrong {
            let want = used.get(&id).copied().unwrap_or_default();
            let have = file.found.get(&id);
            let why = format!("{id} has {want:?} bytes and inodes, file says {have:?}");
            faults.push(fault(&why));
        }
    }
    Ok(())
}

/// Entries of a quota file, by owner.
type Entries = BTreeMap<u32, Vec<u8>>;

/// A quota file that is being read.
pub(crate) struct QuotaFile<'c, 'd> {
    cx: &'c Context<'d>,
    runs: Vec<Run>,
    /// Blocks of the file, by its own word.
    blocks: u32,
    /// Blocks that were read, and how far above the leaves they are.
    seen: HashMap<u32, u32>,
    found: BTreeMap<u32, (u64, u64)>,
    /// The entries whole, if they are wanted.
    entries: Option<Entries>,
}

impl<'c, 'd> QuotaFile<'c, 'd> {
    /// `None` if there is no such regular file.
    pub(crate) fn open(cx: &'c Context<'d>, ino: Ino) -> Result<Option<Self>> {
        let Some(raw) = read_inode(&cx.view, &cx.geo, &cx.descs, ino)? else {
            return Ok(None);
        };
        // The extra fields do not matter here.
        let short = raw.get(..GOOD_OLD_INODE_SIZE).unwrap_or(&raw);
        let Ok(inode) = Inode::decode(short, &cx.params) else {
            return Ok(None);
        };
        if inode.file_type() != FileType::Regular {
            return Ok(None);
        }
        let (runs, _) = filemap::load(&cx.view, &cx.geo, &inode)?;
        let size = u32::try_from(inode.size / BLOCK as u64).unwrap_or(u32::MAX);
        Ok(Some(QuotaFile {
            cx,
            runs,
            blocks: size,
            seen: HashMap::new(),
            found: BTreeMap::new(),
            entries: None,
        }))
    }

    /// The first block, and every entry that a sound part of the tree leads to.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn entries(&mut self) -> Result<(Vec<u8>, Entries)> {
        let first = self.read(0)?;
        self.entries = Some(BTreeMap::new());
        self.tree(1, DEPTH)?;
        Ok((first, self.entries.take().unwrap_or_default()))
    }

    /// A block of the file; one that is not there reads as zeros.
    fn read(&self, n: u32) -> Result<Vec<u8>> {
        let size = self.cx.block_size();
        let at = u64::from(n).saturating_mul(BLOCK as u64);
        let lblk = u32::try_from(at >> self.cx.geo.block_bits).unwrap_or(u32::MAX);
        let mut block = vec![0; size];
        if let Some(pblk) = filemap::find(&self.runs, Lblk(lblk)) {
            self.cx.view.read(pblk, &mut block)?;
        }
        let from = at as usize % size;
        Ok(block
            .get(from..from.saturating_add(BLOCK))
            .unwrap_or(&[])
            .to_vec())
    }

    fn check_header(&mut self, first: &[u8]) -> bool {
        let word = |at| le32(first, at).unwrap_or(0);
        let blocks = word(BLOCKS_AT);
        let free = word(FREE_BLOCK_AT).max(word(FREE_ENTRY_AT));
        let fine = word(4) == VERSION && blocks <= self.blocks && free < blocks;
        self.blocks = blocks;
        fine
    }

    /// Reads a subtree; false if a reference leads nowhere.
    fn tree(&mut self, n: u32, depth: u32) -> Result<bool> {
        // A leaf may have entries of many nodes, but a node has one place.
        if let Some(before) = self.seen.insert(n, depth) {
            return Ok(before == 0 && depth == 0);
        }
        let block = self.read(n)?;
        if depth == 0 {
            self.leaf(&block);
            return Ok(true);
        }
        for i in 0..REFERENCES {
            let r = le32(&block, i * 4).unwrap_or(0);
            if r >= self.blocks {
                return Ok(false);
            }
            if r != 0 && !self.tree(r, depth - 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn leaf(&mut self, block: &[u8]) {
        let entries = block.get(LEAF_HEADER..).unwrap_or(&[]);
        if le16(block, 8) == Some(0) {
            return;
        }
        for entry in entries.chunks_exact(ENTRY) {
            let word = |at| le32(entry, at).unwrap_or(0);
            let long = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
            if entry.iter().any(|b| *b != 0) {
                if let Some(all) = &mut self.entries {
                    all.insert(word(0), entry.to_vec());
                }
                let sum = (long(ENTRY_SPACE_AT), long(ENTRY_INODES_AT));
                self.found.insert(word(0), sum);
            }
        }
    }
}

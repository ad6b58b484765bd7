//! Quota files: whether what they say of each owner's space and inodes is what the inodes add up to.
//!
//! Source: Linux documentation, filesystems/quota; the layout is in `uext4_ondisk::quota`.

use crate::context::Context;
use crate::filemap::{self, Run};
use crate::journal::read_inode;
use crate::layout::is_hidden;
use crate::prelude::*;
use std::collections::HashMap;
use uext4_ondisk::{
    Inode, QUOTA_BLOCK, QUOTA_DEPTH, QUOTA_REFERENCES, QUOTA_ROOT, QuotaEntry, QuotaHeader,
    QuotaLeafHeader, quota_entries, quota_inodes, quota_reference,
};

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
    for ((kind, ino), used) in files.into_iter().zip(&usage.0) {
        if ino == Ino::NONE {
            continue;
        }
        let what = kind.name();
        let fault = |why: &str| {
            let detail = format!("{what} quota: {why}");
            Fault::new(FaultKind::QuotaUsage).ino(ino).detail(detail)
        };
        let Some(mut file) = QuotaFile::open(cx, ino)? else {
            faults.push(fault("file is unusable"));
            continue;
        };
        let header = QuotaHeader::decode(&file.read(0)?);
        if header.magic != kind.magic() {
            faults.push(fault("first word is wrong").note());
        }
        if !file.check_header(&header) || !file.tree(QUOTA_ROOT, QUOTA_DEPTH)? {
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
type Entries = BTreeMap<u32, QuotaEntry>;

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
        let size = u32::try_from(inode.size / QUOTA_BLOCK as u64).unwrap_or(u32::MAX);
        Ok(Some(QuotaFile {
            cx,
            runs,
            blocks: size,
            seen: HashMap::new(),
            found: BTreeMap::new(),
            entries: None,
        }))
    }

    /// The header, and every entry that a sound part of the tree leads to.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn entries(&mut self) -> Result<(QuotaHeader, Entries)> {
        let header = QuotaHeader::decode(&self.read(0)?);
        self.entries = Some(BTreeMap::new());
        self.tree(QUOTA_ROOT, QUOTA_DEPTH)?;
        Ok((header, self.entries.take().unwrap_or_default()))
    }

    /// A block of the file; one that is not there reads as zeros.
    fn read(&self, n: u32) -> Result<Vec<u8>> {
        let size = self.cx.block_size();
        let at = u64::from(n).saturating_mul(QUOTA_BLOCK as u64);
        let lblk = u32::try_from(at >> self.cx.geo.block_bits).unwrap_or(u32::MAX);
        let mut block = vec![0; size];
        if let Some(pblk) = filemap::find(&self.runs, Lblk(lblk)) {
            self.cx.view.read(pblk, &mut block)?;
        }
        let from = at as usize % size;
        Ok(block
            .get(from..from.saturating_add(QUOTA_BLOCK))
            .unwrap_or(&[])
            .to_vec())
    }

    fn check_header(&mut self, header: &QuotaHeader) -> bool {
        let fine = header.is_sound(self.blocks);
        self.blocks = header.blocks;
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
        for slot in 0..QUOTA_REFERENCES {
            let r = quota_reference(&block, slot);
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
        if QuotaLeafHeader::decode(block).entries == 0 {
            return;
        }
        for (_, entry) in quota_entries(block) {
            if let Some(all) = &mut self.entries {
                all.insert(entry.id, entry);
            }
            self.found.insert(entry.id, (entry.space, entry.inodes));
        }
    }
}

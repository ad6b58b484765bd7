//! Quota files: whether what they say of each owner's space and inodes is what the inodes add up to.
//!
//! Source: Linux documentation, filesystems/quota; the layout is in `uext4_ondisk::quota`.

use crate::context::Context;
use crate::filemap::{self, Run};
use crate::journal::read_inode;
use crate::layout::is_hidden;
use crate::prelude::*;
use std::collections::BTreeSet;
use uext4_ondisk::{
    Inode, QUOTA_BLOCK, QUOTA_DEPTH, QUOTA_PER_LEAF, QUOTA_REFERENCES, QUOTA_ROOT, QuotaEntry,
    QuotaHeader, QuotaLeafHeader, quota_entries, quota_inodes, quota_reference,
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
        let fault = |kind: FaultKind, why: &str| {
            let detail = format!("{what} quota: {why}");
            Fault::new(kind).ino(ino).detail(detail)
        };
        let Some(mut file) = QuotaFile::open(cx, ino)? else {
            faults.push(fault(FaultKind::QuotaFile, "file is unusable"));
            continue;
        };
        let header = QuotaHeader::decode(&file.read(0)?);
        if header.magic != kind.magic() {
            file.note("first word is wrong");
        }
        if !file.check_header(&header) || !file.tree(QUOTA_ROOT, QUOTA_DEPTH, 0)? {
            faults.push(fault(FaultKind::QuotaFile, "a reference leads nowhere"));
            continue;
        }
        file.lists(&header)?;
        if let Some(odd) = &file.odd {
            faults.push(fault(FaultKind::QuotaTree, odd).note());
        }
        let ids = used.keys().chain(file.found.keys());
        let wrong = ids.copied().find(|id| {
            let want = used.get(id).copied().unwrap_or_default();
            // An owner without anything need not be there.
            file.found.get(id).copied() != Some(want)
                && (want != (0, 0) || file.found.contains_key(id))
        });
        if let Some(id) = file.twofold.or(wrong) {
            let want = used.get(&id).copied().unwrap_or_default();
            let have = file.found.get(&id).copied().unwrap_or_default();
            let why = format!(
                "{id} has {} bytes and {} inodes, the file says {} and {}",
                want.0, want.1, have.0, have.1
            );
            faults.push(fault(FaultKind::QuotaUsage, &why));
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
    /// Blocks that were read as what is so far above the leaves.
    seen: BTreeSet<(u32, u32)>,
    /// Leaves, with how many entries each has.
    leaves: BTreeMap<u32, usize>,
    /// Why an owner can't be added: what e2fsck lets pass, and a mount does not.
    odd: Option<String>,
    /// An owner with two entries that differ.
    twofold: Option<u32>,
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
            seen: BTreeSet::new(),
            leaves: BTreeMap::new(),
            odd: None,
            twofold: None,
            found: BTreeMap::new(),
            entries: None,
        }))
    }

    /// The header, and every entry that a sound part of the tree leads to by its owner.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn entries(&mut self) -> Result<(QuotaHeader, Entries)> {
        let header = QuotaHeader::decode(&self.read(0)?);
        self.entries = Some(BTreeMap::new());
        self.tree(QUOTA_ROOT, QUOTA_DEPTH, 0)?;
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

    /// Notes why an owner can't be added; the first reason is kept.
    fn note(&mut self, why: impl Into<String>) {
        self.odd.get_or_insert_with(|| why.into());
    }

    /// Reads a subtree, of the owners whose ids begin with `prefix`; false if a reference leads nowhere. All others are followed then
    /// too if entries are wanted.
    fn tree(&mut self, n: u32, depth: u32, prefix: u32) -> Result<bool> {
        if depth == 0 {
            self.leaf(n, prefix)?;
            return Ok(true);
        }
        if !self.seen.insert((n, depth)) {
            self.note(format!("two references lead to block {n}"));
            return Ok(true);
        }
        let block = self.read(n)?;
        let mut is_whole = true;
        for slot in 0..QUOTA_REFERENCES {
            let below = quota_reference(&block, slot);
            let id = prefix | (slot as u32) << (8 * (depth - 1));
            is_whole &= match below {
                0 => true,
                below if below >= self.blocks => false,
                below => self.tree(below, depth - 1, id)?,
            };
            if !is_whole && self.entries.is_none() {
                return Ok(false);
            }
        }
        Ok(is_whole)
    }

    /// Reads the leaf that has the entry of an owner.
    fn leaf(&mut self, n: u32, id: u32) -> Result<()> {
        let block = self.read(n)?;
        let count = quota_entries(&block).count();
        let mut own = quota_entries(&block).filter(|(_, entry)| entry.id == id);
        match (own.next(), own.next()) {
            (Some((_, entry)), None) => {
                if let Some(all) = &mut self.entries {
                    all.insert(id, entry);
                }
            }
            _ => self.note(format!("leaf {n} does not have just one entry of {id}")),
        }
        if self.leaves.insert(n, count).is_some() {
            return Ok(());
        }
        let counted = QuotaLeafHeader::decode(&block).entries;
        if usize::from(counted) != count {
            self.note(format!("leaf {n} counts {counted} entries"));
        }
        if counted == 0 {
            return Ok(());
        }
        for (_, entry) in quota_entries(&block) {
            let usage = (entry.space, entry.inodes);
            let other = self.found.insert(entry.id, usage);
            if other.is_some_and(|other| other != usage) {
                self.twofold.get_or_insert(entry.id);
            }
        }
        Ok(())
    }

    /// Checks the lists that blocks and entries of a new owner are taken from, and that no block has two uses.
    fn lists(&mut self, header: &QuotaHeader) -> Result<()> {
        let mut nodes = BTreeSet::new();
        for (n, _) in std::mem::take(&mut self.seen) {
            if !nodes.insert(n) || n < QUOTA_ROOT {
                self.note(format!("two references lead to block {n}"));
            }
        }
        let used = nodes.iter().chain(self.leaves.keys());
        if let Some(n) = used.copied().find(|n| self.is_hole(*n)) {
            self.note(format!("block {n} is missing"));
        }
        if let Some(n) = self.leaves.keys().copied().find(|n| nodes.contains(n)) {
            self.note(format!("two references lead to block {n}"));
        }
        let mut listed = BTreeSet::new();
        let mut at = header.free_entry;
        while at != 0 {
            let has_room = self.leaves.get(&at).is_some_and(|n| *n < QUOTA_PER_LEAF);
            if !has_room || !listed.insert(at) {
                self.note(format!("leaf {at} cannot have a free entry"));
                break;
            }
            at = QuotaLeafHeader::decode(&self.read(at)?).next;
        }
        let mut at = header.free_block;
        while at != 0 {
            let is_used = nodes.contains(&at) || self.leaves.contains_key(&at);
            if at >= self.blocks || is_used || self.is_hole(at) || !listed.insert(at) {
                self.note(format!("block {at} is not free"));
                break;
            }
            at = QuotaLeafHeader::decode(&self.read(at)?).next;
        }
        Ok(())
    }

    /// Whether a block of the file has no place.
    fn is_hole(&self, n: u32) -> bool {
        let at = u64::from(n).saturating_mul(QUOTA_BLOCK as u64);
        let lblk = u32::try_from(at >> self.cx.geo.block_bits).unwrap_or(u32::MAX);
        filemap::find(&self.runs, Lblk(lblk)).is_none()
    }
}

//! Reading the quota files: every entry, so that an owner is found without I/O, and damage is found before anything changes.

use crate::fs::Ext4;
use crate::kinds;
use crate::mapping;
use crate::mount::journal::read_inode;
use crate::options::MountOptions;
use crate::owners::{QuotaReport, QuotaSettings};
use crate::prelude::*;
use crate::quota::dquot::{Dquot, Grace};
use crate::quota::table::Table;
use crate::quota::{Quota, QuotaBlock, Quotas};
use std::collections::BTreeMap as Map;
use uext4_ondisk::{
    QUOTA_BLOCK, QUOTA_DEPTH, QUOTA_PER_LEAF, QUOTA_REFERENCES, QUOTA_ROOT, QuotaEntry,
    QuotaHeader, QuotaKind, QuotaLeafHeader, quota_entries, quota_inodes, quota_reference,
};

/// Reads the quota files of an image that has them. Where one is damaged, the mount becomes read-only.
///
/// # Errors
/// The device's; limits are to be enforced that the image does not have.
pub(crate) fn load_or_read_only(
    sb: &Superblock,
    cache: &Arc<BufferCache>,
    options: &mut MountOptions,
    quotas: &OnceLock<Quotas>,
) -> Result<()> {
    let inodes = quota_inodes(&sb.raw).map(|(_, ino)| ino != Ino::NONE);
    let has = |kind: usize| sb.ro_compat.contains(RoCompat::QUOTA) && inodes[kind];
    if options.quotas.project && !has(2) {
        return Err(Ext4Error::Invalid(
            "prjquota, of an image without the features quota and project",
        ));
    }
    if !sb.ro_compat.contains(RoCompat::QUOTA) {
        return Ok(());
    }
    if sb.incompat.contains(Incompat::EA_INODE) && !options.read_only {
        tracing::warn!("mounted read-only: quota with ea_inode");
        options.read_only = true;
    }
    match load(sb, cache, options) {
        Ok(loaded) => {
            let _ = quotas.set(loaded);
        }
        Err(why @ Ext4Error::Corrupt(_)) => {
            if !options.read_only {
                tracing::error!(
                    "mounted read-only: {why}: `uext4 check -y` writes the quota files again"
                );
            }
            options.read_only = true;
        }
        Err(why) => return Err(why),
    }
    Ok(())
}

fn load(sb: &Superblock, cache: &Arc<BufferCache>, options: &MountOptions) -> Result<Quotas> {
    let mut files = ArrayVec::new();
    for (kind, ino) in quota_inodes(&sb.raw) {
        if ino == Ino::NONE {
            continue;
        }
        let enforced = match kind {
            QuotaKind::User => options.quotas.user,
            QuotaKind::Group => options.quotas.group,
            QuotaKind::Project => options.quotas.project,
        };
        files.push(Reader::open(sb, cache, kind, ino)?.load(enforced)?);
    }
    Ok(Quotas::new(sb, files))
}

impl Ext4 {
    /// What every owner of a kind has, and may have; `None` if the image keeps no such quotas.
    pub fn quota(&self, kind: QuotaKind) -> Option<QuotaReport> {
        self.owners.report(kind)
    }

    /// Changes the limits of an owner, or the grace times of a kind of owners.
    ///
    /// # Locks
    /// Waits for changes that run; starts handles.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the image keeps no such quotas. `EINVAL`: all ones are not an owner. `ERANGE`: a limit above 2^63 - 1. `EROFS`. `EBUSY`: it is frozen. `ENOSPC`: the quota file finds no
    /// space.
    ///
    /// # Crash
    /// The limits are those before or those after.
    pub fn set_quota(
        &self,
        kind: QuotaKind,
        settings: &QuotaSettings,
    ) -> uext4_vfs::errno::Result<()> {
        let alone = self.volume.freeze.stop_changes();
        let changed = match self.volume.freeze.is_frozen() {
            true => Err(Ext4Error::Busy("frozen")),
            false => self.owners.set(kind, settings),
        };
        drop(alone);
        self.delete_what_was_put_off();
        self.volume.report(changed)
    }
}

/// A quota file that is being read.
struct Reader {
    kind: QuotaKind,
    ino: Ino,
    block_size: usize,
    /// Blocks of the file, by their numbers.
    blocks: Map<u32, Arc<Buffer>>,
    header: QuotaHeader,
    /// Blocks of the tree and leaves that were seen; of leaves the entries in use.
    seen: Map<u32, Option<usize>>,
    /// Where each owner's entry is: leaf and slot.
    found: Map<u32, (u32, usize, QuotaEntry)>,
}

impl Reader {
    fn open(
        sb: &Superblock,
        cache: &Arc<BufferCache>,
        kind: QuotaKind,
        ino: Ino,
    ) -> Result<Reader> {
        let inode = read_inode(cache, sb, ino)?;
        let mut reader = Reader {
            kind,
            ino,
            block_size: sb.geometry.block_size as usize,
            blocks: Map::new(),
            header: QuotaHeader::new(kind),
            seen: Map::new(),
            found: Map::new(),
        };
        if inode.file_type() != FileType::Regular || inode.links == 0 {
            return Err(reader.damage("not a regular file"));
        }
        let seed = sb
            .has_metadata_csum()
            .then(|| inode.seed(sb.csum_seed, ino));
        let size = inode.size.div_ceil(u64::from(sb.geometry.block_size));
        let mut runs = Vec::new();
        let bounds = sb.geometry.block_bounds();
        mapping::walk(cache, &inode, bounds, seed, ino, &mut |e| runs.push(e))?;
        for run in runs.iter().filter(|run| !run.unwritten) {
            for i in 0..u32::from(run.len) {
                let lblk = run.lblk.0.saturating_add(i);
                if u64::from(lblk) < size {
                    let buffer = cache.get(run.pblk.0 + u64::from(i))?;
                    reader.blocks.insert(lblk, buffer);
                }
            }
        }
        reader.header = reader.with_block(0, QuotaHeader::decode)?;
        let blocks = inode.size / QUOTA_BLOCK as u64;
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        if reader.header.magic != kind.magic() || !reader.header.is_sound(blocks) {
            return Err(reader.damage("the header is wrong"));
        }
        Ok(reader)
    }

    fn damage(&self, what: &str) -> Ext4Error {
        Corrupt::new(CorruptKind::QuotaFile)
            .ino(self.ino)
            .detail(format_args!("{}: {what}", self.kind.name()))
            .into()
    }

    /// Which block of the file system a block of the file is in, and which part of it.
    fn place(&self, block: u32) -> (u32, usize) {
        let parts = (self.block_size / QUOTA_BLOCK) as u32;
        (block / parts, (block % parts) as usize)
    }

    fn with_block<R>(&self, block: u32, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let (lblk, within) = self.place(block);
        let missing = || self.damage(&format!("block {block} is missing"));
        let buffer = self.blocks.get(&lblk).ok_or_else(missing)?;
        let content = buffer.read();
        let at = within * QUOTA_BLOCK;
        let part = content.data().get(at..at + QUOTA_BLOCK);
        Ok(read(part.ok_or_else(missing)?))
    }

    fn load(mut self, enforced: bool) -> Result<Quota> {
        self.node(QUOTA_ROOT, QUOTA_DEPTH, 0)?;
        self.check_lists()?;
        let table = Table::new(self.found.len());
        let quota = Quota {
            kind: self.kind,
            ino: self.ino,
            enforced,
            grace: Grace::new(self.header.space_grace, self.header.inode_grace),
            dquots: table,
            blocks: Table::new(self.blocks.len()),
            header: Mutex::new(&class::QUOTA_FILE, self.header),
        };
        for (lblk, buffer) in &self.blocks {
            kinds::take(buffer, kinds::QUOTA_FILE, quota.seed(Lblk(*lblk)))?;
            let block = QuotaBlock::new(Arc::clone(buffer), self.block_size);
            quota.blocks.insert(*lblk, block);
        }
        for (id, (leaf, slot, entry)) in &self.found {
            let (lblk, within) = self.place(*leaf);
            if let Some(block) = quota.blocks.get(lblk) {
                let buffer = Arc::clone(&block.buffer);
                let dquot = Arc::new(Dquot::new(*entry, buffer, enforced));
                block.put(within, *slot, &dquot);
                quota.dquots.insert(*id, dquot);
            }
        }
        Ok(quota)
    }

    /// Reads what a block of the tree leads to: the owners whose ids begin with `prefix`.
    fn node(&mut self, node: u32, level: u32, prefix: u32) -> Result<()> {
        if self.seen.insert(node, None).is_some() {
            return Err(self.damage(&format!("two references lead to block {node}")));
        }
        let below = self.with_block(node, |block| {
            let slots = 0..QUOTA_REFERENCES;
            slots
                .map(|slot| (slot as u32, quota_reference(block, slot)))
                .filter(|(_, below)| *below != 0)
                .collect::<Vec<_>>()
        })?;
        let level = level - 1;
        for (slot, below) in below {
            if below >= self.header.blocks || below <= QUOTA_ROOT {
                return Err(self.damage(&format!("block {node} names block {below}")));
            }
            let id = prefix | slot << (8 * level);
            match level {
                0 => self.entry(below, id)?,
                _ => self.node(below, level, id)?,
            }
        }
        Ok(())
    }

    /// Notes the entry of an owner, which the tree says is in `leaf`.
    fn entry(&mut self, leaf: u32, id: u32) -> Result<()> {
        let (entries, header) = self.with_block(leaf, |block| {
            let entries: Vec<_> = quota_entries(block).collect();
            (entries, QuotaLeafHeader::decode(block))
        })?;
        if usize::from(header.entries) != entries.len() {
            return Err(self.damage(&format!("leaf {leaf} counts {} entries", header.entries)));
        }
        let before = self.seen.insert(leaf, Some(entries.len()));
        let mut own = entries.into_iter().filter(|(_, entry)| entry.id == id);
        match (before, own.next(), own.next()) {
            (None | Some(Some(_)), Some((slot, entry)), None) => {
                self.found.insert(id, (leaf, slot, entry));
                Ok(())
            }
            _ => Err(self.damage(&format!("leaf {leaf} does not have just one entry of {id}"))),
        }
    }

    /// Checks the lists from which new entries are taken.
    fn check_lists(&self) -> Result<()> {
        let next = |block| self.with_block(block, QuotaLeafHeader::decode);
        let mut listed = HashSet::new();
        let mut at = self.header.free_entry;
        while at != 0 {
            let used = self.seen.get(&at);
            let has_room = matches!(used, Some(Some(used)) if *used < QUOTA_PER_LEAF);
            if !has_room || !listed.insert(at) {
                return Err(self.damage(&format!("leaf {at} cannot have a free entry")));
            }
            at = next(at)?.next;
        }
        let mut at = self.header.free_block;
        while at != 0 {
            if at >= self.header.blocks || self.seen.contains_key(&at) || !listed.insert(at) {
                return Err(self.damage(&format!("block {at} is not free")));
            }
            at = next(at)?.next;
        }
        Ok(())
    }
}

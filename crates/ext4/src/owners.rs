//! Owners as the quota files have them: entries for new ones, limits, and what each has.
//!
//! # Crash
//! A new entry is durable before or with the first inode of its owner. Limits change in one handle.
//!
//! # Locking
//! `quota_file`, from before the handle that adds an entry to its end.

use crate::block_allocator::{BlockAllocator, Goal};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::kinds;
use crate::mapping::Mapping;
use crate::prelude::*;
use crate::quota::dquot::{Dquot, Limits};
use crate::quota::{Counted, OwnerIds, Quota, QuotaBlock};
use crate::run::Run;
use crate::volume::{Volume, handles};
use uext4_ondisk::{
    QUOTA_BLOCK, QUOTA_DEPTH, QUOTA_PER_LEAF, QUOTA_ROOT, QuotaEntry, QuotaHeader, QuotaKind,
    QuotaLeafHeader, quota_entries, quota_entry_at, quota_reference, quota_reference_set,
    quota_slot,
};
use uext4_vfs::errno::Error;

/// Blocks that adding an entry changes, besides those that are added to the file: the header, three nodes, a leaf,
/// the next leaf, the inode.
const ENTRY_CREDITS: u32 = 7;
/// Blocks that adding a block to the file changes: itself, bitmap, descriptors, inode, extent nodes.
const BLOCK_CREDITS: u32 = 10;

/// The largest limit: bytes, or inodes.
const LIMIT_MAX: u64 = i64::MAX as u64;

/// What the owners of one kind have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaReport {
    /// Users, groups or projects.
    pub kind: QuotaKind,
    /// Whether limits are enforced.
    pub enforced: bool,
    /// Seconds that the soft limit of space may be exceeded.
    pub space_grace: u32,
    /// The same of inodes.
    pub inode_grace: u32,
    /// Owners, by their ids.
    pub entries: Vec<QuotaEntry>,
}

/// What of an owner's or a kind's quotas is to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaSettings {
    /// The limits of an owner.
    Limits(u32, Limits),
    /// The seconds that soft limits of space and of inodes may be exceeded.
    Grace(u32, u32),
}

/// Owners; see the module.
pub struct Owners {
    volume: Arc<Volume>,
    blocks: Arc<BlockAllocator>,
    table: Arc<InodeTable>,
    mapping: Arc<Mapping>,
    inodes: Arc<Inodes>,
}

impl Owners {
    pub(crate) fn new(
        volume: Arc<Volume>,
        blocks: Arc<BlockAllocator>,
        table: Arc<InodeTable>,
        mapping: Arc<Mapping>,
        inodes: Arc<Inodes>,
    ) -> Owners {
        Owners {
            volume,
            blocks,
            table,
            mapping,
            inodes,
        }
    }

    /// Makes sure that the owners have entries, before a handle gives them an inode.
    ///
    /// # Locks
    /// May start a handle.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] for the quota file; damage, the device's.
    #[inline]
    pub(crate) fn prepare(&self, owners: OwnerIds) -> Result<()> {
        let Some(quotas) = self.volume.quotas() else {
            return Ok(());
        };
        for file in quotas.files() {
            let id = owners.id(file.kind);
            if file.dquots.get(id).is_none() {
                self.blocks.retry_no_space(|| self.add_entry(file, id))?;
            }
        }
        Ok(())
    }

    /// Prepares an inode's change of owners, and reserves what it has for those after.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone. May start a handle.
    ///
    /// # Errors
    /// As [`Owners::prepare`]; [`Ext4Error::QuotaExceeded`].
    pub(crate) fn prepare_transfer(&self, inode: &Inode, to: OwnerIds) -> Result<()> {
        let Some(quotas) = self.volume.quotas() else {
            return Ok(());
        };
        let before = Counted::of(&inode.state());
        if before.owners == to {
            return Ok(());
        }
        self.prepare(to)?;
        quotas.reserve_transfer(before, to)
    }

    /// What every owner of a kind has, as of the running operations; `None` if no such file is kept.
    pub fn report(&self, kind: QuotaKind) -> Option<QuotaReport> {
        let file = self.volume.quotas()?.file(kind)?;
        let header = *file.header.lock();
        let mut entries = Vec::new();
        file.dquots.for_each(|_, dquot| entries.push(dquot.entry()));
        entries.sort_unstable_by_key(|entry| entry.id);
        Some(QuotaReport {
            kind,
            enforced: file.enforced,
            space_grace: header.space_grace,
            inode_grace: header.inode_grace,
            entries,
        })
    }

    /// Changes limits or grace times.
    ///
    /// # Locks
    /// The caller keeps other changes from running. Starts handles.
    ///
    /// # Errors
    /// [`Ext4Error::Unsupported`]: no such file is kept. `EINVAL`: all ones are not an owner. `ERANGE`: a limit above
    /// 2^63 - 1. [`Ext4Error::NoSpace`]; damage, the device's.
    pub(crate) fn set(&self, kind: QuotaKind, settings: &QuotaSettings) -> Result<()> {
        self.volume.check_writable()?;
        let file = self.volume.quotas().and_then(|quotas| quotas.file(kind));
        let file = file.ok_or(Ext4Error::Unsupported(
            "a quota of this kind (`uext4 tune -O quota` adds quota files, `-O project,quota` those of projects)",
        ))?;
        match settings {
            QuotaSettings::Limits(id, limits) => {
                check_limits(*id, limits)?;
                let dquot = self.blocks.retry_no_space(|| self.add_entry(file, *id))?;
                self.volume.with_handle(1, |handle| {
                    drop(handle.modify(&dquot.buffer)?);
                    dquot.set_limits(&file.grace, limits);
                    Ok(())
                })
            }
            QuotaSettings::Grace(space, inodes) => {
                let mut header = file.header.lock();
                let changed = QuotaHeader {
                    space_grace: *space,
                    inode_grace: *inodes,
                    ..*header
                };
                self.volume
                    .with_handle(1, |handle| self.write_header(handle, file, &changed))?;
                *header = changed;
                file.grace.set(*space, *inodes);
                Ok(())
            }
        }
    }
}

/// Refuses what Linux does not take for an owner, or as a limit.
fn check_limits(id: u32, limits: &Limits) -> Result<()> {
    if id == u32::MAX {
        return Err(Ext4Error::Invalid("all ones are not an owner"));
    }
    let all = [
        limits.space_hard,
        limits.space_soft,
        limits.inodes_hard,
        limits.inodes_soft,
    ];
    if all.into_iter().any(|limit| limit > LIMIT_MAX) {
        let why = Error::new(Errno::ERANGE).context("a limit above 2^63 - 1");
        return Err(why.into());
    }
    Ok(())
}

/// Where a new entry goes.
struct Plan {
    /// The last block of the tree that leads to the owner, and how many levels are missing below it.
    node: u32,
    missing: u32,
    /// The leaf, if there is one with a free entry.
    leaf: Option<u32>,
    /// Blocks that get a use, the first of them the leaf if there is none: their numbers in the file.
    new: Vec<u32>,
    header: QuotaHeader,
}

impl Owners {
    /// The record of an owner, whose entry is added if there is none.
    fn add_entry(&self, file: &Quota, id: u32) -> Result<Arc<Dquot>> {
        if let Some(dquot) = file.dquots.get(id) {
            return Ok(Arc::clone(dquot));
        }
        self.volume.check_writable()?;
        let mut header = file.header.lock();
        if let Some(dquot) = file.dquots.get(id) {
            return Ok(Arc::clone(dquot));
        }
        let plan = self.plan(file, &header, id)?;
        let inode = self.inodes.get_inode(file.ino)?;
        let missing = self.missing_blocks(file, &plan);
        let mut runs = Vec::new();
        for lblk in &missing {
            let goal = self.goal_beside(&inode, *lblk, &missing, &runs)?;
            let reserved = self.blocks.reserve_blocks(goal, 1, true);
            let reserved = reserved.and_then(|run| {
                runs.push(run);
                self.volume.allocate_on_host(run)
            });
            if let Err(why) = reserved {
                self.blocks.unreserve_all(&runs);
                return Err(why);
            }
        }
        let credits = ENTRY_CREDITS + BLOCK_CREDITS * runs.len() as u32;
        let handle = self.volume.journal().start(credits)?;
        let added = self
            .extend_file(&handle, file, &inode, &missing, &runs)
            .and_then(|()| self.put_entry(&handle, file, &inode, &plan, id));
        let dquot;
        (dquot, *header) = handles::end(handle, added)?;
        Ok(dquot)
    }

    /// Where a block of a quota file is: the block of the file system, and which part of it.
    fn place<'q>(&self, file: &'q Quota, block: u32) -> Result<(&'q QuotaBlock, usize)> {
        let parts = (self.volume.block_size() / QUOTA_BLOCK as u64) as u32;
        let found = file.blocks.get(block / parts);
        let found = found.ok_or_else(|| self.damage(file, "a block is missing"))?;
        Ok((found, (block % parts) as usize))
    }

    #[cold]
    fn damage(&self, file: &Quota, what: &str) -> Ext4Error {
        Corrupt::new(CorruptKind::QuotaFile)
            .ino(file.ino)
            .detail(format_args!("{}: {what}", file.kind.name()))
            .into()
    }

    fn read<R>(&self, file: &Quota, block: u32, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let (found, within) = self.place(file, block)?;
        let content = found.buffer.read();
        let at = within * QUOTA_BLOCK;
        Ok(read(&content.data()[at..at + QUOTA_BLOCK]))
    }

    fn change<R>(
        &self,
        handle: &Handle<'_>,
        file: &Quota,
        block: u32,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let (found, within) = self.place(file, block)?;
        let mut content = handle.modify(&found.buffer)?;
        let at = within * QUOTA_BLOCK;
        Ok(change(&mut content.data_mut()[at..at + QUOTA_BLOCK]))
    }

    fn write_header(&self, handle: &Handle<'_>, file: &Quota, to: &QuotaHeader) -> Result<()> {
        self.change(handle, file, 0, |block| to.encode_into(block))
    }

    /// Finds where an entry goes, and which blocks that takes.
    fn plan(&self, file: &Quota, header: &QuotaHeader, id: u32) -> Result<Plan> {
        let (mut node, mut missing) = (QUOTA_ROOT, QUOTA_DEPTH - 1);
        loop {
            let slot = quota_slot(id, missing);
            let below = self.read(file, node, |block| quota_reference(block, slot))?;
            if below == 0 {
                break;
            }
            missing = missing
                .checked_sub(1)
                .ok_or_else(|| self.damage(file, "the tree leads to an entry that is not there"))?;
            node = below;
        }
        let leaf = Some(header.free_entry).filter(|leaf| *leaf != 0);
        let mut header = *header;
        let mut new = Vec::new();
        for _ in 0..missing + u32::from(leaf.is_none()) {
            match header.free_block {
                0 => {
                    new.push(header.blocks);
                    header.blocks = header.blocks.checked_add(1).ok_or(Ext4Error::NoSpace)?;
                }
                free => {
                    new.push(free);
                    header.free_block =
                        self.read(file, free, |block| QuotaLeafHeader::decode(block).next)?;
                }
            }
        }
        Ok(Plan {
            node,
            missing,
            leaf,
            new,
            header,
        })
    }

    /// The blocks of the file system that the file needs and does not have.
    fn missing_blocks(&self, file: &Quota, plan: &Plan) -> Vec<u32> {
        let parts = (self.volume.block_size() / QUOTA_BLOCK as u64) as u32;
        let mut missing: Vec<u32> = plan.new.iter().map(|block| block / parts).collect();
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|lblk| file.blocks.get(*lblk).is_none());
        missing
    }

    /// Where a missing block of the file goes: beside those of its cluster that the file has, or is to get in `runs`.
    fn goal_beside(&self, inode: &Inode, lblk: u32, missing: &[u32], runs: &[Run]) -> Result<Goal> {
        let goal = self.mapping.data_goal(inode, Lblk(lblk))?;
        let bits = self.volume.geometry().cluster_bits();
        let mut others = missing.iter().zip(runs);
        let beside = others.find(|(other, _)| **other >> bits == lblk >> bits);
        let has_cluster = beside.map(|(other, run)| Run {
            pblk: Pblk(
                run.pblk
                    .0
                    .saturating_add_signed(i64::from(lblk) - i64::from(*other)),
            ),
            len: 1,
        });
        Ok(Goal {
            has_cluster: has_cluster.or(goal.has_cluster),
            ..goal
        })
    }

    /// Gives the file reserved blocks. Each step leaves a file that is right by itself.
    fn extend_file(
        &self,
        handle: &Handle<'_>,
        file: &Quota,
        inode: &InodeRef,
        missing: &[u32],
        runs: &[Run],
    ) -> Result<()> {
        let size = self.volume.block_size();
        for (i, (lblk, run)) in missing.iter().zip(runs).enumerate() {
            let mapped = self.mapping.map_run(handle, inode, Lblk(*lblk), *run, true);
            if let Err(why) = mapped {
                if !matches!(why, Ext4Error::Journal(_)) {
                    self.blocks.unreserve_all(runs.get(i..).unwrap_or_default());
                }
                return Err(why);
            }
            let added = self.blocks.publish_run(handle, *run)?;
            self.table.update_inode(inode, handle, |disk| {
                disk.size = disk.size.max((u64::from(*lblk) + 1) * size);
                disk.blocks += self.blocks.sectors_of(added);
            })?;
            let buffer = self.volume.cache().get_unread(run.pblk.0);
            buffer.set_kind(kinds::QUOTA_FILE, file.seed(Lblk(*lblk)));
            drop(handle.create(&buffer)?);
            file.blocks
                .insert(*lblk, QuotaBlock::new(buffer, size as usize));
        }
        Ok(())
    }

    /// Writes the entry, and what leads to it.
    fn put_entry(
        &self,
        handle: &Handle<'_>,
        file: &Quota,
        inode: &InodeRef,
        plan: &Plan,
        id: u32,
    ) -> Result<(Arc<Dquot>, QuotaHeader)> {
        let mut header = plan.header;
        let mut new = plan.new.iter().copied();
        for block in new.clone() {
            self.change(handle, file, block, |block| block.fill(0))?;
        }
        let lost = || self.damage(file, "a leaf has no free entry");
        let leaf = plan.leaf.or_else(|| new.next()).ok_or_else(lost)?;
        let entry = QuotaEntry::new(id);
        let (slot, of_leaf) = self
            .change(handle, file, leaf, |block| {
                let mut free = (0..QUOTA_PER_LEAF)
                    .filter(|slot| !quota_entries(block).any(|(used, _)| used == *slot));
                let slot = free.next()?;
                let is_last = free.next().is_none();
                let before = QuotaLeafHeader::decode(block);
                let after = QuotaLeafHeader {
                    entries: before.entries + 1,
                    // A full leaf leaves the list, whose first it is.
                    next: if is_last { 0 } else { before.next },
                    ..before
                };
                after.encode_into(block);
                entry.encode_into(&mut block[quota_entry_at(slot)..]);
                Some((slot, is_last.then_some(before.next)))
            })?
            .ok_or_else(lost)?;
        header.free_entry = of_leaf.unwrap_or(leaf);
        if let Some(next) = of_leaf.filter(|next| *next != 0) {
            self.change(handle, file, next, |block| {
                let before = QuotaLeafHeader::decode(block);
                QuotaLeafHeader { prev: 0, ..before }.encode_into(block);
            })?;
        }
        let mut node = plan.node;
        for level in (0..=plan.missing).rev() {
            let below = match level {
                0 => leaf,
                _ => new.next().ok_or_else(lost)?,
            };
            self.change(handle, file, node, |block| {
                quota_reference_set(block, quota_slot(id, level), below);
            })?;
            node = below;
        }
        self.write_header(handle, file, &header)?;
        // Other systems make files whose size is not one of whole blocks of the file system.
        let bytes = u64::from(header.blocks) * QUOTA_BLOCK as u64;
        if inode.size() < bytes {
            self.table
                .update_inode(inode, handle, |disk| disk.size = bytes)?;
        }
        let (block, within) = self.place(file, leaf)?;
        let buffer = Arc::clone(&block.buffer);
        let dquot = Arc::new(Dquot::new(entry, buffer, file.enforced));
        block.put(within, slot, &dquot);
        file.dquots.insert(id, Arc::clone(&dquot));
        Ok((dquot, header))
    }
}

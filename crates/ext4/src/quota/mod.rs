//! What each owner has, and may have: users, groups and projects of an image with the feature `quota`.
//!
//! # Data model
//! A record (`Dquot`) for each entry of the quota files, all of which are read when the file system is mounted. The usage in a
//! record follows the inodes: it changes where an inode's block count or owner is encoded, and where an inode is made or freed,
//! in the same handle. The block of the quota file is attached to the handle first and encoded when it is frozen, so a
//! transaction has inodes and usage of one moment.
//!
//! # Limits
//! An operation of a caller that limits apply to opens a scope (`operation`). What it is going to allocate is reserved against the
//! limits first; the change of the inode turns the reservation into usage, and the end of the scope releases the rest. Without a
//! scope, as in the deletion of an orphan, usage changes without a check. Blocks of a mapping itself are never refused, as with
//! delayed allocation in the kernel.
//!
//! # Locking
//! Records are found without a lock, and usage without limits changes by atomic operations on a line of the CPU. A record with
//! limits that are enforced is changed under its `dquot`. New entries are made under `quota_file`, by `owners`.
//!
//! | module | holds |
//! | --- | --- |
//! | `dquot` | a record |
//! | `table` | a table without removal, read without a lock |
//! | `operation` | what the running operation has reserved |
//!
//! Source: Linux documentation, filesystems/quota, and ext4(5).

pub(crate) mod dquot;
pub(crate) mod operation;
pub(crate) mod table;

use crate::prelude::*;
use crate::quota::dquot::{Dquot, Grace};
use crate::quota::operation::Scope;
use crate::quota::table::Table;
use uext4_ondisk::{
    QUOTA_BLOCK, QUOTA_ENTRY, QUOTA_PER_LEAF, QuotaHeader, QuotaKind, quota_entry_at, quota_inodes,
};

/// Bits of a buffer's seed for the block of the file; the rest is the kind.
const SEED_BLOCK_BITS: u32 = 30;

/// The owners of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnerIds([u32; 3]);

impl OwnerIds {
    pub fn new(uid: u32, gid: u32, project: u32) -> OwnerIds {
        OwnerIds([uid, gid, project])
    }

    pub fn of(disk: &uext4_ondisk::Inode) -> OwnerIds {
        OwnerIds([disk.uid, disk.gid, disk.projid])
    }

    /// That of a kind.
    pub fn id(&self, kind: QuotaKind) -> u32 {
        let [uid, gid, project] = self.0;
        match kind {
            QuotaKind::User => uid,
            QuotaKind::Group => gid,
            QuotaKind::Project => project,
        }
    }
}

/// What of an inode counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub owners: OwnerIds,
    pub sectors: u64,
}

impl Counted {
    pub fn of(disk: &uext4_ondisk::Inode) -> Counted {
        Counted {
            owners: OwnerIds::of(disk),
            sectors: disk.blocks,
        }
    }

    fn bytes(&self) -> i64 {
        i64::try_from(self.sectors.saturating_mul(512)).unwrap_or(i64::MAX)
    }
}

/// A block of the file system in a quota file, with the records that are encoded into it.
#[derive(Debug)]
pub(crate) struct QuotaBlock {
    pub buffer: Arc<Buffer>,
    slots: Box<[OnceLock<Arc<Dquot>>]>,
}

impl QuotaBlock {
    pub fn new(buffer: Arc<Buffer>, block_size: usize) -> QuotaBlock {
        let slots = block_size / QUOTA_BLOCK * QUOTA_PER_LEAF;
        QuotaBlock {
            buffer,
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Has `dquot` encoded into `slot` of the leaf `within` this block.
    pub fn put(&self, within: usize, slot: usize, dquot: &Arc<Dquot>) {
        if let Some(place) = self.slots.get(within * QUOTA_PER_LEAF + slot) {
            let _ = place.set(Arc::clone(dquot));
        }
    }

    fn encode(&self, data: &mut [u8]) {
        for (i, slot) in self.slots.iter().enumerate() {
            let Some(dquot) = slot.get() else { continue };
            let leaf = i / QUOTA_PER_LEAF * QUOTA_BLOCK;
            let at = leaf + quota_entry_at(i % QUOTA_PER_LEAF);
            if let Some(raw) = data.get_mut(at..at + QUOTA_ENTRY) {
                dquot.entry().encode_into(raw);
            }
        }
    }
}

/// A quota file: the owners of one kind.
#[derive(Debug)]
pub(crate) struct Quota {
    pub kind: QuotaKind,
    pub ino: Ino,
    /// Whether limits are enforced.
    pub enforced: bool,
    pub grace: Grace,
    pub dquots: Table<Arc<Dquot>>,
    /// By their number in the file.
    pub blocks: Table<QuotaBlock>,
    /// The header, changed with the file.
    pub header: Mutex<QuotaHeader>,
}

impl Quota {
    /// The role of its blocks: what `Buffer::seed` is.
    pub fn seed(&self, lblk: Lblk) -> u32 {
        (self.kind as u32) << SEED_BLOCK_BITS | lblk.0
    }
}

/// The quota files of a file system; see the module.
#[derive(Debug)]
pub(crate) struct Quotas {
    files: ArrayVec<Quota, 3>,
    /// Inodes below are the file system's own, but the root.
    first_ino: Ino,
    /// Others of its own: quota files and the orphan file.
    own: [Ino; 4],
    /// Whether limits of any kind are enforced.
    enforces: bool,
    /// Entries that were missing.
    missing: AtomicBool,
}

impl Quotas {
    pub fn new(sb: &Superblock, files: ArrayVec<Quota, 3>) -> Quotas {
        let [user, group, project] = quota_inodes(&sb.raw).map(|(_, ino)| ino);
        Quotas {
            first_ino: sb.geometry.first_ino,
            own: [user, group, project, sb.orphan_file().unwrap_or(Ino::NONE)],
            enforces: files.iter().any(|file| file.enforced),
            files,
            missing: AtomicBool::new(false),
        }
    }

    /// The file of a kind.
    pub fn file(&self, kind: QuotaKind) -> Option<&Quota> {
        self.files.iter().find(|file| file.kind == kind)
    }

    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = &Quota> {
        self.files.iter()
    }

    /// Whether an inode counts: it is not one of the file system's own.
    fn counts(&self, ino: Ino) -> bool {
        (ino == Ino::ROOT || ino >= self.first_ino) && !self.own.contains(&ino)
    }

    /// Completes a block of a quota file before it is copied.
    pub fn freeze(&self, buffer: &Buffer, data: &mut [u8]) {
        let kind = buffer.seed() >> SEED_BLOCK_BITS;
        let lblk = buffer.seed() & ((1 << SEED_BLOCK_BITS) - 1);
        let file = self.files.iter().find(|file| file.kind as u32 == kind);
        if let Some(block) = file.and_then(|file| file.blocks.get(lblk)) {
            block.encode(data);
        }
    }
}

/// Usage, which follows the inodes.
impl Quotas {
    /// Moves what an inode has from its owners before a change to those after it.
    #[inline]
    pub fn follow(&self, handle: &Handle<'_>, ino: Ino, before: Counted, after: Counted) {
        if before != after && self.counts(ino) {
            self.move_usage(handle, ino, before, after);
        }
    }

    fn move_usage(&self, handle: &Handle<'_>, ino: Ino, before: Counted, after: Counted) {
        for file in &self.files {
            let (from, to) = (before.owners.id(file.kind), after.owners.id(file.kind));
            if from == to {
                let by = after.bytes().saturating_sub(before.bytes());
                self.add(file, handle, (ino, to), by, 0);
            } else {
                self.add(file, handle, (ino, from), -before.bytes(), -1);
                self.add(file, handle, (ino, to), after.bytes(), 1);
            }
        }
    }

    /// Counts an inode that was just made, without blocks, or that is free from now on.
    pub fn count_inode(&self, handle: &Handle<'_>, ino: Ino, owners: OwnerIds, by: i64) {
        if !self.counts(ino) {
            return;
        }
        for file in &self.files {
            self.add(file, handle, (ino, owners.id(file.kind)), 0, by);
        }
    }

    fn add(
        &self,
        file: &Quota,
        handle: &Handle<'_>,
        (ino, id): (Ino, u32),
        space: i64,
        inodes: i64,
    ) {
        if space == 0 && inodes == 0 {
            return;
        }
        handle.never_describe();
        match file.dquots.get(id) {
            // It fails only where the journal was aborted, and nothing is written any more.
            Some(dquot) if handle.access(&dquot.buffer).is_ok() => {
                if dquot.is_limited() {
                    let taken = operation::take(dquot, space, inodes);
                    dquot.add_reserved(&file.grace, space, inodes, taken);
                } else {
                    dquot.add(space, inodes);
                }
            }
            Some(_) => {}
            None => self.note_missing(file, ino, id),
        }
    }

    /// An inode in use has an owner without an entry: the file was wrong when it was mounted.
    #[cold]
    fn note_missing(&self, file: &Quota, ino: Ino, id: u32) {
        if !self.missing.swap(true, Relaxed) {
            tracing::error!(
                "inode {ino}: {} {id} has no entry in the quota file: `uext4 check -p` counts again",
                file.kind.name()
            );
        }
    }
}

/// Limits.
impl Quotas {
    /// Applies limits until the result is dropped to what this thread allocates, unless the caller is `exempt`.
    pub fn begin(&self, exempt: bool) -> Option<Scope> {
        self.enforces.then(|| Scope::begin(exempt))
    }

    /// Reserves space and inodes for the running operation; for all owners, or none.
    ///
    /// # Errors
    /// [`Ext4Error::QuotaExceeded`].
    pub fn reserve(&self, owners: OwnerIds, space: u64, inodes: u64) -> Result<()> {
        self.reserve_where(|file| Some(owners.id(file.kind)), space, inodes)
    }

    fn reserve_where(
        &self,
        id: impl Fn(&Quota) -> Option<u32>,
        space: u64,
        inodes: u64,
    ) -> Result<()> {
        if !self.enforces || !operation::is_running() {
            return Ok(());
        }
        let (space, inodes) = (space.cast_signed(), inodes.cast_signed());
        let mut reserved = ArrayVec::<(&Dquot, &Quota), 3>::new();
        for file in &self.files {
            let Some(dquot) = id(file).and_then(|id| file.dquots.get(id)) else {
                continue;
            };
            if !dquot.is_limited() {
                continue;
            }
            if let Err(why) = dquot.reserve(&file.grace, space, inodes, operation::is_exempt()) {
                for (dquot, file) in reserved {
                    operation::release(dquot, &file.grace, space, inodes);
                }
                return Err(why);
            }
            operation::hold(dquot, &file.grace, space, inodes);
            reserved.push((dquot, file));
        }
        Ok(())
    }

    /// Reserves as many of `blocks` blocks as the limits allow, at least one.
    ///
    /// # Errors
    /// [`Ext4Error::QuotaExceeded`].
    pub fn reserve_blocks(&self, owners: OwnerIds, block: u64, blocks: u32) -> Result<u32> {
        let mut want = blocks;
        loop {
            let why = match self.reserve(owners, u64::from(want) * block, 0) {
                Ok(()) => return Ok(want),
                Err(why) => why,
            };
            let room = self.room(owners) / block;
            want = u32::try_from(room).unwrap_or(u32::MAX).min(want - 1);
            if want == 0 {
                return Err(why);
            }
        }
    }

    /// Bytes that the owners may still have.
    fn room(&self, owners: OwnerIds) -> u64 {
        let room = |file: &Quota| Some(file.dquots.get(owners.id(file.kind))?.space_room());
        self.files.iter().filter_map(room).min().unwrap_or(u64::MAX)
    }

    /// Reserves what an inode has for the owners that it is to have instead.
    ///
    /// # Errors
    /// [`Ext4Error::QuotaExceeded`].
    pub fn reserve_transfer(&self, before: Counted, to: OwnerIds) -> Result<()> {
        let other = |file: &Quota| {
            let id = to.id(file.kind);
            (id != before.owners.id(file.kind)).then_some(id)
        };
        self.reserve_where(other, before.bytes().cast_unsigned(), 1)
    }
}

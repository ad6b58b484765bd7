//! The record of one owner.
//!
//! # Invariants
//! - Usage changes after the block that it is encoded into was attached to the handle, so freezing that block for an
//!   earlier transaction encodes the usage before.
//! - Where limits are enforced, usage and reservations together exceed a hard limit only by what an exempt caller, a
//!   transfer without a check or a mapping needs.
//!
//! # Locking
//! `dquot`, a leaf, for what has limits; else atomic operations on values per CPU.

use crate::prelude::*;
use crate::superblock::unix_now;
use std::sync::atomic::AtomicI64;
use uext4_ondisk::{QUOTA_SPACE_UNIT, QuotaEntry};

/// How long soft limits may be exceeded, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Grace(Arc<[AtomicU64; 2]>);

impl Grace {
    pub fn new(space: u32, inodes: u32) -> Grace {
        Grace(Arc::new([
            AtomicU64::new(u64::from(space)),
            AtomicU64::new(u64::from(inodes)),
        ]))
    }

    pub fn set(&self, space: u32, inodes: u32) {
        self.0[0].store(u64::from(space), Relaxed);
        self.0[1].store(u64::from(inodes), Relaxed);
    }

    fn space(&self) -> u64 {
        self.0[0].load(Relaxed)
    }

    fn inodes(&self) -> u64 {
        self.0[1].load(Relaxed)
    }
}

/// What was added to the usage on one CPU.
#[derive(Debug, Default)]
struct Added {
    space: AtomicI64,
    inodes: AtomicI64,
}

/// Limits of one resource; 0 for none. Space is in bytes.
#[derive(Debug)]
struct Limit {
    hard: AtomicU64,
    soft: AtomicU64,
    /// When the grace time ends; 0 while the soft limit is not exceeded.
    time: AtomicU64,
}

impl Limit {
    fn new(hard: u64, soft: u64, time: u64) -> Limit {
        Limit {
            hard: AtomicU64::new(hard),
            soft: AtomicU64::new(soft),
            time: AtomicU64::new(time),
        }
    }

    fn is_set(&self) -> bool {
        self.hard.load(Relaxed) != 0 || self.soft.load(Relaxed) != 0
    }

    /// Whether a caller may get so far.
    fn allows(&self, total: u64) -> bool {
        let (hard, soft) = (self.hard.load(Relaxed), self.soft.load(Relaxed));
        let time = self.time.load(Relaxed);
        let expired = time != 0 && unix_now() >= time;
        !(hard != 0 && total > hard || soft != 0 && total > soft && expired)
    }

    /// Starts the grace time where the soft limit is exceeded, and ends it where it is not.
    fn settle(&self, total: u64, grace: u64) {
        let soft = self.soft.load(Relaxed);
        let exceeds = soft != 0 && total > soft;
        let time = self.time.load(Relaxed);
        match (exceeds, time) {
            (true, 0) => self.time.store(unix_now().saturating_add(grace), Relaxed),
            (false, 1..) => self.time.store(0, Relaxed),
            _ => {}
        }
    }
}

/// Limits that an owner gets: space in bytes, rounded up to KiB; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// The most bytes.
    pub space_hard: u64,
    /// The most bytes for longer than the grace time.
    pub space_soft: u64,
    /// The most inodes.
    pub inodes_hard: u64,
    /// The most inodes for longer than the grace time.
    pub inodes_soft: u64,
}

/// What is reserved and not used yet.
#[derive(Debug, Default)]
struct Reserved {
    space: i64,
    inodes: i64,
}

/// The record of an owner; see the module.
#[derive(Debug)]
pub(crate) struct Dquot {
    /// The block that has its entry.
    pub buffer: Arc<Buffer>,
    /// As read, usage and owner.
    read: QuotaEntry,
    added: OnceLock<PerUsedCpu<Added>>,
    space: Limit,
    inodes: Limit,
    /// Whether limits of its kind are enforced.
    enforced: bool,
    /// Whether it has limits that are enforced.
    limited: AtomicBool,
    reserved: Mutex<Reserved>,
}

impl Dquot {
    pub fn new(entry: QuotaEntry, buffer: Arc<Buffer>, enforced: bool) -> Dquot {
        let bytes = |units: u64| units.saturating_mul(QUOTA_SPACE_UNIT);
        let space = Limit::new(
            bytes(entry.space_hard),
            bytes(entry.space_soft),
            entry.space_time,
        );
        let inodes = Limit::new(entry.inodes_hard, entry.inodes_soft, entry.inode_time);
        let limited = enforced && (space.is_set() || inodes.is_set());
        Dquot {
            buffer,
            read: entry,
            added: OnceLock::new(),
            space,
            inodes,
            enforced,
            limited: AtomicBool::new(limited),
            reserved: Mutex::new(&class::DQUOT, Reserved::default()),
        }
    }

    /// Whether limits are enforced and there are some.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limited.load(Relaxed)
    }

    /// Bytes and inodes in use.
    fn usage(&self) -> (u64, u64) {
        let (mut space, mut inodes) = (0i64, 0i64);
        for cpu in self.added.get().into_iter().flat_map(PerUsedCpu::iter) {
            space = space.wrapping_add(cpu.space.load(Relaxed));
            inodes = inodes.wrapping_add(cpu.inodes.load(Relaxed));
        }
        // A file that counted too little when it was mounted.
        let space = self.read.space.checked_add_signed(space);
        let inodes = self.read.inodes.checked_add_signed(inodes);
        (space.unwrap_or(0), inodes.unwrap_or(0))
    }

    /// The entry as it is to be on disk.
    pub fn entry(&self) -> QuotaEntry {
        let (space, inodes) = self.usage();
        let units = |limit: &AtomicU64| limit.load(Relaxed).div_ceil(QUOTA_SPACE_UNIT);
        QuotaEntry {
            id: self.read.id,
            inodes_hard: self.inodes.hard.load(Relaxed),
            inodes_soft: self.inodes.soft.load(Relaxed),
            inodes,
            space_hard: units(&self.space.hard),
            space_soft: units(&self.space.soft),
            space,
            space_time: self.space.time.load(Relaxed),
            inode_time: self.inodes.time.load(Relaxed),
        }
    }

    /// Adds to the usage of a record with limits; so much of it was reserved.
    pub fn add_reserved(&self, grace: &Grace, space: i64, inodes: i64, taken: (i64, i64)) {
        let mut reserved = self.reserved.lock();
        self.add(space, inodes);
        reserved.space -= taken.0;
        reserved.inodes -= taken.1;
        self.settle(&reserved, grace);
    }

    /// Adds to the usage of a record without limits.
    pub fn add(&self, space: i64, inodes: i64) {
        let added = self.added.get_or_init(PerUsedCpu::new);
        let added = added.get_or_init(|_| Added::default());
        if space != 0 {
            added.space.fetch_add(space, Relaxed);
        }
        if inodes != 0 {
            added.inodes.fetch_add(inodes, Relaxed);
        }
    }

    fn totals(&self, reserved: &Reserved) -> (u64, u64) {
        let (space, inodes) = self.usage();
        (
            space.saturating_add_signed(reserved.space),
            inodes.saturating_add_signed(reserved.inodes),
        )
    }

    fn settle(&self, reserved: &Reserved, grace: &Grace) {
        let (space, inodes) = self.totals(reserved);
        self.space.settle(space, grace.space());
        self.inodes.settle(inodes, grace.inodes());
    }

    /// Reserves space and inodes, which are more than zero or not asked for.
    ///
    /// # Errors
    /// [`Ext4Error::QuotaExceeded`].
    pub fn reserve(&self, grace: &Grace, space: i64, inodes: i64, exempt: bool) -> Result<()> {
        let mut reserved = self.reserved.lock();
        let (have_space, have_inodes) = self.totals(&reserved);
        let allowed = |limit: &Limit, have: u64, more: i64| {
            more == 0 || limit.allows(have.saturating_add_signed(more))
        };
        let allowed =
            allowed(&self.space, have_space, space) && allowed(&self.inodes, have_inodes, inodes);
        if !allowed && !exempt {
            return Err(Ext4Error::QuotaExceeded);
        }
        reserved.space += space;
        reserved.inodes += inodes;
        self.settle(&reserved, grace);
        Ok(())
    }

    /// Releases what was reserved and not used.
    pub fn release(&self, grace: &Grace, space: i64, inodes: i64) {
        if space == 0 && inodes == 0 {
            return;
        }
        let mut reserved = self.reserved.lock();
        reserved.space -= space;
        reserved.inodes -= inodes;
        self.settle(&reserved, grace);
    }

    /// Bytes that it may still have.
    pub fn space_room(&self) -> u64 {
        if !self.is_limited() {
            return u64::MAX;
        }
        let reserved = self.reserved.lock();
        let (space, _) = self.totals(&reserved);
        let (hard, soft) = (self.space.hard.load(Relaxed), self.space.soft.load(Relaxed));
        let time = self.space.time.load(Relaxed);
        let end = |limit: u64| match limit {
            0 => u64::MAX,
            limit => limit,
        };
        let soft = match time != 0 && unix_now() >= time {
            true => end(soft),
            false => u64::MAX,
        };
        end(hard).min(soft).saturating_sub(space)
    }

    /// Sets the limits. The caller has attached the block to a handle, and no other operation runs.
    pub fn set_limits(&self, grace: &Grace, limits: &Limits) {
        let round = |bytes: u64| {
            bytes
                .div_ceil(QUOTA_SPACE_UNIT)
                .saturating_mul(QUOTA_SPACE_UNIT)
        };
        let reserved = self.reserved.lock();
        let set = |limit: &Limit, hard: u64, soft: u64| {
            limit.hard.store(hard, Relaxed);
            // Another soft limit starts another grace time.
            if limit.soft.swap(soft, Relaxed) != soft {
                limit.time.store(0, Relaxed);
            }
        };
        set(
            &self.space,
            round(limits.space_hard),
            round(limits.space_soft),
        );
        set(&self.inodes, limits.inodes_hard, limits.inodes_soft);
        self.settle(&reserved, grace);
        let limited = self.enforced && (self.space.is_set() || self.inodes.is_set());
        self.limited.store(limited, Relaxed);
    }
}

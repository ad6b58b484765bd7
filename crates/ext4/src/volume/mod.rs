//! What every other part needs of a mounted file system: superblock, geometry, groups, buffer cache, journal, and
//! what was found damaged.
//!
//! # Locking
//! None of its own: settings and the read-only flag are atomics.
//!
//! | module | holds |
//! | --- | --- |
//! | `superblock` | changes of the superblock |
//! | `generations` | what depends on the size |
//! | `groups` | the block groups, loaded and found |
//! | `handles` | how operations start and end journal handles |
//! | `error_state` | damage: recorded, and turned into an errno |
//! | `host_space` | space on the host for metadata of sparse images |
//! | `fast_changes` | what fast commits say |
//! | `freeze_hook` | completing metadata blocks before the journal copies them |
//! | `freeze` | the gate that changes pass |
//! | `fixed_blocks` | blocks that belong to no file |
//! | `name_cache` | names that were looked up |
//! | `sought` | what an entry is searched by |
//! | `settings` | options that a remount changes |
//! | `directory_format` | what the features say of directory blocks |

mod directory_format;
mod error_state;
mod fast_changes;
pub(crate) mod fixed_blocks;
mod freeze;
pub(crate) mod freeze_hook;
pub(crate) mod generations;
pub(crate) mod groups;
pub(crate) mod handles;
mod host_space;
pub(crate) mod name_cache;
pub(crate) mod settings;
pub(crate) mod sought;
mod superblock;

use crate::encryption::KeyRing;
use crate::group::BitmapBytes;
use crate::mmp::MmpHold;
use crate::options::{DataMode, MountOptions};
use crate::prelude::*;
use crate::quota::Quotas;
use crate::volume::error_state::ErrorState;
use crate::volume::fast_changes::FastChanges;
use crate::volume::freeze::FreezeGate;
use crate::volume::generations::Generations;
use crate::volume::name_cache::NameCache;
use crate::volume::settings::Settings;
use uext4_ondisk::CsumSeed;

/// How many mounts this process has seen.
static MOUNTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// The device of a mounted file system with its superblock, groups, buffer cache and journal.
pub struct Volume {
    /// As mounted; the size, the counters and the orphan head in it are not current.
    pub(crate) sb: Superblock,
    pub(crate) super_buffer: Arc<Buffer>,
    pub(crate) generations: Arc<Generations>,
    cache: Arc<BufferCache>,
    journal: Arc<Journal>,
    pub(crate) options: MountOptions,
    pub(crate) csum: GroupCsum,
    pub(crate) bitmap_bytes: BitmapBytes,
    pub(crate) params: InodeParams,
    /// Distinguishes this mount from every other of the process.
    pub(crate) mount_id: u64,
    /// What each change passes.
    pub(crate) freeze: CachePadded<FreezeGate>,
    read_only: AtomicBool,
    mounted: AtomicBool,
    errors: ErrorState,
    pub(crate) names: NameCache,
    pub(crate) fast: FastChanges,
    /// Without a value if no quotas are kept.
    quotas: Arc<OnceLock<Quotas>>,
    /// Against other hosts, of a file system with `mmp`.
    hold: Mutex<Option<MmpHold>>,
    /// Read by every operation, so on a line that nothing else writes.
    pub(crate) settings: CachePadded<Settings>,
}

impl Volume {
    /// The file system that `sb` describes, with the groups and the journal as loaded.
    pub(crate) fn new(
        sb: Superblock,
        cache: Arc<BufferCache>,
        super_buffer: Arc<Buffer>,
        generations: Arc<Generations>,
        journal: Arc<Journal>,
        quotas: Arc<OnceLock<Quotas>>,
        options: MountOptions,
    ) -> Volume {
        Volume {
            super_buffer,
            generations,
            csum: GroupCsum::of(&sb),
            bitmap_bytes: BitmapBytes::of(&sb.geometry),
            params: InodeParams::of(&sb),
            mount_id: MOUNTS.fetch_add(1, Ordering::Relaxed),
            freeze: CachePadded::new(FreezeGate::new()),
            read_only: AtomicBool::new(options.read_only),
            mounted: AtomicBool::new(false),
            errors: ErrorState::new(),
            names: NameCache::new(),
            fast: FastChanges::new(),
            quotas,
            hold: Mutex::new(&class::MMP, None),
            settings: CachePadded::new(Settings::new(
                &options,
                options.errors.unwrap_or_else(|| sb.raw.errors_behaviour()),
            )),
            cache,
            journal,
            options,
            sb,
        }
    }
}

impl Volume {
    /// The quota files, if they are kept.
    #[inline(always)]
    pub(crate) fn quotas(&self) -> Option<&Quotas> {
        self.quotas.get()
    }

    /// Refuses to change anything when mounted read-only.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only() {
            return Err(Ext4Error::ReadOnly);
        }
        Ok(())
    }

    /// Whether nothing is written.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Whether everything is durable because nothing was done since: mounted read-only, or unmounted. A mount
    /// that became read-only when it met damage still finishes what was begun.
    pub(crate) fn has_nothing_to_sync(&self) -> bool {
        self.is_read_only() && !self.mounted.load(Ordering::SeqCst)
    }

    /// The keys of encrypted inodes.
    pub fn keys(&self) -> &KeyRing {
        &self.options.keys
    }

    /// The superblock as mounted.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// The metadata block cache.
    #[inline(always)]
    pub fn cache(&self) -> &Arc<BufferCache> {
        &self.cache
    }

    /// The journal.
    #[inline(always)]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The device.
    #[inline(always)]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    /// The seed of metadata checksums, if there are any.
    #[inline]
    pub(crate) fn seed(&self) -> Option<CsumSeed> {
        self.sb.has_metadata_csum().then_some(self.sb.csum_seed)
    }

    /// Bytes of a block.
    #[inline(always)]
    pub(crate) fn block_size(&self) -> u64 {
        u64::from(self.sb.geometry.block_size)
    }

    /// Bytes of a cluster; of a block without `bigalloc`.
    #[inline(always)]
    pub(crate) fn cluster_size(&self) -> u64 {
        self.sb.geometry.cluster_size()
    }

    /// Whether the superblock says that the journal needs recovery.
    pub(crate) fn is_mounted(&self) -> bool {
        self.mounted.load(Ordering::SeqCst)
    }

    /// Returns the value before.
    pub(crate) fn set_mounted(&self, mounted: bool) -> bool {
        self.mounted.swap(mounted, Ordering::SeqCst)
    }

    /// Allows changes from now on, unless the journal has been aborted.
    pub(crate) fn allow_changes(&self) {
        self.read_only.store(false, Ordering::SeqCst);
        // One that was aborted meanwhile has said so before, or is seen here.
        if self.journal.is_aborted() {
            self.set_read_only();
        }
    }

    /// Changes nothing from now on.
    pub(crate) fn set_read_only(&self) {
        self.read_only.store(true, Ordering::SeqCst);
    }

    /// Keeps the file system from other hosts until [`Volume::release_hold`].
    pub(crate) fn keep_hold(&self, hold: MmpHold) {
        self.stop_with(&hold);
        *self.hold.lock() = Some(hold);
    }

    /// Aborts the journal when another host takes the file system.
    pub(crate) fn stop_with(&self, hold: &MmpHold) {
        hold.protect(&self.journal);
    }

    pub(crate) fn take_hold(&self) -> Option<MmpHold> {
        self.hold.lock().take()
    }

    /// Lets other hosts have the file system.
    ///
    /// # Errors
    /// As [`MmpHold::release`].
    pub(crate) fn release_hold(&self) -> Result<()> {
        self.take_hold().map_or(Ok(()), MmpHold::release)
    }

    /// What the journal does with the data of this mount.
    pub fn data(&self) -> DataMode {
        Self::data_mode(self.superblock(), &self.options)
    }

    /// The result of `data=` of the options and of the superblock.
    pub(crate) fn data_mode(
        sb: &uext4_ondisk::Superblock,
        options: &crate::options::MountOptions,
    ) -> DataMode {
        options.data.unwrap_or_else(|| {
            match sb.raw.default_mount_opts.get() & uext4_ondisk::DEFAULT_DATA_MASK {
                uext4_ondisk::DEFAULT_DATA_JOURNAL => DataMode::Journal,
                uext4_ondisk::DEFAULT_DATA_WRITEBACK => DataMode::Writeback,
                _ => DataMode::Ordered,
            }
        })
    }
}

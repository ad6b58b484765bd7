//! A mounted file system: its parts, mounting, syncing and unmounting.
//!
//! # Crash
//! While mounted for writing the superblock says that the journal needs recovery. Unmounting commits,
//! writes everything in place, empties the log and takes that mark away. Dropping without
//! unmounting does the same as far as it can; a killed process leaves a journal that recovers.

use crate::error::{Ext4Error, Result};
use crate::errors::Errors;
use crate::extents;
use crate::external_journal;
use crate::fast_commit;
use crate::fixed::FixedBlocks;
use crate::flush_debt::FlushDebt;
use crate::freeze::zerocopy_superblock::with_superblock;
use crate::freeze::{Freezer, superblock_place};
use crate::generation::Generator;
use crate::group::{BitmapBytes, Group};
use crate::host_space::HostSpace;
use crate::inode::{Inode, InodeRef};
use crate::kinds;
use crate::lazytime::Lazytime;
use crate::mapping;
use crate::options::{DataMode, MountOptions};
use crate::orphan::Orphans;
use crate::remount::Settings;
use crate::trim::Trims;
use std::sync::{Arc, Weak};
use std::time::Duration;
use uext4_block::BlockDevice;
use uext4_jbd2::buffer::{Buffer, BufferCache};
use uext4_jbd2::{Handle, Journal, JournalClient, JournalError, JournalOptions, LogMap, LogRun};
use uext4_ondisk::{
    Compat, Corrupt, CorruptKind, CsumSeed, FastCommitRecord, FormatError, Geometry, GroupCsum,
    GroupDesc, GroupNo, Incompat, Ino, InodeParams, Pblk, RawSuperblock, RoCompat,
    SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};
use uext4_sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use uext4_sync::{CachePadded, PerCpu, thread};
use uext4_vfs::icache::InodeCache;
use uext4_vfs::ilock::{LockMode, RenameMutex, ilock};

/// How many mounts this process has seen.
static MOUNTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// From an inode to its file system. One per CPU, as making and dropping an inode counts it.
pub(crate) type Backref = Arc<CachePadded<Weak<Ext4>>>;

/// A mounted ext4 file system.
pub struct Ext4 {
    me: PerCpu<Backref>,
    /// As mounted; the counters and the orphan head in it are not current.
    pub(crate) sb: Superblock,
    pub(crate) super_buffer: Arc<Buffer>,
    groups: Arc<[Group]>,
    cache: Arc<BufferCache>,
    journal: Arc<Journal>,
    pub(crate) icache: InodeCache<Inode>,
    pub(crate) options: MountOptions,
    pub(crate) csum: GroupCsum,
    pub(crate) bitmap_bytes: BitmapBytes,
    pub(crate) params: InodeParams,
    pub(crate) generator: Generator,
    /// Tells this mount from every other of the process.
    pub(crate) mount_id: u64,
    /// Overwritten data of inodes that left memory.
    pub(crate) unflushed_evicted: FlushDebt,
    pub(crate) orphans: Orphans,
    pub(crate) lazytime: Arc<Lazytime>,
    /// `data=journal`.
    pub(crate) journals_all_data: bool,
    /// No file may be larger.
    pub(crate) bytes_max: u64,
    /// Every file may have this size; see `Ext4::check_end`.
    pub(crate) bytes_max_simple: u64,
    pub(crate) host_space: HostSpace,
    /// The blocks of no file.
    pub(crate) fixed: FixedBlocks,
    /// Of copies of mappings.
    pub(crate) snapshot_budget: extents::Budget,
    /// Guards the shape of the tree: renames of directories.
    pub(crate) rename: RenameMutex,
    /// Free blocks in all groups, those that wait for their transaction included.
    pub(crate) free_blocks: CachePadded<AtomicI64>,
    /// Freed runs that wait for their transaction.
    pub(crate) pending_frees: CachePadded<AtomicI64>,
    /// Where the next top-level directory goes.
    pub(crate) next_top_group: CachePadded<AtomicU32>,
    read_only: AtomicBool,
    pub(crate) errors: Errors,
    /// Read by every operation, so on a line that nothing else writes.
    pub(crate) settings: CachePadded<Settings>,
    pub(crate) trims: Trims,
    mounted: AtomicBool,
}

impl std::fmt::Debug for Ext4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ext4")
            .field("uuid", &self.sb.raw.uuid)
            .field("read_only", &self.is_read_only())
            .finish_non_exhaustive()
    }
}

/// What the journal tells of commits; weak, because the file system owns the journal.
struct Client(Weak<Ext4>);

impl Client {
    /// Calls `f` if the file system still is. Should everybody else let go of it meanwhile, another
    /// thread unmounts it: that waits for the commit thread, which is here.
    fn with(&self, f: impl FnOnce(&Ext4)) {
        let Some(fs) = self.0.upgrade() else { return };
        f(&fs);
        if let Some(last) = Arc::into_inner(fs) {
            let unmount = move || drop(last);
            let name = "uext4-unmount".into();
            if let Err(why) = thread::Builder::new().name(name).spawn(unmount) {
                tracing::error!("not unmounted, as no thread starts: {why}");
            }
        }
    }
}

impl JournalClient for Client {
    fn committed(&self, _tid: u64, freed: &[(u64, u32)]) {
        self.with(|fs| {
            if fs.settings.discard() {
                fs.discard_freed(freed);
            }
            fs.release_runs(freed);
        });
    }

    fn aborted(&self, why: &JournalError) {
        self.with(|fs| {
            tracing::error!("mounted read-only from now on: {why}");
            fs.read_only.store(true, Ordering::SeqCst);
        });
    }
}

/// What a mount begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Whatever its users do.
    Mount,
    /// What fast commits say, after the log was replayed.
    FastCommits,
}

/// The features that this file system writes.
const WRITES_INCOMPAT: Incompat = Incompat::FILETYPE
    .union(Incompat::RECOVER)
    .union(Incompat::META_BG)
    .union(Incompat::EXTENT)
    .union(Incompat::BIT64)
    .union(Incompat::FLEX_BG)
    .union(Incompat::INLINE_DATA)
    .union(Incompat::EA_INODE)
    .union(Incompat::CSUM_SEED)
    .union(Incompat::LARGE_DIR);

/// The features that this file system at least reads.
const READS_RO_COMPAT: RoCompat = RoCompat::SPARSE_SUPER
    .union(RoCompat::LARGE_FILE)
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::GDT_CSUM)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::EXTRA_ISIZE)
    .union(RoCompat::METADATA_CSUM.union(RoCompat::PROJECT))
    .union(RoCompat::ORPHAN_PRESENT);

/// Reads and checks the superblock of a device.
///
/// # Errors
/// The device's, or why it is no superblock.
pub fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut bytes = [0u8; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    Ok(Superblock::parse(&bytes)?)
}

/// As [`read_superblock`], but one whose checksum alone is wrong is given too, with the error: a crash
/// may have torn its last write, and then the log has it whole.
fn read_superblock_to_recover(
    device: &dyn BlockDevice,
) -> Result<(Superblock, Option<FormatError>)> {
    let mut bytes = [0u8; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    match Superblock::parse(&bytes) {
        Ok(sb) => Ok((sb, None)),
        Err(why @ FormatError::Checksum { .. }) => {
            let Some(raw) = RawSuperblock::mut_from(&mut bytes) else {
                return Err(why.into());
            };
            Ok((Superblock::from_raw(raw.clone())?, Some(why)))
        }
        Err(why) => Err(why.into()),
    }
}

/// Replays the log if it holds anything; gives the fast commits on top of it then. A log that the superblock says is not needed
/// is emptied, as the kernel does.
fn recover_log(
    map: &LogMap,
    device: &Arc<dyn BlockDevice>,
    sb: &Superblock,
    torn: bool,
) -> Result<Option<Vec<FastCommitRecord>>> {
    if uext4_jbd2::is_empty(map)? {
        return Ok(None);
    }
    if device.is_read_only() || map.device().is_read_only() {
        return Err(Ext4Error::Unsupported(
            "mounting read-only an image whose journal needs recovery, without noload,",
        ));
    }
    if torn || sb.incompat.contains(Incompat::RECOVER) {
        return Ok(Some(uext4_jbd2::recover(map, &**device)?.fast_commits));
    }
    uext4_jbd2::skip(map)?;
    Ok(Some(Vec::new()))
}

impl Ext4 {
    /// Mounts the file system on `device`, recovering its journal and its orphans.
    ///
    /// # Errors
    /// No ext4, an unsupported feature (by name), damage (by place), or the device's.
    pub fn mount(device: Arc<dyn BlockDevice>, options: MountOptions) -> Result<Arc<Ext4>> {
        Self::mount_with_journal(device, None, options)
    }

    /// As [`Ext4::mount`], of a file system whose journal is on `journal_device`. A file system that has
    /// its journal inside, or none, leaves that device alone.
    ///
    /// # Errors
    /// As [`Ext4::mount`]; [`Ext4Error::JournalUuid`], [`Ext4Error::Invalid`]: another's journal.
    pub fn mount_with_journal(
        device: Arc<dyn BlockDevice>,
        journal_device: Option<Arc<dyn BlockDevice>>,
        mut options: MountOptions,
    ) -> Result<Arc<Ext4>> {
        options.read_only |= device.is_read_only();
        let (mut sb, torn) = read_superblock_to_recover(&*device)?;
        check_features(&sb, &mut options)?;
        check_size(&sb, &*device)?;
        let log = find_log(&sb, &device, journal_device.as_ref(), &options)?;
        if let Some(map) = log.as_ref().filter(|_| !options.read_only) {
            map.allocate()?;
        }
        if let Some(map) = &log
            && !options.noload
            && let Some(records) = recover_log(map, &device, &sb, torn.is_some())?
        {
            sb = read_superblock(&*device)?;
            if !records.is_empty() {
                fast_commit::replay(&device, &sb, map, &options, &records)?;
                sb = read_superblock(&*device)?;
            }
            check_features(&sb, &mut options)?;
        } else if let Some(why) = torn {
            return Err(why.into());
        }
        let fs = Self::assemble(device, sb, log, options, Start::Mount)?;
        if fs.options.data.is_some() && !fs.journal.has_log() && !fs.is_read_only() {
            return Err(Ext4Error::Invalid("data= without a journal"));
        }
        if !fs.is_read_only() {
            fs.mark_mounted()?;
            fs.recover_orphans()?;
            if fs.options.lazytime {
                fs.lazytime
                    .start(Arc::downgrade(&fs), fs.options.lazytime_max_age);
            }
        }
        Ok(fs)
    }

    pub(crate) fn assemble(
        device: Arc<dyn BlockDevice>,
        sb: Superblock,
        log: Option<LogMap>,
        options: MountOptions,
        start: Start,
    ) -> Result<Arc<Ext4>> {
        let geometry = sb.geometry;
        let journals_all_data = Self::data_mode(&sb, &options) == DataMode::Journal;
        let block_size = geometry.block_size as usize;
        let blocks = (options.cache_bytes / block_size as u64) as usize;
        let cache = Arc::new(BufferCache::new(Arc::clone(&device), block_size, blocks));
        let csum = GroupCsum::of(&sb);
        let groups: Arc<[Group]> = load_groups(&sb, &cache, csum)?.into();
        let (super_block, super_at) = superblock_place(geometry.block_size);
        let super_buffer = cache.get(super_block.0)?;
        kinds::take(&super_buffer, kinds::SUPER, 0)?;
        let bitmap_bytes = BitmapBytes {
            inodes: geometry.inode_bitmap_bytes(),
            blocks: geometry.block_bitmap_bytes(),
        };
        cache.set_hook(Arc::new(Freezer {
            groups: Arc::clone(&groups),
            csum,
            seed: sb.has_metadata_csum().then_some(sb.csum_seed),
            bitmap_bytes,
            desc_size: usize::from(geometry.desc_size),
            inode_size: usize::from(geometry.inode_size),
            super_at,
        }));
        let fixed = FixedBlocks::of(&groups, &geometry);
        if let Some(log) = log
            .as_ref()
            .filter(|log| Arc::ptr_eq(log.device(), &device))
        {
            check_log_apart(log, &fixed)?;
        }
        let journal = open_journal(&sb, &cache, log, &options, start)?;
        let free_in = |g: &Group| i64::from(g.free_blocks.load(Ordering::Relaxed));
        let free = groups.iter().map(free_in).sum();
        let fs = Arc::new_cyclic(|me: &Weak<Ext4>| Ext4 {
            me: PerCpu::new(|_| Arc::new(CachePadded::new(Weak::clone(me)))),
            super_buffer,
            groups,
            cache,
            journal,
            icache: InodeCache::new(
                options.icache,
                options.inodes_max,
                geometry.inodes_per_block,
            ),
            csum,
            bitmap_bytes,
            params: InodeParams::of(&sb),
            generator: Generator::new(options.generation),
            mount_id: MOUNTS.fetch_add(1, Ordering::Relaxed),
            unflushed_evicted: FlushDebt::new(),
            orphans: Orphans::new(&sb),
            lazytime: Arc::new(Lazytime::new()),
            journals_all_data,
            bytes_max: mapping::extents_bytes_max(&sb),
            bytes_max_simple: mapping::bytes_max_simple(&sb),
            host_space: HostSpace::new(device.len()),
            fixed,
            snapshot_budget: extents::Budget::new(options.cache_bytes / 4),
            rename: RenameMutex::new(),
            free_blocks: CachePadded::new(AtomicI64::new(free)),
            pending_frees: CachePadded::new(AtomicI64::new(0)),
            next_top_group: CachePadded::new(AtomicU32::new(0)),
            read_only: AtomicBool::new(options.read_only),
            errors: Errors::new(),
            settings: CachePadded::new(Settings::new(
                &options,
                options.errors.unwrap_or_else(|| sb.raw.errors_behaviour()),
            )),
            trims: Trims::new(),
            mounted: AtomicBool::new(false),
            options,
            sb,
        });
        fs.journal.set_client(Arc::new(Client(Arc::downgrade(&fs))));
        Ok(fs)
    }

    /// Writes into the superblock that the journal needs recovery from now on.
    pub(crate) fn mark_mounted(&self) -> Result<()> {
        let has_log = self.journal.has_log();
        self.mounted.store(true, Ordering::SeqCst);
        let handle = self.journal.start(1)?;
        self.change_superblock(&handle, |raw| {
            let mut ro_compat = raw.ro_compat();
            if raw.compat().contains(Compat::ORPHAN_FILE) {
                ro_compat |= RoCompat::ORPHAN_PRESENT;
            }
            if has_log {
                raw.set_features(raw.compat(), raw.incompat() | Incompat::RECOVER, ro_compat);
            } else {
                raw.set_features(raw.compat(), raw.incompat(), ro_compat);
                raw.state = (raw.state.get() & !uext4_ondisk::STATE_CLEAN).into();
            }
            raw.mnt_count = raw.mnt_count.get().saturating_add(1).into();
            raw.set_mount_time(unix_now());
        })?;
        handle.finish();
        self.journal.sync()?;
        // The log has it; should this write be torn, the next mount finds it there.
        let (block, _) = superblock_place(self.geometry().block_size);
        let content = self.super_buffer.read();
        let offset = self.geometry().block_offset(block);
        self.cache.device().write_at(offset, content.data())?;
        Ok(self.journal.flush_device()?)
    }

    /// Changes the superblock.
    ///
    /// # Journal
    /// One credit.
    fn change_superblock(
        &self,
        handle: &Handle<'_>,
        change: impl FnOnce(&mut RawSuperblock),
    ) -> Result<()> {
        let (_, at) = superblock_place(self.geometry().block_size);
        let mut content = handle.modify(&self.super_buffer)?;
        with_superblock(content.data_mut(), at, |raw| {
            change(raw);
            raw.set_write_time(unix_now());
        });
        Ok(())
    }

    /// Says in the superblock that the file system uses features from now on that it did not have when it
    /// was made, as the kernel does with those that need no more than that.
    ///
    /// # Journal
    /// One credit.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn add_features(
        &self,
        handle: &Handle<'_>,
        compat: Compat,
        ro_compat: RoCompat,
    ) -> Result<()> {
        let (_, at) = superblock_place(self.geometry().block_size);
        let mut content = handle.modify(&self.super_buffer)?;
        with_superblock(content.data_mut(), at, |raw| {
            // The first revision has no features, and fixed values of what the second one says.
            if raw.rev_level.get() == 0 {
                raw.rev_level = 1.into();
                raw.first_ino = self.geometry().first_ino.0.into();
                raw.inode_size = self.geometry().inode_size.into();
            }
            let (compat, ro_compat) = (raw.compat() | compat, raw.ro_compat() | ro_compat);
            raw.set_features(compat, raw.incompat(), ro_compat);
        });
        Ok(())
    }

    /// Writes everything back and leaves the image clean. Operations that run beside it are waited for or fail;
    /// from then on everything that would write fails. References to inodes may remain.
    ///
    /// # Locks
    /// Takes every inode's `ilock` in turn; waits for commits.
    ///
    /// # Errors
    /// The device's, or that the journal was aborted; the image then needs recovery.
    pub fn unmount(&self) -> Result<()> {
        self.lazytime.stop();
        if !self.mounted.swap(false, Ordering::SeqCst) {
            self.journal.stop();
            return Ok(());
        }
        let finished = self.finish();
        self.read_only.store(true, Ordering::SeqCst);
        self.journal.stop();
        finished
    }

    /// Everything in place, and only then the superblock that says so.
    pub(crate) fn finish(&self) -> Result<()> {
        self.write_pending_times(Duration::ZERO)?;
        self.record_errors();
        self.read_only.store(true, Ordering::SeqCst);
        self.wait_for_writers();
        let has_log = self.journal.has_log();
        self.journal.close(|handle| {
            let orphans_left = self.orphans.any_left();
            self.change_superblock(handle, |raw| {
                let mut ro_compat = raw.ro_compat();
                if !orphans_left {
                    ro_compat -= RoCompat::ORPHAN_PRESENT;
                }
                raw.set_features(raw.compat(), raw.incompat() - Incompat::RECOVER, ro_compat);
                if !has_log && raw.error_count.get() == 0 {
                    raw.state = (raw.state.get() | uext4_ondisk::STATE_CLEAN).into();
                }
            })
        })
    }

    /// Waits until nothing writes data any more. Whatever comes later finds, with the `ilock` held, that the file
    /// system is read-only.
    fn wait_for_writers(&self) {
        let mut inodes = Vec::new();
        self.icache.for_each(|inode| inodes.push(Arc::clone(inode)));
        for inode in inodes {
            drop(ilock(&inode.ilock, LockMode::Exclusive));
        }
    }

    /// Stops without writing anything, as a crash would; for tests of recovery.
    pub fn crash(&self) {
        self.mounted.store(false, Ordering::SeqCst);
        self.read_only.store(true, Ordering::SeqCst);
        self.journal
            .abort(JournalError::Aborted("crashed on purpose".into()));
        self.lazytime.stop();
        self.journal.stop();
    }

    /// Makes everything durable that was done before the call.
    ///
    /// # Errors
    /// The device's, or that the journal was aborted.
    pub fn sync(&self) -> Result<()> {
        self.journal.check_aborted()?;
        if self.has_nothing_to_sync() {
            return Ok(());
        }
        self.write_pending_times(Duration::ZERO)?;
        self.record_errors();
        Ok(self.journal.sync()?)
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

    /// Sizes and places.
    #[inline(always)]
    pub fn geometry(&self) -> &Geometry {
        &self.sb.geometry
    }

    /// The superblock as mounted.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// The groups.
    #[inline(always)]
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) fn group(&self, no: GroupNo) -> Result<&Group> {
        self.groups.get(no.0 as usize).ok_or_else(|| {
            Corrupt::new(CorruptKind::BlockRange)
                .detail(format_args!("group {no}"))
                .into()
        })
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

    #[inline]
    pub(crate) fn me(&self) -> Backref {
        Arc::clone(self.me.get())
    }

    /// Bytes of a block.
    #[inline(always)]
    pub(crate) fn block_size(&self) -> u64 {
        u64::from(self.sb.geometry.block_size)
    }

    pub(crate) fn free_blocks_total(&self) -> i64 {
        self.free_blocks.load(Ordering::Relaxed)
    }

    pub(crate) fn reserved_blocks(&self) -> i64 {
        i64::try_from(self.sb.raw.reserved_blocks_count()).unwrap_or(i64::MAX)
    }

    /// Whether the superblock says that the journal needs recovery.
    pub(crate) fn is_mounted(&self) -> bool {
        self.mounted.load(Ordering::SeqCst)
    }

    pub(crate) fn set_mounted(&self, mounted: bool) {
        self.mounted.store(mounted, Ordering::SeqCst);
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

    /// The inode `ino`, from the cache or the disk.
    ///
    /// # Locks
    /// May read from the device and wait for another thread that loads it.
    ///
    /// # Errors
    /// [`Ext4Error::Stale`] if it is not in use, damage, or the device's.
    pub fn get_inode(&self, ino: Ino) -> Result<InodeRef> {
        self.get_inode_with(ino, false)
    }

    /// As [`Ext4::get_inode`], for an orphan, which may have no links.
    pub(crate) fn get_orphan(&self, ino: Ino) -> Result<InodeRef> {
        self.get_inode_with(ino, true)
    }

    fn get_inode_with(&self, ino: Ino, unlinked: bool) -> Result<InodeRef> {
        let mut loaded = false;
        let inode = self.icache.get_or_load(u64::from(ino.0), || {
            loaded = true;
            self.load_inode(ino, unlinked).inspect(Inode::note_xattrs)
        })?;
        let pinned = InodeRef::pin(inode).ok_or(Ext4Error::Stale)?;
        // Not while the number's slot is empty: a create that claimed the number waits for it in a
        // handle, and what must be written first may wait for that handle's transaction.
        if loaded {
            self.limit_icache();
        }
        Ok(pinned)
    }

    /// Lets go of inodes that nobody uses when there are more than the options say.
    ///
    /// # Locks
    /// May start a handle for pending timestamps, so nothing of that rank or below may be held.
    pub(crate) fn limit_icache(&self) {
        let max = self.options.inodes_max;
        if self.icache.len() > max + max / 16 {
            let write = |inode: &Arc<Inode>| {
                if let Err(why) = self.write_pending(inode) {
                    tracing::warn!("inode {}: its timestamps stay in memory: {why}", inode.ino);
                }
            };
            // Data that the device may still cache counts for all from now on.
            let evict = |inode: &Arc<Inode>| {
                if inode.unflushed.due().is_some() {
                    self.unflushed_evicted.add();
                }
            };
            self.icache.shrink(max, 256, write, evict);
        }
    }

    /// How many inodes are in memory.
    pub fn cached_inodes(&self) -> usize {
        self.icache.len()
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        if self.mounted.load(Ordering::SeqCst)
            && let Err(why) = self.unmount()
        {
            tracing::error!("not unmounted cleanly: {why}");
        }
        self.lazytime.stop();
        self.journal.stop();
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

pub(crate) fn check_features(sb: &Superblock, options: &mut MountOptions) -> Result<()> {
    let unknown = sb.incompat - WRITES_INCOMPAT;
    if !unknown.is_empty() {
        return Err(uext4_ondisk::FormatError::UnsupportedIncompat(unknown.describe()).into());
    }
    let read_only = sb.ro_compat - READS_RO_COMPAT;
    if !read_only.is_empty() && !options.read_only {
        tracing::warn!(
            "mounted read-only: unsupported features {}",
            read_only.describe()
        );
        options.read_only = true;
    }
    // What changed in a block of the inode table is kept in as many bits.
    if sb.geometry.inodes_per_block > 64 && !options.read_only {
        tracing::warn!("mounted read-only: more than 64 inodes in a block");
        options.read_only = true;
    }
    Ok(())
}

fn check_size(sb: &Superblock, device: &dyn BlockDevice) -> Result<()> {
    let blocks = device.len() / u64::from(sb.geometry.block_size);
    if sb.geometry.blocks_count > blocks {
        return Err(uext4_ondisk::FormatError::BadGeometry {
            what: "the number of blocks, more than the device holds,",
            value: sb.geometry.blocks_count,
        }
        .into());
    }
    Ok(())
}

fn load_groups(sb: &Superblock, cache: &BufferCache, csum: GroupCsum) -> Result<Vec<Group>> {
    let geometry = &sb.geometry;
    let mut groups = Vec::new();
    for no in (0..geometry.groups_count).map(GroupNo) {
        let (block, at) = geometry.group_desc_location(no);
        let buffer = cache.get(block.0)?;
        if at == 0 {
            kinds::take(&buffer, kinds::DESCRIPTORS, no.0)?;
        }
        let content = buffer.read();
        let raw = content
            .data()
            .get(at..at + usize::from(geometry.desc_size))
            .unwrap_or(&[]);
        csum.verify_desc(no, raw).map_err(|e| e.pblk(block))?;
        let desc = GroupDesc::decode(raw)?;
        desc.validate(geometry, no).map_err(|e| e.pblk(block))?;
        drop(content);
        groups.push(Group::new(no, desc, buffer));
    }
    Ok(groups)
}

/// Where the journal lies, if there is one.
fn find_log(
    sb: &Superblock,
    device: &Arc<dyn BlockDevice>,
    journal_device: Option<&Arc<dyn BlockDevice>>,
    options: &MountOptions,
) -> Result<Option<LogMap>> {
    if !sb.compat.contains(Compat::HAS_JOURNAL) {
        return Ok(None);
    }
    let ino = Ino(sb.raw.journal_inum.get());
    if ino == Ino::NONE {
        return external_journal::find(sb, journal_device, options);
    }
    let block_size = sb.geometry.block_size as usize;
    let cache = BufferCache::new(Arc::clone(device), block_size, 64);
    let (no, index) = sb.geometry.group_of_ino(ino)?;
    let (desc_block, desc_at) = sb.geometry.group_desc_location(no);
    let desc_size = usize::from(sb.geometry.desc_size);
    let desc = cache.with(desc_block.0, |content| {
        GroupDesc::decode(
            content
                .data()
                .get(desc_at..desc_at + desc_size)
                .unwrap_or(&[]),
        )
    })??;
    desc.validate(&sb.geometry, no)
        .map_err(|e| e.pblk(desc_block))?;
    let (block, at) = sb.geometry.itable_position(index);
    let params = InodeParams::of(sb);
    let place = desc.inode_table.0 + u64::from(block);
    let inode = cache.with(place, |content| {
        let end = at + usize::from(params.inode_size);
        uext4_ondisk::Inode::decode(content.data().get(at..end).unwrap_or(&[]), &params)
    })?;
    let inode = inode.map_err(|e| e.ino(ino))?;
    let seed = sb
        .has_metadata_csum()
        .then(|| inode.seed(sb.csum_seed, ino));
    let mut runs = Vec::new();
    mapping::walk(
        &cache,
        &inode,
        sb.geometry.block_bounds(),
        seed,
        ino,
        &mut |e| {
            runs.push(LogRun {
                first: e.lblk.0,
                pblk: e.pblk.0,
                len: u32::from(e.len),
            });
        },
    )?;
    let damage = |what: &str| {
        Corrupt::new(CorruptKind::JournalMaxLen)
            .ino(ino)
            .detail(what)
    };
    let mut next = Some(0);
    for run in &runs {
        if Some(run.first) != next {
            return Err(damage("a hole").into());
        }
        next = run.first.checked_add(run.len);
    }
    // A block that is in the log twice would make it longer than the device, and be overwritten.
    let mut places: Vec<_> = runs
        .iter()
        .map(|r| (r.pblk, r.pblk + u64::from(r.len)))
        .collect();
    places.sort_unstable();
    if places
        .windows(2)
        .any(|pair| matches!(pair, [(_, end), (first, _)] if first < end))
    {
        return Err(damage("a block twice").into());
    }
    Ok(Some(LogMap::new(Arc::clone(device), block_size, runs)))
}

/// Refuses a log that lies over the file system's own blocks.
fn check_log_apart(log: &LogMap, fixed: &FixedBlocks) -> Result<()> {
    let over = log
        .runs()
        .iter()
        .find(|run| fixed.overlaps(Pblk(run.pblk), u64::from(run.len)));
    match over {
        Some(run) => Err(Corrupt::new(CorruptKind::ExtentFixed)
            .pblk(Pblk(run.pblk))
            .detail("the journal")
            .into()),
        None => Ok(()),
    }
}

fn open_journal(
    sb: &Superblock,
    cache: &Arc<BufferCache>,
    log: Option<LogMap>,
    options: &MountOptions,
    start: Start,
) -> Result<Arc<Journal>> {
    let journal_options = JournalOptions {
        commit_interval: options.commit_interval,
        barrier: options.barrier,
        delay: options.journal_delay,
    };
    match log {
        Some(map) if !options.read_only => {
            let features = uext4_jbd2::LogFeatures {
                checksums: sb.has_metadata_csum(),
                wide: sb.incompat.contains(Incompat::BIT64),
                fast_commits: sb.compat.contains(Compat::FAST_COMMIT),
            };
            let cache = Arc::clone(cache);
            Ok(match start {
                Start::Mount => Journal::open(cache, map, features, journal_options)?,
                Start::FastCommits => {
                    Journal::open_after_recovery(cache, map, features, journal_options)?
                }
            })
        }
        _ => Ok(Journal::without_log(Arc::clone(cache), journal_options)),
    }
}

//! An inode in memory.
//!
//! # Data model
//! The decoded inode is the truth; every change is encoded into the inode-table block before its
//! handle stops (`InodeTable::update_inode`), so that an inode in the cache never holds anything unwritten
//! but timestamps, with `lazytime`.
//! In-inode extended attributes live in that block only.
//!
//! # Invariants
//! - `pins` counts the references that `InodeRef` hands out. `DEAD` is set, once and for good,
//!   when the inode is being deleted; no reference is handed out after that.
//! - An inode with links is evicted from memory, one without is deleted, when the last reference is dropped.
//!
//! # Locking
//! `ilock` (classes `dir_ilock`, `ilock`) excludes changes of entries, size and layout; `map` (class `extent_map`)
//! guards the block mapping; `xattr` the attributes; `state` (class `inode_state`) the decoded inode, for moments. The
//! inode-table block is locked before `state`. What many threads read (the size, by `Inode::size`; the clock tick of the
//! last change; the mapping; what stat(2) shows; extended attributes) is also published where no lock is needed.
//!
//! | module | holds |
//! | --- | --- |
//! | `reference` | counted references, and what deletes an inode |
//! | `attr_copy` | what stat(2) shows, read without a lock |
//! | `snapshot` | a copy of what a lock guards, of any size, read without the lock |
//! | `map_snapshot` | the same of the mapping |
//! | `xattr_snapshot` | the same of the extended attributes |
//! | `direct_state` | what direct I/O keeps |
//! | `checked_file` | what reads with fs-verity are checked with |
//! | `unflushed_writes` | data that the device may still cache |
//! | `acl_cache` | which access control lists and capabilities it has |
//! | `directory_blocks` | the blocks of a directory that were used |

pub(crate) mod acl_cache;
mod attr_copy;
pub(crate) mod checked_file;
mod direct_state;
pub(crate) mod directory_blocks;
pub(crate) mod map_snapshot;
pub(crate) mod reference;
pub(crate) mod snapshot;
pub(crate) mod unflushed_writes;
pub(crate) mod xattr_snapshot;

use crate::clock::now_s;
use crate::inode::acl_cache::AclCache;
use crate::inode::attr_copy::AttrCopy;
use crate::inode::checked_file::CheckedFile;
use crate::inode::direct_state::DirectState;
use crate::inode::directory_blocks::DirBlocks;
use crate::inode::map_snapshot::MapSnapshot;
use crate::inode::reference::{InodeOwner, Owner};
use crate::inode::unflushed_writes::UnflushedWrites;
use crate::inode::xattr_snapshot::XattrSnapshot;
use crate::prelude::*;
use uext4_sync::{MutexGuard, RwLock};
use uext4_vfs::icache::CachedInode;
use uext4_vfs::ilock::ILock;

/// A cached inode; see the module. The padding at both ends keeps other data, also its reference count, off its cache
/// lines. An alignment would do the same, but allocating with one takes longer.
#[derive(Debug)]
#[repr(C)]
pub struct Inode {
    /// References; on the line of the `Arc`'s own count, which changes with it.
    pins: AtomicU32,
    _before: [u64; APART_WORDS],
    /// Its number; immutable.
    pub ino: Ino,
    /// What it is; immutable.
    pub file_type: FileType,
    owner: Owner,
    /// The inode lock.
    pub ilock: ILock,
    /// The block of the inode table, and the byte and slot in it; immutable.
    pub itable: Arc<Buffer>,
    offset: usize,
    slot: u32,
    params: InodeParams,
    /// The decoded inode.
    state: Mutex<uext4_ondisk::Inode>,
    /// What stat(2) shows of `state`.
    pub(crate) attr: AttrCopy,
    /// Of `state`, for readers: the size, and the time of the last change of data.
    size: AtomicU64,
    mtime_tick: AtomicU64,
    /// Of `state`: the flags.
    flags: AtomicU32,
    /// When it was last seen that the access time needs no change, or had one.
    atime_tick: AtomicU64,
    /// The block mapping in `i_block` and below.
    pub map: RwLock<MapTree>,
    /// The same, to look up without a lock.
    pub(crate) snapshot: MapSnapshot,
    /// What direct I/O keeps, once there was some.
    direct: OnceLock<Box<DirectState>>,
    /// What reads are checked with, once one was, of a file with fs-verity.
    checked: OnceLock<Box<CheckedFile>>,
    /// The extended attributes.
    pub xattr: Mutex<XattrLists>,
    /// The same, to look up without a lock.
    pub(crate) xattr_snapshot: XattrSnapshot,
    /// What is known of the attributes that restrict access.
    pub(crate) acls: AclCache,
    /// No link is left: the last reference deletes it.
    unlinked: AtomicBool,
    /// Made without a name, and may get one though it has no link. Changed with `ilock` held alone.
    unnamed: AtomicBool,
    /// The last transaction that changed anything, and one that `fdatasync` must wait for.
    tid: AtomicU64,
    data_tid: AtomicU64,
    /// Overwritten data that the device may not have made durable.
    pub(crate) unflushed: UnflushedWrites,
    /// Since when a timestamp is in `state` only, in seconds since 1970, or 0. Changed under `state`.
    pending_since: AtomicU32,
    /// The seed of checksums of blocks it owns. Changed with `map` held alone.
    seed: AtomicU32,
    /// The blocks of a directory, as far as they were used.
    blocks: OnceLock<Box<DirBlocks>>,
    /// The group where a directory's last child found room; [`NO_GROUP`] for its own.
    alloc_group: AtomicU32,
    /// Its slot in the orphan file plus one, 0 for none. Changed by `orphans`, with `ilock` held alone or by the last
    /// reference.
    pub(crate) orphan_slot: AtomicU32,
    _apart: [u64; APART_WORDS],
}

/// The block mapping of an inode: `i_block` and the blocks below it. They are buffers, so a guard of the lock gives no
/// data but proves access.
#[derive(Debug)]
pub struct MapTree(());

/// The lists of extended attributes of an inode: in its table block and in a block of their own. They are buffers, so a
/// guard of the lock gives no data but proves access.
#[derive(Debug)]
pub struct XattrLists(());

/// A cache line.
const APART_WORDS: usize = 8;

/// No group.
const NO_GROUP: u32 = u32::MAX;

/// Where an inode lies in its table.
#[derive(Clone, Debug)]
pub struct InodePlace {
    /// The block of the inode table.
    pub buffer: Arc<Buffer>,
    /// The byte in it.
    pub offset: usize,
    /// Which inode of the block it is.
    pub slot: u32,
}

impl InodePlace {
    /// The bytes of the inode in its block, whose `content` is given.
    pub fn raw_mut<'c>(
        &self,
        content: &'c mut BufferWrite<'_>,
        params: &InodeParams,
    ) -> &'c mut [u8] {
        let end = self.offset + usize::from(params.inode_size);
        let data = content.data_mut();
        &mut data[self.offset..end]
    }
}

impl Inode {
    /// An inode as decoded from `place`, or as it will be encoded there.
    #[inline]
    pub fn new(
        owner: Owner,
        ino: Ino,
        place: InodePlace,
        disk: uext4_ondisk::Inode,
        params: InodeParams,
        seed: InodeSeed,
    ) -> Inode {
        let file_type = disk.file_type();
        // A former reference may have changed it in a transaction that still runs.
        let tid = place.buffer.tid();
        Inode {
            pins: AtomicU32::new(0),
            ino,
            file_type,
            owner,
            ilock: ILock::new(u64::from(ino.0), kind_of(file_type)),
            itable: place.buffer,
            offset: place.offset,
            slot: place.slot,
            params,
            unlinked: AtomicBool::new(disk.links == 0),
            unnamed: AtomicBool::new(false),
            size: AtomicU64::new(disk.size),
            mtime_tick: AtomicU64::new(tick(disk.mtime)),
            flags: AtomicU32::new(disk.flags.bits()),
            atime_tick: AtomicU64::new(NO_TICK),
            state: Mutex::new(&class::INODE_STATE, disk),
            attr: AttrCopy::new(),
            map: RwLock::new(&class::EXTENT_MAP, MapTree(())),
            snapshot: MapSnapshot::new(),
            direct: OnceLock::new(),
            checked: OnceLock::new(),
            xattr: Mutex::new(&class::XATTR, XattrLists(())),
            xattr_snapshot: XattrSnapshot::new(),
            acls: AclCache::new(),
            tid: AtomicU64::new(tid),
            data_tid: AtomicU64::new(tid),
            unflushed: UnflushedWrites::new(),
            pending_since: AtomicU32::new(0),
            seed: AtomicU32::new(seed.0),
            blocks: OnceLock::new(),
            alloc_group: AtomicU32::new(NO_GROUP),
            orphan_slot: AtomicU32::new(0),
            _before: [0; APART_WORDS],
            _apart: [0; APART_WORDS],
        }
    }

    /// The decoded inode, to read.
    ///
    /// # Locks
    /// A leaf: hold it for a moment only.
    #[inline]
    pub fn state(&self) -> MutexGuard<'_, uext4_ondisk::Inode> {
        self.state.lock()
    }

    /// Changes the timestamps in memory; they are pending from now on. If none were, `remember` is
    /// called before the change is visible, so that a thread that saw it and syncs writes it.
    ///
    /// # Locks
    /// Takes the inode's state, and under it what `remember` takes.
    pub(crate) fn set_times_lazily(
        &self,
        change: impl FnOnce(&mut uext4_ondisk::Inode),
        remember: impl FnOnce(),
    ) {
        let mut state = self.state.lock();
        change(&mut state);
        self.mirror(&state);
        self.round_times(&mut state);
        if self.pending_since.load(Ordering::Relaxed) == 0 {
            let now = now_s().max(1);
            self.pending_since.store(now, Ordering::Relaxed);
            self.itable.add_hint(self.slot_bit());
            remember();
        }
    }

    /// Shows what changed in the state to readers without its lock.
    #[inline]
    fn mirror(&self, state: &uext4_ondisk::Inode) {
        // First: a thread that sees the new size finds no attributes from before.
        self.attr.changed();
        // Hardly ever both: a line that readers share is written only when it changes.
        if self.size.load(Ordering::Relaxed) != state.size {
            self.size.store(state.size, Ordering::Release);
        }
        let mtime = tick(state.mtime);
        if self.mtime_tick.load(Ordering::Relaxed) != mtime {
            self.mtime_tick.store(mtime, Ordering::Release);
        }
        let flags = state.flags.bits();
        if self.flags.load(Ordering::Relaxed) != flags {
            self.flags.store(flags, Ordering::Release);
        }
        if self.atime_tick.load(Ordering::Relaxed) != NO_TICK {
            self.atime_tick.store(NO_TICK, Ordering::Relaxed);
        }
    }

    /// Keeps of the times what an inode without room for more than seconds holds of them, so that they read the same
    /// from memory as from disk.
    #[inline]
    fn round_times(&self, state: &mut uext4_ondisk::Inode) {
        if usize::from(self.params.inode_size) > GOOD_OLD_INODE_SIZE {
            return;
        }
        for time in [&mut state.atime, &mut state.mtime, &mut state.ctime] {
            let sec = time.sec.clamp(Timestamp::MIN_SEC, Timestamp::MAX_SEC_SHORT);
            *time = Timestamp::new(sec, 0);
        }
    }

    /// Whether the data's last change is noted as of `time`.
    #[inline]
    pub(crate) fn is_changed_at(&self, time: Timestamp) -> bool {
        self.mtime_tick.load(Ordering::Acquire) == tick(time)
    }

    /// Whether the access time was checked as of `time`, and nothing changed since.
    #[inline]
    pub(crate) fn is_read_at(&self, time: Timestamp) -> bool {
        self.atime_tick.load(Ordering::Relaxed) == tick(time)
    }

    /// Says that the access time is as it should be as of `time`.
    #[inline]
    pub(crate) fn set_read_at(&self, time: Timestamp) {
        self.atime_tick.store(tick(time), Ordering::Relaxed);
    }

    /// What direct I/O keeps for this inode.
    pub(crate) fn direct(&self) -> &DirectState {
        self.direct.get_or_init(Box::default)
    }

    /// What reads of a file with fs-verity are checked with; `make` makes it for the first.
    ///
    /// # Errors
    /// What `make` returns.
    pub(crate) fn checked_file(
        &self,
        make: impl FnOnce() -> Result<CheckedFile>,
    ) -> Result<&CheckedFile> {
        if let Some(file) = self.checked.get() {
            return Ok(file);
        }
        let file = Box::new(make()?);
        Ok(self.checked.get_or_init(|| file))
    }

    /// Since when a timestamp waits to be written, in seconds since 1970; 0 for none.
    #[inline]
    pub(crate) fn pending_since(&self) -> u32 {
        self.pending_since.load(Ordering::Relaxed)
    }

    /// Encodes the decoded inode into its block if timestamps are pending, as part of `handle`. Does
    /// nothing for an inode that was deleted, whose number may be another's by now: what deleted it
    /// has written it.
    ///
    /// # Locks
    /// `content` proves the inode-table block's. With `nowait` gives up if the state is locked.
    pub(crate) fn write_pending(
        &self,
        handle: &Handle<'_>,
        content: &mut BufferWrite<'_>,
        nowait: bool,
    ) {
        if self.pending_since() == 0 {
            return;
        }
        let state = if nowait {
            self.state.try_lock()
        } else {
            Some(self.state.lock())
        };
        if let Some(state) = state
            && self.pending_since() != 0
        {
            // First: a thread that finds nothing pending finds the transaction that has it.
            self.touch(handle);
            self.encode(&state, content.data_mut());
        }
    }

    /// Changes the decoded inode and encodes it into its block, as part of `handle`.
    ///
    /// # Locks
    /// `content` proves the inode-table block's; takes the inode's state.
    pub(crate) fn change<R>(
        &self,
        handle: &Handle<'_>,
        content: &mut BufferWrite<'_>,
        change: impl FnOnce(&mut uext4_ondisk::Inode) -> R,
    ) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.mirror(&state);
        self.round_times(&mut state);
        // First: a thread that finds nothing pending finds the transaction that has it.
        self.touch(handle);
        self.encode(&state, content.data_mut());
        result
    }

    fn encode(&self, state: &uext4_ondisk::Inode, data: &mut [u8]) {
        let end = self.offset + usize::from(self.params.inode_size);
        if let Some(raw) = data.get_mut(self.offset..end) {
            state.encode_into(raw, &self.params);
            self.itable.mark_dirty(self.slot);
        }
        if self.pending_since() != 0 {
            self.pending_since.store(0, Ordering::Relaxed);
            self.itable.clear_hint(self.slot_bit());
        }
    }

    /// The bit of the inode-table block's hint that says that timestamps of this inode are pending;
    /// more inodes than bits share them.
    fn slot_bit(&self) -> u32 {
        1 << (self.slot % 32)
    }

    /// Changes the raw bytes of the inode in its table: all of `inode_size`, for what the decoded
    /// inode does not have (in-inode attributes).
    ///
    /// # Locks
    /// Takes the inode-table block. The caller holds what guards the bytes it changes.
    ///
    /// # Errors
    /// The journal's.
    pub fn update_raw<R>(
        &self,
        handle: &Handle<'_>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let mut content = handle.modify(&self.itable)?;
        let result = change(self.raw_in(&mut content));
        self.itable.mark_dirty(self.slot);
        drop(content);
        self.touch(handle);
        Ok(result)
    }

    /// The raw bytes of the inode in its table, whose block's `content` is given.
    pub(crate) fn raw_in<'c>(&self, content: &'c mut BufferWrite<'_>) -> &'c mut [u8] {
        let end = self.offset + usize::from(self.params.inode_size);
        let data = content.data_mut();
        &mut data[self.offset..end]
    }

    /// Runs `f` on the raw bytes of the inode in its table.
    pub fn with_raw<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        let content = self.itable.read();
        let end = self.offset + usize::from(self.params.inode_size);
        f(&content.data()[self.offset..end])
    }

    /// Where it lies in its table.
    pub(crate) fn place(&self) -> InodePlace {
        InodePlace {
            buffer: Arc::clone(&self.itable),
            offset: self.offset,
            slot: self.slot,
        }
    }

    /// Where its bytes are on the device, whose blocks have `block` bytes.
    pub(crate) fn place_bytes(&self, block: u64) -> u64 {
        self.itable.block() * block + self.offset as u64
    }

    /// Notes of an inode just read that it has no extended attributes, if so.
    pub(crate) fn note_xattrs(&self) {
        let none_in_body = || self.with_raw(|raw| matches!(XattrArea::in_inode(raw), Ok(None)));
        if self.state().file_acl == Pblk(0) && none_in_body() {
            self.acls.set_none();
        }
    }

    /// Remembers that `handle`'s transaction changed the inode, so that fsync waits for it.
    #[inline]
    pub fn touch(&self, handle: &Handle<'_>) {
        if self.tid.load(Ordering::Relaxed) != handle.tid() {
            self.tid.fetch_max(handle.tid(), Ordering::Relaxed);
        }
    }

    /// Remembers that `handle`'s transaction changed what fdatasync makes durable: size or mapping.
    #[inline]
    pub fn touch_data(&self, handle: &Handle<'_>) {
        self.touch(handle);
        if self.data_tid.load(Ordering::Relaxed) != handle.tid() {
            self.data_tid.fetch_max(handle.tid(), Ordering::Relaxed);
        }
    }

    /// The transaction that fsync (or fdatasync) waits for; 0 for none.
    pub fn sync_tid(&self, data_only: bool) -> u64 {
        if data_only {
            self.data_tid.load(Ordering::Relaxed)
        } else {
            self.tid.load(Ordering::Relaxed)
        }
    }

    /// The blocks of a directory that are remembered.
    pub fn blocks(&self) -> &DirBlocks {
        self.blocks.get_or_init(Box::default)
    }

    /// The group where a directory's last child found room, if that is not its own.
    pub fn alloc_group(&self) -> Option<GroupNo> {
        match self.alloc_group.load(Ordering::Relaxed) {
            NO_GROUP => None,
            no => Some(GroupNo(no)),
        }
    }

    /// Says where a child found room.
    pub fn set_alloc_group(&self, no: GroupNo) {
        self.alloc_group.store(no.0, Ordering::Relaxed);
    }

    /// The seed of checksums of blocks it owns.
    pub fn seed(&self) -> InodeSeed {
        InodeSeed(self.seed.load(Ordering::Relaxed))
    }

    /// Says that its generation changed, and so the seed of what it owns.
    pub(crate) fn set_seed(&self, _tree: &mut MapTree, seed: InodeSeed) {
        self.seed.store(seed.0, Ordering::Relaxed);
    }

    /// The generation it has now.
    pub fn generation(&self) -> Generation {
        self.state.lock().generation
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// The last published size in bytes, without a lock. It cannot change while the caller holds `ilock` exclusively, and can only
    /// grow while the caller shares it.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Whether it is mapped by extents, and not by a block map. Changes with `ilock` held alone.
    #[inline]
    pub(crate) fn has_extents(&self) -> bool {
        self.flags().contains(InodeFlags::EXTENTS)
    }

    /// Whether it holds an attribute's value, and is not a file; see [`crate::attributes::xattr`].
    #[inline]
    pub(crate) fn holds_value(&self) -> bool {
        self.flags().contains(InodeFlags::EA_INODE)
    }

    /// Whether its data is in the inode itself. Changes with `ilock` held alone.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.flags().contains(InodeFlags::INLINE_DATA)
    }

    /// Whether it is a regular file whose data is journalled by its flag. Changes with `ilock` held
    /// alone.
    #[inline]
    pub(crate) fn has_journal_flag(&self) -> bool {
        self.flags().contains(InodeFlags::JOURNAL_DATA) && self.file_type == FileType::Regular
    }

    /// The flags.
    #[inline]
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.flags.load(Ordering::Acquire))
    }

    /// The parameters that decide how it is encoded.
    pub fn params(&self) -> &InodeParams {
        &self.params
    }

    /// What deletes it, unless the file system was closed.
    fn owner(&self) -> Option<Arc<dyn InodeOwner>> {
        self.owner.upgrade()
    }

    /// Says that no link is left, or that there is one again.
    pub fn set_unlinked(&self, unlinked: bool) {
        self.unlinked.store(unlinked, Ordering::SeqCst);
    }

    /// Says that it was made without a name, or that it has one.
    pub(crate) fn set_unnamed(&self, unnamed: bool) {
        self.unnamed.store(unnamed, Ordering::Relaxed);
    }

    /// Whether it was made without a name and never had one.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.load(Ordering::Relaxed)
    }

    /// Whether no link is left.
    pub fn is_unlinked(&self) -> bool {
        self.unlinked.load(Ordering::SeqCst)
    }
}

impl CachedInode for Inode {
    fn ino(&self) -> u64 {
        u64::from(self.ino.0)
    }

    fn may_evict(&self) -> bool {
        self.pins.load(Ordering::SeqCst) == 0
            && !self.is_unlinked()
            && self.orphan_slot.load(Ordering::Relaxed) == 0
    }

    fn needs_write(&self) -> bool {
        self.pending_since() != 0
    }

    fn has_pending_times(&self) -> bool {
        self.pending_since() != 0
    }
}

/// The kind of a file as front ends name it; what is not known counts as regular.
pub fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::CharDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::Regular | FileType::Unknown => FileKind::Regular,
    }
}

/// No clock tick.
const NO_TICK: u64 = u64::MAX;

/// A time as a number, to be compared.
fn tick(time: Timestamp) -> u64 {
    (time.sec as u64) << 30 | u64::from(time.nsec)
}

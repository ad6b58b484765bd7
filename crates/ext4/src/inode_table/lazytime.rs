//! Mechanism 3, the file system's side: timestamps that stay in memory.
//!
//! # Data model
//! With `lazytime` a change of nothing but timestamps changes the decoded inode only: they are *pending*.
//! Five reasons write them: the inode is written anyway; another inode of the same inode-table block
//! is, and looks its neighbours up (`InodeTable::write_pending_neighbours`); a sync, of the file or of all;
//! the inode's eviction from memory; and their age.
//!
//! # Invariants
//! * An inode with pending timestamps is in the set of its file system until they are written.
//! * A writer checks under the lock of the inode-table block whether they still are pending. An
//!   inode that was deleted has none, so that no writer overwrites the number's next inode.
//!
//! # Locking
//! The inode-table block, then the inode's state. The sets are leaves. A look-up of neighbours is a hint:
//! but in the `global` and `global-hint` variants of the inode cache it never waits, and a neighbour whose state is locked is
//! left for later. The hint word of the block's buffer says which inodes of it have pending timestamps; where none
//! has, `per-bucket` and `global-hint` look nothing up. The other variants do not ask.

use crate::clock::{now, now_s};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inode_table::InodeTable;
use crate::options::AtimeUpdate;
use crate::prelude::*;
use uext4_sync::thread;

/// The inodes with pending timestamps, and the thread that writes those that get too old.
#[derive(Debug)]
pub(crate) struct Lazytime {
    pending: PerCpu<Mutex<HashSet<Ino>>>,
    /// Inodes that were taken out of the sets and are neither written nor back.
    writing: Mutex<Vec<Ino>>,
    stop: Mutex<bool>,
    stopping: Condvar,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Lazytime {
    pub fn new() -> Lazytime {
        Lazytime {
            pending: PerCpu::new(|_| Mutex::new(&class::LAZYTIME, HashSet::new())),
            writing: Mutex::new(&class::LAZYTIME_WRITE, Vec::new()),
            stop: Mutex::new(&class::LAZYTIME, false),
            stopping: Condvar::new(),
            thread: Mutex::new(&class::LAZYTIME, None),
        }
    }

    fn add(&self, ino: Ino) {
        self.pending.get().lock().insert(ino);
    }

    fn take(&self, to: &mut Vec<Ino>) {
        for set in self.pending.iter() {
            to.extend(set.lock().drain());
        }
    }

    /// Starts the thread that writes what is older than `age_max`, unless it runs.
    fn start(&self, table: Weak<InodeTable>, age_max: Duration) {
        if self.thread.lock().is_some() {
            return;
        }
        let spawned = thread::Builder::new()
            .name("uext4-writeback".into())
            .spawn(move || write_old(&table, age_max));
        match spawned {
            Ok(thread) => *self.thread.lock() = Some(thread),
            Err(why) => {
                tracing::warn!("old timestamps wait for a sync, as no thread starts: {why}")
            }
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        *self.stop.lock() = true;
        self.stopping.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            // It only logs what goes wrong.
            let _ = thread.join();
        }
    }

    /// Waits for the next round; false when there is none.
    fn wait(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.stopping.wait_for(&mut stop, time);
        }
        !*stop
    }
}

/// Writes pending timestamps at an age between `age_max` and its half more, until the file system is closed.
fn write_old(table: &Weak<InodeTable>, age_max: Duration) {
    let round = (age_max / 2).max(Duration::from_millis(1));
    let Some(lazytime) = table.upgrade().map(|table| Arc::clone(&table.lazytime)) else {
        return;
    };
    while lazytime.wait(round) {
        let Some(table) = table.upgrade() else { return };
        // What is due while the file system is frozen is written in a later round.
        let Some(_change) = table.volume.freeze.try_change() else {
            continue;
        };
        if let Err(why) = table.write_pending_times(age_max) {
            tracing::warn!("cannot write timestamps: {why}");
        }
    }
}

impl InodeTable {
    /// Starts the thread that writes timestamps that are too old, unless it runs.
    pub(crate) fn start_writeback(self: &Arc<Self>) {
        let age_max = self.volume.options.lazytime_max_age;
        self.lazytime.start(Arc::downgrade(self), age_max);
    }

    /// Writes the pending timestamps of the other inodes in the block of `ino`, which is being written.
    ///
    /// # Locks
    /// `content` is the block's. Waits for nothing but, in the variants with one lock, the inode cache.
    #[inline]
    pub(crate) fn write_pending_neighbours(
        &self,
        handle: &Handle<'_>,
        content: &mut BufferWrite<'_>,
        buffer: &Arc<Buffer>,
        ino: Ino,
    ) {
        if !self.volume.settings.may_have_pending() {
            return;
        }
        if self.volume.options.icache.asks_block() && buffer.hint() == 0 {
            return;
        }
        let block = self.icache.block_of(u64::from(ino.0));
        self.icache.hint(block, |other: &Arc<Inode>| {
            if other.ino != ino && Arc::ptr_eq(&other.itable, buffer) {
                handle.never_describe();
                other.write_pending(handle, content, true);
            }
        });
    }

    /// Changes nothing but timestamps: at once, or with `lazytime` in memory. `change` reads the clock
    /// itself, as the inode's state is locked then: otherwise the time of a slower thread would
    /// replace a later one.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn change_times(
        &self,
        inode: &Inode,
        change: impl FnOnce(&mut uext4_ondisk::Inode),
    ) -> Result<()> {
        if self.volume.settings.lazytime() {
            inode.set_times_lazily(change, || self.lazytime.add(inode.ino));
            return Ok(());
        }
        self.volume.with_handle(1, |handle| {
            self.update_inode(inode, handle, change)?;
            self.volume.fast.note_times(handle, inode);
            Ok(())
        })
    }

    /// As [`InodeTable::change_times`], but false where it would have to wait, and then nothing changed.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn change_times_nowait(
        &self,
        inode: &Inode,
        change: impl FnOnce(&mut uext4_ondisk::Inode),
    ) -> Result<bool> {
        if self.volume.settings.lazytime() {
            inode.set_times_lazily(change, || self.lazytime.add(inode.ino));
            return Ok(true);
        }
        let Some(handle) = self.volume.journal().try_start(1)? else {
            return Ok(false);
        };
        let Some(content) = handle.try_modify(&inode.itable)? else {
            return Ok(false);
        };
        self.update_inode_in(inode, &handle, content, change);
        self.volume.fast.note_times(&handle, inode);
        handle.finish();
        Ok(true)
    }

    /// Notes that `inode` was read, as the mount's rule for access times says. What goes wrong with
    /// that does not concern the reader.
    pub(crate) fn touch_atime(&self, inode: &InodeRef) {
        let update = self.volume.settings.atime();
        let is_never =
            update == AtimeUpdate::Never || inode.is_dir() && self.volume.settings.nodiratime();
        if is_never || self.volume.is_read_only() {
            return;
        }
        let time = now();
        if inode.is_read_at(time) {
            return;
        }
        {
            let state = inode.state();
            let is_due = update == AtimeUpdate::Strict
                || state.atime <= state.mtime
                || state.atime <= state.ctime
                || time.sec.saturating_sub(state.atime.sec) >= 24 * 60 * 60;
            if !is_due || state.atime == time || state.flags.contains(InodeFlags::NOATIME) {
                inode.set_read_at(time);
                return;
            }
        }
        // In memory it changes also while the file system is frozen.
        let change = self.volume.freeze.try_change();
        if change.is_none() && !self.volume.settings.lazytime() {
            return;
        }
        if let Err(why) = self.change_times(inode, |disk| disk.atime = now()) {
            tracing::debug!("inode {}: access time not updated: {why}", inode.ino);
        }
    }

    /// Whether an inode has timestamps that are in memory only.
    pub fn has_pending_times(&self, inode: &Inode) -> bool {
        inode.pending_since() != 0
    }

    /// Writes an inode's pending timestamps, if it has some.
    ///
    /// # Locks
    /// Starts a handle, so nothing of that rank or below may be held.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn write_pending(&self, inode: &Inode) -> Result<()> {
        if inode.pending_since() == 0 {
            return Ok(());
        }
        self.volume.with_handle(1, |handle| {
            let mut content = handle.modify(&inode.itable)?;
            inode.write_pending(handle, &mut content, false);
            self.write_pending_neighbours(handle, &mut content, &inode.itable, inode.ino);
            self.volume.fast.note_times(handle, inode);
            Ok(())
        })
    }

    /// Writes all pending timestamps that are at least `age` old, and waits for those that another
    /// thread is writing.
    ///
    /// # Locks
    /// Takes `lazytime_write`, and starts handles under it.
    ///
    /// # Errors
    /// The journal's; what was not written is still pending.
    pub(crate) fn write_pending_times(&self, age: Duration) -> Result<()> {
        if !self.volume.settings.may_have_pending() {
            return Ok(());
        }
        let mut result = Ok(());
        let mut writing = self.lazytime.writing.lock();
        self.lazytime.take(&mut writing);
        // Those of one block follow each other, and a simulation does the same again.
        writing.sort_unstable_by_key(|ino| ino.0);
        for ino in writing.drain(..) {
            let Some(inode) = self.icache.find(u64::from(ino.0)) else {
                continue;
            };
            let since = inode.pending_since();
            let is_young = u64::from(now_s().saturating_sub(since)) < age.as_secs();
            if since != 0 && (is_young || result.is_err()) {
                self.lazytime.add(ino);
            } else if let Err(why) = self.write_pending(&inode) {
                self.lazytime.add(ino);
                result = Err(why);
            }
        }
        result
    }
}

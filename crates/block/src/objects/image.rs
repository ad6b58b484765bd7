//! An image that is open: what it holds, and what was written to it.
//!
//! # Locking
//! `edges`, then `view` and, of changes, a shard. `lease` before `view`; `flushes` is never held with them. None is held over a call of the store but
//! `edges`, which a write of a part of a block holds while it reads the rest, and `lease`.

use super::flush;
use super::lease::{self, Pin, Stopped, advance};
use super::map::Map;
use super::moved::{Moved, MovedBlock};
use super::page::{BLOCK, ENTRIES};
use super::root::Root;
use super::store::{ObjectStore, StoreError, StoreResult};
use super::writeback::{Change, Changes, Pending};
use crate::error::Failure;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;
use uext4_sync::{Condvar, DurationCounter, Mutex, MutexGuard, RwLock, RwLockReadGuard, class};

/// Bytes of changes from which on a write flushes.
const PENDING_MAX: u64 = 64 << 20;
/// Locks of parts of blocks.
const EDGES: usize = 64;
/// Roots whose segments are gone that a read meets before it fails.
const READ_TRIES: u32 = 8;

/// An image in a store.
#[derive(Debug)]
pub struct Image {
    pub store: Arc<dyn ObjectStore>,
    pub map: Arc<Map>,
    view: RwLock<View>,
    edges: Vec<RwLock<Edge>>,
    flushes: Mutex<Flushes>,
    flushed: Condvar,
    lease: Mutex<Lease>,
    is_writer: AtomicBool,
    pub failure: OnceLock<Failure>,
    /// Whether garbage is being collected.
    pub is_collecting: AtomicBool,
    /// Flushes that wrote something.
    pub flush_times: DurationCounter,
    /// Bytes that the last collection found in use.
    pub used: AtomicU64,
}

/// Keeps out the writers of a block while a part of it is written.
#[derive(Debug)]
struct Edge(());

/// What reads see.
#[derive(Debug)]
struct View {
    root: Arc<Root>,
    pending: Pending,
}

/// Flushes, by their numbers.
#[derive(Debug, Default)]
struct Flushes {
    begun: u64,
    done: u64,
    runs: bool,
}

#[derive(Debug)]
struct Lease {
    /// Of a reader, and of a writer that has not written.
    pin: Option<Pin>,
    /// What this host tried to become the writer with, without an answer.
    tried: Option<Root>,
}

impl Image {
    /// Of its newest root.
    ///
    /// # Errors
    /// As [`Root::newest`].
    pub fn open(store: Arc<dyn ObjectStore>, map: Arc<Map>) -> StoreResult<Image> {
        let newest = Root::newest(&*store)?;
        let (root, pin) = thread::scope(|scope| {
            // What can't be read ahead is read when it is needed.
            let ahead = || drop(map.read_head(&newest));
            match store.in_flight() {
                1 => ahead(),
                _ => drop(thread::Builder::new().spawn_scoped(scope, ahead)),
            }
            Pin::of(&store, newest.clone())
        })?;
        let edge = || RwLock::new(&class::OBJECTS, Edge(()));
        let view = View {
            root: Arc::new(root),
            pending: Pending::default(),
        };
        Ok(Image {
            store,
            map,
            view: RwLock::new(&class::OBJECTS, view),
            edges: std::iter::repeat_with(edge).take(EDGES).collect(),
            flushes: Mutex::new(&class::OBJECTS, Flushes::default()),
            flushed: Condvar::new(),
            lease: Mutex::new(&class::OBJECTS, Lease { pin, tried: None }),
            is_writer: AtomicBool::new(false),
            failure: OnceLock::new(),
            is_collecting: AtomicBool::new(false),
            flush_times: DurationCounter::default(),
            used: AtomicU64::new(0),
        })
    }

    /// The root that reads see.
    pub fn root(&self) -> Arc<Root> {
        Arc::clone(&self.view.read().root)
    }

    /// Whether it has become the writer.
    pub fn is_writer(&self) -> bool {
        self.is_writer.load(Ordering::Acquire)
    }

    /// Becomes the writer, if it is not: from then on no other advances the root without an error here.
    ///
    /// # Errors
    /// [`Stopped::Lost`]: another host has written since the root was read; as [`lease::check_refuses`].
    pub fn claim(&self) -> Result<(), Stopped> {
        if self.is_writer() {
            return Ok(());
        }
        let mut lease = self.lease.lock();
        if self.is_writer() {
            return Ok(());
        }
        let before = self.root();
        let claimed = lease::check_refuses(&*self.store, &before).and_then(|()| {
            let tried = lease.tried.take().filter(|t| t.number == before.number + 1);
            let root = tried.unwrap_or_else(|| before.taken_over());
            lease.tried = Some(root.clone());
            lease::take_over(&*self.store, &root).map(|()| root)
        });
        let root = claimed.inspect_err(|why| {
            if *why == Stopped::Lost {
                let _ = self.failure.set(why.failure());
            }
        })?;
        self.view.write().root = Arc::new(root);
        self.is_writer.store(true, Ordering::Release);
        lease.pin = None;
        Ok(())
    }

    /// Reads what another host has made of it since, unless this one is the writer.
    ///
    /// # Errors
    /// As [`Root::newest`].
    pub fn refresh(&self) -> StoreResult<()> {
        let mut lease = self.lease.lock();
        if self.is_writer() {
            return Ok(());
        }
        let newest = Root::newest(&*self.store)?;
        let (root, pin) = Pin::of(&self.store, newest)?;
        lease.pin = pin;
        self.view.write().root = Arc::new(root);
        Ok(())
    }

    /// Forgets that it reads a root, which may be collected then.
    pub fn release(&self) {
        self.lease.lock().pin = None;
    }

    /// Reads whole blocks.
    ///
    /// # Errors
    /// As [`Map::read`].
    pub fn read(&self, blocks: &mut [(u64, &mut [u8])]) -> StoreResult<()> {
        self.at_root(|view| {
            let root = Arc::clone(&view.root);
            let pending = &view.pending;
            let mut rest: Vec<(u64, &mut [u8])> = blocks
                .iter_mut()
                .map(|(block, buf)| (*block, &mut **buf))
                .filter_map(|(block, buf)| match pending.read(block, buf) {
                    true => None,
                    false => Some((block, buf)),
                })
                .collect();
            drop(view);
            self.map.read(&root, &mut rest)
        })
    }

    /// Calls `read` with what reads see, again where the root is collected meanwhile.
    fn at_root<T>(
        &self,
        mut read: impl FnMut(RwLockReadGuard<'_, View>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut tries = 0;
        loop {
            let view = self.view.read();
            let number = view.root.number;
            tries += 1;
            match read(view) {
                Err(StoreError::NotFound) if tries < READ_TRIES && self.root().number > number => {}
                Err(StoreError::NotFound) => {
                    return Err(StoreError::Failed(
                        "a segment is gone: garbage was collected that this root needs".into(),
                    ));
                }
                done => return done,
            }
        }
    }

    fn edge(&self, block: u64) -> &RwLock<Edge> {
        &self.edges[(block / ENTRIES as u64) as usize % EDGES]
    }

    fn set(&self, block: u64, change: Change) {
        self.view.read().pending.new.set(block, change);
    }

    /// Writes a whole block.
    pub fn write(&self, block: u64, bytes: &[u8]) {
        let _beside = self.edge(block).read();
        self.set(block, Change::Data(bytes.into()));
    }

    /// Writes a part of a block.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn write_part(&self, block: u64, at: usize, bytes: &[u8]) -> StoreResult<()> {
        let _alone = self.edge(block).write();
        let mut whole = vec![0; BLOCK];
        self.read(&mut [(block, &mut whole)])?;
        whole[at..at + bytes.len()].copy_from_slice(bytes);
        self.set(block, Change::Data(whole.into()));
        Ok(())
    }

    /// Makes whole blocks read as zeros.
    ///
    /// # Errors
    /// As [`Map::mapped`].
    pub fn zero(&self, blocks: Range<u64>) -> StoreResult<()> {
        self.view.read().pending.new.touch();
        let found = self.at_root(|view| {
            let (root, mut found) = (Arc::clone(&view.root), view.pending.within(&blocks));
            drop(view);
            let mapped = self.map.mapped(&root, blocks.clone())?;
            found.extend(mapped.into_iter().map(|(block, _)| block));
            Ok(found)
        })?;
        for block in found {
            let _beside = self.edge(block).read();
            self.set(block, Change::Hole);
        }
        Ok(())
    }

    /// Whether so much was written that it is to be flushed.
    pub fn is_full(&self) -> bool {
        self.view.read().pending.new.bytes() > PENDING_MAX
    }

    /// Makes all that was written durable. Callers that wait share a flush.
    ///
    /// # Errors
    /// As [`flush::write`]; another flush failed, whose reason [`Image::failure`] has: `None`.
    pub fn flush(&self) -> Result<(), Option<Stopped>> {
        let mut flushes = self.flushes.lock();
        let mine = flushes.begun + 1;
        loop {
            if self.failure.get().is_some() {
                return Err(None);
            }
            if flushes.done >= mine {
                return Ok(());
            }
            if !flushes.runs {
                break;
            }
            self.flushed.wait(&mut flushes);
        }
        flushes.begun += 1;
        let number = flushes.begun;
        Ok(self.alone(flushes, || {
            self.flush_changes()?;
            self.flushes.lock().done = number;
            Ok(())
        })?)
    }

    /// Does what no flush may run beside. What fails, or panics, fails the device for good.
    fn alone<T>(
        &self,
        mut flushes: MutexGuard<'_, Flushes>,
        work: impl FnOnce() -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        flushes.runs = true;
        drop(flushes);
        let mut alone = Alone {
            image: self,
            failure: Some(Failure::WritesLost),
        };
        let done = work();
        alone.failure = done.as_ref().err().map(Stopped::failure);
        done
    }

    /// As [`Image::alone`], once no flush runs.
    ///
    /// # Errors
    /// Those of `work`; the device has failed.
    pub fn between_flushes<T>(
        &self,
        work: impl FnOnce() -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        let mut flushes = self.flushes.lock();
        while flushes.runs {
            self.flushed.wait(&mut flushes);
        }
        match self.failure.get() {
            Some(Failure::LeaseLost(_)) => Err(Stopped::Lost),
            Some(why) => Err(StoreError::Refused(why.to_string()).into()),
            None => self.alone(flushes, work),
        }
    }

    /// Writes what was changed; no other flush runs.
    fn flush_changes(&self) -> Result<(), Stopped> {
        let (base, changes) = {
            let mut view = self.view.write();
            if view.pending.new.is_empty() {
                return Ok(());
            }
            let changes: Arc<Changes> = std::mem::take(&mut view.pending.new);
            view.pending.flushing = Some(Arc::clone(&changes));
            (Arc::clone(&view.root), changes)
        };
        let start = Instant::now();
        let root = flush::write(&*self.store, &self.map, &base, &changes, &Moved::default());
        self.flush_times.add(start.elapsed());
        let root = root?;
        let mut view = self.view.write();
        view.root = Arc::new(root);
        view.pending.flushing = None;
        Ok(())
    }

    /// Advances to a root that holds the same but for what `change` does; no flush runs meanwhile.
    ///
    /// # Errors
    /// As [`advance`].
    pub fn advance(&self, change: impl FnOnce(&mut Root)) -> Result<Arc<Root>, Stopped> {
        self.between_flushes(|| {
            let mut root = Root::clone(&self.root());
            root.number += 1;
            change(&mut root);
            advance(&*self.store, &root)?;
            let root = Arc::new(root);
            self.view.write().root = Arc::clone(&root);
            Ok(root)
        })
    }

    /// Writes parts that have their bytes elsewhere; no flush runs meanwhile.
    ///
    /// # Errors
    /// As [`flush::write`].
    pub fn write_again(&self, moved: &Moved, blocks: &[MovedBlock]) -> Result<(), Stopped> {
        self.between_flushes(|| {
            let (base, changes) = (self.root(), Changes::default());
            for block in blocks {
                // What was written since has its bytes elsewhere already.
                if self.map.locate(&base, block.number)? == block.location {
                    changes.set(block.number, Change::Data(block.bytes.clone()));
                }
            }
            let root = flush::write(&*self.store, &self.map, &base, &changes, moved)?;
            self.view.write().root = Arc::new(root);
            Ok(())
        })
    }
}

/// Keeps other flushes out.
struct Alone<'a> {
    image: &'a Image,
    /// What the device fails with at the end.
    failure: Option<Failure>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let Some(failure) = self.failure {
            let _ = self.image.failure.set(failure);
        }
        self.image.flushes.lock().runs = false;
        self.image.flushed.notify_all();
    }
}

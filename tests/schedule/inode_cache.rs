//! The new and freeing protocol of the inode cache, and the look-ups of a hint against it, schedule
//! by schedule.
use crate::explore::explore;
use shuttle::thread;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use uext4_sync::{Mutex, class};
use uext4_vfs::icache::{CachedInode, IcacheVariant, InodeCache};

/// What the disk has of the one inode, and how often it is in memory.
#[derive(Default)]
struct Disk {
    value: AtomicU32,
    in_memory: AtomicU32,
    loads: AtomicU32,
}

struct Inode {
    disk: Arc<Disk>,
    value: AtomicU32,
    abandoned: AtomicBool,
}

impl Inode {
    fn load(disk: &Arc<Disk>) -> Result<Inode, ()> {
        assert_eq!(disk.in_memory.fetch_add(1, SeqCst), 0, "in memory twice");
        disk.loads.fetch_add(1, SeqCst);
        thread::yield_now();
        Ok(Inode {
            disk: Arc::clone(disk),
            value: AtomicU32::new(disk.value.load(SeqCst)),
            abandoned: AtomicBool::new(false),
        })
    }

    /// Writes it back: from now on another may be loaded.
    fn evict(&self) {
        self.disk.value.store(self.value.load(SeqCst), SeqCst);
        thread::yield_now();
        assert_eq!(self.disk.in_memory.fetch_sub(1, SeqCst), 1);
    }
}

impl CachedInode for Inode {
    fn ino(&self) -> u64 {
        5
    }
    fn may_evict(&self) -> bool {
        true
    }
    fn is_abandoned(&self) -> bool {
        self.abandoned.load(SeqCst)
    }
}

type Cache = Arc<InodeCache<Inode>>;

fn explore_variants<I: CachedInode>(variants: &[IcacheVariant], scenario: fn(&Arc<InodeCache<I>>)) {
    for &variant in variants {
        explore(move || scenario(&Arc::new(InodeCache::new(variant, 64, 16))));
    }
}

/// Three threads change the inode while a fourth evicts it: no change is lost, and it is never in
/// memory twice.
fn load_and_evict(cache: &Cache) {
    let disk = Arc::new(Disk::default());
    let mut threads: Vec<_> = (0..3)
        .map(|_| {
            let (cache, disk) = (Arc::clone(cache), Arc::clone(&disk));
            thread::spawn(move || {
                for _ in 0..2 {
                    let inode = cache.get_or_load(5, || Inode::load(&disk)).expect("loads");
                    inode.value.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    let evictor = Arc::clone(cache);
    threads.push(thread::spawn(move || {
        for _ in 0..3 {
            evictor.shrink(0, 4, |_| (), |inode| inode.evict());
            evictor.hint(0, |inode| assert_eq!(inode.ino(), 5));
        }
    }));
    for t in threads {
        t.join().expect("no panic");
    }
    cache.shrink(0, 4, |_| (), |inode| inode.evict());
    assert!(cache.is_empty());
    assert_eq!(disk.value.load(SeqCst), 6);
}

/// The first load fails: its waiter is woken and retries.
fn failing_load(cache: &Cache) {
    let disk = Arc::new(Disk::default());
    let tries = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (cache, disk, tries) = (Arc::clone(cache), Arc::clone(&disk), Arc::clone(&tries));
            thread::spawn(move || {
                let got = cache.get_or_load(5, || {
                    thread::yield_now();
                    if tries.fetch_add(1, SeqCst) == 0 {
                        return Err(());
                    }
                    Inode::load(&disk)
                });
                u32::from(got.is_err())
            })
        })
        .collect();
    let failed: u32 = threads
        .into_iter()
        .map(|t| t.join().expect("no panic"))
        .sum();
    assert_eq!(failed, 1);
    assert_eq!(disk.loads.load(SeqCst), 1);
    assert_eq!(cache.len(), 1);
}

/// Two threads drop an abandoned inode, a third looks it up: one deletes it, and no look-up
/// gets it once that began.
fn reap_once(cache: &Cache) {
    let disk = Arc::new(Disk::default());
    let deleted = Arc::new(AtomicU32::new(0));
    let inode = cache.get_or_load(5, || Inode::load(&disk)).expect("loads");
    inode.abandoned.store(true, SeqCst);
    drop(inode);
    let mut threads: Vec<_> = (0..2)
        .map(|_| {
            let (cache, deleted) = (Arc::clone(cache), Arc::clone(&deleted));
            thread::spawn(move || {
                if let Some(_dying) = cache.reap(5) {
                    thread::yield_now();
                    deleted.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    let (finder, seen) = (Arc::clone(cache), Arc::clone(&deleted));
    threads.push(thread::spawn(move || {
        if finder.find(5).is_none() {
            assert_eq!(seen.load(SeqCst), 1, "found nothing before it was deleted");
        }
    }));
    for t in threads {
        t.join().expect("no panic");
    }
    assert_eq!(deleted.load(SeqCst), 1);
    assert!(cache.is_empty());
}

/// An inode-table block with one inode: what is on disk, and whose it is.
struct Table {
    block: Mutex<Record>,
    /// Inodes of that number made so far.
    owners: AtomicU32,
}

/// What the block has of the inode.
#[derive(Clone, Copy)]
struct Record {
    owner: u32,
    time: u32,
}

/// An inode with a timestamp that may be in memory only.
struct Lazy {
    table: Arc<Table>,
    owner: u32,
    time: AtomicU32,
    pending: AtomicBool,
    /// Written back and on its way out: the next is loaded from disk.
    gone: AtomicBool,
}

impl Table {
    fn new() -> Arc<Table> {
        Arc::new(Table {
            block: Mutex::new(&class::BUFFER, Record { owner: 0, time: 0 }),
            owners: AtomicU32::new(0),
        })
    }
}

impl Lazy {
    fn load(table: &Arc<Table>) -> Result<Lazy, ()> {
        let record = *table.block.lock();
        Ok(Lazy::new(table, record))
    }

    fn new(table: &Arc<Table>, record: Record) -> Lazy {
        Lazy {
            table: Arc::clone(table),
            owner: record.owner,
            time: AtomicU32::new(record.time),
            pending: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    fn touch(&self, time: u32) {
        self.time.fetch_max(time, SeqCst);
        self.pending.store(true, SeqCst);
    }

    /// Writes what is pending; `record` proves the block's lock.
    fn write(&self, record: &mut Record) {
        if self.pending.swap(false, SeqCst) {
            assert!(!self.gone.load(SeqCst), "a stale copy is written");
            assert_eq!(self.owner, record.owner, "written over the next inode");
            record.time = self.time.load(SeqCst);
        }
    }

    fn evict(&self) {
        self.write(&mut self.table.block.lock());
        thread::yield_now();
        self.gone.store(true, SeqCst);
    }

    /// Nothing of it is pending any more when the number is free.
    fn delete(&self) {
        self.write(&mut self.table.block.lock());
    }
}

impl CachedInode for Lazy {
    fn ino(&self) -> u64 {
        5
    }
    fn may_evict(&self) -> bool {
        true
    }
}

/// Threads change a timestamp and evict while a third writes the neighbours' block: what it finds is
/// never a copy that was evicted, and no timestamp is lost.
fn hint_and_evict(cache: &Arc<InodeCache<Lazy>>) {
    let table = Table::new();
    let mut threads: Vec<_> = (1..3)
        .map(|time| {
            let (cache, table) = (Arc::clone(cache), Arc::clone(&table));
            thread::spawn(move || {
                let inode = cache.get_or_load(5, || Lazy::load(&table)).expect("loads");
                assert!(inode.time.load(SeqCst) <= 2);
                inode.touch(time);
                drop(inode);
                cache.shrink(0, 4, |_| (), |inode| inode.evict());
            })
        })
        .collect();
    let (writer, block) = (Arc::clone(cache), Arc::clone(&table));
    threads.push(thread::spawn(move || {
        for _ in 0..2 {
            let mut record = block.block.lock();
            writer.hint(0, |inode| inode.write(&mut record));
        }
    }));
    for t in threads {
        t.join().expect("no panic");
    }
    cache.shrink(0, 4, |_| (), |inode| inode.evict());
    assert!(cache.is_empty());
    assert_eq!(table.block.lock().time, 2);
}

/// The inode is deleted and its number given to the next while others write the block: neither is the
/// old one's timestamp written over the new one, nor the new one's lost.
fn hint_and_reuse(cache: &Arc<InodeCache<Lazy>>) {
    let table = Table::new();
    let old = cache.get_or_load(5, || Lazy::load(&table)).expect("loads");
    old.touch(9);
    drop(old);
    let mut threads: Vec<_> = (0..2)
        .map(|_| {
            let (cache, table) = (Arc::clone(cache), Arc::clone(&table));
            thread::spawn(move || {
                let mut record = table.block.lock();
                cache.hint(0, |inode| inode.write(&mut record));
            })
        })
        .collect();
    let (maker, block) = (Arc::clone(cache), Arc::clone(&table));
    threads.push(thread::spawn(move || {
        let Some(old) = maker.find(5) else {
            unreachable!("it is never evicted");
        };
        old.delete();
        maker.remove(5);
        drop(old);
        let record = Record {
            owner: block.owners.fetch_add(1, SeqCst) + 1,
            time: 0,
        };
        *block.block.lock() = record;
        let new = Arc::new(Lazy::new(&block, record));
        assert!(maker.insert_new(5, Arc::clone(&new)).is_ok());
        new.touch(3);
    }));
    for t in threads {
        t.join().expect("no panic");
    }
    cache.shrink(0, 4, |_| (), |inode| inode.evict());
    let record = *table.block.lock();
    assert_eq!((record.owner, record.time), (1, 3));
}

/// An inode that the cache asks about, under its lock, during a hint.
struct Slow {
    asked: Arc<AtomicBool>,
    hinted: Arc<AtomicBool>,
}

impl CachedInode for Slow {
    fn ino(&self) -> u64 {
        5
    }
    fn may_evict(&self) -> bool {
        self.asked.store(true, SeqCst);
        while !self.hinted.load(SeqCst) {
            thread::yield_now();
        }
        true
    }
}

/// The lock is held until the hint is over: one that waited for it would never be.
fn hint_never_waits(cache: &Arc<InodeCache<Slow>>) {
    let (asked, hinted) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let load = || {
        Ok::<_, ()>(Slow {
            asked: Arc::clone(&asked),
            hinted: Arc::clone(&hinted),
        })
    };
    drop(cache.get_or_load(5, load).expect("loads"));
    let evictor = {
        let cache = Arc::clone(cache);
        thread::spawn(move || cache.shrink(0, 4, |_| (), |_| ()))
    };
    while !asked.load(SeqCst) {
        thread::yield_now();
    }
    let complete = cache.hint(0, |_| unreachable!("its lock is held"));
    assert!(!complete, "it says that it missed some");
    hinted.store(true, SeqCst);
    assert_eq!(evictor.join().expect("no panic"), 1);
}

#[test]
fn shuttle_load_and_evict() {
    explore_variants(&IcacheVariant::ALL, load_and_evict);
}

#[test]
fn shuttle_failing_load() {
    explore_variants(&IcacheVariant::ALL, failing_load);
}

#[test]
fn shuttle_reap_once() {
    explore_variants(&IcacheVariant::ALL, reap_once);
}

#[test]
fn shuttle_hint_and_evict() {
    explore_variants(&IcacheVariant::ALL, hint_and_evict);
}

#[test]
fn shuttle_hint_and_reuse() {
    explore_variants(&IcacheVariant::ALL, hint_and_reuse);
}

#[test]
fn shuttle_hint_never_waits() {
    explore_variants(
        &[
            IcacheVariant::GlobalNowait,
            IcacheVariant::PerBucket,
            IcacheVariant::PerBucketNohint,
        ],
        hint_never_waits,
    );
}

//! The unborn and dying protocol of the inode cache, schedule by schedule.
#![cfg(shuttle)]

use shuttle::thread;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use uext4_vfs::icache::{CachedInode, IcacheArm, InodeCache};

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

fn explore(arm: IcacheArm, scenario: fn(&Cache)) {
    let run = move || scenario(&Arc::new(InodeCache::new(arm, 64, 16)));
    shuttle::check_random(run, 2000);
    shuttle::check_pct(run, 2000, 3);
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
            evictor.shrink(0, 4, |inode| inode.evict());
            evictor.hint(0, |inode| assert_eq!(inode.ino(), 5));
        }
    }));
    for t in threads {
        t.join().expect("no panic");
    }
    cache.shrink(0, 4, |inode| inode.evict());
    assert!(cache.is_empty());
    assert_eq!(disk.value.load(SeqCst), 6);
}

/// The first load fails: who waited for it is woken and tries for himself.
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

/// Two threads let go of an abandoned inode, a third looks it up: one deletes it, and no look-up
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

#[test]
fn shuttle_load_and_evict() {
    for arm in IcacheArm::ALL {
        explore(arm, load_and_evict);
    }
}

#[test]
fn shuttle_failing_load() {
    for arm in IcacheArm::ALL {
        explore(arm, failing_load);
    }
}

#[test]
fn shuttle_reap_once() {
    for arm in IcacheArm::ALL {
        explore(arm, reap_once);
    }
}

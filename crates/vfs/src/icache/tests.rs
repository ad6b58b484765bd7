//! Tests of the inode cache.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

#[derive(Debug)]
struct Inode {
    ino: u64,
    clean: AtomicBool,
    abandoned: AtomicBool,
    pending: AtomicBool,
    gets: AtomicU32,
}

fn inode(ino: u64) -> Inode {
    Inode {
        ino,
        clean: AtomicBool::new(true),
        abandoned: AtomicBool::new(false),
        pending: AtomicBool::new(true),
        gets: AtomicU32::new(0),
    }
}

impl CachedInode for Inode {
    fn ino(&self) -> u64 {
        self.ino
    }
    fn may_evict(&self) -> bool {
        self.clean.load(SeqCst)
    }
    fn on_get(&self) {
        self.gets.fetch_add(1, SeqCst);
    }
    fn has_pending_times(&self) -> bool {
        self.pending.load(SeqCst)
    }
    fn is_abandoned(&self) -> bool {
        self.abandoned.load(SeqCst)
    }
}

fn caches() -> impl Iterator<Item = InodeCache<Inode>> {
    IcacheVariant::ALL
        .into_iter()
        .map(|variant| InodeCache::new(variant, 4096, 16))
}

fn load(cache: &InodeCache<Inode>, ino: u64) -> Arc<Inode> {
    cache
        .get_or_load(ino, || Ok::<_, ()>(inode(ino)))
        .expect("loads")
}

#[test]
fn variant_names_round_trip() {
    for variant in IcacheVariant::ALL {
        assert_eq!(variant.to_string().parse(), Ok(variant));
    }
    assert_eq!(IcacheVariant::default().name(), "per-bucket");
    assert!("none".parse::<IcacheVariant>().is_err());
}

#[test]
fn loads_once_and_finds() {
    for cache in caches() {
        assert!(cache.find(12).is_none());
        let a = load(&cache, 12);
        let b = cache
            .get_or_load(12, || -> Result<_, ()> { panic!("is cached") })
            .expect("cached");
        assert!(Arc::ptr_eq(&a, &b));
        assert!(Arc::ptr_eq(&a, &cache.find(12).expect("cached")));
        assert_eq!(a.gets.load(SeqCst), 3);
        assert_eq!(cache.len(), 1);
        let removed = cache.remove(12).expect("cached");
        assert!(Arc::ptr_eq(&a, &removed));
        assert!(cache.remove(12).is_none() && cache.is_empty());
    }
}

#[test]
fn a_failed_load_leaves_nothing() {
    for cache in caches() {
        assert_eq!(
            cache.get_or_load(5, || Err("broken")).unwrap_err(),
            "broken"
        );
        assert!(cache.is_empty());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cache.get_or_load(5, || -> Result<_, ()> { panic!("in load") })
        }));
        assert!(panicked.is_err() && cache.is_empty());
        load(&cache, 5);
    }
}

#[test]
fn a_number_in_use_is_refused() {
    for cache in caches() {
        let first = Arc::new(inode(7));
        assert!(cache.insert_new(7, Arc::clone(&first)).is_ok());
        let other = cache.insert_new(7, Arc::new(inode(7))).unwrap_err();
        assert!(Arc::ptr_eq(&first, &other));
        assert_eq!(cache.len(), 1);
    }
}

#[test]
fn a_hint_sees_its_block_only() {
    for cache in caches() {
        for ino in 1..=64 {
            load(&cache, ino);
        }
        cache.remove(20);
        let mut seen = Vec::new();
        assert_eq!(cache.block_of(17), 1);
        assert!(cache.hint(1, |i| seen.push(i.ino)));
        let want: Vec<u64> = (17..=32).filter(|&i| i != 20).collect();
        assert_eq!(seen, want);
        assert!(cache.hint(99, |_| panic!("an empty block")));
    }
}

#[test]
fn a_hint_makes_no_reference_to_an_inode_without_pending_times() {
    for cache in caches() {
        let all: Vec<_> = (1..=16).map(|ino| load(&cache, ino)).collect();
        for inode in &all {
            inode.pending.store(inode.ino == 5, SeqCst);
        }
        let mut seen = Vec::new();
        assert!(cache.hint(0, |inode| {
            seen.push(inode.ino);
            // The cache's and that of `all`, and the hint's to one of them.
            let references = all.iter().map(Arc::strong_count);
            assert_eq!(references.sum::<usize>(), 2 * all.len() + 1);
        }));
        assert_eq!(seen, [5]);
    }
}

#[test]
fn a_hint_of_a_large_block_goes_in_batches() {
    let cache = InodeCache::new(IcacheVariant::PerBucket, 4096, 256);
    for ino in 1..=300 {
        load(&cache, ino);
    }
    let mut seen = 0;
    assert!(cache.hint(0, |_| seen += 1));
    assert_eq!(seen, 256);
}

#[test]
fn a_hint_gives_up_where_it_would_wait() {
    for cache in
        caches().filter(|c| !matches!(c.variant, IcacheVariant::Global | IcacheVariant::GlobalHint))
    {
        for ino in 1..=16 {
            load(&cache, ino);
        }
        let (_, shard) = cache.locate(1);
        let _busy = shard.buckets.lock();
        assert!(!cache.hint(0, |_| panic!("read without the lock")));
    }
}

#[test]
fn shrink_spares_what_is_held_or_dirty() {
    for cache in caches() {
        let held = load(&cache, 1);
        load(&cache, 2).clean.store(false, SeqCst);
        for ino in 3..=1000 {
            load(&cache, ino);
        }
        let mut gone = Vec::new();
        let evicted = cache.shrink(0, 8, |_| (), |i| gone.push(i.ino));
        assert_eq!(evicted, 998);
        gone.sort_unstable();
        assert_eq!(gone, (3..=1000).collect::<Vec<_>>());
        assert_eq!(cache.len(), 2);
        assert!(cache.find(2).is_some());
        drop(held);
        assert_eq!(cache.shrink(1, 64, |_| (), |i| assert_eq!(i.ino, 1)), 1);
    }
}

#[test]
fn shrink_stops_at_its_target_and_spares_the_used() {
    for cache in caches() {
        for ino in 1..=512 {
            load(&cache, ino);
        }
        assert_eq!(cache.shrink(500, 16, |_| (), |_| {}), 12);
        assert_eq!(cache.len(), 500);
        let survivors: Vec<u64> = {
            let mut all = Vec::new();
            cache.for_each(|i| all.push(i.ino));
            all
        };
        assert_eq!(survivors.len(), 500);
        let used = survivors[250];
        cache.find(used).expect("cached");
        // The clock is in its second round: what it has not passed since is not marked, but this is.
        cache.shrink(300, 16, |_| (), |i| assert_ne!(i.ino, used));
    }
}

#[test]
fn a_look_up_waits_for_the_eviction() {
    for cache in caches() {
        load(&cache, 9);
        std::thread::scope(|s| {
            cache.shrink(
                0,
                4,
                |_| (),
                |old| {
                    assert_eq!(old.ino, 9);
                    let cache = &cache;
                    s.spawn(move || load(cache, 9));
                    // This checks only that the load does not start before the eviction ends.
                    std::thread::sleep(Duration::from_millis(5));
                    assert_eq!(cache.len(), 1);
                },
            );
        });
        assert!(cache.find(9).is_some());
    }
}

#[test]
fn an_eviction_that_panics_leaves_nothing_empty() {
    for cache in caches() {
        for ino in 1..=16 {
            load(&cache, ino);
        }
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cache.shrink(0, 1000, |_| (), |_| panic!("in evict"))
        }));
        assert!(panicked.is_err());
        for ino in 1..=16 {
            load(&cache, ino);
        }
        assert_eq!(cache.len(), 16);
    }
}

#[test]
fn reap_takes_the_abandoned() {
    for cache in caches() {
        let a = load(&cache, 4);
        assert!(cache.reap(4).is_none());
        a.abandoned.store(true, SeqCst);
        let freeing = cache.reap(4).expect("abandoned");
        assert!(Arc::ptr_eq(&freeing, &a));
        assert!(cache.reap(4).is_none() && cache.remove(4).is_none());
        drop(freeing);
        assert!(cache.find(4).is_none() && cache.is_empty());
    }
}

#[test]
fn many_threads_load_one_inode_once() {
    for cache in caches() {
        let loads = AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for ino in 1..=200 {
                        let got = cache
                            .get_or_load(ino, || {
                                loads.fetch_add(1, SeqCst);
                                Ok::<_, ()>(inode(ino))
                            })
                            .expect("loads");
                        assert_eq!(got.ino, ino);
                    }
                });
            }
        });
        assert_eq!(loads.load(SeqCst), 200);
        assert_eq!(cache.len(), 200);
    }
}

#[test]
fn one_and_a_half_million_inodes() {
    let cache = InodeCache::new(IcacheVariant::PerBucket, 1_500_000, 16);
    for ino in 1..=1_500_000 {
        assert!(cache.insert_new(ino, Arc::new(inode(ino))).is_ok());
    }
    assert_eq!(cache.len(), 1_500_000);
    assert_eq!(cache.shrink(1_000_000, 64, |_| (), |_| {}), 500_000);
    assert_eq!(cache.len(), 1_000_000);
}

/// What CPUs use at regular distances, up to an eighth of the buckets, is in different buckets.
#[test]
fn buckets_of_regular_distances_differ() {
    for capacity in [1 << 16, 1 << 19, 1 << 20, 1 << 21] {
        let cache: InodeCache<Inode> = InodeCache::new(IcacheVariant::PerBucket, capacity, 16);
        let count = (cache.bucket_mask as u64 + 1) / 8;
        for distance in [1, 8, 16, 24, 32, 64, 512, 1024] {
            let index = |n: u64| cache.locate(n * distance * 16 + 1).0;
            let used: std::collections::BTreeSet<usize> = (0..count).map(index).collect();
            assert_eq!(used.len() as u64, count, "{capacity}, {distance}");
        }
    }
}

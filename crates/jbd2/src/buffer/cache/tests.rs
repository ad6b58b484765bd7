//! What the cache keeps, and what it evicts.

use super::*;
use uext4_block::MemoryDevice;

fn cache(capacity: usize) -> BufferCache {
    BufferCache::new(Arc::new(MemoryDevice::new(4 << 20)), 4096, capacity)
}

#[test]
fn two_callers_get_the_same_buffer() {
    let cache = cache(1000);
    let a = cache.get(7).expect("block 7");
    let b = cache.get(7).expect("block 7");
    assert!(Arc::ptr_eq(&a, &b));
}

#[test]
fn a_block_past_the_end_is_an_error() {
    assert!(matches!(
        cache(1000).get(1024),
        Err(BufferError::OutOfRange {
            block: 1024,
            blocks: 1024
        })
    ));
}

#[test]
fn held_buffers_survive_the_sweep() {
    let cache = cache(0);
    let held = cache.get(1).expect("block 1");
    for _ in 0..4 {
        for block in 2..1024 {
            cache.get(block).expect("block");
        }
    }
    assert!(Arc::ptr_eq(&held, &cache.get(1).expect("block 1")));
    assert!(cache.len() < 1024);
}

#[test]
fn a_failed_check_is_made_again() {
    let cache = cache(100);
    let bad: Result<_, BufferError> = cache.get_verified(3, (1, 0), |_| {
        Err(BufferError::OutOfRange {
            block: 3,
            blocks: 0,
        })
    });
    assert!(bad.is_err());
    let good: Result<_, BufferError> = cache.get_verified(3, (1, 0), |_| Ok(()));
    assert!(good.is_ok());
    let again: Result<_, BufferError> = cache.get_verified(3, (1, 0), |_| {
        Err(BufferError::OutOfRange {
            block: 3,
            blocks: 0,
        })
    });
    assert!(again.is_ok(), "checked once only");
}

#[test]
fn a_block_has_one_role() {
    let cache = cache(100);
    let get = |kind, seed| cache.get_verified(3, (kind, seed), |_| Ok::<_, BufferError>(()));
    let buffer = get(1, 7).expect("the first");
    assert!(get(1, 7).is_ok(), "the same");
    for (kind, seed) in [(2, 7), (1, 8)] {
        let other = get(kind, seed);
        assert!(matches!(other, Err(BufferError::TwoRoles { block: 3 })));
    }
    // Freed.
    buffer.set_kind(0, 0);
    buffer.clear_uptodate(&mut buffer.write());
    assert!(!buffer.is_uptodate() && !buffer.is_verified());
    assert!(get(2, 9).is_ok());
    assert!(buffer.is_uptodate() && buffer.is_verified());
}

fn refuse(_: &[u8]) -> Result<(), BufferError> {
    Err(BufferError::TwoRoles { block: 3 })
}

fn first_byte(cache: &BufferCache, block: u64) -> u8 {
    cache.with(block, |b| b.data()[0]).expect("reads")
}

#[test]
fn a_block_that_fails_its_check_is_read_again_unless_it_is_in_use() {
    let cache = cache(100);
    for (kind, tid) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let block = 3 + u64::from(kind) + 2 * tid;
        let buffer = cache.get(block).expect("reads");
        buffer.set_kind(kind, 0);
        buffer.set_tid(&mut buffer.write(), tid);
        let failed = cache.get_verified(block, (1, 0), refuse);
        assert!(failed.is_err());
        let device = cache.device();
        device.write_at(block * 4096, &[9; 4096]).expect("writes");
        let is_used = kind != 0 || tid != 0;
        let expected = if is_used { 0 } else { 9 };
        assert_eq!(first_byte(&cache, block), expected, "{kind}, {tid}");
    }
}

#[test]
fn a_block_is_checked_before_its_first_use_in_a_role() {
    let cache = cache(100);
    let buffer = cache.get(3).expect("reads");
    buffer.set_kind(1, 0);
    assert!(cache.get_verified(3, (1, 0), refuse).is_err());
}

#[test]
fn a_removed_block_is_read_again_unless_it_is_referenced() {
    let cache = cache(100);
    let held = cache.get(3).expect("reads");
    first_byte(&cache, 4);
    assert_eq!(cache.len(), 2);
    let device = cache.device();
    device.write_at(3 * 4096, &[9; 8192]).expect("writes");
    cache.remove(3);
    cache.remove(4);
    cache.remove(5);
    assert_eq!((cache.len(), cache.is_empty()), (1, false));
    assert_eq!((first_byte(&cache, 3), first_byte(&cache, 4)), (0, 9));
    assert!(cache.peek(5).is_none());
    drop(held);
    cache.remove(3);
    cache.remove(4);
    assert!(cache.is_empty());
}

#[test]
fn a_cache_holds_about_as_many_blocks_as_it_is_made_for() {
    let device = Arc::new(MemoryDevice::new(1 << 30));
    let shards = BufferCache::new(Arc::clone(&device) as Arc<_>, 512, 0)
        .shards
        .len();
    let capacity = shards * 64;
    let cache = BufferCache::new(device, 512, capacity);
    for block in 0..16 * capacity as u64 {
        drop(cache.get_unread(block));
    }
    let len = cache.len();
    assert!(
        (capacity / 2..2 * capacity).contains(&len),
        "{len} of {capacity}"
    );
}

#[test]
fn blocks_that_lie_together_share_a_shard() {
    let cache = cache(100);
    let same = |a, b| std::ptr::eq(cache.shard(a), cache.shard(b));
    assert!((0..50).all(|run| same(16 * run, 16 * run + 15)));
    assert!((0..50).any(|run| !same(16 * run, 16 * run + 16)));
}

/// Blocks of one shard.
fn of_one_shard(cache: &BufferCache) -> impl Iterator<Item = u64> {
    let shard = cache.shard(0);
    (0..).filter(move |block| std::ptr::eq(cache.shard(*block), shard))
}

#[test]
fn a_shard_full_of_blocks_in_use_takes_an_eighth_more_before_it_evicts() {
    let cache = cache(0);
    let mut blocks = of_one_shard(&cache);
    let held: Vec<_> = blocks
        .by_ref()
        .take(800)
        .map(|b| cache.get_unread(b))
        .collect();
    // One sweep more, whose result is what the shard may grow to.
    let start = cache.len();
    while cache.len() < start + 150 {
        cache.get_unread(blocks.next().expect("there are more"));
    }
    cache.get_unread(blocks.next().expect("there are more"));
    assert!(cache.len() > start + 80, "{}", cache.len());
    assert!(
        held.iter().all(|b| Arc::strong_count(b) == 2),
        "and evicts none of those"
    );
}

#[test]
fn a_block_used_between_sweeps_stays() {
    let cache = cache(0);
    let mut blocks = of_one_shard(&cache);
    let used = blocks.next().expect("the first");
    first_byte(&cache, used);
    cache
        .device()
        .write_at(used * 4096, &[9; 4096])
        .expect("writes");
    for block in blocks.take(500) {
        drop(cache.get_unread(block));
        assert_eq!(first_byte(&cache, used), 0, "it was not read again");
    }
    assert!(
        cache.len() < 100,
        "but others were evicted: {}",
        cache.len()
    );
}

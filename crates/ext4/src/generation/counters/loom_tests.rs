//! The counters in every order that the memory model allows.

use super::*;
use loom::sync::Arc;
use loom::thread;
use std::collections::HashSet;

/// What `threads` threads get, each by calling `take` twice.
fn taken<T: Send + Sync + 'static>(
    shared: T,
    threads: usize,
    take: impl Fn(&T, usize) -> u32 + Copy + Send + 'static,
) -> Vec<u32> {
    let shared = Arc::new(shared);
    let handles: Vec<_> = (1..threads)
        .map(|thread| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || [take(&shared, thread), take(&shared, thread)])
        })
        .collect();
    let mut all = vec![take(&shared, 0), take(&shared, 0)];
    for handle in handles {
        all.extend(handle.join().unwrap());
    }
    all
}

fn assert_distinct(generations: &[u32]) {
    let distinct: HashSet<_> = generations.iter().collect();
    assert_eq!(distinct.len(), generations.len(), "{generations:?}");
    assert!(!distinct.contains(&0));
}

/// `atomic`, and `percpu` when a thread moves to another CPU in the middle of a draw.
#[test]
fn loom_a_counter_gives_each_value_once() {
    loom::model(|| {
        let all = taken(Counter::new(u32::MAX - 1), 3, |counter, _| {
            let [generation] = counter.take(1, u32::MAX);
            generation
        });
        assert_distinct(&all);
    });
}

/// Pairs of one thread among single generations of others.
#[test]
fn loom_a_counter_gives_pairs_of_neighbours() {
    loom::model(|| {
        let counter = Arc::new(Counter::new(u32::MAX - 2));
        let other = Arc::clone(&counter);
        let pairs = thread::spawn(move || {
            let pairs: [[u32; 2]; 2] = [other.take(1, u32::MAX), other.take(1, u32::MAX)];
            pairs
        });
        let [a] = counter.take(1, u32::MAX);
        let [b] = counter.take(1, u32::MAX);
        let pairs = pairs.join().unwrap();
        assert!(pairs.iter().all(|[first, second]| first + 1 == *second));
        let mut all = pairs.concat();
        all.extend([a, b]);
        assert_distinct(&all);
    });
}

#[test]
fn loom_a_narrow_counter_gives_each_value_once() {
    loom::model(|| {
        let all = taken(Counter::new(0xfe), 2, |counter, _| {
            let [generation] = counter.take(1, 0xff);
            generation
        });
        assert_distinct(&all);
    });
}

/// `percpu-stride`: threads 0 and 2 are on the first CPU of two, thread 1 on the second.
#[test]
fn loom_strides_do_not_meet() {
    loom::model(|| {
        let counters = [Counter::new(u32::MAX - 1), Counter::new(u32::MAX)];
        let all = taken(counters, 3, |counters, thread| {
            let [generation] = counters[thread % 2].take(2, u32::MAX);
            assert_eq!(generation as usize % 2, thread % 2);
            generation
        });
        assert_distinct(&all);
    });
}

//! The counters in every order that the memory model allows.

use super::*;
use loom::sync::Arc;
use loom::thread;
use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

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
            counter.take(1, u32::MAX)
        });
        assert_distinct(&all);
    });
}

#[test]
fn loom_a_narrow_counter_gives_each_value_once() {
    loom::model(|| {
        let all = taken(Counter::new(0xfe), 2, |counter, _| counter.take(1, 0xff));
        assert_distinct(&all);
    });
}

/// `percpu-stride`: threads 0 and 2 are on the first CPU of two, thread 1 on the second.
#[test]
fn loom_strides_do_not_meet() {
    loom::model(|| {
        let counters = [Counter::new(u32::MAX - 1), Counter::new(u32::MAX)];
        let all = taken(counters, 3, |counters, thread| {
            let generation = counters[thread % 2].take(2, u32::MAX);
            assert_eq!(generation as usize % 2, thread % 2);
            generation
        });
        assert_distinct(&all);
    });
}

/// A slice of four generations, and how many bases were drawn for it, which loom need not know.
struct Drained {
    slice: Slice,
    bases: AtomicUsize,
}

impl Drained {
    /// The slice of generations 4 to 7, with `left` of them left.
    fn new(left: u64) -> Drained {
        Drained {
            slice: Slice {
                first: 4,
                len: 4,
                next: AtomicU64::new(4 - left),
            },
            bases: AtomicUsize::new(0),
        }
    }

    fn take(&self) -> u32 {
        let generation = self.slice.take(|len| {
            assert_eq!(len, 4);
            self.bases.fetch_add(1, Relaxed);
            0
        });
        assert!((4..8).contains(&generation), "{generation} is another's");
        generation
    }
}

/// `percpu-range`: the slice runs out under two threads. The last one generation is given once, and
/// what follows comes from one new base: the first three generations from there.
#[test]
fn loom_a_slice_that_runs_out_starts_again_once() {
    loom::model(|| {
        let mut all = taken(Drained::new(1), 2, |drained, _| drained.take());
        all.sort_unstable();
        assert_eq!(all, [4, 5, 6, 7]);
    });
}

/// The same with nothing left.
#[test]
fn loom_a_slice_that_ran_out_starts_again_once() {
    loom::model(|| {
        let mut all = taken(Drained::new(0), 2, |drained, _| drained.take());
        all.sort_unstable();
        assert_eq!(all, [4, 5, 6, 7]);
    });
}

/// With three threads, in every order that has at most three preemptions.
#[test]
fn loom_of_three_that_start_a_slice_one_does() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let drained = Arc::new(Drained::new(0));
        let handles: Vec<_> = (0..2)
            .map(|_| {
                let drained = Arc::clone(&drained);
                thread::spawn(move || drained.take())
            })
            .collect();
        let mut all = vec![drained.take()];
        all.extend(handles.into_iter().map(|h| h.join().unwrap()));
        all.sort_unstable();
        assert_eq!(all, [4, 5, 6]);
        let bases = drained.bases.load(Relaxed);
        assert!((1..=3).contains(&bases), "{bases}");
    });
}

/// A slice so short that it runs out again while others still start it: each generation is given as often
/// as bases were used.
#[test]
fn loom_a_short_slice_runs_out_again_and_again() {
    loom::model(|| {
        let slice = Slice {
            first: 9,
            len: 1,
            next: AtomicU64::new(1),
        };
        let all = taken(slice, 2, |slice, _| slice.take(|_| 0));
        assert_eq!(all, [9; 4]);
    });
}

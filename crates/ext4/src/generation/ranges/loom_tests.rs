//! Ranges in every order that the memory model allows.

use super::*;
use loom::sync::Arc;
use loom::thread;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU32 as Unmodelled;

/// Base `b` of a run is `b << 8`: a generation shows to which base it belongs.
const BASE_SHIFT: u32 = 8;

/// Ranges of two CPUs, and how many bases were drawn for them, which loom need not know.
struct Ranges {
    bases: Bases,
    cpus: [CpuRange; 2],
    drawn: Unmodelled,
}

impl Ranges {
    /// Ranges of `len` generations, of which CPU 0 has `left` left and CPU 1 all.
    fn new(len: u64, left: u64) -> Arc<Ranges> {
        let bases = Bases {
            current: AtomicU64::new(Base::new(0, 1 << BASE_SHIFT).0),
            len,
            mask: u32::MAX,
        };
        let cpus = [CpuRange::new(0, &bases), CpuRange::new(1, &bases)];
        let ranges = Ranges {
            bases,
            cpus,
            drawn: Unmodelled::new(1),
        };
        for _ in left..len {
            ranges.take(0);
        }
        assert_eq!(ranges.drawn.load(Relaxed), 1);
        Arc::new(ranges)
    }

    fn take_each<const N: usize>(&self, cpu: usize) -> [u32; N] {
        let taken = self.cpus[cpu].take(&self.bases, || {
            (self.drawn.fetch_add(1, Relaxed) + 1) << BASE_SHIFT
        });
        for generation in taken {
            let place = u64::from(generation) & ((1 << BASE_SHIFT) - 1);
            let own = cpu as u64 * self.bases.len..(cpu as u64 + 1) * self.bases.len;
            assert!(own.contains(&place), "{generation:#x} is another CPU's");
        }
        taken
    }

    fn take(&self, cpu: usize) -> u32 {
        let [generation] = self.take_each(cpu);
        generation
    }

    /// The base of which generations are given now.
    fn base(&self) -> u32 {
        self.bases.load().base() >> BASE_SHIFT
    }
}

fn base_of(generation: u32) -> u32 {
    generation >> BASE_SHIFT
}

fn assert_distinct(generations: &[u32]) {
    let distinct: HashSet<_> = generations.iter().collect();
    assert_eq!(distinct.len(), generations.len(), "{generations:x?}");
}

/// How many were given of each base, the first base first.
fn given_of_bases(generations: &[u32]) -> Vec<usize> {
    let mut given = BTreeMap::new();
    for generation in generations {
        *given.entry(base_of(*generation)).or_default() += 1;
    }
    given.into_values().collect()
}

/// What a thread for each list gets on these CPUs in turn.
fn taken(ranges: &Arc<Ranges>, threads: &[&'static [usize]]) -> Vec<u32> {
    let take = |ranges: &Ranges, cpus: &[usize]| -> Vec<u32> {
        cpus.iter().map(|cpu| ranges.take(*cpu)).collect()
    };
    let [own, others @ ..] = threads else {
        unreachable!("at least one")
    };
    let handles: Vec<_> = others
        .iter()
        .map(|&cpus| {
            let ranges = Arc::clone(ranges);
            thread::spawn(move || take(&ranges, cpus))
        })
        .collect();
    let mut all = take(ranges, own);
    for handle in handles {
        all.extend(handle.join().unwrap());
    }
    all
}

/// Two threads on one CPU, which has one generation left: it is given once, and what follows is of one new base.
#[test]
fn loom_a_range_that_runs_out_is_based_anew_once() {
    loom::model(|| {
        let ranges = Ranges::new(4, 1);
        let all = taken(&ranges, &[&[0, 0], &[0, 0]]);
        assert_distinct(&all);
        assert_eq!(given_of_bases(&all), [1, 3], "{all:x?}");
    });
}

/// The same with nothing left.
#[test]
fn loom_a_range_that_is_used_up_is_based_anew_once() {
    loom::model(|| {
        let ranges = Ranges::new(4, 0);
        let all = taken(&ranges, &[&[0, 0], &[0, 0]]);
        assert_distinct(&all);
        assert_eq!(given_of_bases(&all), [4], "{all:x?}");
    });
}

/// One CPU runs out beside another: from then on both give of the new base.
#[test]
fn loom_all_cpus_are_based_anew() {
    loom::model(|| {
        let ranges = Ranges::new(4, 1);
        let mut all = taken(&ranges, &[&[0, 0], &[1, 1]]);
        assert_eq!(given_of_bases(&all).len(), 2, "{all:x?}");
        for cpu in [0, 1] {
            let next = ranges.take(cpu);
            assert_eq!(base_of(next), ranges.base());
            all.push(next);
        }
        assert_distinct(&all);
        assert_eq!(ranges.drawn.load(Relaxed), 2);
    });
}

/// Threads that move to the other CPU between their draws, or in the middle of one.
#[test]
fn loom_threads_that_move_get_each_generation_once() {
    loom::model(|| {
        let ranges = Ranges::new(2, 1);
        let all = taken(&ranges, &[&[0, 1], &[1, 0]]);
        assert_distinct(&all);
    });
}

/// Both CPUs run out at the same time: one new base is installed, and both take it.
#[test]
fn loom_two_cpus_that_run_out_get_one_base() {
    loom::model(|| {
        let ranges = Ranges::new(2, 0);
        ranges.take(1);
        ranges.take(1);
        let all = taken(&ranges, &[&[0], &[1]]);
        assert_distinct(&all);
        assert_eq!(given_of_bases(&all), [2], "{all:x?}");
    });
}

/// Three threads, in every order that has at most three preemptions.
#[test]
fn loom_of_three_that_draw_a_base_one_installs_it() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ranges = Ranges::new(4, 0);
        let all = taken(&ranges, &[&[0], &[0], &[1]]);
        assert_distinct(&all);
        let drawn = ranges.drawn.load(Relaxed);
        assert!((2..=3).contains(&drawn), "{drawn}");
        let next = [ranges.take(0), ranges.take(1)];
        assert_eq!(base_of(next[0]), base_of(next[1]));
    });
}

/// Ranges so short that they run out again while others still take the base before, in every order that has at most
/// three preemptions.
#[test]
fn loom_short_ranges_run_out_again_and_again() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ranges = Ranges::new(1, 0);
        let all = taken(&ranges, &[&[0, 0], &[0, 1]]);
        assert_distinct(&all);
    });
}

/// Pairs beside single generations, where one is left at the end: it is not given in a pair.
#[test]
fn loom_pairs_are_of_one_base() {
    loom::model(|| {
        let ranges = Ranges::new(3, 3);
        let other = Arc::clone(&ranges);
        let pairs = thread::spawn(move || [other.take_each::<2>(0), other.take_each::<2>(0)]);
        let mut all = vec![ranges.take(0)];
        let pairs = pairs.join().unwrap();
        assert!(pairs.iter().all(|[a, b]| a + 1 == *b), "{pairs:x?}");
        all.extend(pairs.concat());
        assert_distinct(&all);
    });
}

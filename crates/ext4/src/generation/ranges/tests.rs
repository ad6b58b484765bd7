use super::*;
use std::collections::HashSet;

fn no_new_base() -> u32 {
    unreachable!("no range is used up")
}

fn one(range: &CpuRange, bases: &Bases, draw: impl FnMut() -> u32) -> u32 {
    let [generation] = range.take(bases, draw);
    generation
}

#[test]
fn the_ranges_of_a_base_cover_all_generations_once() {
    for cpus in [1, 2, 8, 64] {
        for (bits, base) in [(8, 0), (8, 1), (8, 0x9c), (16, 0xfff0)] {
            let bases = Bases::new(cpus, (1 << bits) - 1, base);
            let mut seen = HashSet::new();
            for cpu in 0..cpus {
                let range = CpuRange::new(cpu, &bases);
                let first = (base + (cpu << bits) as u32 / cpus as u32) & bases.mask;
                let all = 0..bases.len as u32;
                let of_cpu = all.map(|i| (first + i) & bases.mask).filter(|g| *g != 0);
                for expected in of_cpu {
                    assert_eq!(one(&range, &bases, no_new_base), expected);
                    assert!(seen.insert(expected), "{expected} twice");
                }
            }
            assert_eq!(seen.len(), (1 << bits) - 1);
        }
    }
}

#[test]
fn one_range_that_is_used_up_bases_all_anew() {
    let bases = Bases::new(4, 0xffff, 0x1000);
    let ranges: Vec<_> = (0..4).map(|cpu| CpuRange::new(cpu, &bases)).collect();
    assert_eq!(one(&ranges[1], &bases, no_new_base), 0x5000);
    for i in 0..0x4000 {
        assert_eq!(one(&ranges[2], &bases, no_new_base), 0x9000 + i);
    }
    let mut draws = 0;
    let draw = || {
        draws += 1;
        0x2345
    };
    assert_eq!(one(&ranges[2], &bases, draw), 0xa345);
    assert_eq!(draws, 1);
    for (cpu, expected) in [
        (0, 0x2345),
        (1, 0x6345),
        (2, 0xa346),
        (3, 0xe345),
        (1, 0x6346),
    ] {
        assert_eq!(one(&ranges[cpu], &bases, no_new_base), expected, "{cpu}");
    }
}

#[test]
fn one_generation_left_is_not_enough_for_two() {
    let bases = Bases::new(64, 0xff, 0x40);
    let range = CpuRange::new(1, &bases);
    assert_eq!(range.take(&bases, no_new_base), [0x44, 0x45, 0x46]);
    assert_eq!(range.take(&bases, || 0x80), [0x84, 0x85]);
    assert_eq!(one(&range, &bases, no_new_base), 0x86);
    assert_eq!(one(&range, &bases, no_new_base), 0x87);
}

#[test]
fn pairs_leave_out_zero() {
    let bases = Bases::new(1, 0xff, 0xfe);
    let range = CpuRange::new(0, &bases);
    assert_eq!(one(&range, &bases, no_new_base), 0xfe);
    assert_eq!(range.take(&bases, no_new_base), [1, 2]);
}

#[test]
fn the_widest_range_ends_where_generations_do() {
    let bases = Bases::new(1, u32::MAX, 7);
    let range = CpuRange::new(0, &bases);
    range.given.store(Given::new(0, (1 << 32) - 2).0, Relaxed);
    assert_eq!(one(&range, &bases, no_new_base), 5);
    assert_eq!(one(&range, &bases, no_new_base), 6);
    assert_eq!(one(&range, &bases, || 9), 9);
    assert_eq!(one(&range, &bases, no_new_base), 10);
}

#[test]
fn epochs_wrap() {
    let bases = Bases::new(2, 0xffff, 0);
    let ranges = [CpuRange::new(0, &bases), CpuRange::new(1, &bases)];
    bases.current.store(Base::new(EPOCH_MASK, 0x100).0, Relaxed);
    for _ in 0..bases.len {
        one(&ranges[0], &bases, no_new_base);
    }
    assert_eq!(one(&ranges[0], &bases, || 0x200), 0x200);
    assert_eq!(bases.load(), Base::new(0, 0x200));
    // Its count is still of the first epoch 0.
    assert_eq!(one(&ranges[1], &bases, no_new_base), 0x8200);
}

/// Threads that move between two ranges, which are used up again and again: each base has a place of its own among the
/// numbers, so no generation may come twice.
#[test]
fn threads_on_ranges_that_run_out() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    const EACH: usize = 50_000;
    // The bases lie further apart than what is given of one.
    let bases = Bases {
        len: 5,
        ..Bases::new(2, u32::MAX, 0)
    };
    let ranges = [CpuRange::new(0, &bases), CpuRange::new(1, &bases)];
    let drawn = AtomicU32::new(0);
    let draw = || (drawn.fetch_add(1, Relaxed) + 1) * 16;
    let all: Vec<Vec<u32>> = std::thread::scope(|s| {
        let work = |thread: usize| {
            let (ranges, bases) = (&ranges, &bases);
            move || {
                let on = |i: usize| &ranges[(i / 7 + thread) % 2];
                (0..EACH).map(|i| one(on(i), bases, draw)).collect()
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| s.spawn(work(thread))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let distinct: HashSet<u32> = all.iter().flatten().copied().collect();
    assert_eq!(distinct.len(), 4 * EACH);
}

use super::*;
use std::collections::HashSet;

/// Draws at narrow widths, where every rare case happens.
const DRAWS: usize = 100_000;

#[test]
fn no_variant_gives_zero_or_more_bits_than_asked() {
    for variant in GenerationVariant::ALL {
        for bits in [8, 9, 16, 31, 32] {
            let generator = Generator::with_width(variant, bits);
            let mut last = None;
            for _ in 0..DRAWS {
                let drawn = generator.draw(last);
                assert_ne!(drawn.0, 0, "{variant}, {bits} bits");
                assert!(u64::from(drawn.0) < 1 << bits, "{variant}, {bits} bits");
                last = Some(drawn);
            }
        }
    }
}

#[test]
fn widths_out_of_range_are_brought_into_it() {
    assert_eq!(
        Generator::with_width(GenerationVariant::Random, 1).mask,
        0xff
    );
    assert_eq!(
        Generator::with_width(GenerationVariant::Random, 99).mask,
        u32::MAX
    );
    assert_eq!(Generator::new(GenerationVariant::Random).mask, u32::MAX);
}

#[test]
fn beyond_never_repeats_back_to_back() {
    let generator = Generator::with_width(GenerationVariant::Beyond, 8);
    let mut last = generator.draw(None);
    for _ in 0..1_000_000 {
        let drawn = generator.draw(Some(last));
        assert_ne!(drawn, last);
        last = drawn;
    }
}

#[test]
fn random_repeats_back_to_back() {
    let generator = Generator::with_width(GenerationVariant::Random, 8);
    let drawn: Vec<_> = (0..DRAWS).map(|_| generator.draw(None)).collect();
    let repeats = drawn.windows(2).filter(|w| w[0] == w[1]).count();
    // One in 255 is 392; the chance to miss these bounds is below 10^-20.
    assert!((200..600).contains(&repeats), "{repeats} repeats");
}

#[test]
fn every_stamp_is_drawn() {
    for variant in GenerationVariant::ALL {
        let generator = Generator::with_width(variant, 8);
        let mut seen = HashSet::new();
        match &generator.source {
            // The thread may stay on one CPU, which has only its share.
            Source::PercpuRange(slices) => {
                for slice in slices.iter() {
                    seen.extend((0..DRAWS).map(|_| slice.take(random::below)));
                }
            }
            Source::PercpuStride(counters, cpus) => {
                for counter in counters.iter() {
                    seen.extend((0..256).map(|_| counter.take(*cpus, generator.mask)));
                }
            }
            _ => seen.extend((0..DRAWS).map(|_| generator.draw(None).0)),
        }
        assert_eq!(seen.len(), 255, "{variant}");
    }
}

#[test]
fn one_counter_gives_all_stamps_before_it_repeats() {
    for variant in [GenerationVariant::Spinlock, GenerationVariant::Atomic] {
        let generator = Generator::with_width(variant, 8);
        let first: Vec<_> = (0..255).map(|_| generator.draw(None)).collect();
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), 255, "{variant}");
        let again: Vec<_> = (0..255).map(|_| generator.draw(None)).collect();
        assert_eq!(first, again, "{variant}");
    }
}

#[test]
fn counters_wrap_around() {
    let counter = Counter::new(u32::MAX);
    assert_eq!(counter.take(1, u32::MAX), u32::MAX);
    assert_eq!(counter.take(1, u32::MAX), 1, "not 0");
    let stride = Counter::new(0xffff_fffd);
    assert_eq!(stride.take(4, u32::MAX), 0xffff_fffd);
    assert_eq!(stride.take(4, u32::MAX), 1, "the low bits stay");
    let locked = Mutex::new(&class::GENERATION, u32::MAX);
    assert_eq!(counters::take_locked(&locked, u32::MAX), 1);
    assert_eq!(counters::take_locked(&locked, 0xff), 2);
}

#[test]
fn slices_cover_all_stamps_once() {
    for cpus in [1, 2, 8, 64] {
        for bits in [8, 16] {
            let mut seen = HashSet::new();
            for cpu in 0..cpus {
                let slice = Slice::new(cpu, cpus, bits, |_| 0);
                let len = (1usize << bits) / cpus - usize::from(cpu == 0);
                for _ in 0..len {
                    let no_new_base = |_| unreachable!("it has not run out");
                    assert!(seen.insert(slice.take(no_new_base)), "twice");
                }
                let first = slice.take(|_| 0);
                assert!(seen.contains(&first), "its own, again");
            }
            assert_eq!(seen.len(), (1 << bits) - 1);
            assert!(!seen.contains(&0));
        }
    }
}

#[test]
fn the_widest_slice_ends_where_stamps_do() {
    let slice = Slice::new(0, 1, 32, |len| len - 1);
    assert_eq!(slice.take(|_| 5), u32::MAX);
    assert_eq!(slice.take(|_| 5), 6);
    assert_eq!(slice.take(|_| 5), 7);
    let last = Slice::new(63, 64, 32, |len| len - 1);
    assert_eq!(last.take(|_| 0), u32::MAX);
    assert_eq!(last.take(|_| 0), 63 << 26);
}

#[test]
fn no_two_cpus_give_the_same_stamp() {
    let stride = Generator::with_width(GenerationVariant::PercpuStride, 16);
    let Source::PercpuStride(counters, cpus) = &stride.source else {
        unreachable!("the variant asked for")
    };
    let mut seen = HashSet::new();
    for (cpu, counter) in counters.iter().enumerate() {
        // One less for 0, which the first CPU leaves out.
        for _ in 0..(1 << 16) / cpus - 1 {
            let generation = counter.take(*cpus, stride.mask);
            assert_eq!(generation % cpus, cpu as u32);
            assert!(seen.insert(generation), "{generation} twice");
        }
    }
    let range = Generator::with_width(GenerationVariant::PercpuRange, 16);
    let Source::PercpuRange(slices) = &range.source else {
        unreachable!("the variant asked for")
    };
    let shares: Vec<HashSet<u32>> = slices
        .iter()
        .map(|slice| (0..DRAWS).map(|_| slice.take(random::below)).collect())
        .collect();
    for (i, a) in shares.iter().enumerate() {
        for b in shares.iter().skip(i + 1) {
            assert!(a.is_disjoint(b));
        }
    }
}

#[test]
fn threads_share_a_generator() {
    for variant in [
        GenerationVariant::Spinlock,
        GenerationVariant::Atomic,
        GenerationVariant::PercpuStride,
    ] {
        let generator = Generator::new(variant);
        let draw = || (0..10_000).map(|_| generator.draw(None).0).collect();
        let drawn: Vec<Vec<u32>> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..4).map(|_| s.spawn(draw)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let all: HashSet<u32> = drawn.iter().flatten().copied().collect();
        assert_eq!(all.len(), 40_000, "{variant}");
    }
}

#[test]
fn generators_start_at_random() {
    for variant in GenerationVariant::ALL {
        let (a, b) = (Generator::new(variant), Generator::new(variant));
        let drawn = |g: &Generator| (0..4).map(|_| g.draw(None)).collect::<Vec<_>>();
        assert_ne!(drawn(&a), drawn(&b), "{variant}");
    }
}

#[test]
fn what_is_counted_is_what_is_taken() {
    stat::enable(true);
    for variant in GenerationVariant::ALL {
        let before = acquisitions();
        let generator = Generator::new(variant);
        for _ in 0..1000 {
            let _ = generator.draw(None);
        }
        let taken = acquisitions() - before;
        let lock_free = matches!(
            variant,
            GenerationVariant::Random | GenerationVariant::Beyond
        );
        // Other tests count at the same time.
        assert!(lock_free || taken >= 1000, "{variant}: {taken}");
    }
    stat::enable(false);
}

fn acquisitions() -> u64 {
    stat::snapshot()
        .iter()
        .filter(|row| row.class == class::GENERATION.name)
        .map(|row| row.acquisitions)
        .sum()
}

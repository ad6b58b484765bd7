use super::*;
use std::collections::HashSet;

/// Draws at narrow widths, where every rare case happens.
const DRAWS: usize = 100_000;

#[test]
fn only_none_gives_zero_and_no_variant_more_bits_than_asked() {
    for variant in GenerationVariant::ALL {
        for bits in [8, 9, 16, 31, 32] {
            let generator = Generator::with_width(variant, bits);
            let mut last = None;
            for _ in 0..DRAWS {
                let drawn = generator.draw(last);
                let is_none = variant == GenerationVariant::None;
                assert_eq!(drawn.0 == 0, is_none, "{variant}, {bits} bits");
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
    for variant in [GenerationVariant::Random, GenerationVariant::RandomPrng] {
        let generator = Generator::with_width(variant, 8);
        let drawn: Vec<_> = (0..DRAWS).map(|_| generator.draw(None)).collect();
        let repeats = drawn.windows(2).filter(|w| w[0] == w[1]).count();
        // One in 255 is 392; the chance to miss these bounds is below 10^-20.
        assert!((200..600).contains(&repeats), "{variant}: {repeats}");
    }
}

#[test]
fn every_stamp_is_drawn() {
    for variant in GenerationVariant::ALL {
        let generator = Generator::with_width(variant, 8);
        let mut seen = HashSet::new();
        match &generator.source {
            // The thread may stay on one CPU, which has only its share.
            Source::PercpuStride(counters, cpus) => {
                for counter in counters.iter() {
                    seen.extend((0..256).flat_map(|_| counter.take::<1>(*cpus, generator.mask)));
                }
            }
            Source::None => continue,
            _ => {
                let mut last = None;
                seen.extend((0..DRAWS).map(|_| {
                    let drawn = generator.draw(last);
                    last = Some(drawn);
                    drawn.0
                }));
            }
        }
        assert_eq!(seen.len(), 255, "{variant}");
    }
}

#[test]
fn increment_gives_what_follows_the_former_one() {
    let generator = Generator::new(GenerationVariant::Increment);
    for (last, next) in [
        (None, 1),
        (Some(0), 1),
        (Some(1), 2),
        (Some(u32::MAX), 1),
        (Some(0x8000_0000), 0x8000_0001),
    ] {
        assert_eq!(generator.draw(last.map(Generation)), Generation(next));
    }
}

#[test]
fn two_generations_in_one_draw() {
    for variant in GenerationVariant::ALL {
        for bits in [8, 32] {
            let generator = Generator::with_width(variant, bits);
            let mut last = [Generation(3), Generation(200)];
            for _ in 0..DRAWS {
                let [a, b] = generator.redraw(last);
                let what = format!("{variant}, {bits} bits: {last:?}, {a:?}, {b:?}");
                match variant {
                    GenerationVariant::None => assert_eq!([a, b], last, "{what}"),
                    _ => assert!(a.0 != 0 && b.0 != 0, "{what}"),
                }
                let follows = |a: u32| [a + 1];
                match &generator.source {
                    Source::Spinlock(_) | Source::Atomic(_) | Source::Percpu(_) => {
                        assert_eq!([b.0], follows(a.0), "{what}");
                    }
                    Source::PercpuRange(..) => {
                        assert_eq!(b.0, (a.0 + 1) & generator.mask, "{what}");
                    }
                    Source::PercpuStride(_, cpus) => {
                        assert_eq!(b.0, a.0.wrapping_add(*cpus) & generator.mask, "{what}");
                    }
                    Source::Increment => {
                        assert_eq!(generator.draw(Some(last[0])), a, "{what}");
                        assert_eq!(generator.draw(Some(last[1])), b, "{what}");
                    }
                    Source::Beyond => assert!(a != last[0] && b != last[1], "{what}"),
                    Source::Random | Source::RandomPrng | Source::None => {}
                }
                last = [a, b];
            }
        }
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
    assert_eq!(counter.take(1, u32::MAX), [u32::MAX]);
    assert_eq!(counter.take(1, u32::MAX), [1], "not 0");
    let stride = Counter::new(0xffff_fffd);
    assert_eq!(stride.take(4, u32::MAX), [0xffff_fffd]);
    assert_eq!(stride.take(4, u32::MAX), [1], "the low bits stay");
    let locked = Mutex::new(&class::GENERATION, u32::MAX);
    assert_eq!(counters::take_locked(&locked, u32::MAX), [1]);
    assert_eq!(counters::take_locked(&locked, 0xff), [2]);
}

#[test]
fn pairs_wrap_around_without_zero() {
    let counter = Counter::new(u32::MAX);
    assert_eq!(counter.take(1, u32::MAX), [1, 2], "neither is 0");
    let counter = Counter::new(u32::MAX - 1);
    assert_eq!(counter.take(1, u32::MAX), [u32::MAX - 1, u32::MAX]);
    assert_eq!(counter.take(1, u32::MAX), [2, 3]);
    let locked = Mutex::new(&class::GENERATION, u32::MAX - 1);
    assert_eq!(counters::take_locked(&locked, u32::MAX), [1, 2]);
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
            let [generation] = counter.take(*cpus, stride.mask);
            assert_eq!(generation % cpus, cpu as u32);
            assert!(seen.insert(generation), "{generation} twice");
        }
    }
}

#[test]
fn threads_share_a_generator() {
    for variant in [
        GenerationVariant::Spinlock,
        GenerationVariant::Atomic,
        GenerationVariant::PercpuRange,
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
    let not_random = [GenerationVariant::Increment, GenerationVariant::None];
    for variant in GenerationVariant::ALL
        .into_iter()
        .filter(|v| !not_random.contains(v))
    {
        let (a, b) = (Generator::new(variant), Generator::new(variant));
        let drawn = |g: &Generator| (0..4).map(|_| g.draw(None)).collect::<Vec<_>>();
        assert_ne!(drawn(&a), drawn(&b), "{variant}");
    }
}

/// No draw of another thread comes between the two.
#[test]
fn two_generations_are_neighbours_beside_other_threads() {
    for variant in [
        GenerationVariant::Spinlock,
        GenerationVariant::Atomic,
        GenerationVariant::Percpu,
        GenerationVariant::PercpuRange,
        GenerationVariant::PercpuStride,
    ] {
        let generator = Generator::new(variant);
        let step = match &generator.source {
            Source::PercpuStride(_, cpus) => *cpus,
            _ => 1,
        };
        let draw = || {
            for _ in 0..20_000 {
                let [a, b] = generator.redraw([Generation(1), Generation(2)]);
                assert_eq!(b.0, a.0.wrapping_add(step), "{variant}");
            }
        };
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(draw);
            }
        });
    }
}

#[test]
fn what_is_counted_is_what_is_taken() {
    stat::enable(true);
    for variant in GenerationVariant::ALL {
        let generator = Generator::new(variant);
        let before = acquisitions();
        for _ in 0..1000 {
            let _ = generator.draw(None);
        }
        let drawn = acquisitions();
        for _ in 0..1000 {
            let _ = generator.redraw([Generation(1), Generation(2)]);
        }
        let taken = [drawn - before, acquisitions() - drawn];
        let counts = matches!(
            generator.source,
            Source::Spinlock(_)
                | Source::Atomic(_)
                | Source::Percpu(_)
                | Source::PercpuRange(..)
                | Source::PercpuStride(..)
        );
        // Other tests count at the same time.
        assert!(
            !counts || taken.iter().all(|n| *n >= 1000),
            "{variant}: {taken:?}"
        );
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

/// A range of each CPU has room, also where generations are narrow and CPUs many.
#[cfg(virtual_cpus)]
#[test]
fn virtual_cpus_have_generations_of_their_own() {
    for cpus in [64, 256, 1024] {
        uext4_sync::virtual_cpus::set_count(cpus);
        for variant in GenerationVariant::ALL {
            let generator = Generator::with_width(variant, 8);
            let drawn = (0..10).map(|_| generator.draw(None).0);
            let is_none = variant == GenerationVariant::None;
            assert!(
                drawn.into_iter().all(|drawn| (drawn == 0) == is_none),
                "{variant}"
            );
        }
    }
}

//! How often stamps repeat, by arithmetic, for each variant and the experiments of [`super::repeats`].
//!
//! Stamps are 1 to M, where M = 2^bits - 1. There are C CPUs.
//!
//! **Random.** A draw equals a given stamp with 1/M, whatever came before: back to back, and for a handle
//! of any age. The first repeat among all draws follows after sqrt(pi M / 2) + 2/3 (the birthday problem).
//!
//! **Beyond.** A draw is uniform over the M - 1 stamps that are not the last. The stamp after k reuses
//! equals the one before them with `1/M + (1 - 1/M) r^k`, where r = -1/(M - 1): 0 for k = 1, 1/(M - 1)
//! for k = 2, soon 1/M. For k geometric with success p, the mean is `1/M + (1 - 1/M) p r / (1 - (1 - p) r)`,
//! which is about (1 - p)/M. The last stamp is known only for an inode's own reuse, so that the first
//! repeat in the population is that of random.
//!
//! **Counters** (`spinlock`, `atomic`; `percpu` on each CPU; `percpu-stride` with the period 2^bits / C
//! instead of M). A stamp comes again after a multiple of the period P of draws, and never else.
//! Back to back: never. Of all pairs of n draws in a row, (n/P - 1)/(n - 1) are equal. In the population
//! it depends on how far the counter moved while the handle was held. Each draw gives the handle's inode
//! a new stamp with a probability that makes the draws S until a trial geometric with success a: so
//! P(S is a multiple of P) = a q^(P-1) / (1 - q^P), where q = 1 - a. That is 1/P if the counter wraps
//! many times meanwhile, and 0 if it does not get round. a is p/N for a counter that all threads
//! share (N inodes, handles held for 1/p reuses), and p T/N for one of T threads on a CPU of its own,
//! where only its own draws count.
//!
//! **Range.** There are S = 2^bits stamps, 0 among them. A CPU gives L = S / C stamps in a row, then all CPUs get a new base,
//! which is uniform: a run of L stamps has none twice, and a stamp of a later run equals a given one with 1/S. Back to
//! back: the first of a run equals the last of the run before, 1/(S L) of all draws. Of all pairs of n draws, those in
//! different runs, (n - L)/(n - 1), are equal with 1/S. In the population a handle that was given j draws before the end of its run
//! is of an earlier run after S > j draws with q^j, the mean of which over j < L is (1 - q^L)/(L a). The
//! first repeat of one CPU: that m whole runs and x draws of the next have no stamp twice means that m + 1 arcs of a circle of S do
//! not overlap, which has the probability `(1 - (m L + x)/S)^m`; the mean is the sum of that over all numbers of draws,
//! and the integral over x is closed.
//!
//! **Increment.** Each inode has a counter of its own: as a counter, with a = p for the population. Two inodes that were never used
//! begin with the same stamp.
//!
//! **None.** Every stamp is 0.

use super::{HOLD, INODES};
use serde::Serialize;
use uext4_ext4::GenerationVariant;

/// Where the threads ran.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Shares that the per-CPU variants make.
    pub cpus: usize,
    /// Threads that draw.
    pub threads: usize,
    /// The chance that two draws of a thread were on the same CPU: 1 if it stayed.
    pub same_cpu: f64,
}

/// What to expect; the fields of [`super::repeats::Measured`], as rates.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Expected {
    /// For each reuse of one inode.
    pub back_to_back: f64,
    /// For a pair of uses of one inode.
    pub earlier_handle: f64,
    /// For a reuse in a population.
    pub stale_handle: f64,
    /// Draws, the mean.
    pub first_repeat: f64,
    /// The reason in a line.
    #[serde(skip)]
    pub why: &'static str,
}

/// What a variant is expected to do in `reuses` of stamps of `bits` bits.
pub fn expected(variant: GenerationVariant, bits: u32, reuses: u64, at: Placement) -> Expected {
    let all = 2f64.powi(bits as i32);
    let n = reuses as f64 / at.threads as f64;
    // Success for each draw of a counter that all threads, or that one thread moves.
    let shared = 1.0 / (HOLD as f64 * INODES as f64);
    let own = shared * at.threads as f64;
    match variant {
        GenerationVariant::Random | GenerationVariant::RandomPrng => Expected {
            back_to_back: 1.0 / (all - 1.0),
            earlier_handle: 1.0 / (all - 1.0),
            stale_handle: 1.0 / (all - 1.0),
            first_repeat: birthday(all - 1.0),
            why: "every draw repeats a given stamp with 1/(2^bits - 1)",
        },
        GenerationVariant::Beyond => Expected {
            back_to_back: 0.0,
            earlier_handle: 1.0 / (all - 1.0),
            stale_handle: beyond_held(all - 1.0),
            first_repeat: birthday(all - 1.0),
            why: "as random, but never the stamp that the inode had last",
        },
        GenerationVariant::Spinlock | GenerationVariant::Atomic => Expected {
            why: "a stamp comes again when the counter, which all inodes share, went round",
            ..counter(all - 1.0, n, shared, 1.0)
        },
        GenerationVariant::Percpu => Expected {
            why: "a stamp comes again when its CPU's counter went round, or on another CPU by chance",
            ..counter(all - 1.0, n, own, 1.0)
        },
        GenerationVariant::PercpuStride => Expected {
            why: "as a counter, but each CPU has only its share of the stamps and wraps sooner",
            ..counter(all / at.cpus as f64, n, own, at.same_cpu)
        },
        GenerationVariant::PercpuRange => Expected {
            why: "every CPU's range is given from a random base on; the next base may repeat any of it",
            ..range(all, at.cpus, n, own)
        },
        GenerationVariant::Increment => Expected {
            first_repeat: 2.0,
            why: "a stamp comes again when its inode was used as often as there are stamps",
            ..counter(all - 1.0, n, 1.0 / HOLD as f64, 1.0)
        },
        GenerationVariant::None => Expected {
            back_to_back: 1.0,
            earlier_handle: 1.0,
            stale_handle: 1.0,
            first_repeat: 2.0,
            why: "there are no stamps: every handle is accepted",
        },
    }
}

fn birthday(stamps: f64) -> f64 {
    (std::f64::consts::FRAC_PI_2 * stamps).sqrt() + 2.0 / 3.0
}

fn beyond_held(stamps: f64) -> f64 {
    let p = 1.0 / HOLD as f64;
    let r = -1.0 / (stamps - 1.0);
    1.0 / stamps + (1.0 - 1.0 / stamps) * p * r / (1.0 - (1.0 - p) * r)
}

/// `a` as in the module's head; `same_cpu` is the chance that two draws could be equal at all.
fn counter(period: f64, n: f64, a: f64, same_cpu: f64) -> Expected {
    Expected {
        back_to_back: 0.0,
        earlier_handle: same_cpu * ((n / period - 1.0) / (n - 1.0)).max(0.0),
        stale_handle: counter_held(period, a),
        first_repeat: period + 1.0,
        why: "",
    }
}

fn counter_held(period: f64, a: f64) -> f64 {
    let ln_q = (-a).ln_1p();
    // 1 - q^period, exact where q is near 1.
    let round = -(period * ln_q).exp_m1();
    a * ((period - 1.0) * ln_q).exp() / round
}

/// Of `all` stamps for `cpus` CPUs, in `n` draws.
fn range(all: f64, cpus: usize, n: f64, a: f64) -> Expected {
    let len = all / cpus as f64;
    Expected {
        back_to_back: 1.0 / (all * len),
        earlier_handle: ((n - len) / (n - 1.0)).max(0.0) / all,
        stale_handle: run_ended(len, a) / all,
        first_repeat: range_first_repeat(all, cpus),
        why: "",
    }
}

/// The probability that the run of a handle has ended: the mean of q^j over j < L.
fn run_ended(len: f64, a: f64) -> f64 {
    -(len * (-a).ln_1p()).exp_m1() / (len * a)
}

fn range_first_repeat(all: f64, cpus: usize) -> f64 {
    let share = 1.0 / cpus as f64;
    let runs = |m: usize| {
        let free = |runs: usize| (1.0 - runs as f64 * share).max(0.0).powi(m as i32 + 1);
        all / (m + 1) as f64 * (free(m) - free(m + 1))
    };
    1.0 + (0..cpus).map(runs).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn a_counter_that_goes_round_often_repeats_as_random_does() {
        near(counter_held(255.0, 1e-7), 1.0 / 255.0, 1e-4);
        // It does not get round.
        assert!(counter_held(4294967295.0, 1e-5) < 1e-300);
    }

    #[test]
    fn beyond_is_the_sum_over_ages() {
        let stamps = 255.0;
        let p = 1.0 / HOLD as f64;
        let sum: f64 = (1..2000)
            .map(|k| {
                let r: f64 = -1.0 / (stamps - 1.0);
                let equal = 1.0 / stamps + (1.0 - 1.0 / stamps) * r.powi(k);
                p * (1.0 - p).powi(k - 1) * equal
            })
            .sum();
        near(beyond_held(stamps), sum, 1e-9);
    }

    /// The closed form against the sum over the places of a run.
    #[test]
    fn a_run_ends_by_the_sum_over_its_places() {
        for (len, a) in [(8usize, 0.1), (32, 0.01), (20, 0.5), (128, 1e-6)] {
            let q: f64 = 1.0 - a;
            let sum: f64 = (0..len).map(|left| q.powi(left as i32)).sum();
            near(run_ended(len as f64, a), sum / len as f64, 1e-9);
        }
        // At 32 bits no run ends while a handle is held.
        assert!(run_ended(2f64.powi(31), 1e-5) < 1e-4);
    }

    /// The integral against every order of two or four runs on a small circle.
    #[test]
    fn the_first_repeat_of_runs() {
        for cpus in [1, 2, 4] {
            let all = 256;
            let len = all / cpus;
            let mut rng = fastrand::Rng::with_seed(1);
            let trials = 40_000;
            let mut draws = 0u64;
            for _ in 0..trials {
                let mut seen = vec![false; all];
                'runs: loop {
                    let base = rng.usize(..all);
                    for i in 0..len {
                        draws += 1;
                        let stamp = &mut seen[(base + i) % all];
                        if std::mem::replace(stamp, true) {
                            break 'runs;
                        }
                    }
                }
            }
            near(
                range_first_repeat(all as f64, cpus),
                draws as f64 / f64::from(trials),
                0.01,
            );
        }
    }
}

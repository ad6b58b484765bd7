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
//! **Range.** A CPU's slice has L = 2^bits / C stamps and is given from a random base b to its end, then
//! from a new base. A run has (L + 1)/2 draws on average; a new base equals the stamp before it only if
//! that was the slice's last and so is the base: back to back 2/(L (L + 1)). The stamp v is given in a
//! run if b <= v, so it has the share (v + 1) / (L (L + 1) / 2) of all draws, and two far apart are equal
//! with the sum of the squares, (2/3)(2L + 1)/(L (L + 1)), about 4/(3 L). In the population the nearness
//! in time counts: a visit of v at the end of S draws needs the run to end first, after L - v draws.
//! With the weights q^s the visits of v in all later runs sum up to q^(L-v) A / (1 - B), where
//! A = (1 - q^(v+1)) / (L a) are those in a run that just began and B = q (1 - q^L) / (L a) is the
//! weight of the end of that run; [`range_held`] sums that over v. The first repeat: the slice's first two
//! bases b and c, whichever is less, m, give it after L - m + 1 draws, and m is (L - 1)(2 L - 1)/(6 L).

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
        GenerationVariant::Random => Expected {
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
            why: "a CPU's slice is given to its end, then from a new random base, which repeats the rest",
            ..range(all / at.cpus as f64, own, at.same_cpu)
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

fn range(len: f64, a: f64, same_cpu: f64) -> Expected {
    Expected {
        back_to_back: 2.0 / (len * (len + 1.0)),
        earlier_handle: same_cpu * far_apart(len),
        stale_handle: range_held(len, a),
        first_repeat: len + 1.0 - (len - 1.0) * (2.0 * len - 1.0) / (6.0 * len),
        why: "",
    }
}

fn far_apart(len: f64) -> f64 {
    2.0 / 3.0 * (2.0 * len + 1.0) / (len * (len + 1.0))
}

/// The mean over v of `(a/q) q^(L-v) A(v) / (1 - B)`, in closed form.
fn range_held(len: f64, a: f64) -> f64 {
    // The closed form loses its digits there, and the limit is right within that.
    if a * len < 1e-2 {
        return far_apart(len);
    }
    let q = 1.0 - a;
    let q_len = (len * (-a).ln_1p()).exp();
    // Sums of q^j and j q^j for j from 1 to L.
    let sum = q * (1.0 - q_len) / a;
    let sum_j = q * (1.0 - (len + 1.0) * q_len + len * q_len * q) / (a * a);
    // The sum over u = v + 1 of u (q^(L+1-u) - q^(L+1)).
    let visits = (len + 1.0) * sum - sum_j - q_len * q * len * (len + 1.0) / 2.0;
    let share = 2.0 / (len * (len + 1.0));
    let run_ends = q * (1.0 - q_len) / (len * a);
    share * visits / (len * a) / (1.0 - run_ends) * a / q
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

    /// The closed form against the chain itself, step by step.
    #[test]
    fn range_is_the_sum_over_the_chain() {
        for (len, a) in [(8usize, 0.1), (32, 0.01), (20, 0.5)] {
            let q: f64 = 1.0 - a;
            let mut sum = 0.0;
            for v in 0..len {
                let share = (v + 1) as f64 / (len * (len + 1) / 2) as f64;
                let mut at = vec![0.0; len];
                at[v] = 1.0;
                let mut weight = a;
                for _ in 0..4000 {
                    let mut next = vec![at[len - 1] / len as f64; len];
                    for u in 1..len {
                        next[u] += at[u - 1];
                    }
                    at = next;
                    sum += share * weight * at[v];
                    weight *= q;
                }
            }
            near(range_held(len as f64, a), sum, 1e-6);
        }
        near(range_held(128.0, 1e-6), far_apart(128.0), 0.01);
        near(range_held(1024.0, 1.1e-5), far_apart(1024.0), 0.02);
    }
}

//! What arithmetic allows an arm whose writes exclude others.
//!
//! A closed system of N jobs, each with one request at a time; the device has room for all of them. With the probability p a request needs the lock exclusively: *writers* here; all others
//! share it: *readers*. The lock is phase-fair: when a writer lets readers in, all that wait come in, and
//! the next writer waits for all of them. So time goes in rounds, each as long as the slowest of its requests.
//! The state is w, the writers that wait; the other r = N - w jobs wait as readers. Each job that ended
//! draws anew.
//!
//! - w = 0: the N readers run.
//! - A writer that demotes (an overwrite with `exclusive-first` and dioread_nolock) shares the lock at once, so
//!   the r readers run in its round.
//! - A writer that stays alone (without dioread_nolock, or filling a hole) has a round for itself, and the
//!   readers that wait then, if there are any, have the next.
//!
//! The stationary distribution of that Markov chain, by power iteration, gives the requests that end in a round and
//! the time it takes. How long the slowest of k requests takes comes from the latencies of the bare device
//! with the fewest threads; if all are T, a round is T. Handing the lock over is taken to cost nothing.

use uext4_vfs::ilock::DioLock;

/// The chain's matrix has the square of this.
const JOBS_MAX: usize = 512;
const ITERATIONS_MAX: usize = 20_000;
const SETTLED: f64 = 1e-10;

/// What the requests of an arm do with the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exclusion {
    /// The share of all requests that need the lock exclusively.
    pub exclusive: f64,
    /// The share of those that keep it so until they end.
    pub alone: f64,
}

impl Exclusion {
    /// What `arm` does; `writes` is the share of requests that write, `holes` the share of those that fill
    /// a hole. `None`: nothing excludes.
    pub fn of(arm: DioLock, dioread_nolock: bool, writes: f64, holes: f64) -> Option<Exclusion> {
        let (exclusive, alone) = match (arm, dioread_nolock) {
            (DioLock::ExclusiveFirst, true) => (writes, holes),
            (DioLock::ExclusiveFirst | DioLock::SharedFirst, false) => (writes, 1.0),
            (DioLock::SharedFirst, true) | (DioLock::SharedAlways, _) => (writes * holes, 1.0),
            (DioLock::Range, _) => (0.0, 0.0),
        };
        (exclusive > 0.0).then_some(Exclusion { exclusive, alone })
    }

    /// Requests per second in the long run, where the slowest of k requests takes `seconds(k)`; `None` for
    /// more jobs than are worth the arithmetic.
    pub fn ops_per_s(self, jobs: usize, seconds: impl Fn(usize) -> f64) -> Option<f64> {
        if jobs > JOBS_MAX {
            return None;
        }
        let chain = Chain {
            jobs,
            exclusion: self,
            draws: binomials(jobs, self.exclusive),
            seconds: (0..=jobs).map(seconds).collect(),
        };
        let mut waiting = vec![0.0; jobs + 1];
        waiting[0] = 1.0;
        for _ in 0..ITERATIONS_MAX {
            let step = chain.step(&waiting);
            let change = step
                .waiting
                .iter()
                .zip(&waiting)
                .map(|(a, b)| (a - b).abs());
            let settled = change.sum::<f64>() < SETTLED;
            waiting = step.waiting;
            if settled {
                break;
            }
        }
        let step = chain.step(&waiting);
        (step.seconds > 0.0).then(|| step.ops / step.seconds)
    }
}

struct Chain {
    jobs: usize,
    exclusion: Exclusion,
    /// `draws[n][k]`: of n jobs that draw, k become writers.
    draws: Vec<Vec<f64>>,
    /// `seconds[k]`: what the slowest of k requests takes.
    seconds: Vec<f64>,
}

/// What comes of a distribution in one step.
struct Step {
    waiting: Vec<f64>,
    /// The mean of the requests that ended.
    ops: f64,
    /// The mean of the time it took.
    seconds: f64,
}

impl Chain {
    fn step(&self, waiting: &[f64]) -> Step {
        let mut step = Step {
            waiting: vec![0.0; self.jobs + 1],
            ops: 0.0,
            seconds: 0.0,
        };
        let alone = self.exclusion.alone;
        for (writers, &share) in waiting.iter().enumerate() {
            if share == 0.0 {
                continue;
            }
            let readers = self.jobs - writers;
            if writers == 0 {
                self.round(&mut step, share, readers);
                self.draw(&mut step, share, 0, readers);
                continue;
            }
            self.round(&mut step, share * (1.0 - alone), readers + 1);
            self.draw(&mut step, share * (1.0 - alone), writers - 1, readers + 1);
            self.round(&mut step, share * alone, 1);
            for (drawn, chance) in self.draws[1].iter().enumerate() {
                self.readers_after(&mut step, share * alone * chance, writers - 1 + drawn);
            }
        }
        step
    }

    /// With the probability `share`, `ended` requests end in one round.
    fn round(&self, step: &mut Step, share: f64, ended: usize) {
        step.ops += share * ended as f64;
        step.seconds += share * self.seconds[ended];
    }

    /// The round of the readers that a writer kept out.
    fn readers_after(&self, step: &mut Step, share: f64, writers: usize) {
        let readers = self.jobs - writers;
        if readers > 0 {
            self.round(step, share, readers);
        }
        self.draw(step, share, writers, readers);
    }

    /// `drawing` jobs draw while `writers` wait.
    fn draw(&self, step: &mut Step, share: f64, writers: usize, drawing: usize) {
        for (drawn, chance) in self.draws[drawing].iter().enumerate() {
            step.waiting[writers + drawn] += share * chance;
        }
    }
}

/// The binomial distributions of 0 to `most` draws, a row for each.
fn binomials(most: usize, p: f64) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![1.0]];
    for n in 1..=most {
        let last = &rows[n - 1];
        let row = (0..=n).map(|k| {
            let hit = if k > 0 { last[k - 1] * p } else { 0.0 };
            let miss = last.get(k).map_or(0.0, |at| at * (1.0 - p));
            hit + miss
        });
        let row = row.collect();
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_round(jobs: usize, exclusive: f64, alone: f64) -> f64 {
        let exclusion = Exclusion { exclusive, alone };
        exclusion.ops_per_s(jobs, |_| 1.0).unwrap()
    }

    fn assert_near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn one_job_or_writers_only_run_one_at_a_time() {
        for alone in [0.0, 0.3, 1.0] {
            assert_near(per_round(1, 0.5, alone), 1.0);
            assert_near(per_round(7, 1.0, alone), 1.0);
        }
    }

    /// Solved by hand: with two jobs, w is 0, 1, 2 with 1/6, 1/2, 1/3 if writers demote, and
    /// 1/17, 6/17, 10/17 if they stay alone.
    #[test]
    fn two_jobs() {
        assert_near(per_round(2, 0.5, 0.0), 5.0 / 3.0);
        assert_near(per_round(2, 0.5, 1.0), 8.0 / 7.0);
    }

    #[test]
    fn few_writers_leave_nearly_all_and_many_jobs_gain_little() {
        assert!(per_round(24, 0.0001, 0.0) > 23.0);
        // In the long run as many readers come out of a round as writers: 1/p end in it.
        assert!((per_round(24, 0.5, 0.0) - 2.0).abs() < 0.01);
        assert!(per_round(24, 0.5, 1.0) < per_round(24, 0.5, 0.5));
        assert!(per_round(24, 0.5, 0.5) < per_round(24, 0.5, 0.0));
    }

    /// As above, but a round of two takes twice as long as a round of one.
    #[test]
    fn slow_rounds_count_by_their_time() {
        let exclusion = Exclusion {
            exclusive: 0.5,
            alone: 0.0,
        };
        let twice = exclusion.ops_per_s(2, |k| k as f64).unwrap();
        assert_near(twice, 1.0);
        let half = exclusion.ops_per_s(24, |_| 0.5).unwrap();
        assert_near(half, 2.0 * per_round(24, 0.5, 0.0));
    }

    #[test]
    fn draws_add_up() {
        for row in binomials(40, 0.3) {
            assert_near(row.iter().sum(), 1.0);
        }
        assert_near(binomials(2, 0.5)[2][1], 0.5);
    }

    #[test]
    fn arms() {
        let of = |arm, nolock, holes| Exclusion::of(arm, nolock, 0.5, holes);
        let some = |exclusive, alone| Some(Exclusion { exclusive, alone });
        assert_eq!(of(DioLock::ExclusiveFirst, true, 0.0), some(0.5, 0.0));
        assert_eq!(of(DioLock::ExclusiveFirst, false, 0.0), some(0.5, 1.0));
        assert_eq!(of(DioLock::SharedFirst, false, 0.0), some(0.5, 1.0));
        assert_eq!(of(DioLock::SharedFirst, true, 0.5), some(0.25, 1.0));
        for arm in [DioLock::SharedFirst, DioLock::SharedAlways, DioLock::Range] {
            assert_eq!(of(arm, true, 0.0), None);
        }
        assert_eq!(of(DioLock::Range, false, 0.5), None);
    }
}

//! What arithmetic allows a variant whose writes exclude others.
//!
//! # Model
//! A closed system of N jobs, each with one request at a time; the device has room for all of them. With the
//! probability p a request needs the lock alone: *writers* here; all others share it: *readers*. The lock is
//! phase-fair: a writer waits for all holders, readers that come while one waits stay outside, and when
//! it lets others in, all readers that wait enter.
//!
//! - A writer that demotes (an overwrite with `exclusive-first` and dioread_nolock) lets them in at once.
//! - A writer that stays alone (without dioread_nolock, or filling a hole) lets them in when it has ended.
//!
//! A waiter sleeps, and runs only some time after the lock was handed over: after the measured time
//! ([`super::handover`]). A request takes as long as one of the bare device with the fewest threads, drawn
//! at random, and with the mean of the variant's own requests. The system is played through, event by event, until enough requests have ended.

use super::handover::Nanos;
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use uext4_vfs::ilock::DioLock;

/// Requests that are played through; the first tenth does not count.
const REQUESTS: usize = 50_000;

/// What the requests of a variant do with the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exclusion {
    /// The share of all requests that need the lock exclusively.
    pub exclusive: f64,
    /// The share of those that keep it so until they end.
    pub alone: f64,
}

impl Exclusion {
    /// What `variant` does; `writes` is the share of requests that write, `holes` the share of those that fill
    /// a hole. `None`: nothing excludes.
    pub fn of(
        variant: DioLock,
        dioread_nolock: bool,
        writes: f64,
        holes: f64,
    ) -> Option<Exclusion> {
        let (exclusive, alone) = match (variant, dioread_nolock) {
            (DioLock::ExclusiveFirst, true) => (writes, holes),
            (DioLock::ExclusiveFirst | DioLock::SharedFirst, false) => (writes, 1.0),
            (DioLock::SharedFirst, true) | (DioLock::SharedAlways, _) => (writes * holes, 1.0),
            (DioLock::Range, _) => (0.0, 0.0),
        };
        (exclusive > 0.0).then_some(Exclusion { exclusive, alone })
    }

    /// Requests per second in the long run, of `jobs` jobs; `service` draws how long a request takes.
    pub fn ops_per_s(
        self,
        jobs: usize,
        handover: Nanos,
        service: &dyn Fn(&mut Rng) -> Nanos,
    ) -> f64 {
        let mut system = System {
            exclusion: self,
            handover,
            service,
            rng: Rng::with_seed(1),
            ends: BinaryHeap::new(),
            inside: 0,
            is_alone: false,
            is_handed_over: false,
            writers: 0,
            readers: 0,
        };
        (0..jobs).for_each(|_| system.arrive(0));
        let skipped = REQUESTS / 10;
        let (mut ended, mut since, mut now) = (0, 0, 0);
        while ended < REQUESTS {
            let Some(Reverse((time, event))) = system.ends.pop() else {
                break;
            };
            now = time;
            system.happen(now, event);
            if event != Event::HandedOver {
                ended += 1;
                if ended == skipped {
                    since = now;
                }
            }
        }
        (ended - skipped) as f64 / (now - since).max(1) as f64 * 1e9
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request that shares the lock ends.
    SharedEnds,
    AloneEnds,
    /// The first writer that waited runs.
    HandedOver,
}

struct System<'a> {
    exclusion: Exclusion,
    handover: Nanos,
    service: &'a dyn Fn(&mut Rng) -> Nanos,
    rng: Rng,
    ends: BinaryHeap<Reverse<(Nanos, Event)>>,
    /// Requests that share the lock.
    inside: usize,
    is_alone: bool,
    /// To a writer that does not run yet.
    is_handed_over: bool,
    /// That wait, a writer that was handed the lock included.
    writers: usize,
    /// That wait.
    readers: usize,
}

impl System<'_> {
    fn happen(&mut self, now: Nanos, event: Event) {
        match event {
            Event::HandedOver => {
                self.is_handed_over = false;
                self.writers -= 1;
                return self.write(now);
            }
            Event::AloneEnds => {
                self.is_alone = false;
                self.let_readers_in(now);
            }
            Event::SharedEnds => self.inside -= 1,
        }
        let is_free = self.inside == 0 && !self.is_alone && !self.is_handed_over;
        if is_free && self.writers > 0 {
            self.is_handed_over = true;
            self.at(now + self.handover, Event::HandedOver);
        }
        self.arrive(now);
    }

    /// A job draws its next request.
    fn arrive(&mut self, now: Nanos) {
        let is_closed = self.is_alone || self.writers > 0;
        let is_writer = self.rng.f64() < self.exclusion.exclusive;
        match (is_writer, is_closed) {
            (true, false) if self.inside == 0 => self.write(now),
            (true, _) => self.writers += 1,
            (false, false) => self.share(now),
            (false, true) => self.readers += 1,
        }
    }

    /// A writer has the lock.
    fn write(&mut self, now: Nanos) {
        if self.rng.f64() < self.exclusion.alone {
            self.is_alone = true;
            let end = now + (self.service)(&mut self.rng);
            return self.at(end, Event::AloneEnds);
        }
        self.share(now);
        self.let_readers_in(now);
    }

    fn let_readers_in(&mut self, now: Nanos) {
        for _ in 0..std::mem::take(&mut self.readers) {
            self.share(now + self.handover);
        }
    }

    fn share(&mut self, begins: Nanos) {
        self.inside += 1;
        let end = begins + (self.service)(&mut self.rng);
        self.at(end, Event::SharedEnds);
    }

    fn at(&mut self, time: Nanos, event: Event) {
        self.ends.push(Reverse((time, event)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that end while one takes 1 us, handing over for nothing.
    fn per_round(jobs: usize, exclusive: f64, alone: f64) -> f64 {
        let exclusion = Exclusion { exclusive, alone };
        exclusion.ops_per_s(jobs, 0, &|_| 1000) / 1e6
    }

    fn assert_near(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 0.02, "{a} is not {b}");
    }

    #[test]
    fn one_job_or_writers_only_run_one_at_a_time() {
        for alone in [0.0, 0.3, 1.0] {
            assert_near(per_round(1, 0.5, alone), 1.0);
            assert_near(per_round(7, 1.0, alone), 1.0);
        }
    }

    #[test]
    fn few_writers_leave_nearly_all_and_many_jobs_gain_little() {
        assert!(per_round(24, 0.0001, 0.0) > 23.0);
        // In the long run as many readers leave a round as writers: 1/p end in it.
        assert_near(per_round(24, 0.5, 0.0), 2.0);
        assert!(per_round(24, 0.5, 1.0) < per_round(24, 0.5, 0.5));
        assert!(per_round(24, 0.5, 0.5) < per_round(24, 0.5, 0.0));
    }

    /// Writers alone sleep while another runs, and so for each the lock is handed over once.
    #[test]
    fn handing_over_takes_its_time() {
        let writers = Exclusion {
            exclusive: 1.0,
            alone: 1.0,
        };
        assert_near(writers.ops_per_s(5, 250, &|_| 1000), 1e9 / 1250.0);
        assert_near(writers.ops_per_s(1, 250, &|_| 1000), 1e6);
    }

    #[test]
    fn variants() {
        let of = |variant, nolock, holes| Exclusion::of(variant, nolock, 0.5, holes);
        let some = |exclusive, alone| Some(Exclusion { exclusive, alone });
        assert_eq!(of(DioLock::ExclusiveFirst, true, 0.0), some(0.5, 0.0));
        assert_eq!(of(DioLock::ExclusiveFirst, false, 0.0), some(0.5, 1.0));
        assert_eq!(of(DioLock::SharedFirst, false, 0.0), some(0.5, 1.0));
        assert_eq!(of(DioLock::SharedFirst, true, 0.5), some(0.25, 1.0));
        for variant in [DioLock::SharedFirst, DioLock::SharedAlways, DioLock::Range] {
            assert_eq!(of(variant, true, 0.0), None);
        }
        assert_eq!(of(DioLock::Range, false, 0.5), None);
    }
}

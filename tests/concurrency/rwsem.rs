//! The locks of inodes under load: writers alone, no thread starves. A lock that starves a thread hangs here.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use uext4_sync::stat::Mode;
use uext4_sync::{RangeLock, RwSem, RwSemGuard, class};

const THREADS: u64 = 8;

/// A pair that differs only while a writer holds the lock; changed by load and store.
struct Watched {
    lock: RwSem,
    left: AtomicU64,
    right: AtomicU64,
}

impl Watched {
    fn new() -> Watched {
        Watched {
            lock: RwSem::new(&class::ILOCK),
            left: AtomicU64::new(0),
            right: AtomicU64::new(0),
        }
    }

    /// Changes the pair if held alone, else compares; returns how often it was changed now. If it
    /// `lingers`, others run meanwhile.
    fn visit(&self, guard: &RwSemGuard<'_>, lingers: bool) -> u64 {
        let linger = || {
            if lingers {
                thread::yield_now();
            }
        };
        let left = self.left.load(Relaxed);
        if guard.mode() == Mode::Exclusive {
            self.left.store(left + 1, Relaxed);
            linger();
            self.right.store(self.right.load(Relaxed) + 1, Relaxed);
            return 1;
        }
        linger();
        assert_eq!(self.right.load(Relaxed), left, "a writer among readers");
        0
    }

    /// One visit of a kind that `draw` says, alone one time in `rare`; returns how often the pair was
    /// changed.
    fn random_visit(&self, draw: u64, rare: u64) -> u64 {
        let (alone, kind) = (draw.is_multiple_of(rare), (draw >> 20) % 3);
        let lingers = (draw >> 30).is_multiple_of(4);
        let guard = match (alone, kind) {
            (true, 0) => {
                let guard = self.lock.exclusive(0);
                let changed = self.visit(&guard, lingers);
                let guard = guard.downgrade();
                let left = self.left.load(Relaxed);
                self.visit(&guard, lingers);
                assert_eq!(self.left.load(Relaxed), left, "a writer got in between");
                return changed;
            }
            (true, 1) => self.lock.try_exclusive(),
            (true, _) => Some(self.lock.exclusive(0)),
            (false, 0) => self.lock.try_shared(),
            (false, _) => Some(self.lock.shared(0)),
        };
        guard.map_or(0, |guard| self.visit(&guard, lingers))
    }
}

/// A draw of a small generator.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 8
}

/// All threads visit at random, alone one time in `rare`.
fn visit_at_random(rare: u64) {
    let watched = Watched::new();
    let changed: u64 = thread::scope(|s| {
        let watched = &watched;
        let threads: Vec<_> = (1..=THREADS)
            .map(|seed| {
                s.spawn(move || {
                    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (0..40_000)
                        .map(|_| watched.random_visit(draw(&mut state), rare))
                        .sum::<u64>()
                })
            })
            .collect();
        let joined = threads.into_iter().map(|t| t.join().expect("no panic"));
        joined.sum()
    });
    assert_eq!(watched.left.load(Relaxed), changed);
    assert_eq!(watched.right.load(Relaxed), changed);
    assert!(watched.lock.try_exclusive().is_some());
}

/// So many writers that the lock is narrow for most of the time.
#[test]
fn stress_narrow() {
    visit_at_random(4);
}

/// So few writers that it is wide for most of the time.
#[test]
fn stress_wide() {
    visit_at_random(100);
}

/// All threads but one loop in `loopers`' mode until that one has been in 300 times in its own.
fn one_among_many(one: Mode, loopers: Mode) {
    let watched = Watched::new();
    let done = AtomicBool::new(false);
    let enter = |mode| match mode {
        Mode::Shared => watched.lock.shared(0),
        Mode::Exclusive => watched.lock.exclusive(0),
    };
    thread::scope(|s| {
        for _ in 1..THREADS {
            s.spawn(|| {
                while !done.load(Relaxed) {
                    watched.visit(&enter(loopers), true);
                }
            });
        }
        for _ in 0..300 {
            watched.visit(&enter(one), false);
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn stress_a_writer_among_readers() {
    one_among_many(Mode::Exclusive, Mode::Shared);
}

#[test]
fn stress_a_reader_among_writers() {
    one_among_many(Mode::Shared, Mode::Exclusive);
}

#[test]
fn stress_a_writer_among_writers() {
    one_among_many(Mode::Exclusive, Mode::Exclusive);
}

#[test]
fn stress_ranges() {
    const CELLS: u64 = 32;
    let lock = RangeLock::new();
    let cells: Vec<AtomicU64> = (0..CELLS).map(|_| AtomicU64::new(0)).collect();
    let expected: u64 = thread::scope(|s| {
        let (lock, cells) = (&lock, &cells);
        let threads: Vec<_> = (1..=THREADS)
            .map(|seed| {
                s.spawn(move || {
                    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let mut added = 0;
                    for round in 0..10_000 {
                        let start = draw(&mut state) % CELLS;
                        // Now and then everything, which the others must not starve.
                        let end = if round % 64 == 0 {
                            CELLS
                        } else {
                            (start + 4).min(CELLS)
                        };
                        let _range = lock.lock(start..end, 0);
                        for cell in &cells[start as usize..end as usize] {
                            let before = cell.load(Relaxed);
                            if round % 8 == 0 {
                                thread::yield_now();
                            }
                            cell.store(before + 1, Relaxed);
                        }
                        added += end - start;
                    }
                    added
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .sum()
    });
    assert_eq!(cells.iter().map(|c| c.load(Relaxed)).sum::<u64>(), expected);
    assert!(lock.try_lock(0..CELLS).is_some());
}

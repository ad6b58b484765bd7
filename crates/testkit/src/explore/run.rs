//! Many sequences, on several threads.

use super::alphabet::Sequences;
use super::base::Base;
use super::judge::{Effort, Judge};
use super::others::Others;
use super::random::explore_seed;
use super::record::{is_its_own, record};
use super::results::Failed;
use super::shared::Shared;
use super::tally::Tally;
use crate::external::*;
use std::sync::Mutex;

/// Sequences `range`, in an order in which neighbours have little in common.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which there are; `None`: random workloads.
    pub sequences: Option<Sequences>,
    /// Which of them, by place in that order, or by seed.
    pub range: Range<u64>,
    /// Threads.
    pub threads: usize,
    /// When to stop, with whatever is done.
    pub until: Option<Instant>,
}

/// The number of the sequence at a place: every number has one place.
pub fn number_at(sequences: &Sequences, place: u64) -> u64 {
    // Coprime to every count: a prime larger than the alphabet.
    const STRIDE: u64 = 1_000_003;
    (u128::from(place) * u128::from(STRIDE) % u128::from(sequences.count())) as u64
}

/// Explores; the places that were done, what it came to, and what failed.
pub fn run(base: &Base, plan: &Plan, shared: &Shared) -> Result<(u64, Tally, Vec<Failed>)> {
    let next = AtomicU64::new(plan.range.start);
    let total = Mutex::new((Tally::default(), Vec::new()));
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..plan.threads)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let others = Others::new(Arc::clone(&shared.shapes), shared.kernel)?;
                    let mut tally = Tally::default();
                    while plan.until.is_none_or(|until| Instant::now() < until) {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        if place >= plan.range.end {
                            break;
                        }
                        let both = (shared, &others);
                        let explored = match &plan.sequences {
                            Some(all) => {
                                let number = number_at(all, place);
                                explore(base, all, number, both, None, &mut tally)
                            }
                            None => explore_seed(base, place, both, None, &mut tally),
                        };
                        if let Err(failed) = explored {
                            let mut total = total.lock().unwrap_or_else(|e| e.into_inner());
                            total.1.push(failed);
                        }
                    }
                    let mut total = total.lock().unwrap_or_else(|e| e.into_inner());
                    total.0.add(&tally);
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    })?;
    let (tally, failed) = total.into_inner().unwrap_or_else(|e| e.into_inner());
    let done = next.into_inner().min(plan.range.end) - plan.range.start;
    Ok((done, tally, failed))
}

/// Explores one sequence, or nothing but one state of it.
pub fn explore(
    base: &Base,
    sequences: &Sequences,
    number: u64,
    (shared, others): (&Shared, &Others),
    only: Option<u64>,
    tally: &mut Tally,
) -> Result<(), Failed> {
    tally.sequences += 1;
    let steps = sequences.get(number);
    if !is_its_own(base, &steps) {
        return Ok(());
    }
    let failed = |state, why: String| Failed {
        number,
        state,
        why: format!("{steps:?}: {why}"),
    };
    let recording = record(base, &steps, number).map_err(|why| failed(None, format!("{why:#}")))?;
    let effort = match base.config.has_journal {
        true if steps.len() == 1 => Effort::ONE,
        true => Effort::SHORT,
        false => Effort::WITHOUT_JOURNAL,
    };
    let mut judge = Judge::new(base, &recording, effort, (&shared.seen, others), only);
    let done = judge.examine(number);
    tally.add(&judge.tally);
    done.map_err(|failure| failed(Some(failure.state), failure.why))
}

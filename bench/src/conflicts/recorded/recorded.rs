//! Recording the calls of two CPUs, of files or of queues.

use super::cpu::Cpu;
use super::record::{Recording, record};
use crate::aligned::AlignedBuf;
use anyhow::{Context as _, Result};
use std::sync::Arc;

/// A call in an initial state.
pub trait Recorded: Clone + Send + 'static {
    /// The initial state.
    type World: Send + Sync + 'static;

    /// What it is called in the report.
    fn name(&self) -> String;

    /// Does it.
    ///
    /// # Errors
    /// Those of the engine: the initial state allows every call.
    fn run(&self, world: &Self::World, buffer: &mut AlignedBuf) -> Result<()>;
}

/// What the calls of one CPU touched.
pub type Recordings<C> = Vec<(C, Recording)>;

/// Records one call.
///
/// # Errors
/// As [`record`].
pub fn record_on<C: Recorded>(cpu: &Cpu, case: &C, world: &Arc<C::World>) -> Result<Recording> {
    let (call, world) = (case.clone(), Arc::clone(world));
    let recording = cpu.run(move || {
        // Never freed: no other caller has a buffer in the same place.
        let buffer = Box::leak(Box::new(AlignedBuf::zeroed(super::call::IO_BYTES)));
        record(|| call.run(&world, buffer))
    });
    recording.with_context(|| case.name())
}

/// Records the calls of the first two CPUs of which the names contain `only`.
///
/// # Errors
/// As [`record`].
pub fn record_pairs<C: Recorded>(
    cpus: &[Cpu],
    world: &Arc<C::World>,
    only: &str,
    cases: fn(usize) -> Vec<C>,
) -> Result<[Recordings<C>; 2]> {
    let of = |which: usize| -> Result<Recordings<C>> {
        let cases = cases(which).into_iter();
        let cases = cases.filter(|case| case.name().contains(only));
        cases
            .map(|case| {
                let recording = record_on(&cpus[which], &case, world)?;
                Ok((case, recording))
            })
            .collect()
    };
    Ok([of(0)?, of(1)?])
}

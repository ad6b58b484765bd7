//! The namespaces of one variant that are alive.

use super::turnover::{self, TurnOver};
use crate::progress::Progress;
use crate::workers;
use std::collections::VecDeque;
use std::time::Duration;
use uext4_mqueue::{IpcNamespace, Limits, MqueueType};
use uext4_vfs::SuperVariant;

/// A registry, and its namespaces: a ring for each worker, the oldest first.
pub struct Population {
    queues: MqueueType,
    rings: Vec<VecDeque<IpcNamespace>>,
}

impl Population {
    /// Makes `live` namespaces, each worker's by a thread of its own, as it will make the later ones. One
    /// after the other: with `keyed` no second could do anything meanwhile.
    pub fn make(
        variant: SuperVariant,
        live: u64,
        workers: usize,
        label: &str,
    ) -> anyhow::Result<Population> {
        let queues = MqueueType::new(variant);
        let mut rings = Vec::new();
        let mut progress = Progress::new(workers as u64);
        for worker in 0..workers {
            progress.begin(label.to_owned());
            let share = (live as usize + worker) / workers;
            let make = |()| {
                // Room for one more, so that no worker allocates.
                let mut ring = VecDeque::with_capacity(share + 1);
                ring.extend((0..share).map(|_| queues.create(Limits::default())));
                Ok(ring)
            };
            rings.extend(workers::run_each(vec![()], None, |part, _| make(part))?.results);
            progress.done();
        }
        Ok(Population { queues, rings })
    }

    /// The workers create and drop for `time`; as many are alive afterwards.
    pub fn turn_over(&mut self, time: Duration) -> anyhow::Result<TurnOver> {
        let rings = std::mem::take(&mut self.rings);
        let (turn_over, rings) = turnover::run(&self.queues, rings, time)?;
        self.rings = rings;
        Ok(turn_over)
    }

    /// Drops all of them; how many there are then.
    pub fn end(self) -> usize {
        drop(self.rings);
        self.queues.namespaces()
    }
}

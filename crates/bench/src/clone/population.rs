//! The namespaces of one arm that are alive.

use super::workers::{self, TurnOver};
use crate::progress::Progress;
use std::collections::VecDeque;
use std::time::Duration;
use uext4_mqueue::{IpcNamespace, Limits, MqueueType};
use uext4_vfs::SuperArm;

/// So many are made between two looks at the clock for the progress shown.
const STEP: u64 = 256;

/// A registry, and those of its namespaces that no worker has.
pub struct Population {
    queues: MqueueType,
    /// The oldest first, so that no worker drops what was just made.
    live: Vec<IpcNamespace>,
}

impl Population {
    /// Makes `live` namespaces; one thread does, as with `keyed` no second could do anything meanwhile.
    pub fn make(arm: SuperArm, live: u64, label: &str) -> Population {
        let queues = MqueueType::new(arm);
        let mut all = Vec::new();
        let mut progress = Progress::new(live);
        for made in 0..live {
            if made % STEP == 0 {
                progress.begin(label.to_owned());
            }
            all.push(queues.create(Limits::default()));
            progress.done();
        }
        Population { queues, live: all }
    }

    /// Deals the namespaces out to workers who create and drop for `time`, and takes back those that
    /// are then alive, as many as before.
    ///
    /// # Errors
    /// A worker panicked.
    pub fn turn_over(&mut self, workers: usize, time: Duration) -> anyhow::Result<TurnOver> {
        let share = self.live.len().div_ceil(workers);
        // Room for one more, so that no worker allocates.
        let ring = || VecDeque::with_capacity(share + 1);
        let mut rings: Vec<VecDeque<IpcNamespace>> = (0..workers).map(|_| ring()).collect();
        for (i, namespace) in self.live.drain(..).enumerate() {
            rings[i % workers].push_back(namespace);
        }
        let (turn_over, mut rings) = workers::run(&self.queues, rings, time)?;
        for _ in 0..share {
            self.live
                .extend(rings.iter_mut().filter_map(VecDeque::pop_front));
        }
        Ok(turn_over)
    }

    /// Drops all of them; how many there are then.
    pub fn end(self) -> usize {
        let Population { queues, live } = self;
        drop(live);
        queues.namespaces()
    }
}

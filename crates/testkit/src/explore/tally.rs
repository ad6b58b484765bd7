//! What was explored.

use std::collections::HashSet;
use std::sync::Mutex;

/// Counts of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Distinct states: contents of the device.
    pub states: u64,
    /// States that were tried before.
    pub repeated: u64,
    /// Of the states, those that a crash within a recovery left.
    pub in_recovery: u64,
    /// Mounts with a walk and the verifier; other states were recovered to what one of these began with.
    pub recoveries: u64,
    /// Runs of e2fsck.
    pub fsck: u64,
    /// Mounts of the kernel.
    pub kernel: u64,
    /// Sequences or workloads.
    pub sequences: u64,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: &Tally) {
        self.states += other.states;
        self.repeated += other.repeated;
        self.in_recovery += other.in_recovery;
        self.recoveries += other.recoveries;
        self.fsck += other.fsck;
        self.kernel += other.kernel;
        self.sequences += other.sequences;
    }

    /// For a line of results.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "states": self.states, "repeated": self.repeated, "in_recovery": self.in_recovery,
            "recoveries": self.recoveries, "fsck": self.fsck, "kernel": self.kernel,
        })
    }
}

const SHARDS: usize = 64;

/// The states that were tried, by the hash of their content.
#[derive(Debug)]
pub struct Seen {
    shards: Vec<Mutex<HashSet<u64>>>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Seen {
    /// Adds one; whether it is new.
    pub fn insert(&self, hash: u64) -> bool {
        let shard = &self.shards[(hash % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(|e| e.into_inner()).insert(hash)
    }
}

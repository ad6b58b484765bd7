//! What runs came to.

/// What runs came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Operations of workers and of the threads that contend.
    pub operations: u64,
    /// The same with those that the plan leaves out.
    pub attempted: u64,
    /// Mounts.
    pub lives: u64,
    /// Lives that a power loss ended.
    pub power_losses: u64,
    /// Lives in which a call of the device failed.
    pub faults: u64,
    /// Guarantees that were examined after a loss.
    pub guarantees: u64,
    /// Simulated time.
    pub seconds: u64,
    /// Of the images that lives left: the same for runs of one plan.
    pub digest: u64,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.attempted += other.attempted;
        self.lives += other.lives;
        self.power_losses += other.power_losses;
        self.faults += other.faults;
        self.guarantees += other.guarantees;
        self.seconds += other.seconds;
        self.digest ^= other.digest;
    }

    /// Notes what a life left.
    pub(super) fn note_image(&mut self, image: &[u8]) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.digest, image).hash(&mut hasher);
        self.digest = hasher.finish();
    }

    /// For a line of results.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "operations": self.operations, "lives": self.lives, "power_losses": self.power_losses,
            "faults": self.faults, "guarantees": self.guarantees, "simulated_seconds": self.seconds,
        })
    }
}

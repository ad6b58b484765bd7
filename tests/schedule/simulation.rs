//! The simulation, for a moment: `make simulate` runs it at length.

use uext4_testkit::env_number;
use uext4_testkit::simulate::{Plan, run};

#[test]
fn shuttle_simulated_seeds() {
    for seed in 0..env_number("UEXT4_SIMULATED_SEEDS", 20) {
        run(&Plan::of(seed)).unwrap();
    }
}

/// A failure can only be seen again if a seed decides everything.
#[test]
fn shuttle_a_seed_decides_everything() {
    for seed in [3, 8, 14] {
        let digests = [(); 2].map(|()| run(&Plan::of(seed)).unwrap().digest);
        assert_eq!(digests[0], digests[1], "seed {seed}");
    }
}

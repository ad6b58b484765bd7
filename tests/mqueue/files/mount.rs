//! A namespace as a file system beside Linux's mount.

use crate::ours::Ours;
use crate::sides::{self, Sides};

pub use crate::calls::*;

/// A fresh namespace on each side.
pub type Both = Sides<Ours>;

/// Runs a test in a thread with its own namespaces, if the machine allows it.
pub fn beside_the_kernel(test: fn(&Both)) {
    sides::run(Ours::default, test);
}

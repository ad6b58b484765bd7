//! What the threads of an exploration share.

use super::tally::Seen;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// What several threads share.
#[derive(Debug)]
pub struct Shared {
    /// States that were tried.
    pub seen: Seen,
    /// Shapes of trees that e2fsck has seen.
    pub shapes: Arc<Mutex<HashSet<u64>>>,
    /// Whether the kernel mounts images.
    pub kernel: bool,
}

impl Shared {
    /// Nothing was tried.
    pub fn new(kernel: bool) -> Shared {
        Shared {
            seen: Seen::default(),
            shapes: Arc::default(),
            kernel,
        }
    }
}

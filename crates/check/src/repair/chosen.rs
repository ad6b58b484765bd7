//! Faults that a repair takes.

use crate::prelude::*;
use std::collections::BTreeSet;

/// Inodes of faults of some kinds, in order.
pub(crate) fn inodes_of(faults: &[Fault], of: impl Fn(FaultKind) -> bool) -> BTreeSet<Ino> {
    let faults = faults.iter().filter(|f| of(f.kind));
    faults.filter_map(|f| f.ino).collect()
}

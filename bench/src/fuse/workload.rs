//! Which workloads there are, and what they give.

use crate::sample::Work;
use crate::variants::Named;

/// What is done in a mounted directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Processes create, stat and unlink files.
    Create,
    /// Random direct reads and writes of one file.
    Randrw,
    /// Sequential reads and writes of one file.
    Seq,
    /// A tree unpacked and removed.
    Tar,
}

impl Named for Workload {
    const NAMES: &'static [(Workload, &'static str)] = &[
        (Workload::Create, "create"),
        (Workload::Randrw, "randrw"),
        (Workload::Seq, "seq"),
        (Workload::Tar, "tar"),
    ];
}

/// What one operation of a workload gave.
pub struct Figure {
    /// The operation.
    pub op: &'static str,
    /// Threads or processes.
    pub threads: usize,
    /// What was done.
    pub work: Work,
}

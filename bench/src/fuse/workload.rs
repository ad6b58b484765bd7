//! Which workloads there are, and what they give.

use crate::sample::Work;
use std::str::FromStr;

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

impl Workload {
    /// Every one.
    pub const ALL: [Workload; 4] = [
        Workload::Create,
        Workload::Randrw,
        Workload::Seq,
        Workload::Tar,
    ];

    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Create => "create",
            Workload::Randrw => "randrw",
            Workload::Seq => "seq",
            Workload::Tar => "tar",
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Workload, String> {
        let found = Workload::ALL.into_iter().find(|w| w.name() == text);
        found.ok_or_else(|| format!("no workload `{text}`: use create, randrw, seq, tar or all"))
    }
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

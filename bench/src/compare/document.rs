//! The JSON that workloads print, as far as it is compared; other keys are ignored.

use crate::host::Host;
use crate::report::Spread;
use serde::Deserialize;

/// The name of the document that holds others.
pub const ALL: &str = "all";

/// Says which document it is.
#[derive(Debug, Deserialize)]
pub struct Head {
    /// The workload's name, or [`ALL`].
    pub benchmark: String,
}

/// Where a document is from.
#[derive(Debug, Deserialize)]
pub struct Origin {
    /// The machine.
    pub host: Host,
}

/// What a workload printed.
#[derive(Debug, Deserialize)]
pub struct OfWorkload {
    /// The workload's name.
    pub benchmark: String,
    /// The figures.
    pub rows: Vec<RowRead>,
}

/// What all workloads printed.
#[derive(Debug, Deserialize)]
pub struct OfAll {
    /// Whether they were cut short.
    pub quick: bool,
    /// One for each run of a workload.
    pub sections: Vec<SectionRead>,
}

/// A run of a workload, or why there was none.
#[derive(Debug, Deserialize)]
pub struct SectionRead {
    /// Its name, which is the same in every result.
    pub name: String,
    /// What it printed.
    pub document: Option<OfWorkload>,
    /// Why it printed nothing.
    pub skipped: Option<String>,
    /// What went wrong.
    pub failed: Option<String>,
}

/// A row of any workload.
#[derive(Debug, Deserialize)]
pub struct RowRead {
    /// The variant.
    #[serde(rename = "arm")]
    pub variant: String,
    /// The operation.
    pub op: String,
    /// Threads, tasks or workers.
    pub threads: u64,
    /// Bytes, of `randrw`.
    pub block_size: Option<u64>,
    /// Namespaces, of `clone`.
    pub live: Option<u64>,
    /// Queues, of `mq`.
    pub queues: Option<u64>,
    /// What is done, of `fuse`.
    pub workload: Option<String>,
    /// Processes.
    pub clients: Option<u64>,
    /// What is compared.
    pub ops_per_s: Spread,
}

//! What a row is of: rows of two results belong together if all of it is equal.

use super::document::RowRead;
use serde::Serialize;
use std::fmt;

/// What a row is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RowKey {
    /// The section; of a workload's own document, the workload.
    pub section: String,
    /// The workload.
    pub benchmark: String,
    #[serde(rename = "arm")]
    variant: String,
    op: String,
    threads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<u64>,
}

impl RowKey {
    /// Of a row.
    pub fn of(section: &str, benchmark: &str, row: &RowRead) -> RowKey {
        RowKey {
            section: section.to_owned(),
            benchmark: benchmark.to_owned(),
            variant: row.variant.clone(),
            op: row.op.clone(),
            threads: row.threads,
            block_size: row.block_size,
            live: row.live,
            queues: row.queues,
            workload: row.workload.clone(),
            clients: row.clients,
        }
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.section)?;
        if let Some(workload) = &self.workload {
            write!(f, "{workload}, ")?;
        }
        write!(f, "{}, {}, {} threads", self.variant, self.op, self.threads)?;
        let numbers = [
            ("block_size", self.block_size),
            ("live", self.live),
            ("queues", self.queues),
            ("clients", self.clients),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                write!(f, ", {name} {number}")?;
            }
        }
        Ok(())
    }
}

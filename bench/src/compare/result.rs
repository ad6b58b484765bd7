//! What one file holds: its rows, each with what it is of. Other keys of its JSON are ignored.

use crate::host::Host;
use crate::spread::Spread;
use anyhow::{Context as _, anyhow, ensure};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What a row is of: rows of two results belong together if all of it is equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowKey {
    /// The section; of a workload's own document, the workload.
    #[serde(default)]
    pub section: String,
    #[serde(default)]
    benchmark: String,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    journal_delay: Option<String>,
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.section)?;
        if let Some(workload) = &self.workload {
            write!(f, "{workload}, ")?;
        }
        write!(f, "{}, {}, {} threads", self.variant, self.op, self.threads)?;
        let numbers = [self.block_size, self.live, self.queues, self.clients];
        for (name, number) in ["block_size", "live", "queues", "clients"]
            .iter()
            .zip(numbers)
        {
            if let Some(number) = number {
                write!(f, ", {name} {number}")?;
            }
        }
        if let Some(delay) = self.journal_delay.as_ref().filter(|delay| *delay != "none") {
            write!(f, ", journal delay {delay}")?;
        }
        Ok(())
    }
}

/// The name of the document that holds others.
const ALL: &str = "all";

/// Any document.
#[derive(Deserialize)]
struct Head {
    benchmark: String,
    host: Host,
}

/// What a workload printed.
#[derive(Deserialize)]
struct OfWorkload {
    benchmark: String,
    rows: Vec<RowRead>,
}

#[derive(Deserialize)]
struct RowRead {
    #[serde(flatten)]
    key: RowKey,
    ops_per_s: Spread,
}

/// What all workloads printed.
#[derive(Deserialize)]
struct OfAll {
    quick: bool,
    sections: Vec<SectionRead>,
}

/// A run of a workload, or why there was none.
#[derive(Deserialize)]
struct SectionRead {
    name: String,
    document: Option<OfWorkload>,
    skipped: Option<String>,
    failed: Option<String>,
}

/// A result that was read.
#[derive(Debug)]
pub struct RunResult {
    /// The name of its file.
    pub file: String,
    pub host: Host,
    /// Whether it was cut short.
    pub quick: bool,
    pub rows: Vec<(RowKey, Spread)>,
    /// Sections without rows, and why.
    pub skipped: Vec<(String, String)>,
}

impl RunResult {
    /// Reads a file.
    pub fn load(path: &Path) -> anyhow::Result<RunResult> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| file.clone())?;
        RunResult::parse(&file, &bytes).with_context(|| format!("{file}: no result"))
    }

    /// Understands what a file holds.
    pub fn parse(file: &str, bytes: &[u8]) -> anyhow::Result<RunResult> {
        let Head { benchmark, host } = serde_json::from_slice(bytes)?;
        let mut result = RunResult {
            file: file.to_owned(),
            host,
            quick: false,
            rows: Vec::new(),
            skipped: Vec::new(),
        };
        if benchmark != ALL {
            result.add(&benchmark, serde_json::from_slice(bytes)?)?;
            return Ok(result);
        }
        let all: OfAll = serde_json::from_slice(bytes)?;
        result.quick = all.quick;
        for section in all.sections {
            let name = section.name;
            match (section.document, section.skipped.or(section.failed)) {
                (Some(document), _) => result.add(&name, document)?,
                (None, Some(why)) => result.skipped.push((name, why)),
                (None, None) => {
                    return Err(anyhow!("section `{name}`: missing field `document`"));
                }
            }
        }
        Ok(result)
    }

    fn add(&mut self, section: &str, document: OfWorkload) -> anyhow::Result<()> {
        for RowRead { mut key, ops_per_s } in document.rows {
            section.clone_into(&mut key.section);
            key.benchmark.clone_from(&document.benchmark);
            let Spread { min, median, max } = ops_per_s;
            ensure!(
                0.0 <= min && min <= median && median <= max,
                "{key}: `ops_per_s` is not 0 <= min <= median <= max"
            );
            self.rows.push((key, ops_per_s));
        }
        Ok(())
    }
}

//! What one file says: its rows, each with what it is of.

use super::document::{ALL, Head, OfAll, OfWorkload, Origin, RowRead};
use super::key::RowKey;
use crate::host::Host;
use crate::report::Spread;
use anyhow::{Context as _, anyhow, ensure};
use std::path::Path;

/// A result that was read.
#[derive(Debug)]
pub struct RunResult {
    /// The name of its file.
    pub file: String,
    /// Where it is from.
    pub host: Host,
    /// Whether it was cut short.
    pub quick: bool,
    /// Its rows.
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
        let Head { benchmark } = serde_json::from_slice(bytes)?;
        let Origin { host } = serde_json::from_slice(bytes)?;
        let mut result = RunResult {
            file: file.to_owned(),
            host,
            quick: false,
            rows: Vec::new(),
            skipped: Vec::new(),
        };
        if benchmark == ALL {
            result.add_all(serde_json::from_slice(bytes)?)?;
        } else {
            result.add(&benchmark, &serde_json::from_slice(bytes)?)?;
        }
        Ok(result)
    }

    fn add_all(&mut self, all: OfAll) -> anyhow::Result<()> {
        self.quick = all.quick;
        for section in all.sections {
            let name = section.name;
            match (section.document, section.skipped.or(section.failed)) {
                (Some(document), _) => self.add(&name, &document)?,
                (None, Some(why)) => self.skipped.push((name, why)),
                (None, None) => {
                    return Err(anyhow!("section `{name}`: missing field `document`"));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, section: &str, document: &OfWorkload) -> anyhow::Result<()> {
        for row in &document.rows {
            let key = RowKey::of(section, &document.benchmark, row);
            ensure_in_order(&key, row)?;
            self.rows.push((key, row.ops_per_s));
        }
        Ok(())
    }
}

fn ensure_in_order(key: &RowKey, row: &RowRead) -> anyhow::Result<()> {
    let Spread { min, median, max } = row.ops_per_s;
    ensure!(
        0.0 <= min && min <= median && median <= max,
        "{key}: `ops_per_s` is not 0 <= min <= median <= max"
    );
    Ok(())
}

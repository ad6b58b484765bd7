//! What runs of the explorer found, kept as lines of JSON, so that later ones go on where they ended.

use super::run::Failed;
use super::tally::Tally;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was explored in one go: a chunk of sequences, or of seeds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// `one`, `two`, `three` or `random`.
    pub kind: String,
    /// The configuration.
    pub config: String,
    /// The first place or seed.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// A file of results.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    /// The commit at the start of this run.
    commit: String,
    done: HashSet<Chunk>,
    lines: Vec<Value>,
}

impl Results {
    /// Reads what there is.
    ///
    /// # Errors
    /// The file can't be read, or a line is no result.
    pub fn open(path: &Path) -> Result<Results> {
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| path.display().to_string())?,
        };
        let mut results = Results {
            path: path.to_owned(),
            commit: commit(),
            done: HashSet::new(),
            lines: Vec::new(),
        };
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            if let Some(chunk) = chunk_of(&value) {
                results.done.insert(chunk);
            }
            results.lines.push(value);
        }
        Ok(results)
    }

    /// All lines.
    pub fn lines(&self) -> &[Value] {
        &self.lines
    }

    /// Whether a chunk was explored.
    pub fn has(&self, chunk: &Chunk) -> bool {
        self.done.contains(chunk)
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Those of writing.
    pub fn add(
        &mut self,
        chunk: Chunk,
        tally: &Tally,
        failed: &[Failed],
        seconds: f64,
    ) -> Result<()> {
        let failures: Vec<String> = failed.iter().map(|f| f.command(&chunk)).collect();
        let line = json!({
            "kind": chunk.kind, "config": chunk.config, "first": chunk.first, "count": chunk.count,
            "commit": self.commit, "date": today(), "seconds": (seconds * 10.0).round() / 10.0,
            "states": tally.states, "repeated": tally.repeated, "in_recovery": tally.in_recovery,
            "recoveries": tally.recoveries, "fsck": tally.fsck, "kernel": tally.kernel,
            "sequences": tally.sequences, "failed": failures,
        });
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&self.path)?;
        writeln!(file, "{line}")?;
        self.done.insert(chunk);
        self.lines.push(line);
        Ok(())
    }
}

/// Adds what a test found, with date and commit, to the file that `UEXT4_RESULTS` names, if it does.
pub fn record(found: &Value) {
    let Some(path) = std::env::var_os("UEXT4_RESULTS") else {
        return;
    };
    let mut line = found.clone();
    line["commit"] = json!(commit());
    line["date"] = json!(today());
    let file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(&path);
    if let Err(why) = file.and_then(|mut file| writeln!(file, "{line}")) {
        eprintln!("{}: {why}", path.display());
    }
}

fn chunk_of(line: &Value) -> Option<Chunk> {
    Some(Chunk {
        kind: line["kind"].as_str()?.to_owned(),
        config: line["config"].as_str()?.to_owned(),
        first: line["first"].as_u64()?,
        count: line["count"].as_u64()?,
    })
}

/// The commit that is checked out, marked if anything differs from it.
pub fn commit() -> String {
    let said = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=10",
            "--exclude=*",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    said.map_or_else(
        |_| "unknown".to_owned(),
        |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
    )
}

/// The date, as ISO 8601 has it.
pub fn today() -> String {
    let said = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    said.map_or_else(
        |_| "unknown".to_owned(),
        |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
    )
}

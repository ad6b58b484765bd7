//! What runs of the explorer found, kept as lines of JSON, so that later ones go on where they ended.
//!
//! # Data model
//! A line is a range of places or seeds of one kind and configuration, explored at one commit on one day, with
//! what that came to. Ranges that follow each other are one line.

use crate::external::*;
use serde_json::{Value, json};

/// A sequence or workload of which a state is not as it must be.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The sequence's number, or the workload's seed.
    pub number: u64,
    /// The state's number; `None`: the run itself failed.
    pub state: Option<u64>,
    /// What is wrong.
    pub why: String,
}

impl Failed {
    /// The command that shows it again.
    pub fn command(&self, chunk: &Chunk) -> String {
        let (kind, config, number) = (&chunk.kind, &chunk.config, self.number);
        let state = self
            .state
            .map_or(String::new(), |n| format!(" --state {n}"));
        format!(
            "cargo run --release -p uext4-testkit --bin explore -- state --kind {kind} --config {config} \
             --number {number}{state}"
        )
    }
}

/// What was explored in one go: a range of sequences, or of seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Chunk {
    fn end(&self) -> u64 {
        self.first + self.count
    }

    fn is_like(&self, other: &Chunk) -> bool {
        (&self.kind, &self.config) == (&other.kind, &other.config)
    }

    fn of_line(line: &Value) -> Option<Chunk> {
        Some(Chunk {
            kind: line["kind"].as_str()?.to_owned(),
            config: line["config"].as_str()?.to_owned(),
            first: line["first"].as_u64()?,
            count: line["count"].as_u64()?,
        })
    }
}

/// A file of results.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    /// The commit at the start of this run.
    commit: String,
    lines: Vec<Value>,
}

impl Results {
    /// Reads what there is.
    pub fn open(path: &Path) -> Result<Results> {
        Ok(Results {
            path: path.to_owned(),
            commit: commit(),
            lines: read(path)?,
        })
    }

    /// Whether a chunk was explored.
    pub fn has(&self, chunk: &Chunk) -> bool {
        let mut at = chunk.first;
        let done = || self.lines.iter().filter_map(Chunk::of_line);
        let covering = |at| {
            let covers =
                |done: &Chunk| done.is_like(chunk) && (done.first..done.end()).contains(&at);
            done().find(covers)
        };
        while let Some(done) = covering(at) {
            at = done.end();
        }
        at >= chunk.end()
    }

    /// Adds what a chunk came to: counts by name, and the commands that show what failed.
    pub fn add(
        &mut self,
        chunk: Chunk,
        counts: &Value,
        failed: Vec<String>,
        seconds: f64,
    ) -> Result<()> {
        let mut line = counts.clone();
        line["kind"] = json!(chunk.kind);
        line["config"] = json!(chunk.config);
        line["first"] = json!(chunk.first);
        line["count"] = json!(chunk.count);
        line["commit"] = json!(self.commit);
        line["date"] = json!(today());
        line["seconds"] = json!(seconds.round() as u64);
        line["failed"] = json!(failed);
        self.lines.push(line);
        self.lines = merged(std::mem::take(&mut self.lines));
        self.write()
    }

    /// Replaces the file.
    fn write(&self) -> Result<()> {
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        let new = self.path.with_extension("new");
        std::fs::write(&new, text)?;
        Ok(std::fs::rename(&new, &self.path)?)
    }
}

/// Reads lines of JSON; none if there is no file.
pub fn read(path: &Path) -> Result<Vec<Value>> {
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.with_context(|| path.display().to_string())?,
    };
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

/// Makes one line of those that follow each other.
fn merged(mut lines: Vec<Value>) -> Vec<Value> {
    let key = |line: &Value| {
        let text = |name: &str| line[name].as_str().unwrap_or("").to_owned();
        (text("date"), text("commit"), text("kind"), text("config"))
    };
    lines.sort_by_key(|line| (key(line), line["first"].as_u64()));
    let mut merged: Vec<Value> = Vec::new();
    for line in lines {
        let follows = merged.last().is_some_and(|last| {
            let end = Chunk::of_line(last).map(|chunk| chunk.end());
            key(last) == key(&line) && end == line["first"].as_u64()
        });
        match merged.last_mut() {
            Some(last) if follows => join(last, &line),
            _ => merged.push(line),
        }
    }
    merged
}

/// Adds what a line counts to another.
fn join(to: &mut Value, from: &Value) {
    let Some(fields) = from.as_object() else {
        return;
    };
    for (name, value) in fields {
        match (value, name.as_str()) {
            (_, "first") => {}
            (Value::Number(n), _) => {
                let sum = to[name].as_u64().unwrap_or(0) + n.as_u64().unwrap_or(0);
                to[name] = json!(sum);
            }
            (Value::Array(more), _) => {
                if let Some(all) = to[name].as_array_mut() {
                    all.extend(more.iter().cloned());
                }
            }
            _ => {}
        }
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
        eprintln!("{}: {why}", Path::new(&path).display());
    }
}

/// The commit that is checked out, marked if anything differs from it.
fn commit() -> String {
    let args = [
        "describe",
        "--always",
        "--dirty",
        "--abbrev=10",
        "--exclude=*",
    ];
    said("git", &args)
}

/// The date, as ISO 8601 has it.
fn today() -> String {
    said("date", &["-u", "+%Y-%m-%d"])
}

fn said(program: &str, args: &[&str]) -> String {
    let said = Command::new(program)
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    said.map_or_else(
        |_| "unknown".to_owned(),
        |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(first: u64, count: u64) -> Chunk {
        Chunk {
            kind: "two".into(),
            config: "wrap".into(),
            first,
            count,
        }
    }

    #[test]
    fn a_run_goes_on_where_the_last_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let counts = json!({"states": 5});
        let failed = Failed {
            number: 7,
            state: Some(3),
            why: String::new(),
        };
        let mut results = Results::open(&path).unwrap();
        let command = failed.command(&chunk(0, 10));
        results
            .add(chunk(0, 10), &counts, vec![command], 1.0)
            .unwrap();
        results.add(chunk(20, 10), &counts, vec![], 1.0).unwrap();
        assert!(results.has(&chunk(0, 10)) && !results.has(&chunk(0, 20)));
        results.add(chunk(10, 10), &counts, vec![], 1.0).unwrap();
        let results = Results::open(&path).unwrap();
        assert!(results.has(&chunk(0, 30)) && !results.has(&chunk(29, 2)));
        let [line] = &read(&path).unwrap()[..] else {
            panic!("{:?}", results.lines);
        };
        assert_eq!((&line["states"], &line["count"]), (&json!(15), &json!(30)));
        assert_eq!(line["failed"].as_array().map(Vec::len), Some(1));
    }
}

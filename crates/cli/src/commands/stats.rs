//! `uext4 stats`.

use crate::{diagnostics, show};
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uext4_mountd::stats::{self, StatsError};

/// Show what a mount does: requests, latencies, locks, caches
///
/// On a terminal it is shown again and again until Ctrl-C, else once, as JSON.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 stats /mnt --json")]
pub struct Args {
    /// Once, as JSON
    #[arg(long)]
    json: bool,
    /// Seconds from one time to the next
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    interval: Duration,
    /// The directory
    dir: PathBuf,
}

/// What was known at a time.
struct Sample {
    at: Instant,
    document: Value,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| (0.1..=3600.0).contains(s));
    let seconds = seconds.ok_or_else(|| format!("`{text}`: give seconds from 0.1 to 3600"))?;
    Ok(Duration::from_secs_f64(seconds))
}

pub fn run(args: &Args) -> Result<()> {
    let mut last = sample(&args.dir)?;
    if args.json || !std::io::stdout().is_terminal() {
        return show::json(&last.document);
    }
    print(&last, None)?;
    loop {
        std::thread::sleep(args.interval);
        let now = sample(&args.dir)?;
        print(&now, Some(&last))?;
        last = now;
    }
}

fn sample(dir: &Path) -> Result<Sample> {
    let document = stats::read(dir);
    Ok(Sample {
        at: Instant::now(),
        document: document.map_err(|e| match e {
            StatsError::Host(e) => diagnostics::on_host(dir, e),
            e => anyhow::anyhow!("{}: {e}", dir.display()),
        })?,
    })
}

/// Prints what changed since `before`, or since the mount, on a screen that is cleared first.
fn print(now: &Sample, before: Option<&Sample>) -> Result<()> {
    let document = &now.document;
    let mut out = std::io::stdout().lock();
    let text = |field: &str| document[field].as_str().unwrap_or("?").to_owned();
    write!(out, "\x1b[H\x1b[2J")?;
    writeln!(
        out,
        "{}  transport {}  up {:.0} s  Ctrl-C ends",
        text("image"),
        text("transport"),
        document["uptime_s"].as_f64().unwrap_or_default()
    )?;
    writeln!(out, "{}", operations(now, before))?;
    let failures = failures(document);
    if !failures.is_empty() {
        writeln!(out, "{}", table(&["failed", "errno", "all"], failures))?;
    }
    let durations = durations(document);
    if !durations.is_empty() {
        let heads = ["", "all", "mean", "max"];
        writeln!(out, "{}", table(&heads, durations))?;
    }
    let remote = remote(&document["remote"]);
    if !remote.is_empty() {
        writeln!(out, "{}", table(&["server", ""], remote))?;
    }
    let locks = contended(document);
    if !locks.is_empty() {
        writeln!(out, "{}", table(&["lock", "contended", "waited"], locks))?;
    }
    let mut cache = Vec::new();
    flatten(&document["cache"], "", &mut cache);
    if !cache.is_empty() {
        writeln!(out, "{}", table(&["cache", ""], cache))?;
    }
    Ok(out.flush()?)
}

/// Requests by kind, the most frequent first.
fn operations(now: &Sample, before: Option<&Sample>) -> Table {
    let empty = Map::new();
    let all = now.document["operations"].as_object().unwrap_or(&empty);
    let count = |sample: &Sample, name: &str| {
        let count = &sample.document["operations"][name]["count"];
        count.as_f64().unwrap_or_default()
    };
    let uptime = now.document["uptime_s"].as_f64().unwrap_or_default();
    let seconds = before.map_or(uptime, |b| now.at.duration_since(b.at).as_secs_f64());
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (name, operation) in all {
        let since = count(now, name) - before.map_or(0.0, |b| count(b, name));
        let latency = |p: &str| match operation["latency_us"][p].as_f64() {
            Some(us) => format!("{us:.1} us"),
            None => "-".to_owned(),
        };
        let total = format!("{:.0}", count(now, name));
        let errors = operation["errors"].to_string();
        let rate = format!("{:.0}", since / seconds.max(1e-3));
        let row = vec![
            name.clone(),
            rate,
            total,
            errors,
            latency("p50"),
            latency("p99"),
        ];
        rows.push((since, row));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let heads = ["operation", "/s", "all", "errors", "p50", "p99"];
    table(&heads, rows.into_iter().map(|(_, row)| row).collect())
}

/// The failures of each kind of request by error number.
fn failures(document: &Value) -> Vec<Vec<String>> {
    let operations = document["operations"].as_object().into_iter().flatten();
    let rows = operations.flat_map(|(name, operation)| {
        let failures = operation["failures"].as_object().into_iter().flatten();
        failures.map(|(errno, count)| vec![name.clone(), errno.clone(), count.to_string()])
    });
    rows.collect()
}

/// The client of the server that has the image, but for its flushes.
fn remote(remote: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, value) in remote.as_object().into_iter().flatten() {
        match value.as_str() {
            Some(text) => rows.push(vec![name.clone(), text.to_owned()]),
            None if name != "flush" => flatten(value, name, &mut rows),
            None => {}
        }
    }
    rows
}

/// How long commits and checkpoints took, and flushes of a server.
fn durations(document: &Value) -> Vec<Vec<String>> {
    let row = |(part, what): (&str, &str)| {
        let durations = &document[part][what];
        let count = durations["count"].as_f64().filter(|count| *count > 0.0)?;
        let ms = |field: &str| durations[field].as_f64().unwrap_or_default() / 1e3;
        let mean = ms("total_us") / count;
        let cells = [what.to_owned(), count.to_string()];
        let times = [mean, ms("max_us")].map(|ms| format!("{ms:.2} ms"));
        Some(cells.into_iter().chain(times).collect())
    };
    [
        ("journal", "commit"),
        ("journal", "checkpoint"),
        ("remote", "flush"),
    ]
    .into_iter()
    .filter_map(row)
    .collect()
}

/// The locks that were waited for; only counted if that was asked for at the mount.
fn contended(document: &Value) -> Vec<Vec<String>> {
    let locks = document["locks"].as_array().into_iter().flatten();
    let contended = locks.filter(|lock| lock["contended"].as_u64().unwrap_or(0) > 0);
    contended
        .take(8)
        .map(|lock| {
            let waited = lock["wait_us"].as_f64().unwrap_or_default() / 1e3;
            vec![
                lock["class"].as_str().unwrap_or("?").to_owned(),
                lock["contended"].to_string(),
                format!("{waited:.1} ms"),
            ]
        })
        .collect()
}

/// Every number in a document, and its path.
fn flatten(value: &Value, path: &str, rows: &mut Vec<Vec<String>>) {
    if value.is_number() {
        rows.push(vec![path.to_owned(), value.to_string()]);
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        flatten(value, format!("{path} {name}").trim(), rows);
    }
}

fn table(heads: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heads);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

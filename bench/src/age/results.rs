//! The rounds so far, and their charts.

use super::round::Round;
use crate::chart::{Axis, Chart, Kind, Mark, Point, Scale, Series};
use anyhow::Context;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

fn read(path: &Path) -> anyhow::Result<Vec<Round>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path)?;
    let lines = text.lines().map(|line| Ok(serde_json::from_str(line)?));
    lines
        .collect::<anyhow::Result<_>>()
        .with_context(|| path.display().to_string())
}

/// The number of the run that begins: that of the last in the results and one.
pub fn next_run(path: Option<&Path>) -> anyhow::Result<u64> {
    let rounds = path.map(read).transpose()?.unwrap_or_default();
    Ok(rounds.iter().map(|round| round.run + 1).max().unwrap_or(0))
}

/// Adds a round.
pub fn add(path: &Path, round: &Round) -> anyhow::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    Ok(writeln!(file, "{}", serde_json::to_string(round)?)?)
}

/// A chart: its file, title, axis, and value.
type Kept = (&'static str, &'static str, &'static str, fn(&Round) -> f64);

const CHARTS: [Kept; 4] = [
    (
        "aging-creates",
        "Creates on an image that is 40 % full",
        "creates/s",
        |r| r.creates_per_s,
    ),
    (
        "aging-changes",
        "Changes of an image that is nine tenths full",
        "changes/s",
        |r| r.changes_per_s,
    ),
    (
        "aging-extents",
        "Fragmentation at nine tenths",
        "extents of a file",
        |r| r.extents_per_file,
    ),
    (
        "aging-memory",
        "Memory after the unmount",
        "MiB resident",
        |r| (r.resident_bytes >> 20) as f64,
    ),
];

/// Draws all rounds, runs one after the other.
pub fn draw(path: &Path, dir: &Path) -> anyhow::Result<()> {
    let rounds = read(path)?;
    let hours = rounds.iter().map(|round| round.seconds).sum::<f64>() / 3600.0;
    for (id, title, axis, value) in CHARTS {
        let runs = rounds.iter().map(|round| round.run + 1).max().unwrap_or(0);
        let of_run = |run: u64| {
            let points = rounds.iter().filter(|round| round.run == run);
            Series {
                name: format!("run {}", run + 1),
                kind: Kind::Variant,
                mark: Mark::Line,
                points: points
                    .map(|r| Point::new(r.round as f64, value(r)))
                    .collect(),
            }
        };
        let chart = Chart {
            id: id.to_owned(),
            title: title.to_owned(),
            subtitle: format!(
                "{} rounds in {hours:.1} hours, each filled, aged, emptied and checked by e2fsck",
                rounds.len()
            ),
            x: Axis::new("round", Scale::Linear),
            y: Axis::new(axis, Scale::Linear),
            series: (0..runs).map(of_run).collect(),
            notes: Vec::new(),
        };
        fs::create_dir_all(dir)?;
        fs::write(dir.join(format!("{id}.svg")), chart.svg()?)?;
    }
    Ok(())
}

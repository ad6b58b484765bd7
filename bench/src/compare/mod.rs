//! compare: what became faster or slower from one result to another, row by row.
//!
//! | module | holds |
//! | --- | --- |
//! | `result` | what one file holds |
//! | `pair` | rows that both have, and their sum |
//! | `print` | the tables |

mod pair;
mod print;
mod result;

use crate::host::Host;
use clap::Args;
use pair::{Pair, Section};
use result::{RowKey, RunResult};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::path::PathBuf;

/// The two results.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// What `uext4 bench ... --json` printed, to compare with
    #[arg(value_name = "A.json")]
    pub a: PathBuf,
    /// What it printed later, or elsewhere
    #[arg(value_name = "B.json")]
    pub b: PathBuf,
    /// Shows every row, also those that differ by no more than their spread
    #[arg(long)]
    pub all: bool,
    /// Prints one JSON document, with every row
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Source<'a> {
    file: &'a str,
    host: &'a Host,
    quick: bool,
}

impl<'a> Source<'a> {
    fn of(result: &'a RunResult) -> Source<'a> {
        Source {
            file: &result.file,
            host: &result.host,
            quick: result.quick,
        }
    }
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Comparison<'a> {
    benchmark: &'static str,
    a: Source<'a>,
    b: Source<'a>,
    rows: Vec<Pair>,
    sections: Vec<Section>,
    only_a: Vec<RowKey>,
    only_b: Vec<RowKey>,
    notes: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// Matches the rows. Of equal rows in one result the first belongs to the first of the other, and so on.
    fn of(a: &'a RunResult, b: &'a RunResult) -> Comparison<'a> {
        let mut places: HashMap<&RowKey, VecDeque<usize>> = HashMap::new();
        for (place, (key, _)) in b.rows.iter().enumerate() {
            places.entry(key).or_default().push_back(place);
        }
        let (mut rows, mut only_a) = (Vec::new(), Vec::new());
        for (key, of_a) in &a.rows {
            let place = places.get_mut(key).and_then(VecDeque::pop_front);
            match place.and_then(|place| b.rows.get(place)) {
                Some((_, of_b)) => rows.push(Pair::of(key.clone(), *of_a, *of_b)),
                None => only_a.push(key.clone()),
            }
        }
        let mut left: Vec<usize> = places.into_values().flatten().collect();
        left.sort_unstable();
        let left = left.into_iter().filter_map(|place| b.rows.get(place));
        Comparison {
            benchmark: "compare",
            a: Source::of(a),
            b: Source::of(b),
            sections: Section::all(&rows),
            rows,
            only_a,
            only_b: left.map(|(key, _)| key.clone()).collect(),
            notes: notes(a, b),
        }
    }
}

/// What makes the two no fair pair.
fn notes(a: &RunResult, b: &RunResult) -> Vec<String> {
    let mut notes = Vec::new();
    let [on_a, on_b] = [a, b].map(|result| {
        let host = &result.host;
        [
            ("cpu", host.cpu.clone()),
            ("cpus", host.cpus.to_string()),
            ("kernel", host.kernel.clone()),
        ]
    });
    for ((what, of_a), (_, of_b)) in on_a.into_iter().zip(on_b) {
        if of_a != of_b {
            notes.push(format!("the hosts differ: {what} `{of_a}` and `{of_b}`"));
        }
    }
    if a.quick != b.quick {
        let (quick, other) = if a.quick { (a, b) } else { (b, a) };
        let (quick, other) = (&quick.file, &other.file);
        notes.push(format!("{quick} is of a quick run, {other} is not"));
    }
    for result in [a, b] {
        for (section, why) in &result.skipped {
            notes.push(format!("{} skipped {section}: {why}", result.file));
        }
    }
    notes
}

/// Compares two results, and prints.
pub fn run(args: &CompareArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (a, b) = (RunResult::load(&args.a)?, RunResult::load(&args.b)?);
    let comparison = Comparison::of(&a, &b);
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &comparison)?;
        writeln!(out)?;
        return Ok(());
    }
    print::print(&comparison, args.all, out)
}

#[cfg(test)]
mod tests;

//! compare: what became faster or slower from one result to another, row by row.
//!
//! | module | holds |
//! | --- | --- |
//! | `document` | the JSON that is read |
//! | `result` | what one file says |
//! | `key` | what a row is of |
//! | `change` | the ratio of two rows, and whether it is more than their spread |
//! | `pairs` | the rows of both, matched |
//! | `section` | the rows of a section, summed up |
//! | `print` | the tables |

mod change;
mod document;
mod key;
mod pairs;
mod print;
mod result;
mod section;

use crate::host::Host;
use clap::Args;
use key::RowKey;
use pairs::{Pair, Pairs};
use result::RunResult;
use section::Section;
use serde::Serialize;
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

/// Where a result is from.
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
    fn of(a: &'a RunResult, b: &'a RunResult) -> Comparison<'a> {
        let Pairs {
            both,
            only_a,
            only_b,
        } = Pairs::of(&a.rows, &b.rows);
        Comparison {
            benchmark: "compare",
            a: Source::of(a),
            b: Source::of(b),
            sections: Section::all(&both),
            rows: both,
            only_a,
            only_b,
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

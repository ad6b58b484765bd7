//! The comparison as tables.

use super::Comparison;
use super::pair::{Pair, Ratio, Section, Verdict};
use super::result::RowKey;
use crate::tables::{count, table};
use comfy_table::Table;
use std::io::{self, Write};

/// So many rows that only one result has are named.
const NAMED_MAX: usize = 10;

/// Numbers from here on are written with an exponent.
const DIGITS_MAX: f64 = 1e15;

/// Prints rows, every one with `all`, and their totals.
pub fn print(of: &Comparison<'_>, all: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let (a, b) = (of.a.file, of.b.file);
    writeln!(out, "A: {a}\nB: {b}\n")?;
    let is_shown = |pair: &&Pair| all || pair.verdict != Verdict::Within;
    let shown: Vec<&Pair> = of.rows.iter().filter(is_shown).collect();
    if of.rows.is_empty() {
        writeln!(out, "no row is in both\n")?;
    } else if shown.is_empty() {
        writeln!(out, "no row differs by more than its spread\n")?;
    } else {
        writeln!(out, "operations per second")?;
        writeln!(out, "{}\n", rows_table(&shown))?;
    }
    if !of.sections.is_empty() {
        writeln!(out, "{}\n", sections_table(of))?;
    }
    only_in(a, &of.only_a, out)?;
    only_in(b, &of.only_b, out)?;
    for note in &of.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn rows_table(pairs: &[&Pair]) -> Table {
    let row = |pair: &&Pair| {
        let Ratio { min, median, max } = pair.ratio;
        [
            pair.key.to_string(),
            figure(pair.a.median),
            figure(pair.b.median),
            times(median),
            format!("{}-{}", times(min), times(max)),
            match pair.verdict {
                Verdict::Within => "",
                Verdict::Faster => "faster",
                Verdict::Slower => "slower",
            }
            .to_owned(),
        ]
    };
    table("row|A median|B median|B/A|min-max|", pairs.iter().map(row))
}

fn sections_table(of: &Comparison<'_>) -> Table {
    let together = (of.sections.len() > 1).then(|| Section::of("together", of.rows.iter()));
    let row = |section: &Section| {
        let left_out = match section.without_ratio {
            0 => String::new(),
            rows => format!(" (without {rows})"),
        };
        [
            section.section.clone(),
            section.rows.to_string(),
            section.faster.to_string(),
            section.slower.to_string(),
            section.within.to_string(),
            format!("{}{left_out}", times(section.ratio)),
        ]
    };
    let header = "section|rows|faster|slower|within|B/A";
    table(header, of.sections.iter().chain(&together).map(row))
}

fn only_in(file: &str, keys: &[RowKey], out: &mut dyn Write) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    writeln!(out, "only in {file}: {}", keys.len())?;
    for key in keys.iter().take(NAMED_MAX) {
        writeln!(out, "  {key}")?;
    }
    match keys.len().saturating_sub(NAMED_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

/// Operations per second.
fn figure(number: f64) -> String {
    match number {
        n if n >= DIGITS_MAX => format!("{n:.3e}"),
        n if n < 100.0 => format!("{n:.2}"),
        n => count(n),
    }
}

fn times(ratio: Option<f64>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(r) if r >= 1e6 || (r > 0.0 && r < 0.005) => format!("{r:.2e}"),
        Some(r) => format!("{r:.2}"),
    }
}

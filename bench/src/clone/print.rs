//! The tables of a run.

use super::CloneArgs;
use super::peer::Peer;
use super::row::CloneRow;
use crate::histogram::LatencyUs;
use crate::host;
use crate::spread::Spread;
use crate::tables::{self, ComparedRow, count, ratio, side_by_side};
use crate::variants::once;
use comfy_table::Table;
use std::io::{self, Write};
use uext4_vfs::SuperVariant;

/// The rows of one count of workers.
struct OfWorkers<'a> {
    workers: usize,
    /// The variants in order.
    names: &'a [String],
    /// For each count of live namespaces, ascending, the variants' rows in order.
    by_live: Vec<(u64, Vec<&'a CloneRow>)>,
    /// The kernel's row, and its call.
    kernel: Option<&'a CloneRow>,
    call: &'static str,
}

/// Prints all of it, a count of workers after the other.
pub fn print(
    args: &CloneArgs,
    names: &[String],
    rows: &[CloneRow],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut lives = args.live.clone();
    lives.sort_unstable();
    lives.dedup();
    for &workers in &once(&args.workers) {
        let here = |row: &&CloneRow| row.row.threads == workers;
        let of_live = |&live: &u64| {
            let rows = rows
                .iter()
                .filter(here)
                .filter(|row| row.live == Some(live));
            (live, rows.take(names.len()).collect())
        };
        let some = OfWorkers {
            workers,
            names,
            by_live: lives.iter().map(of_live).collect(),
            kernel: rows.iter().filter(here).find(|row| row.live.is_none()),
            call: args.peer.map_or("", Peer::call),
        };
        let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
        writeln!(
            out,
            "namespaces created and dropped per second, {workers} workers, {rounds} rounds of {time} s"
        )?;
        some.print(out)?;
    }
    Ok(())
}

impl OfWorkers<'_> {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let rates = self.compare(|row| row.row.ops_per_s);
        writeln!(out, "{}\n", side_by_side("live", self.names, &rates))?;
        self.print_kernel(out)?;
        let cpus = host::cpus().min(self.workers);
        writeln!(
            out,
            "cost of a namespace in ns, by live namespaces: {cpus} CPUs x seconds / namespaces"
        )?;
        writeln!(out, "{}\n", self.costs())?;
        let growth = self.growth();
        if !growth.is_empty() {
            writeln!(out, "{}\n", growth.join("\n"))?;
        }
        writeln!(out, "latency in us")?;
        writeln!(out, "{}\n", self.latencies())?;
        for (live, rows) in &self.by_live {
            for row in rows.iter().filter(|row| !row.row.locks.is_empty()) {
                writeln!(out, "{} live", count(*live as f64))?;
                row.row.print_tables(out)?;
            }
        }
        Ok(())
    }

    fn compare(&self, part: fn(&CloneRow) -> Spread) -> Vec<ComparedRow> {
        let label = |live: u64| count(live as f64);
        let row = |(live, rows): &(u64, Vec<&CloneRow>)| {
            (label(*live), rows.iter().map(|row| part(row)).collect())
        };
        self.by_live.iter().map(row).collect()
    }

    fn print_kernel(&self, out: &mut dyn Write) -> io::Result<()> {
        let (Some(kernel), Some((live, rows))) = (self.kernel, self.by_live.first()) else {
            return Ok(());
        };
        let rate = kernel.row.ops_per_s;
        writeln!(
            out,
            "kernel, {}: {} ({}-{})",
            self.call,
            count(rate.median),
            count(rate.min),
            count(rate.max)
        )?;
        for row in rows {
            let over = row.row.ops_per_s.median / rate.median.max(1e-9);
            let (variant, live) = (&row.row.variant, count(*live as f64));
            writeln!(out, "{variant}, {live} live, over kernel: {over:.1} times")?;
        }
        writeln!(out)
    }

    fn costs(&self) -> Table {
        let names = self.names.iter().cloned();
        let header = std::iter::once("live".to_owned()).chain(names).collect();
        let line = |(live, rows): &(u64, Vec<&CloneRow>)| -> Vec<String> {
            let costs = rows.iter().map(|row| count(row.cost_ns));
            std::iter::once(count(*live as f64)).chain(costs).collect()
        };
        tables::with_header(header, self.by_live.iter().map(line))
    }

    /// The most live namespaces over the fewest, and what `nodev` gains over `keyed`.
    fn growth(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let [(few, first), .., (many, last)] = &self.by_live[..] {
            let (few, many) = (count(*few as f64), count(*many as f64));
            for (row, base) in last.iter().zip(first) {
                let over = ratio(row.cost_ns, base.cost_ns);
                lines.push(format!(
                    "{}: {many} live over {few} live: {over}",
                    row.row.variant
                ));
            }
        }
        let place =
            |variant: SuperVariant| self.names.iter().position(|name| name == variant.name());
        if let (Some(keyed), Some(nodev)) = (place(SuperVariant::Keyed), place(SuperVariant::Nodev))
        {
            for (live, rows) in &self.by_live {
                let rate = |i: usize| rows[i].row.ops_per_s.median;
                let gain = (rate(nodev) / rate(keyed).max(1e-9) - 1.0) * 100.0;
                let sign = if gain < 0.0 { "" } else { "+" };
                let (live, gain) = (count(*live as f64), count(gain));
                lines.push(format!("nodev over keyed, {live} live: {sign}{gain} %"));
            }
        }
        lines
    }

    fn latencies(&self) -> Table {
        let mut lines = Vec::new();
        let us = |latency: Option<LatencyUs>, part: fn(LatencyUs) -> f64| {
            latency.map_or_else(|| "-".to_owned(), |l| format!("{:.2}", part(l)))
        };
        let cells = |first: String, row: &CloneRow| {
            let mut cells = vec![first, row.row.variant.clone()];
            for latency in [row.create_us, row.drop_us, row.row.latency_us] {
                cells.extend([us(latency, |l| l.p50), us(latency, |l| l.p99)]);
            }
            cells
        };
        for (live, rows) in &self.by_live {
            for (i, row) in rows.iter().enumerate() {
                let first = if i == 0 {
                    count(*live as f64)
                } else {
                    String::new()
                };
                lines.push(cells(first, row));
            }
        }
        if let Some(kernel) = self.kernel {
            lines.push(cells("-".to_owned(), kernel));
        }
        tables::table("live|arm|create p50|p99|drop p50|p99|both p50|p99", lines)
    }
}

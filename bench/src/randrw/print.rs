//! The tables and the histogram of a run.

use super::RandrwArgs;
use super::handover::Nanos;
use super::points::{BOTH, Parts, Point, Points, READS, WRITES};
use crate::device::{DeviceSpec, size_name};
use crate::histogram::LatencyUs;
use crate::tables::{count, ratio, table};
use comfy_table::Table;
use std::io::{self, Write};

/// Characters of the longest bar.
const BAR: f64 = 28.0;
/// The scale ends here at least, so that noise does not fill it.
const GAIN_MIN: f64 = 10.0;

/// Prints all of it, a block size after the other.
pub fn print(
    args: &RandrwArgs,
    names: &[String],
    points: &Points,
    handover_ns: Nanos,
    out: &mut dyn Write,
) -> io::Result<()> {
    header(args, out)?;
    for &bytes in &args.bs {
        writeln!(out, "blocks of {}", size_name(bytes))?;
        let of_size = |series: usize| {
            let alike = move |point: &&Point| point.case.block_bytes == bytes;
            points.of_series(series).iter().filter(alike)
        };
        let all_series: Vec<Vec<&Point>> = (0..names.len()).map(|i| of_size(i).collect()).collect();
        writeln!(out, "{}\n", figures(&all_series))?;
        if all_series.iter().flatten().any(|point| point.used_up > 0) {
            early(&all_series, out)?;
        }
        for series in &all_series {
            gains(series, out)?;
        }
        let allowed = allowed(&all_series);
        if !allowed.is_empty() {
            writeln!(
                out,
                "what arithmetic allows variants whose writes exclude others, in ops/s; a sleeper runs \
                 {:.1} us after it got the lock",
                handover_ns as f64 / 1e3
            )?;
            writeln!(out, "{allowed}\n")?;
        }
        for point in all_series.iter().flatten() {
            point.rows[BOTH].print_tables(out)?;
        }
    }
    Ok(())
}

fn header(args: &RandrwArgs, out: &mut dyn Write) -> io::Result<()> {
    let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
    let size = size_name(args.size);
    write!(
        out,
        "direct random I/O, {} % reads, one file of {size}, {rounds} rounds of {time} s after a warm-up \
         of {} s",
        args.rwmixread,
        args.warm_up().as_secs_f64()
    )?;
    if args.iodepth > 1 {
        write!(out, ", {} requests in flight a thread", args.iodepth)?;
    }
    if args.holes > 0 {
        let room = size_name(args.hole_bytes());
        write!(out, "; {} % of the writes fill holes of {room}", args.holes)?;
    }
    match &args.setup.device {
        DeviceSpec::Mem => write!(out, "; in memory")?,
        DeviceSpec::File(path) => write!(out, "; {}", path.display())?,
    }
    if args.setup.direct {
        write!(out, ", O_DIRECT")?;
    }
    match args.setup.model() {
        Some(m) => writeln!(out, ", {:?} x {}\n", m.latency, m.parallelism),
        None => writeln!(out, "\n"),
    }
}

/// A row for each series and count of threads.
fn figures(all_series: &[Vec<&Point>]) -> Table {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let cases = all_series.first().map_or(0, Vec::len);
    for case in 0..cases {
        for (series, points) in all_series.iter().enumerate() {
            let point = points[case];
            let threads = match series {
                0 => point.case.threads.to_string(),
                _ => String::new(),
            };
            lines.push(std::iter::once(threads).chain(figures_of(point)).collect());
        }
    }
    let header = "threads|arm|ops/s|min-max|MB/s|over bare|read p50 us|p99|write p50 us|p99|device mean us|max";
    table(header, lines)
}

fn figures_of(point: &Point) -> [String; 11] {
    let rows = &point.rows;
    let spread = rows[BOTH].ops_per_s;
    let none = || "-".to_owned();
    let us = |latency: Option<LatencyUs>, part: fn(LatencyUs) -> f64| {
        latency.map_or_else(none, |l| micros(part(l)))
    };
    let device = |part: f64| point.device.map_or_else(none, |_| micros(part));
    let achieved = point.device.map_or((0.0, 0.0), |d| (d.mean, d.max));
    [
        rows[BOTH].variant.clone(),
        count(spread.median),
        format!("{}-{}", count(spread.min), count(spread.max)),
        count(spread.median * point.case.block_bytes as f64 / 1e6),
        point
            .bare
            .map_or_else(none, |bare| ratio(spread.median, bare[BOTH])),
        us(rows[READS].latency_us, |l| l.p50),
        us(rows[READS].latency_us, |l| l.p99),
        us(rows[WRITES].latency_us, |l| l.p50),
        us(rows[WRITES].latency_us, |l| l.p99),
        device(achieved.0),
        device(achieved.1),
    ]
}

/// Three digits are enough.
fn micros(us: f64) -> String {
    match us < 10.0 {
        true => format!("{us:.2}"),
        false => count(us),
    }
}

fn early(all_series: &[Vec<&Point>], out: &mut dyn Write) -> io::Result<()> {
    for point in all_series.iter().flatten().filter(|p| p.used_up > 0) {
        let (threads, rounds) = (point.case.threads, point.used_up);
        let variant = &point.rows[BOTH].variant;
        writeln!(
            out,
            "{variant}, {threads} threads: {rounds} rounds ended early, every hole being filled (--hole-size)"
        )?;
    }
    writeln!(out)
}

/// The gain of a series, a bar for each count of threads, of the reads and of the writes.
fn gains(series: &[&Point], out: &mut dyn Write) -> io::Result<()> {
    let gains: Vec<(usize, Parts<f64>)> = series
        .iter()
        .filter_map(|point| point.gain.map(|gain| (point.case.threads, gain)))
        .collect();
    let Some(first) = series.first().filter(|_| !gains.is_empty()) else {
        return Ok(());
    };
    let variant = &first.rows[BOTH].variant;
    writeln!(out, "{variant}: percent gained over exclusive-first")?;
    let most = gains
        .iter()
        .map(|(_, gain)| gain[READS].abs().max(gain[WRITES].abs()))
        .fold(GAIN_MIN, f64::max);
    let width = BAR as usize + 8;
    writeln!(out, "{:>7}  {:<width$} writes", "threads", "reads")?;
    for (threads, gain) in gains {
        let (reads, writes) = (bar(gain[READS], most), bar(gain[WRITES], most));
        writeln!(out, "{threads:>7}  {reads:<width$} {writes}")?;
    }
    writeln!(out)
}

/// A bar with its number at its end; of `-` where something was lost.
fn bar(percent: f64, most: f64) -> String {
    let mark = if percent < 0.0 { "-" } else { "#" };
    let long = (percent.abs() / most * BAR).round() as usize;
    format!("|{} {percent:.1}", mark.repeat(long))
}

fn allowed(all_series: &[Vec<&Point>]) -> Table {
    let mut lines = Vec::new();
    for point in all_series.iter().flatten() {
        let (Some(allowed), Some(reached)) = (point.allowed, point.reached()) else {
            continue;
        };
        lines.push([
            point.case.threads.to_string(),
            point.rows[BOTH].variant.clone(),
            count(allowed),
            count(point.medians()[BOTH]),
            format!("{reached:.2}"),
        ]);
    }
    table("threads|arm|allowed|reached|ratio", lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        assert_eq!(bar(0.04, 10.0), "| 0.0");
        assert_eq!(bar(70.0, 70.0), format!("|{} 70.0", "#".repeat(28)));
        assert_eq!(bar(-5.0, 10.0), format!("|{} -5.0", "-".repeat(14)));
    }
}

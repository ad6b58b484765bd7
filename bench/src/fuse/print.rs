//! A table for each workload.

use super::workload::Workload;
use super::{FuseArgs, FuseRow};
use crate::device::size_name;
use crate::tables::{self, count, ratio};
use crate::variants::{Named, once};
use comfy_table::Table;
use std::io::{self, Write};

/// Prints the tables; ratios are to each of `peers`.
pub fn print(
    args: &FuseArgs,
    peers: &[String],
    rows: &[FuseRow],
    out: &mut dyn Write,
) -> io::Result<()> {
    for workload in once(&args.workload.0) {
        writeln!(out, "{}", header(args, workload))?;
        let of_workload: Vec<&FuseRow> = rows
            .iter()
            .filter(|row| row.workload == workload.name())
            .collect();
        let there = |peer: &&String| of_workload.iter().any(|row| row.row.variant == **peer);
        let peers: Vec<&String> = peers.iter().filter(there).collect();
        writeln!(out, "{}\n", table(&of_workload, &peers))?;
    }
    Ok(())
}

fn header(args: &FuseArgs, workload: Workload) -> String {
    let what = match workload {
        Workload::Create => format!(
            "create: files per second, {} processes with {} files each, fsyncs of their directories inside the time",
            args.clients,
            count(args.files as f64)
        ),
        Workload::Randrw => format!(
            "randrw: direct reads and writes of 4K per second, one file of {}, {} s, an fsync inside the time",
            size_name(args.size),
            args.time.as_secs_f64()
        ),
        Workload::Seq => format!(
            "seq: MiB per second, one file of {}, an fsync inside the time of writing",
            size_name(args.seq_size)
        ),
        Workload::Tar => format!(
            "tar: files and directories per second, a tree of {} files, the unmount inside the time",
            count(args.tar_files as f64)
        ),
    };
    format!("{what}; {} rounds", args.iterations)
}

/// A row for each operation, count of threads and target.
fn table(rows: &[&FuseRow], peers: &[&String]) -> Table {
    let timed = rows.iter().any(|row| row.row.latency_us.is_some());
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let mut heading = words(&["op", "threads", "arm", "median", "min-max"]);
    heading.extend(peers.iter().map(|peer| format!("over {peer}")));
    if timed {
        heading.extend(words(&["p50 us", "p99 us", "max us"]));
    }
    let mut lines = Vec::new();
    let mut last = None;
    for FuseRow { row, .. } in rows.iter().copied() {
        let same = |other: &&&FuseRow| (other.row.op, other.row.threads) == (row.op, row.threads);
        let new = last.replace((row.op, row.threads)) != last;
        let label = |text: String| if new { text } else { String::new() };
        let rate = row.ops_per_s;
        let mut cells = vec![
            label(row.op.to_owned()),
            label(row.threads.to_string()),
            row.variant.clone(),
            count(rate.median),
            format!("{}-{}", count(rate.min), count(rate.max)),
        ];
        for peer in peers {
            let theirs = rows
                .iter()
                .filter(same)
                .find(|other| other.row.variant == **peer);
            cells.push(match theirs {
                Some(theirs) => ratio(rate.median, theirs.row.ops_per_s.median),
                None => "-".to_owned(),
            });
        }
        if let Some(us) = row.latency_us {
            cells.extend([us.p50, us.p99, us.max].map(|us| format!("{us:.1}")));
        }
        lines.push(cells);
    }
    tables::with_header(heading, lines)
}

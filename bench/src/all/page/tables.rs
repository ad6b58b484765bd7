//! Tables of a part: locks, stages of a create, and how often generations repeat.

use super::super::result::Report;
use super::rows::Rows;
use crate::chart::number::number;
use crate::chart::{Block, Table};
use crate::locks::LockRow;
use crate::tables::count;
use serde_json::Value;
use std::cmp::Reverse;

/// Lock classes listed for each variant.
const CLASSES: usize = 6;

/// The locks of a section's operation at the most threads, with the smallest requests.
pub fn locks(report: &Report, section: &str, op: &str) -> Block {
    let busiest = Rows::of(report, section)
        .filter(|row| row.op == op)
        .busiest();
    let threads = busiest.counts().first().copied().unwrap_or(0);
    let mut rows = Vec::new();
    for row in &busiest.0 {
        let mut locks: Vec<&LockRow> = row.locks.iter().collect();
        locks.sort_by_key(|lock| Reverse((lock.wait_us, lock.acquisitions)));
        for lock in locks.into_iter().take(CLASSES) {
            let average = |us: u64, times: u64| count(us as f64 * 1000.0 / times.max(1) as f64);
            let share = lock.contended as f64 / lock.acquisitions.max(1) as f64;
            rows.push(vec![
                format!("{}: {}", row.variant, lock.class),
                count(lock.acquisitions as f64),
                format!("{:.2}", lock.per_op),
                count(lock.contended as f64),
                format!("{:.3}", share * 100.0),
                average(lock.wait_us, lock.contended),
                average(lock.hold_us, lock.acquisitions),
            ]);
        }
    }
    let header = [
        "variant: class",
        "acquisitions",
        "per op",
        "contended",
        "contended %",
        "wait avg (ns)",
        "hold avg (ns)",
    ];
    Block::Table {
        caption: format!(
            "Locks of {section}, {op}, {threads} threads: for each variant the {CLASSES} classes that waited longest; -R is shared"
        ),
        table: Table::new(&header, rows),
    }
}

/// The stages of a create at the most threads.
pub fn stages(report: &Report, section: &str) -> Block {
    let busiest = Rows::of(report, section)
        .filter(|row| row.op == "create")
        .busiest();
    let mut rows = Vec::new();
    for row in &busiest.0 {
        for stage in &row.stages {
            let average_ns = stage.total_us as f64 * 1000.0 / stage.calls.max(1) as f64;
            rows.push(vec![
                format!("{}: {}", row.variant, stage.stage),
                stage.function.clone(),
                count(stage.calls as f64),
                format!("{:.2}", stage.per_op),
                count(average_ns),
            ]);
        }
    }
    Block::Table {
        caption: format!(
            "Stages of a create of {section}, with the most workers; create contains the others"
        ),
        table: Table::new(
            &[
                "variant: stage",
                "in Linux",
                "calls",
                "per op",
                "average (ns)",
            ],
            rows,
        ),
    }
}

/// How often generations repeat: measured with few bits, beside what arithmetic expects.
pub fn repeats(report: &Report) -> Option<Block> {
    let all = report.document("generation")?.get("repeats")?.as_array()?;
    let line = |row: &Value| {
        let number_of = |of: &str, key: &str| row.get(of)?.get(key)?.as_f64();
        let one_in = |of: &str| match number_of(of, "stale_handle") {
            Some(rate) if rate > 0.0 => format!("1 in {}", number(1.0 / rate)),
            Some(_) => "never".to_owned(),
            None => String::new(),
        };
        let (name, bits) = (row.get("arm")?.as_str()?, row.get("width_bits")?.as_u64()?);
        let twice = number_of("measured", "back_to_back").map_or_else(String::new, number);
        Some(vec![
            format!("{name}, {bits} bits"),
            twice,
            one_in("measured"),
            one_in("expected"),
        ])
    };
    let header = [
        "variant, width of generations",
        "the same twice in a row",
        "stale handle accepted",
        "expected",
    ];
    Some(Block::Table {
        caption: "How often generations repeat: measured where they are short, and by arithmetic at 32 bits".to_owned(),
        table: Table::new(&header, all.iter().filter_map(line).collect()),
    })
}

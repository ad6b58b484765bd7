//! Inode generations: create and unlink by tasks and arm, and draws.

use super::figures::{About, commands, figure, latencies, published, rates};
use super::rows::{Row, Rows, lock_caption, lock_table};
use crate::all::result::Report;
use crate::chart::number::number;
use crate::chart::{Block, Mark, Scale, Section, Table};
use crate::report::Spread;
use serde_json::Value;

const TASKS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
const SPINLOCK: [f64; 8] = [137.0, 224.0, 356.0, 439.0, 443.0, 598.0, 559.0, 385.0];
const ATOMIC: [f64; 8] = [140.0, 233.0, 372.0, 519.0, 585.0, 695.0, 707.0, 437.0];

/// The section.
pub fn section(report: &Report) -> Section {
    let rows = Rows::of(report, "create-unlink");
    let kernel = Rows::of(report, "create-unlink-kernel");
    let about = |id, title, subtitle, y| About {
        id,
        title,
        subtitle,
        x: ("tasks", Scale::Log),
        y: (y, Scale::Linear),
    };
    let mut blocks = vec![
        Block::Text(
            "Every new inode gets a stamp, so that a stale handle of a reused inode is refused. Each task creates and \
             unlinks one file in a directory of its own, in a loop: one stamp for each pair."
                .to_owned(),
        ),
        rates(
            about("generation", "Create+unlink by tasks", "image in memory", "pairs/s"),
            &rows,
            Vec::new(),
        ),
        scaling(&rows),
        rates(
            About {
                y: ("pairs/s", Scale::Log),
                ..about(
                    "generation-kernel",
                    "Create+unlink beside Linux",
                    "both images on tmpfs, Linux through a loop device",
                    "",
                )
            },
            &kernel,
            Vec::new(),
        ),
        rates(
            About {
                x: ("threads", Scale::Log),
                ..about("generation-draws", "Stamps drawn", "nothing but drawing", "draws/s")
            },
            &Rows::of(report, "generation"),
            Vec::new(),
        ),
    ];
    let busiest = rows.busiest();
    let tasks = busiest.counts().first().copied().unwrap_or(0);
    blocks.push(latencies(
        (
            "generation-latency",
            "Latency of create+unlink",
            &format!("{tasks} tasks, image in memory"),
        ),
        &busiest,
        |row| row.arm.clone(),
        vec![
            "With more tasks than CPUs the tail is a task that waits for its turn of a CPU."
                .to_owned(),
        ],
    ));
    blocks.push(Block::Table {
        caption: lock_caption(&format!("create-unlink, {tasks} tasks")),
        table: lock_table(
            &busiest.filter(|row| ["spinlock", "atomic", "beyond"].contains(&&*row.arm)),
        ),
    });
    blocks.extend(repeats(report));
    blocks.extend(commands(
        report,
        &["create-unlink", "create-unlink-kernel", "generation"],
    ));
    Section {
        id: "inode-generation".to_owned(),
        title: "Inode generation".to_owned(),
        blocks,
    }
}

/// What more tasks gain, beside the published curves.
fn scaling(rows: &Rows) -> Block {
    let over_one = |row: &Row| {
        let one = rows.rate(&row.arm, 1).filter(|one| *one > 0.0)?;
        Some(Spread::of(&[row.ops_per_s.median / one]))
    };
    let mut series = rows.series(Mark::Line, |row| Some(row.threads as f64), over_one);
    for (name, curve) in [("spinlock", SPINLOCK), ("atomic", ATOMIC)] {
        let first = curve[0];
        let points: Vec<(f64, f64)> = TASKS
            .iter()
            .zip(curve)
            .map(|(&x, y)| (x, y / first))
            .collect();
        series.push(published(name, &points, Mark::Line));
    }
    let cell = |row: &Row| over_one(row).map_or_else(String::new, |s| format!("{:.2}", s.median));
    let table = rows.table("tasks", |row| Some(row.threads), cell);
    let about = About {
        id: "generation-scaling",
        title: "What more tasks gain",
        subtitle: "rate over that of one task; the published machine has many cores",
        x: ("tasks", Scale::Log),
        y: ("times the rate of one task", Scale::Linear),
    };
    let note = "Published: 137, 224, 356, 439, 443, 598, 559, 385 with the lock at 1 to 128 tasks; 140, 233, 372, 519, \
                585, 695, 707, 437 with one atomic counter. No arm can gain more than there are CPUs.";
    figure(about, series, table, vec![note.to_owned()])
}

/// How often stamps repeat, measured at few bits, beside what arithmetic expects.
fn repeats(report: &Report) -> Option<Block> {
    let all = report.document("generation")?.get("repeats")?.as_array()?;
    let line = |row: &Value| {
        let number_of = |of: &str, key: &str| row.get(of)?.get(key)?.as_f64();
        let one_in = |of: &str, key: &str| match number_of(of, key) {
            Some(rate) if rate > 0.0 => format!("1 in {}", number(1.0 / rate)),
            Some(_) => "never".to_owned(),
            None => String::new(),
        };
        let arm = row.get("arm")?.as_str()?;
        let bits = row.get("width_bits")?.as_u64()?;
        let twice = number_of("measured", "back_to_back").map_or_else(String::new, number);
        Some(vec![
            format!("{arm}, {bits} bits"),
            twice,
            one_in("measured", "stale_handle"),
            one_in("expected", "stale_handle"),
        ])
    };
    let header = [
        "arm, width of stamps",
        "the same twice running",
        "stale handle accepted",
        "expected",
    ];
    Some(Block::Table {
        caption:
            "How often stamps repeat: measured where they are short, and by arithmetic at 32 bits"
                .to_owned(),
        table: Table {
            header: header.map(str::to_owned).to_vec(),
            rows: all.iter().filter_map(line).collect(),
        },
    })
}

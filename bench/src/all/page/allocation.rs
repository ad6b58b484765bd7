//! Inode allocation: creates and removes by workers and arm.

use super::figures::{About, bars, commands, figure, rates, times};
use super::rows::{Row, Rows, lock_caption, lock_table, stage_table};
use crate::all::result::Report;
use crate::chart::{Block, Mark, Scale, Section};
use crate::locks::acquisitions_of;
use crate::report::Spread;

/// The section.
pub fn section(report: &Report) -> Section {
    let (plain, slow) = (Rows::of(report, "mdtest"), Rows::of(report, "mdtest-delay"));
    let mut blocks = vec![Block::Text(
        "Each worker creates files in a directory of its own, then removes them; each phase ends with a sync inside \
         its time. With retry-unlocked a worker looks for a free inode, asks the journal for write access, and only \
         then takes the lock of the group: who lost the race begins again. With retry-locked it looks again under \
         the lock. lock-free claims the bit with one atomic operation."
            .to_owned(),
    )];
    let kernel = Rows::of(report, "mdtest-kernel");
    for (op, verb) in [("create", "Creates"), ("remove", "Removes")] {
        let about = About {
            id: &format!("alloc-{op}"),
            title: &format!("{verb} by workers"),
            subtitle: "image in memory",
            x: ("workers", Scale::Log),
            y: (&format!("{}/s", verb.to_lowercase()), Scale::Linear),
        };
        blocks.push(rates(about, &plain.op(op), Vec::new()));
    }
    for (op, verb) in [("create", "Creates"), ("remove", "Removes")] {
        let about = About {
            id: &format!("alloc-delay-{op}"),
            title: &format!("{verb} by workers while transactions close"),
            subtitle: "journal calls sleep 50 us, as they do then",
            x: ("workers", Scale::Log),
            y: (&format!("{}/s", verb.to_lowercase()), Scale::Log),
        };
        blocks.push(rates(about, &slow.op(op), Vec::new()));
    }
    blocks.push(acquisitions(&slow.op("create")));
    blocks.push(beside_kernel(&kernel));
    for (rows, what) in [(&plain, "mdtest"), (&slow, "mdtest-delay")] {
        let busiest = rows.op("create").busiest();
        let workers = busiest.counts().first().copied().unwrap_or(0);
        blocks.push(Block::Table {
            caption: lock_caption(&format!("{what}, creates by {workers} workers")),
            table: lock_table(&busiest),
        });
    }
    let busiest = slow.op("create").busiest();
    blocks.push(Block::Table {
        caption: "Stages of a create of mdtest-delay, at the most workers; create holds the others"
            .to_owned(),
        table: stage_table(&busiest),
    });
    blocks.extend(commands(
        report,
        &["mdtest", "mdtest-delay", "mdtest-kernel"],
    ));
    Section {
        id: "inode-allocation".to_owned(),
        title: "Inode allocation".to_owned(),
        blocks,
    }
}

fn acquisitions(creates: &Rows) -> Block {
    let per_op = |row: &Row| {
        let each = acquisitions_of(&row.locks, "group") as f64 / row.ops.max(1) as f64;
        (!row.locks.is_empty()).then(|| Spread::of(&[each]))
    };
    let about = About {
        id: "alloc-acquisitions",
        title: "Acquisitions of the group lock for a create",
        subtitle: "journal calls sleep 50 us; claims without a lock count as one",
        x: ("workers", Scale::Log),
        y: ("acquisitions per create", Scale::Log),
    };
    let series = creates.series(Mark::Line, |row| Some(row.threads as f64), per_op);
    let cell = |row: &Row| per_op(row).map_or_else(String::new, |s| format!("{:.2}", s.median));
    let table = creates.table("workers", |row| Some(row.threads), cell);
    let published = "Published: 180,899,929 acquisitions of spin locks of every kind for 1,440,000 creates by 48 processes, 126 for each.";
    figure(about, series, table, vec![published.to_owned()])
}

fn beside_kernel(rows: &Rows) -> Block {
    let group = |op: &str, workers: u64| {
        let some = rows.op(op).filter(|row| row.threads == workers);
        (format!("{op}, {workers}"), some)
    };
    let counts = rows.counts();
    let groups: Vec<_> = ["create", "remove"]
        .iter()
        .flat_map(|op| counts.iter().map(move |&n| group(op, n)))
        .collect();
    let notes = ["create", "remove"].iter().filter_map(|op| {
        let (some, most) = (rows.op(op), *counts.last()?);
        let over = times(some.rate("default", most), some.rate("peer", most))?;
        Some(format!("{op}s/s of {most} workers: {over} those of Linux."))
    });
    bars(
        (
            "alloc-kernel",
            "Creates and removes beside Linux",
            "by workers; both images on tmpfs, Linux through a loop device",
        ),
        "operations/s",
        &groups,
        notes.collect(),
    )
}

//! The superblock registry: what a namespace costs.

use super::figures::{About, commands, figure, latencies, rates, times};
use super::rows::{Row, Rows, lock_caption, lock_table};
use crate::all::result::Report;
use crate::chart::{Block, Mark, Scale, Section};
use crate::report::Spread;
use crate::tables::count;

/// The section.
pub fn section(report: &Report) -> Section {
    let by_live = Rows::of(report, "clone");
    let mut all = by_live.clone();
    all.0.extend(Rows::of(report, "clone-many").0);
    let by_workers = Rows::of(report, "clone-workers");
    let mut blocks = vec![
        Block::Text(
            "Each worker creates an IPC namespace with its superblock of message queues and drops its oldest, in a \
             loop. keyed searches all live superblocks for a key that can't be there; nodev does not search; beyond \
             touches no global lock."
                .to_owned(),
        ),
        cost(&all),
        rates(
            About {
                id: "clone-workers",
                title: "Namespaces by workers",
                subtitle: "1,000 alive",
                x: ("workers", Scale::Log),
                y: ("namespaces/s", Scale::Log),
            },
            &by_workers,
            vec!["Published for nodev over keyed, 32 workers: 5948.45 to 9137.06 ops/s, +54 %.".to_owned()],
        ),
    ];
    let busiest = by_workers.busiest();
    let workers = busiest.counts().first().copied().unwrap_or(0);
    blocks.push(latencies(
        (
            "clone-latency",
            "Latency of creating and dropping a namespace",
            &format!("1,000 alive, {workers} workers"),
        ),
        &busiest,
        |row| row.arm.clone(),
        Vec::new(),
    ));
    blocks.push(Block::Table {
        caption: lock_caption(&format!("clone, 1,000 alive, {workers} workers")),
        table: lock_table(&busiest),
    });
    blocks.extend(commands(report, &["clone", "clone-many", "clone-workers"]));
    Section {
        id: "namespaces".to_owned(),
        title: "Superblock registry and namespaces".to_owned(),
        blocks,
    }
}

fn cost(rows: &Rows) -> Block {
    // A row that a second run measured again at the same count is left out.
    let mut once: Vec<Row> = Vec::new();
    for row in rows.0.iter().filter(|row| row.live.is_some()) {
        if !once
            .iter()
            .any(|other| other.arm == row.arm && other.live == row.live)
        {
            once.push(row.clone());
        }
    }
    let ours = Rows(once);
    let cost = |row: &Row| row.cost_ns.map(|ns| Spread::of(&[ns]));
    let series = ours.series(Mark::Line, |row| row.live.map(|n| n as f64), cost);
    let cell = |row: &Row| row.cost_ns.map_or_else(String::new, count);
    let table = ours.table("alive", |row| row.live, cell);
    let mut notes = Vec::new();
    if let Some(kernel) = rows.0.iter().find(|row| row.live.is_none()) {
        let rate = kernel.ops_per_s.median;
        let fewest = ours.values(|row| row.live).first().copied();
        let beyond = ours.arm("beyond").filter(|row| row.live == fewest);
        let over = times(beyond.0.first().map(|row| row.ops_per_s.median), Some(rate));
        let over = over.map_or_else(String::new, |over| format!("; beyond makes {over} as many"));
        notes.push(format!(
            "Linux, unshare(CLONE_NEWIPC) in a loop by {} workers: {} namespaces/s, {} ns of a CPU each{over}. A \
             namespace of Linux has more in it, and is freed later.",
            kernel.threads,
            count(rate),
            kernel.cost_ns.map_or_else(String::new, count),
        ));
    }
    let many = rows.values(|row| row.live).last().copied().unwrap_or(0);
    if many > 10_000
        && !ours
            .0
            .iter()
            .any(|row| row.arm == "keyed" && row.live == Some(many))
    {
        notes.push(format!(
            "keyed is left out at {}: only making so many would take half a minute. The full run has it.",
            count(many as f64)
        ));
    }
    let about = About {
        id: "clone-cost",
        title: "Cost of a namespace by how many are alive",
        subtitle: "CPU time for creating one and dropping one, 32 workers",
        x: ("live namespaces", Scale::Log),
        y: ("ns of a CPU", Scale::Log),
    };
    figure(about, series, table, notes)
}

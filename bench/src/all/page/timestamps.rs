//! Lazy timestamps and the inode cache.

use super::figures::{About, commands, figure, latencies};
use super::rows::{Row, Rows, lock_caption, lock_table};
use crate::all::result::Report;
use crate::chart::{Block, Mark, Scale, Section};
use crate::report::Spread;

/// The section.
pub fn section(report: &Report) -> Section {
    let rows = Rows::of(report, "create-unlink-lazytime");
    let lazy = rows.filter(|row| row.arm.ends_with("/lazytime"));
    let mut blocks = vec![
        Block::Text(
            "With lazytime, writing one inode also writes the pending timestamps of the others in its block of the \
             inode table, for which each is looked up in the inode cache: 16 look-ups. With one lock for the cache \
             they wait for each other; global-nowait gives up instead; per-bucket asks one bucket for all of them."
                .to_owned(),
        ),
        figure(
            About {
                id: "lazytime",
                title: "Create+unlink with lazytime",
                subtitle: "image in memory; those without are in the table",
                x: ("tasks", Scale::Log),
                y: ("pairs/s", Scale::Linear),
            },
            lazy.rates_by_threads(),
            rows.rate_table("tasks"),
            Vec::new(),
        ),
        on_over_off(&rows, &lazy),
    ];
    let shrink = Rows::of(report, "icache-shrink").op("lookup+getattr");
    blocks.push(latencies(
        (
            "icache-shrink",
            "Reading while the cache shrinks",
            "look-up and attributes of 256 files, beside a creator of many",
        ),
        &shrink,
        |row| row.arm.clone(),
        vec!["Who reads should not notice that the cache gives inodes back.".to_owned()],
    ));
    let busiest = rows.busiest();
    let tasks = busiest.counts().first().copied().unwrap_or(0);
    blocks.push(Block::Table {
        caption: lock_caption(&format!(
            "create-unlink by arm of the inode cache, {tasks} tasks"
        )),
        table: lock_table(&busiest),
    });
    blocks.extend(commands(
        report,
        &["create-unlink-lazytime", "icache-shrink"],
    ));
    Section {
        id: "lazy-timestamps".to_owned(),
        title: "Lazy timestamps and the inode cache".to_owned(),
        blocks,
    }
}

fn on_over_off(rows: &Rows, on: &Rows) -> Block {
    let ratio = |row: &Row| {
        let arm = row.arm.strip_suffix("/lazytime")?;
        let off = rows.rate(&format!("{arm}/no-lazytime"), row.threads)?;
        (off > 0.0).then(|| Spread::of(&[row.ops_per_s.median / off]))
    };
    let series = on.series(Mark::Line, |row| Some(row.threads as f64), ratio);
    let cell = |row: &Row| ratio(row).map_or_else(String::new, |s| format!("{:.2}", s.median));
    let table = on.table("tasks", |row| Some(row.threads), cell);
    let about = About {
        id: "lazytime-ratio",
        title: "What lazytime leaves",
        subtitle: "rate with lazytime over the rate without",
        x: ("tasks", Scale::Log),
        y: ("times the rate without", Scale::Linear),
    };
    let note = "Published: with one lock lazytime made create and unlink about 16 times slower, which is 0.06 here.";
    figure(about, series, table, vec![note.to_owned()])
}

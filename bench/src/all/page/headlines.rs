//! What stands out: each mechanism's arms against each other, and ours against the peers.

use super::figures::times;
use super::rows::{Row, Rows, shown, spread_text};
use crate::all::result::Report;
use crate::chart::{Block, Section, Table};
use crate::tables::count;

/// The section.
pub fn section(report: &Report) -> Section {
    let block = |(caption, table)| Block::Table { caption, table };
    Section {
        id: "what-stands-out".to_owned(),
        title: "What stands out".to_owned(),
        blocks: tables(report).into_iter().map(block).collect(),
    }
}

/// Its tables, each with its caption; none that would be empty.
pub fn tables(report: &Report) -> Vec<(String, Table)> {
    let table = |lines: Vec<Option<Vec<String>>>, header: [&str; 4]| Table {
        header: header.map(str::to_owned).to_vec(),
        rows: lines.into_iter().flatten().collect(),
    };
    let all = [
        (
            "What each mechanism gains on this machine",
            table(mechanisms(report), ["", "replaced", "default", "gain"]),
        ),
        (
            "Beside Linux and fuse2fs",
            table(peers(report), ["", "peer", "uext4", "gain"]),
        ),
    ];
    let some = all.into_iter().filter(|(_, table)| !table.rows.is_empty());
    some.map(|(caption, table)| (caption.to_owned(), table))
        .collect()
}

/// Of two arms at the most threads.
fn mechanisms(report: &Report) -> Vec<Option<Vec<String>>> {
    let of = |section| Rows::of(report, section);
    let slow = of("mdtest-delay").op("create").busiest();
    let dio = of("randrw")
        .filter(|row| row.block_size == Some(4096))
        .op("read")
        .busiest();
    let cache = of("create-unlink-lazytime").busiest();
    let clone = of("clone");
    let many = clone.values(|row| row.live).last().copied();
    let clone = clone.filter(|row| row.live == many);
    let live = count(many.unwrap_or(0) as f64);
    vec![
        line(
            "creates/s while transactions close",
            &slow,
            "retry-unlocked",
            "lock-free",
        ),
        line(
            "create+unlink/s",
            &of("create-unlink").busiest(),
            "spinlock",
            "beyond",
        ),
        line(
            "create+unlink/s with lazytime",
            &cache,
            "global/lazytime",
            "per-bucket/lazytime",
        ),
        line(
            "4 KiB direct reads/s beside as many writes",
            &dio,
            "exclusive-first/dioread_nolock",
            "range/dioread_nolock",
        ),
        line(
            &format!("namespaces/s, {live} alive"),
            &clone,
            "keyed",
            "beyond",
        ),
    ]
}

fn peers(report: &Report) -> Vec<Option<Vec<String>>> {
    let of = |section| Rows::of(report, section);
    let files = of("mdtest-kernel").busiest();
    let fuse = of("fuse").filter(|row| row.workload.as_deref() == Some("create"));
    let best = |rows: &Rows| {
        let ours = rows.filter(|row| row.arm.starts_with("uext4"));
        let faster = |a: &Row, b: &Row| a.ops_per_s.median.total_cmp(&b.ops_per_s.median);
        ours.0
            .into_iter()
            .max_by(faster)
            .map_or_else(String::new, |row| row.arm)
    };
    let created = fuse.op("create");
    let stream = of("mq").op("stream").filter(|row| row.queues == Some(1));
    let direct = of("randrw-kernel")
        .filter(|row| row.block_size == Some(4096))
        .op("read");
    vec![
        line("creates/s", &files.op("create"), "peer", "default"),
        line("removes/s", &files.op("remove"), "peer", "default"),
        line("fsyncs/s", &of("fsync").busiest(), "peer", "default"),
        line(
            "4 KiB direct reads/s",
            &direct.busiest(),
            "peer",
            "dioread_nolock",
        ),
        line("messages/s between threads", &stream, "kernel", "uext4"),
        line(
            "creates/s, mounted, over fuse2fs",
            &created,
            "fuse2fs",
            &best(&created),
        ),
        line(
            "creates/s, mounted, over Linux",
            &created,
            "kernel",
            &best(&created),
        ),
    ]
}

fn line(what: &str, rows: &Rows, before: &str, after: &str) -> Option<Vec<String>> {
    let of = |arm: &str| rows.arm(arm).0.into_iter().next();
    let (before, after) = (of(before)?, of(after)?);
    let (slow, fast) = (before.ops_per_s, after.ops_per_s);
    let apart = slow.max < fast.min || fast.max < slow.min;
    let gain = match apart {
        true => times(Some(fast.median), Some(slow.median))?,
        false => "within the spread".to_owned(),
    };
    let said = |row: &Row| format!("{}: {}", shown(&row.arm), spread_text(row));
    let threads = match after.threads {
        1 => String::new(),
        n => format!(", {n} threads"),
    };
    Some(vec![
        format!("{what}{threads}"),
        said(&before),
        said(&after),
        gain,
    ])
}

//! The summary: the variants of each mechanism against each other, and ours against the peers.

use super::rows::{Row, Rows, shown, spread_text};
use crate::all::result::Report;
use crate::chart::Table;
use crate::tables::count;

/// What a line compares: its name, the section, which rows of it, the variant before and the one after. An empty name
/// stands for the fastest of ours.
type Line = (
    &'static str,
    &'static str,
    fn(&Row) -> bool,
    &'static str,
    &'static str,
);

const MECHANISMS: [Line; 5] = [
    (
        "creates/s while transactions close",
        "mdtest-delay",
        |row| row.op == "create",
        "retry-unlocked",
        "lock-free",
    ),
    (
        "create+unlink/s",
        "create-unlink",
        |_| true,
        "spinlock",
        "beyond",
    ),
    (
        "create+unlink/s with lazytime",
        "create-unlink-lazytime",
        |_| true,
        "global/lazytime",
        "per-bucket/lazytime",
    ),
    (
        "4 KiB direct reads/s beside as many writes",
        "randrw",
        is_small_read,
        "exclusive-first/dioread_nolock",
        "range/dioread_nolock",
    ),
    ("namespaces/s", "clone", |_| true, "keyed", "beyond"),
];

const PEERS: [Line; 7] = [
    (
        "creates/s",
        "mdtest-kernel",
        |row| row.op == "create",
        "peer",
        "default",
    ),
    (
        "removes/s",
        "mdtest-kernel",
        |row| row.op == "remove",
        "peer",
        "default",
    ),
    ("fsyncs/s", "fsync", |_| true, "peer", "default"),
    (
        "4 KiB direct reads/s",
        "randrw-kernel",
        is_small_read,
        "peer",
        "dioread_nolock",
    ),
    (
        "messages/s between threads",
        "mq",
        |row| row.op == "stream" && row.queues == Some(1),
        "kernel",
        "uext4",
    ),
    (
        "creates/s, mounted, over fuse2fs",
        "fuse",
        is_fuse_create,
        "fuse2fs",
        "",
    ),
    (
        "creates/s, mounted, over Linux",
        "fuse",
        is_fuse_create,
        "kernel",
        "",
    ),
];

fn is_small_read(row: &Row) -> bool {
    row.op == "read" && row.block_size == Some(4096)
}

fn is_fuse_create(row: &Row) -> bool {
    row.op == "create" && row.workload.as_deref() == Some("create")
}

/// The tables, each with its caption; none that would be empty.
pub fn tables(report: &Report) -> Vec<(String, Table)> {
    let table = |lines: &[Line], peer, ours| {
        let rows = lines.iter().filter_map(|line| compared(report, line));
        Table::new(&["", peer, ours, "gain"], rows.collect())
    };
    let all = [
        (
            "What each mechanism gains on this machine",
            table(&MECHANISMS, "replaced", "default"),
        ),
        ("Beside Linux and fuse2fs", table(&PEERS, "peer", "uext4")),
    ];
    let some = all.into_iter().filter(|(_, table)| !table.rows.is_empty());
    some.map(|(caption, table)| (caption.to_owned(), table))
        .collect()
}

fn compared(report: &Report, &(what, section, keep, before, after): &Line) -> Option<Vec<String>> {
    let rows = Rows::of(report, section).filter(keep);
    let (rows, alive) = match rows.values(|row| row.live).last().copied() {
        // Namespaces: where the most are alive, whatever the workers.
        Some(most) => (
            rows.filter(|row| row.live == Some(most)),
            format!(", {} alive", count(most as f64)),
        ),
        None if section == "fuse" => (rows, String::new()),
        None => (rows.busiest(), String::new()),
    };
    let of = |name: &str| rows.0.iter().find(|row| row.variant == name);
    let ours = rows.0.iter().filter(|row| row.variant.starts_with("uext4"));
    let fastest = || ours.max_by(|a, b| a.ops_per_s.median.total_cmp(&b.ops_per_s.median));
    let (before, after) = (
        of(before)?,
        if after.is_empty() {
            fastest()?
        } else {
            of(after)?
        },
    );
    let (slow, fast) = (before.ops_per_s, after.ops_per_s);
    let gain = match fast.median / slow.median {
        _ if slow.max >= fast.min && fast.max >= slow.min => "within the spread".to_owned(),
        gain if !gain.is_finite() => return None,
        gain if gain >= 10.0 => format!("{gain:.0} times"),
        gain => format!("{gain:.2} times"),
    };
    let rate = |row: &Row| format!("{}: {}", shown(&row.variant), spread_text(&row.ops_per_s));
    let threads = match after.threads {
        1 => String::new(),
        n => format!(", {n} threads"),
    };
    Some(vec![
        format!("{what}{alive}{threads}"),
        rate(before),
        rate(after),
        gain,
    ])
}

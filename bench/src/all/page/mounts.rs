//! fsync on a disk, and files through a mounted directory.

use super::figures::{About, bars, commands, latencies, rates, times};
use super::rows::{Rows, shown};
use crate::all::result::Report;
use crate::chart::{Block, Scale, Section};

/// Durability.
pub fn fsync(report: &Report) -> Section {
    let rows = Rows::of(report, "fsync");
    let most = rows.counts().last().copied().unwrap_or(0);
    let over = times(rows.rate("default", most), rows.rate("peer", most));
    let notes = over.map(|over| format!("{most} threads: {over} the fsyncs of Linux."));
    let mut blocks = vec![
        Block::Text(
            "Threads append 4 KiB to a file of their own and fsync it. Both images are fully written files on the \
             same disk; ours is opened, the other one mounted through a loop device with direct I/O. An fsync \
             returns when the disk has flushed, on both sides."
                .to_owned(),
        ),
        rates(
            About {
                id: "fsync",
                title: "fsync beside Linux",
                subtitle: "appends of 4 KiB with fsync, a file for each thread, one disk",
                x: ("threads", Scale::Log),
                y: ("fsyncs/s", Scale::Log),
            },
            &rows,
            notes.into_iter().collect(),
        ),
        latencies(
            ("fsync-latency", "Latency of an fsync", &format!("{most} threads")),
            &rows.busiest(),
            |row| shown(&row.arm),
            Vec::new(),
        ),
    ];
    blocks.extend(commands(report, &["fsync"]));
    Section {
        id: "fsync-on-a-disk".to_owned(),
        title: "fsync".to_owned(),
        blocks,
    }
}

/// Mounted directories.
pub fn mounted(report: &Report) -> Section {
    let rows = Rows::of(report, "fuse");
    let groups = |workload: &str, ops: &[&str]| {
        let of = rows.filter(|row| row.workload.as_deref() == Some(workload));
        let group = |op: &&str| ((*op).to_owned(), of.op(op));
        let some = ops.iter().map(group).filter(|(_, rows)| !rows.is_empty());
        some.collect::<Vec<(String, Rows)>>()
    };
    let create = groups("create", &["create", "remove"]);
    let randrw = rows
        .filter(|row| row.workload.as_deref() == Some("randrw"))
        .op("randrw");
    let mut blocks = vec![
        Block::Text(
            "The same directory by uext4 mount, by fuse2fs and by Linux's ext4; null keeps names in memory and has no \
             image, which bounds what any server can reach. What a figure counts is durable when its time ends: each \
             directory, or the one file, is fsynced inside it, and a tree is unmounted. Each turn has an image of its own, and e2fsck -fn finds nothing."
                .to_owned(),
        ),
        bars(
            ("fuse-create", "Files through a mounted directory", "processes, each in a directory of its own"),
            "files/s",
            &create,
            faster(&create),
        ),
        rates(
            About {
                id: "fuse-randrw",
                title: "Random direct I/O through a mounted directory",
                subtitle: "4 KiB, half reads, one file",
                x: ("threads", Scale::Log),
                y: ("requests/s", Scale::Linear),
            },
            &randrw,
            Vec::new(),
        ),
    ];
    for (workload, ops, id, title, unit) in [
        (
            "seq",
            &[
                "write-buffered",
                "read-buffered",
                "write-direct",
                "read-direct",
            ][..],
            "fuse-seq",
            "One large file through a mounted directory",
            "MiB/s",
        ),
        (
            "tar",
            &["extract", "remove"][..],
            "fuse-tar",
            "A tree unpacked and removed",
            "files/s",
        ),
    ] {
        let some = groups(workload, ops);
        if !some.is_empty() {
            blocks.push(bars((id, title, ""), unit, &some, Vec::new()));
        }
    }
    blocks.extend(commands(report, &["fuse"]));
    Section {
        id: "mounted".to_owned(),
        title: "Mounted directories".to_owned(),
        blocks,
    }
}

/// What our best transport does over fuse2fs.
fn faster(groups: &[(String, Rows)]) -> Vec<String> {
    let said = groups.iter().filter_map(|(op, rows)| {
        let ours = rows.filter(|row| row.arm.starts_with("uext4"));
        let best = ours
            .0
            .iter()
            .map(|row| row.ops_per_s.median)
            .reduce(f64::max);
        let theirs = rows
            .arm("fuse2fs")
            .0
            .first()
            .map(|row| row.ops_per_s.median);
        Some(format!("{op}: {} fuse2fs.", times(best, theirs)?))
    });
    said.collect()
}

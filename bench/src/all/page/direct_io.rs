//! Direct I/O and the inode lock.

use super::figures::{About, bars, commands, figure, latencies, published, rates};
use super::rows::{Row, Rows, lock_caption, lock_table, shown};
use crate::all::result::Report;
use crate::chart::{Block, Mark, Scale, Section, Series, Table};
use crate::device::size_name;
use crate::report::Spread;

/// Percent that the published work gained, at the threads it had: of reads of 4 KiB, of both of 1 MiB.
const SMALL: [(u64, f64); 7] = [
    (1, 5.0),
    (2, 10.0),
    (4, 30.0),
    (8, 50.0),
    (12, 60.0),
    (16, 65.0),
    (24, 70.0),
];
const LARGE: [(u64, f64); 3] = [(1, 0.0), (8, 10.0), (24, 20.0)];

/// The section.
pub fn section(report: &Report) -> Section {
    let mut rows = Rows::of(report, "randrw");
    rows.0.extend(Rows::of(report, "randrw-large").0);
    let mut blocks = vec![Block::Text(
        "Every thread reads and writes blocks at random places of one file, half and half, direct, on a modelled \
         device that serves 32 requests at a time in 80 us each. exclusive-first takes the inode lock alone for a \
         write and only then finds that it overwrites; shared-first starts shared. Without dioread_nolock both \
         write alone."
            .to_owned(),
    )];
    let sizes = rows.values(|row| row.block_size);
    for nolock in [true, false] {
        for &bytes in &sizes {
            blocks.push(gain(&rows, bytes, nolock));
        }
    }
    for &bytes in &sizes {
        let name = size_name(bytes);
        let both = both_ways(&rows.filter(|row| row.block_size == Some(bytes)));
        for (nolock, mode) in [(true, "dioread_nolock"), (false, "dioread_lock")] {
            let some = without_mode(&both.filter(|row| is_of(row, nolock) || row.arm == "bare"));
            let about = About {
                id: &format!("dio-{}-{mode}", name.to_lowercase()),
                title: &format!("Random direct I/O of {name}, {}", words(nolock)),
                subtitle: "reads and writes together, medians added; modelled device",
                x: ("threads", Scale::Log),
                y: ("requests/s", Scale::Log),
            };
            blocks.push(rates(about, &some, Vec::new()));
        }
    }
    blocks.extend(of_busiest(&rows));
    let kernel = Rows::of(report, "randrw-kernel");
    for bytes in kernel.values(|row| row.block_size) {
        blocks.push(beside_kernel(&kernel, bytes));
    }
    blocks.extend(commands(
        report,
        &["randrw", "randrw-large", "randrw-kernel"],
    ));
    Section {
        id: "direct-io".to_owned(),
        title: "Direct I/O and the inode lock".to_owned(),
        blocks,
    }
}

/// The arms by their names alone, where the title says the rest.
fn without_mode(rows: &Rows) -> Rows {
    let bare = |row: &Row| Row {
        arm: row.arm.split('/').next().unwrap_or_default().to_owned(),
        ..row.clone()
    };
    Rows(rows.0.iter().map(bare).collect())
}

fn words(nolock: bool) -> &'static str {
    if nolock {
        "dioread_nolock"
    } else {
        "without dioread_nolock"
    }
}

fn is_of(row: &Row, nolock: bool) -> bool {
    row.arm.ends_with(if nolock {
        "/dioread_nolock"
    } else {
        "/dioread_lock"
    })
}

/// Percent gain over exclusive-first by threads, as the published histograms have it.
fn gain(rows: &Rows, bytes: u64, nolock: bool) -> Block {
    let some = rows.filter(|row| {
        row.block_size == Some(bytes) && is_of(row, nolock) && row.arm.starts_with("shared-first/")
    });
    let threads = some.counts();
    let place = |n: u64| threads.iter().position(|&t| t == n).map(|i| i as f64);
    let gained = |row: &Row| row.gain_percent.map(|g| Spread::of(&[g]));
    let mut series: Vec<Series> = Vec::new();
    for op in ["read", "write"] {
        for line in some
            .op(op)
            .series(Mark::Bars, |row| place(row.threads), gained)
        {
            series.push(Series {
                name: format!("{op}s"),
                ..line
            });
        }
    }
    let name = size_name(bytes);
    let known: &[(u64, f64)] = match (nolock, bytes) {
        (true, 4096) => &SMALL,
        (true, _) => &LARGE,
        (false, _) => &[],
    };
    let points: Vec<(f64, f64)> = known
        .iter()
        .filter_map(|&(n, g)| Some((place(n)?, g)))
        .collect();
    if !points.is_empty() {
        series.push(published(
            if bytes == 4096 { "reads" } else { "both" },
            &points,
            Mark::Line,
        ));
    }
    let percent = |gain: f64| format!("{:+.0}", gain.round() + 0.0);
    let line = |&n: &u64| {
        let of = |op: &str| {
            let row = some.0.iter().find(|row| row.op == op && row.threads == n);
            row.and_then(|row| row.gain_percent)
                .map_or_else(String::new, percent)
        };
        let mut line = vec![n.to_string(), of("read"), of("write")];
        if !known.is_empty() {
            let there = known.iter().find(|(t, _)| *t == n);
            line.push(there.map_or_else(String::new, |(_, g)| percent(*g)));
        }
        line
    };
    let header = ["threads", "reads (%)", "writes (%)", "published (%)"];
    let columns = if known.is_empty() { 3 } else { 4 };
    let table = Table {
        header: header
            .iter()
            .take(columns)
            .map(|h| (*h).to_owned())
            .collect(),
        rows: threads.iter().map(line).collect(),
    };
    let note = match nolock {
        true => "The published machine is a kernel with an NVMe device.",
        false => "Published: within 3 %.",
    };
    let about = About {
        id: &format!(
            "dio-gain-{}-{}",
            name.to_lowercase(),
            if nolock { "nolock" } else { "lock" }
        ),
        title: &format!("What shared-first gains, {name}, {}", words(nolock)),
        subtitle: "over exclusive-first, by threads; random reads and writes, half and half",
        x: (
            "threads",
            Scale::Categories(threads.iter().map(u64::to_string).collect()),
        ),
        y: ("gain (%)", Scale::Linear),
    };
    figure(about, series, table, vec![note.to_owned()])
}

/// Reads and writes of one arm and count, as one row.
fn both_ways(rows: &Rows) -> Rows {
    let mut all: Vec<Row> = Vec::new();
    for row in &rows.0 {
        let alike = |other: &&mut Row| other.arm == row.arm && other.threads == row.threads;
        match all.iter_mut().find(alike) {
            Some(other) => {
                other.ops_per_s.min += row.ops_per_s.min;
                other.ops_per_s.median += row.ops_per_s.median;
                other.ops_per_s.max += row.ops_per_s.max;
            }
            None => all.push(row.clone()),
        }
    }
    Rows(all)
}

/// Latencies and locks of the most threads, 4 KiB, dioread_nolock.
fn of_busiest(rows: &Rows) -> Vec<Block> {
    let small = rows.values(|row| row.block_size).first().copied();
    let busiest = rows
        .filter(|row| row.block_size == small && (is_of(row, true) || row.arm == "bare"))
        .busiest();
    let threads = busiest.counts().first().copied().unwrap_or(0);
    let name = small.map_or_else(String::new, size_name);
    let writes = without_mode(&busiest.op("write"));
    let title = format!("Latency of writes of {name}, {threads} threads");
    vec![
        latencies(
            (
                "dio-latency",
                &title,
                "dioread_nolock, modelled device of 80 us",
            ),
            &writes,
            |row| shown(&row.arm),
            Vec::new(),
        ),
        Block::Table {
            caption: lock_caption(&format!(
                "randrw, {name}, {threads} threads, dioread_nolock"
            )),
            table: lock_table(&writes.filter(|row| row.arm != "bare")),
        },
    ]
}

fn beside_kernel(rows: &Rows, bytes: u64) -> Block {
    let some = rows.filter(|row| row.block_size == Some(bytes));
    let group = |threads: u64| {
        let name = match threads {
            1 => "1 thread".to_owned(),
            n => format!("{n} threads"),
        };
        (name, both_ways(&some.filter(|row| row.threads == threads)))
    };
    let groups: Vec<_> = some.counts().into_iter().map(group).collect();
    let name = size_name(bytes);
    bars(
        (
            &format!("dio-kernel-{}", name.to_lowercase()),
            &format!("Random direct I/O of {name} beside Linux"),
            "reads and writes together; both images on tmpfs, Linux through a loop device",
        ),
        "requests/s",
        &groups,
        Vec::new(),
    )
}

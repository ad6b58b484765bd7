//! A page with everything that a page can hold: all marks, kinds and scales, long names, many
//! series, a wide table and a long command.

use uext4_bench::chart::{
    Axis, Block, Chart, Figure, Kind, Mark, Page, Point, Scale, Section, Series, Table,
};

/// An axis.
pub fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

/// A scale of names.
pub fn names(names: &[&str]) -> Scale {
    Scale::Categories(names.iter().map(|name| (*name).to_owned()).collect())
}

/// A series of points with a spread of some percent.
pub fn series(name: &str, kind: Kind, mark: Mark, points: &[(f64, f64)], percent: f64) -> Series {
    let part = percent / 100.0;
    let spread = |y: f64, factor: f64| (part > 0.0).then_some(y * factor);
    let points = points
        .iter()
        .map(|&(x, y)| Point {
            x,
            y,
            low: spread(y, 1.0 - part),
            high: spread(y, 1.0 + part),
        })
        .collect();
    Series {
        name: name.to_owned(),
        kind,
        mark,
        points,
    }
}

fn by_index(values: &[f64]) -> Vec<(f64, f64)> {
    values
        .iter()
        .enumerate()
        .map(|(at, value)| (at as f64, *value))
        .collect()
}

fn zip(xs: &[f64], ys: &[f64]) -> Vec<(f64, f64)> {
    xs.iter().copied().zip(ys.iter().copied()).collect()
}

fn chart(id: &str, title: &str, subtitle: &str, x: Axis, y: Axis, series: Vec<Series>) -> Chart {
    let (id, title, subtitle) = (id.to_owned(), title.to_owned(), subtitle.to_owned());
    Chart {
        id,
        title,
        subtitle,
        x,
        y,
        series,
    }
}

const TASKS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Lines over counts of workers, with what others published.
pub fn create_unlink() -> Chart {
    let lock = [137e3, 224e3, 356e3, 439e3, 443e3, 598e3, 559e3, 385e3];
    let atomic = [140e3, 233e3, 372e3, 519e3, 585e3, 695e3, 707e3, 437e3];
    let here = |by: f64| {
        zip(
            &TASKS,
            &TASKS.map(|t| by * 410e3 * (t / (t + 0.9)).powf(0.8)),
        )
    };
    chart(
        "create-unlink",
        "Create and unlink by counter of generations",
        "one file per task in its own directory, image on tmpfs, 5 s a point",
        axis("tasks", Scale::Log),
        axis("pairs/s", Scale::Linear),
        vec![
            series("spinlock", Kind::Variant, Mark::Line, &here(0.7), 4.0),
            series("atomic", Kind::Variant, Mark::Line, &here(0.88), 5.0),
            series("percpu", Kind::Variant, Mark::Line, &here(1.1), 4.0),
            series("beyond", Kind::Variant, Mark::Line, &here(1.21), 3.0),
            series(
                "beyond, on 48 cores",
                Kind::Model,
                Mark::Line,
                &here(2.2),
                0.0,
            ),
            series(
                "published: lock",
                Kind::Published,
                Mark::Line,
                &zip(&TASKS, &lock),
                0.0,
            ),
            series(
                "published: atomic",
                Kind::Published,
                Mark::Line,
                &zip(&TASKS, &atomic),
                0.0,
            ),
            series("kernel ext4", Kind::Peer, Mark::Line, &here(0.25), 8.0),
        ],
    )
}

/// Bars by operation, with spread.
pub fn mdtest() -> Chart {
    let x = names(&["create", "stat", "remove"]);
    let bars = |values: &[f64]| by_index(values);
    chart(
        "mdtest",
        "mdtest, 48 workers",
        "30,000 files each, a directory per worker",
        axis("operation", x),
        axis("operations/s", Scale::Linear),
        vec![
            series(
                "retry-unlocked",
                Kind::Variant,
                Mark::Bars,
                &bars(&[79e3, 810e3, 285e3]),
                3.0,
            ),
            series(
                "retry-locked",
                Kind::Variant,
                Mark::Bars,
                &bars(&[410e3, 812e3, 297e3]),
                6.0,
            ),
            series(
                "lock-free",
                Kind::Variant,
                Mark::Bars,
                &bars(&[655e3, 816e3, 1.02e6]),
                4.0,
            ),
            series(
                "kernel ext4 on loop",
                Kind::Peer,
                Mark::Bars,
                &bars(&[82e3, 500e3, 103e3]),
                9.0,
            ),
        ],
    )
}

/// Bars on a logarithmic axis with values written on them.
pub fn lock_counts() -> Chart {
    let x = names(&["retry-unlocked", "retry-locked", "lock-free"]);
    chart(
        "locks",
        "Lock acquisitions per create",
        "",
        axis("arm", x),
        axis("acquisitions", Scale::Log),
        vec![
            series(
                "here",
                Kind::Variant,
                Mark::Bars,
                &by_index(&[130.0, 11.4, 0.02]),
                0.0,
            ),
            series(
                "published",
                Kind::Published,
                Mark::Bars,
                &by_index(&[126.0]),
                0.0,
            ),
        ],
    )
}

/// Percents, some below zero.
pub fn gains() -> Chart {
    let threads = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0];
    chart(
        "gains",
        "Gain of shared-first over exclusive-first by size & mount mode <dioread_nolock>",
        "mixed random direct reads and writes, one file, modelled device of 80 us and 32 all_series",
        axis("threads", Scale::Log),
        axis("gain (%)", Scale::Linear),
        vec![
            series(
                "4 KiB",
                Kind::Variant,
                Mark::Line,
                &zip(&threads, &[-8.0, 7.0, 31.0, 52.0, 61.0, 66.0, 71.0]),
                12.0,
            ),
            series(
                "1 MiB",
                Kind::Variant,
                Mark::Dots,
                &zip(&threads, &[-22.0, -4.0, 4.0, 10.0, 13.0, 17.0, 20.0]),
                0.0,
            ),
            series(
                "published: 4 KiB",
                Kind::Published,
                Mark::Line,
                &zip(&threads, &[5.0, 10.0, 30.0, 50.0, 60.0, 65.0, 70.0]),
                0.0,
            ),
        ],
    )
}

/// Both axes logarithmic over many powers of ten.
pub fn clones() -> Chart {
    let live = [10.0, 100.0, 1000.0, 10_000.0, 100_000.0];
    chart(
        "clone",
        "Cost of a namespace by namespaces alive",
        "32 workers",
        axis("live namespaces", Scale::Log),
        axis("time per creation (us)", Scale::Log),
        vec![
            series(
                "keyed",
                Kind::Variant,
                Mark::Line,
                &zip(&live, &[2.4, 3.1, 14.0, 160.0, 2100.0]),
                20.0,
            ),
            series(
                "nodev",
                Kind::Variant,
                Mark::Line,
                &zip(&live, &[2.2, 2.2, 2.3, 2.6, 4.1]),
                10.0,
            ),
            series(
                "beyond",
                Kind::Variant,
                Mark::Line,
                &zip(&live, &[1.1, 1.1, 1.1, 1.15, 1.2]),
                5.0,
            ),
        ],
    )
}

/// Ten series of bars over long names.
pub fn crowd() -> Chart {
    let x = names(&[
        "random reads of 4 KiB",
        "random writes of 4 KiB",
        "random reads of 1 MiB",
        "random writes of 1 MiB",
        "fsync_after_every_append",
        "metadata",
    ]);
    let kinds = [
        Kind::Variant,
        Kind::Variant,
        Kind::Variant,
        Kind::Variant,
        Kind::Variant,
        Kind::Variant,
        Kind::Peer,
        Kind::Peer,
        Kind::Published,
        Kind::Model,
    ];
    let all = kinds.iter().enumerate().map(|(at, kind)| {
        let scale = 20e3 + 6e3 * at as f64;
        let values = [1.0, 0.8, 0.5, 0.45, 0.2, 0.7].map(|v| v * scale);
        let name = match at {
            3 => {
                "a variant with an extraordinarily long name that no row of the legend has room for"
            }
            7 => "fuse2fs",
            _ => [
                "exclusive",
                "shared-first",
                "shared-always",
                "",
                "range",
                "range, batched",
                "kernel ext4",
                "",
                "published",
                "48 cores",
            ][at],
        };
        series(name, *kind, Mark::Bars, &by_index(&values), 5.0)
    });
    chart(
        "crowd",
        "Ten series at once",
        "",
        axis("", x),
        axis("operations/s", Scale::Linear),
        all.collect(),
    )
}

/// Ten lines that cross.
pub fn ten_lines() -> Chart {
    let all = (0..10u8).map(|at| {
        let k = f64::from(at);
        let points: Vec<(f64, f64)> = TASKS
            .iter()
            .map(|t| (*t, 1e3 * (3.0 + k) * t.powf(0.95 - 0.09 * k)))
            .collect();
        series(
            &format!("arm {at}"),
            Kind::Variant,
            Mark::Line,
            &points,
            0.0,
        )
    });
    chart(
        "ten-lines",
        "Ten lines",
        "on logarithmic axes",
        axis("workers", Scale::Log),
        axis("operations/s", Scale::Log),
        all.collect(),
    )
}

/// Two hundred points, and dots of two kinds over names.
pub fn latency() -> Chart {
    let wave = |by: f64| -> Vec<(f64, f64)> {
        (0..200)
            .map(|i| (f64::from(i) / 2.0, by * (3.0 + (f64::from(i) / 9.0).sin())))
            .collect()
    };
    chart(
        "latency",
        "Latency over time",
        "two hundred points",
        axis("time (s)", Scale::Linear),
        axis("p99 latency (ms)", Scale::Linear),
        vec![
            series("group commit", Kind::Variant, Mark::Line, &wave(0.012), 0.0),
            series("kernel", Kind::Peer, Mark::Line, &wave(0.02), 0.0),
        ],
    )
}

/// Dots over many names.
pub fn many_names() -> Chart {
    let list: Vec<String> = (0..26).map(|i| format!("workload number {i}")).collect();
    let values: Vec<f64> = (0..26).map(|i| 1.0 + 0.1 * f64::from(i % 7)).collect();
    let twice: Vec<f64> = values.iter().map(|v| v * 1.4).collect();
    chart(
        "many-names",
        "Twenty-six names",
        "ratio to the kernel",
        axis("workload", Scale::Categories(list)),
        axis("ratio", Scale::Linear),
        vec![
            series(
                "image on tmpfs",
                Kind::Variant,
                Mark::Dots,
                &by_index(&values),
                6.0,
            ),
            series("projected", Kind::Model, Mark::Dots, &by_index(&twice), 0.0),
        ],
    )
}

/// Bars at counts instead of names.
pub fn counted_bars() -> Chart {
    let threads = [1.0, 4.0, 16.0];
    chart(
        "counted-bars",
        "Bars at counts",
        "",
        axis("threads", Scale::Log),
        axis("messages/s", Scale::Linear),
        vec![
            series(
                "uext4",
                Kind::Variant,
                Mark::Bars,
                &zip(&threads, &[2.1e6, 3.4e6, 4.2e6]),
                0.0,
            ),
            series(
                "projected",
                Kind::Model,
                Mark::Bars,
                &zip(&threads, &[2.1e6, 4.6e6, 9.9e6]),
                0.0,
            ),
        ],
    )
}

/// Nothing that can be drawn.
pub fn empty() -> Chart {
    let points = [(1.0, f64::NAN), (0.0, 3.0), (f64::INFINITY, 2.0)];
    chart(
        "empty",
        "Nothing measured",
        "",
        axis("threads", Scale::Log),
        axis("ops/s", Scale::Log),
        vec![series("lost", Kind::Variant, Mark::Line, &points, 0.0)],
    )
}

/// The charts of the page.
pub fn charts() -> Vec<Chart> {
    vec![
        create_unlink(),
        mdtest(),
        lock_counts(),
        gains(),
        clones(),
        ten_lines(),
        crowd(),
        latency(),
        many_names(),
        counted_bars(),
        empty(),
    ]
}

fn table_of(chart: &Chart) -> Table {
    let header = [
        "series",
        "x",
        "ops/s min",
        "ops/s median",
        "ops/s max",
        "p50 us",
        "p99 us",
        "acquisitions",
        "contended",
        "wait us",
    ];
    let row = |name: &str, p: &Point| {
        let mut row = vec![name.to_owned(), format!("{}", p.x)];
        row.extend([p.low.unwrap_or(p.y), p.y, p.high.unwrap_or(p.y)].map(|v| format!("{v:.1}")));
        row.extend(["12.5", "140.0", "1,440,000", "23,411", "998.1"].map(str::to_owned));
        row
    };
    let rows = chart
        .series
        .iter()
        .flat_map(|s| s.points.iter().map(|p| row(&s.name, p)));
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn figure(chart: Chart) -> Block {
    let table = table_of(&chart);
    let notes = vec![
        "Median of five interleaved runs; whiskers show the least and the most.".to_owned(),
        "Published figures are from another machine & are there for their shape.".to_owned(),
    ];
    Block::Figure(Figure {
        chart,
        table,
        notes,
    })
}

/// The page.
pub fn page() -> Page {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut figures = charts().into_iter().map(figure);
    let mut next = |count: usize| -> Vec<Block> { figures.by_ref().take(count).collect() };
    let mut first = vec![
        Block::Text("Creating a file claims a free bit in a bitmap. How that bit is found decides how many workers can create at once.".to_owned()),
        Block::Command("uext4 bench mdtest --device file:/dev/shm/uext4-bench.img --np 48 -n 30000 -F -C -r -u -i 3 --ialloc retry-unlocked,retry-locked,lock-free --json > mdtest.json".to_owned()),
        Block::Warning("This machine has 2 cores: more workers than that wait for a core, not for a lock.".to_owned()),
    ];
    first.extend(next(3));
    first.push(Block::Table {
        caption: "Locks".to_owned(),
        table: Table {
            header: ["class", "acquisitions"].map(str::to_owned).to_vec(),
            rows: vec![vec!["group <lock>".to_owned(), "180,899,929".to_owned()]],
        },
    });
    let section = |id: &str, title: &str, blocks| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        blocks,
    };
    Page {
        title: "uext4: ext4 in user space, measured".to_owned(),
        facts: vec![
            fact("Processor", "AMD EPYC 9B45, 2 cores"),
            fact("Memory", "24 GiB"),
            fact("Kernel", "6.18.5-061805-generic"),
            fact("Date", "2026-11-22 08:22 UTC"),
            fact("Commit", "8ef52aec0ffee8ef52aec0ffee8ef52aec0ffee8e"),
        ],
        intro: vec!["Five mechanisms that let ext4 scale, each before and after, measured beside the kernel on the machine below.".to_owned()],
        sections: vec![
            section("allocation", "Inode allocation", first),
            section("dio", "Direct I/O & the inode lock", next(3)),
            section("rest", "Everything else", next(100)),
        ],
    }
}

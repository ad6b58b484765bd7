//! A page with everything that a page can hold: all marks, kinds and scales, long names, many series, a wide table and
//! a long command.

use uext4_bench::chart::{
    Axis, Block, Chart, Kind, Mark, Page, Point, Scale, Section, Series, Table,
};

/// A series of points with a spread of some percent.
pub fn series(name: &str, kind: Kind, mark: Mark, points: &[(f64, f64)], percent: f64) -> Series {
    let part = percent / 100.0;
    let point = |&(x, y): &(f64, f64)| {
        let spread = (y * (1.0 - part), y * (1.0 + part));
        Point { x, y, spread }
    };
    let (name, points) = (name.to_owned(), points.iter().map(point).collect());
    Series {
        name,
        kind,
        mark,
        points,
    }
}

/// A scale of names.
pub fn names(names: &str) -> Scale {
    Scale::Categories(
        names
            .split_whitespace()
            .map(|name| name.replace('_', " "))
            .collect(),
    )
}

fn chart(id: &str, title: &str, x: (&str, Scale), y: (&str, Scale), series: Vec<Series>) -> Chart {
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        subtitle: "one file for each task in a directory of its own; both images on tmpfs, Linux through a loop device"
            .to_owned(),
        x: Axis::new(x.0, x.1),
        y: Axis::new(y.0, y.1),
        series,
        notes: vec!["Published figures are from another machine & are there for their shape.".to_owned()],
    }
}

const TASKS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Lines over counts of workers, with what others published.
pub fn create_unlink() -> Chart {
    let line = |name: &str, kind, by: f64, percent| {
        let points = TASKS.map(|t| (t, (by * 410e3 * (t / (t + 0.9)).powf(0.8)).round()));
        series(name, kind, Mark::Line, &points, percent)
    };
    let title = "Create and unlink by counter of generations & mount mode <dioread_nolock>";
    let all = vec![
        line("spinlock", Kind::Variant, 0.7, 4.0),
        line("atomic", Kind::Variant, 0.88, 5.0),
        line("beyond", Kind::Variant, 1.21, 3.0),
        line("published: lock", Kind::Published, 0.5, 0.0),
        line("kernel ext4", Kind::Peer, 0.25, 8.0),
    ];
    chart(
        "create-unlink",
        title,
        ("tasks", Scale::Log),
        ("pairs/s", Scale::Linear),
        all,
    )
}

/// Ten series of bars, some with long names, in groups.
fn bars(id: &str, scale: Scale) -> Chart {
    let kinds = [
        [Kind::Variant; 7].as_slice(),
        &[Kind::Peer, Kind::Published, Kind::Published],
    ]
    .concat();
    let all = kinds.iter().zip(0..).map(|(&kind, at)| {
        let points = [1.0, 0.8, 0.05, 0.45, 0.002, 0.7, 0.6, 0.5, 0.9]
            .map(|v| v * (20e3 + 6e3 * f64::from(at)));
        let points: Vec<(f64, f64)> = (0..).map(f64::from).zip(points).collect();
        series(
            &format!("variant {at} of a mechanism"),
            kind,
            Mark::Bars,
            &points,
            9.0,
        )
    });
    let counts = ["1", "4", "32"];
    let groups = ["stream", "ping-pong", "mixed"].map(|op| counts.map(|n| format!("{op},_{n}")));
    let groups = names(&groups.concat().join(" "));
    chart(
        id,
        "Ten series at once",
        ("", groups),
        ("operations/s", scale),
        all.collect(),
    )
}

/// Percents, some below zero.
fn gains() -> Chart {
    let points = TASKS.map(|t| (t, 30.0 * t.log10() - 8.0));
    let all = vec![
        series("4 KiB", Kind::Variant, Mark::Line, &points, 12.0),
        series(
            "1 MiB",
            Kind::Variant,
            Mark::Line,
            &points.map(|(x, y)| (x, y / 2.0)),
            0.0,
        ),
    ];
    chart(
        "gains",
        "Gain",
        ("threads", Scale::Linear),
        ("gain (%)", Scale::Linear),
        all,
    )
}

/// Both axes logarithmic over many powers of ten.
fn clones() -> Chart {
    let line = |name: &str, power: i32| {
        let points = [1, 2, 3, 4, 5].map(|n| (10f64.powi(n), 2.4 * 10f64.powi(n * power)));
        series(name, Kind::Variant, Mark::Line, &points, 20.0)
    };
    let all = vec![line("keyed", 2), line("nodev", 0)];
    chart(
        "clone",
        "Cost of a namespace",
        ("live", Scale::Log),
        ("us", Scale::Log),
        all,
    )
}

/// Nothing that can be drawn.
pub fn empty() -> Chart {
    let points = [(1.0, f64::NAN), (0.0, 3.0), (f64::INFINITY, 2.0)];
    let lost = vec![series("lost", Kind::Variant, Mark::Line, &points, 0.0)];
    chart(
        "empty",
        "Nothing measured",
        ("threads", Scale::Log),
        ("ops/s", Scale::Log),
        lost,
    )
}

/// The charts of the page.
pub fn charts() -> Vec<Chart> {
    let bars = [bars("bars", Scale::Linear), bars("log-bars", Scale::Log)];
    [
        vec![create_unlink(), gains(), clones(), empty()],
        bars.into(),
    ]
    .concat()
}

/// The page.
pub fn page() -> Page {
    let rows = |cells: &str| {
        cells
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let wide = "lock acquisitions contended p50 p99 p99.9 p99.99 max commits checkpoint_bytes journal_bytes";
    let first = vec![
        Block::Text("How a bit is found decides how many workers can create at once.".to_owned()),
        Block::Command("uext4 bench mdtest --device file:/dev/shm/uext4-bench.img --np 48 -n 30000 -F -C -r -u -i 3 --ialloc retry-unlocked,retry-locked,lock-free --json > mdtest.json".to_owned()),
        Block::Warning("This machine has 2 cores.".to_owned()),
        Block::Table {
            caption: "Locks".to_owned(),
            table: Table {
                header: rows(wide),
                rows: vec![rows("group<lock> 180,899,929 12 4 5 6 7 8 9 1,234,567,890 1,234,567,890")],
            },
        },
    ];
    let section = |id: &str, blocks| Section {
        id: id.to_owned(),
        title: format!("The section {id}"),
        blocks,
    };
    Page {
        title: "uext4: ext4 in user space, measured".to_owned(),
        facts: vec![(
            "Commit".to_owned(),
            "8ef52aec0ffee8ef52aec0ffee8ef52aec0ffee8e".to_owned(),
        )],
        intro: vec!["Mechanisms that let ext4 scale.".to_owned()],
        sections: vec![
            section("first", first),
            section("charts", charts().into_iter().map(Block::Figure).collect()),
        ],
    }
}

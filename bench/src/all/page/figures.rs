//! The kinds of figures that the sections are made of.

use super::rows::{self, PERCENTILES, Row, Rows};
use crate::all::result::{Outcome, Report};
use crate::chart::{Axis, Block, Chart, Figure, Kind, Mark, Point, Scale, Series, Table};

/// The spread of more lines is in the table only.
const WHISKERS_MAX: usize = 4;

/// What a chart is about.
pub struct About<'a> {
    /// Its file's stem.
    pub id: &'a str,
    /// What it shows.
    pub title: &'a str,
    /// How it was measured.
    pub subtitle: &'a str,
    /// The horizontal axis.
    pub x: (&'a str, Scale),
    /// The vertical axis.
    pub y: (&'a str, Scale),
}

/// A chart with its figures.
pub fn figure(about: About<'_>, series: Vec<Series>, table: Table, notes: Vec<String>) -> Block {
    let axis = |(label, scale): (&str, Scale)| Axis {
        label: label.to_owned(),
        scale,
    };
    Block::Figure(Figure {
        chart: Chart {
            id: about.id.to_owned(),
            title: about.title.to_owned(),
            subtitle: about.subtitle.to_owned(),
            x: axis(about.x),
            y: axis(about.y),
            series,
        },
        table,
        notes,
    })
}

/// Rates over counts of threads, a line for each arm.
pub fn rates(about: About<'_>, rows: &Rows, notes: Vec<String>) -> Block {
    let (mut series, table) = (rows.rates_by_threads(), rows.rate_table(about.x.0));
    if series.len() > WHISKERS_MAX {
        let points = series.iter_mut().flat_map(|line| &mut line.points);
        points.for_each(|point| (point.low, point.high) = (None, None));
    }
    figure(about, series, table, notes)
}

/// Bars in groups, a group for each of `groups`, a bar in it for each arm.
pub fn bars(
    about: (&str, &str, &str),
    unit: &str,
    groups: &[(String, Rows)],
    notes: Vec<String>,
) -> Block {
    let names: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    let tagged = |(i, (_, rows)): (usize, &(String, Rows))| {
        let tag = |row: &Row| Row {
            live: Some(i as u64),
            ..row.clone()
        };
        rows.0.iter().map(tag).collect::<Vec<Row>>()
    };
    let all = Rows(groups.iter().enumerate().flat_map(tagged).collect());
    let place = |row: &Row| row.live.map(|i| i as f64);
    let series = all.series(Mark::Bars, place, |row| Some(row.ops_per_s));
    let mut table = all.table("", |row| row.live, rows::spread_text);
    for (line, name) in table.rows.iter_mut().zip(&names) {
        if let Some(cell) = line.first_mut() {
            cell.clone_from(name);
        }
    }
    let (id, title, subtitle) = about;
    let about = About {
        id,
        title,
        subtitle,
        x: ("", Scale::Categories(names)),
        y: (unit, Scale::Linear),
    };
    figure(about, series, table, notes)
}

/// The distribution of latencies, a line for each row.
pub fn latencies(
    about: (&str, &str, &str),
    rows: &Rows,
    name: impl Fn(&Row) -> String + Copy,
    notes: Vec<String>,
) -> Block {
    let (id, title, subtitle) = about;
    let percentiles = PERCENTILES.map(str::to_owned).to_vec();
    let about = About {
        id,
        title,
        subtitle,
        x: (
            "share of operations that are at most so slow",
            Scale::Categories(percentiles),
        ),
        y: ("latency (us)", Scale::Log),
    };
    let (series, table) = (rows.latency_series(name), rows.latency_table("", name));
    figure(about, series, table, notes)
}

/// A published curve, to stand in grey.
pub fn published(name: &str, points: &[(f64, f64)], mark: Mark) -> Series {
    let point = |&(x, y): &(f64, f64)| Point {
        x,
        y,
        low: None,
        high: None,
    };
    Series {
        name: format!("{name} (published)"),
        kind: Kind::Published,
        mark,
        points: points.iter().map(point).collect(),
    }
}

/// How the sections were run, and why one has no figures.
pub fn commands(report: &Report, names: &[&str]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for name in names {
        let Some(section) = report.sections.iter().find(|s| s.name == *name) else {
            continue;
        };
        let mut typed = section.before.clone();
        typed.push(section.command.clone());
        blocks.push(Block::Command(typed.join("\n")));
        match &section.outcome {
            Outcome::Document(_) => {}
            Outcome::Skipped(why) => {
                blocks.push(Block::Warning(format!("{name} was left out: {why}")))
            }
            Outcome::Failed(why) => blocks.push(Block::Warning(format!("{name} failed: {why}"))),
        }
    }
    blocks
}

/// `a` over `b` in words.
pub fn times(a: Option<f64>, b: Option<f64>) -> Option<String> {
    let (a, b) = (a?, b?);
    (b > 0.0).then(|| match a / b {
        r if r >= 10.0 => format!("{r:.0} times"),
        r => format!("{r:.2} times"),
    })
}

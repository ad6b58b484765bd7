//! A figure as data, and the chart and table that are drawn from it.

use super::rows::{Row, Rows, kind_of, shown, spread_text};
use crate::all::result::Report;
use crate::chart::{Axis, Block, Chart, Kind, Mark, Point, Scale, Series, Table, number};
use crate::histogram::LatencyUs;
use crate::report::Spread;

/// The spread of more series than this is in the table only.
const WHISKERS_MAX: usize = 4;

/// The percentiles of latencies.
const PERCENTILES: [&str; 7] = ["p10", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// What a chart has on its horizontal axis.
#[derive(Clone, Copy)]
pub enum X {
    /// A count, on a logarithmic axis.
    Count(&'static str, fn(&Row) -> Option<u64>),
    /// Groups of bars.
    Groups(&'static str, fn(&Row) -> String),
    /// The percentiles of each row's latencies.
    Percentiles,
}

/// A published curve: its name and its points.
pub type Published = (&'static str, Vec<(f64, f64)>);

/// A figure: which rows, and how they are drawn.
pub struct FigureSpec {
    /// The stem of its file.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How it was measured.
    pub subtitle: &'static str,
    /// The sections of the report that its rows come from.
    pub sections: &'static [&'static str],
    /// Which of their rows.
    pub keep: Box<dyn Fn(&Row) -> bool>,
    /// Only those of the most threads.
    pub busiest: bool,
    /// The series that a row belongs to.
    pub series: fn(&Row) -> String,
    /// The place of a row.
    pub x: X,
    /// The vertical axis.
    pub y: (&'static str, Scale),
    /// The value of a row, beside all rows of the figure.
    pub value: fn(&Rows, &Row) -> Option<Spread>,
    /// Rows of the same series and place are added up; else the first counts.
    pub add: bool,
    /// Published results, in grey.
    pub published: Vec<Published>,
    /// What to know about it.
    pub notes: Vec<&'static str>,
    /// What its rows say that have no place in it.
    pub remark: fn(&Rows) -> Option<String>,
}

/// The series and their values at each place.
struct Grid {
    /// For each place its position on the axis and its name.
    places: Vec<(f64, String)>,
    /// For each series its name, its kind, and a value for each place.
    series: Vec<(String, Kind, Vec<Option<Spread>>)>,
}

impl FigureSpec {
    /// The rows that it shows.
    pub fn rows(&self, report: &Report) -> Rows {
        let all = self
            .sections
            .iter()
            .flat_map(|name| Rows::of(report, name).0);
        let rows = Rows(all.filter(|row| (self.keep)(row)).collect());
        if self.busiest { rows.busiest() } else { rows }
    }

    /// The chart with its table.
    pub fn block(&self, report: &Report) -> Block {
        let rows = self.rows(report);
        let grid = match self.x {
            X::Percentiles => latencies(&rows, self.series),
            X::Count(..) | X::Groups(..) => self.grid(&rows),
        };
        let whiskers = grid.series.len() <= WHISKERS_MAX || matches!(self.x, X::Groups(..));
        let mark = match self.x {
            X::Groups(..) => Mark::Bars,
            X::Count(..) | X::Percentiles => Mark::Line,
        };
        let mut series: Vec<Series> = grid
            .series
            .iter()
            .map(|(name, kind, values)| Series {
                name: shown(name),
                kind: *kind,
                mark,
                points: points(&grid.places, values, whiskers),
            })
            .collect();
        series.extend(
            self.published
                .iter()
                .map(|(name, points)| published(name, points)),
        );
        let notes = self.notes.iter().map(|note| (*note).to_owned());
        let names = || grid.places.iter().map(|(_, name)| name.clone()).collect();
        let (label, scale) = match self.x {
            X::Count(label, _) => (label, Scale::Log),
            X::Groups(label, _) => (label, Scale::Categories(names())),
            X::Percentiles => ("share of operations", Scale::Categories(names())),
        };
        Block::figure(
            Chart {
                id: self.id.clone(),
                title: self.title.clone(),
                subtitle: self.subtitle.to_owned(),
                x: Axis::new(label, scale),
                y: Axis::new(self.y.0, self.y.1.clone()),
                series,
            },
            grid.table(label),
            notes.chain((self.remark)(&rows)).collect(),
        )
    }

    fn grid(&self, rows: &Rows) -> Grid {
        let place = |row: &Row| match self.x {
            X::Count(_, count) => count(row).map(|n| (n as f64, number::number(n as f64))),
            X::Groups(_, name) => Some((0.0, name(row))),
            X::Percentiles => None,
        };
        let mut grid = Grid {
            places: Vec::new(),
            series: Vec::new(),
        };
        for place in rows.0.iter().filter_map(place) {
            if !grid.places.iter().any(|known| known.1 == place.1) {
                grid.places.push(place);
            }
        }
        match self.x {
            X::Groups(..) => (0..)
                .zip(&mut grid.places)
                .for_each(|(i, place)| place.0 = f64::from(i)),
            X::Count(..) | X::Percentiles => grid.places.sort_by(|a, b| a.0.total_cmp(&b.0)),
        }
        for row in &rows.0 {
            let at = place(row).and_then(|(_, name)| grid.places.iter().position(|p| p.1 == name));
            let (Some(at), Some(value)) = (at, (self.value)(rows, row)) else {
                continue;
            };
            let name = (self.series)(row);
            let known = grid.series.iter().position(|series| series.0 == name);
            let known = known.unwrap_or_else(|| {
                grid.series
                    .push((name, kind_of(&row.variant), vec![None; grid.places.len()]));
                grid.series.len() - 1
            });
            match &mut grid.series[known].2[at] {
                Some(sum) if self.add => *sum = sum.plus(&value),
                Some(_) => {}
                none => *none = Some(value),
            }
        }
        grid
    }
}

/// A series for each row that has latencies.
fn latencies(rows: &Rows, name: fn(&Row) -> String) -> Grid {
    let values = |l: LatencyUs| {
        let all = [l.p10, l.p50, l.p90, l.p99, l.p999, l.p9999, l.max];
        all.map(|us| Some(Spread::of(&[us]))).to_vec()
    };
    let series = rows
        .0
        .iter()
        .filter_map(|row| Some((name(row), kind_of(&row.variant), values(row.latency_us?))));
    Grid {
        places: (0..)
            .map(f64::from)
            .zip(PERCENTILES.map(str::to_owned))
            .collect(),
        series: series.collect(),
    }
}

fn points(places: &[(f64, String)], values: &[Option<Spread>], whiskers: bool) -> Vec<Point> {
    let point = |((x, _), value): (&(f64, String), &Option<Spread>)| {
        let Spread { min, median, max } = (*value)?;
        let spread = whiskers && max > min;
        Some(Point {
            x: *x,
            y: median,
            low: spread.then_some(min),
            high: spread.then_some(max),
        })
    };
    places.iter().zip(values).filter_map(point).collect()
}

/// A published curve.
pub fn published(name: &str, points: &[(f64, f64)]) -> Series {
    Series {
        name: format!("{name} (published)"),
        kind: Kind::Published,
        mark: Mark::Line,
        points: points.iter().map(|&(x, y)| Point::new(x, y)).collect(),
    }
}

impl Grid {
    /// A line for each place, a column for each series.
    fn table(&self, what: &str) -> Table {
        let mut header = vec![what.to_owned()];
        header.extend(self.series.iter().map(|series| shown(&series.0)));
        let cell = |value: &Option<Spread>| value.as_ref().map_or_else(String::new, spread_text);
        let line = |(at, (_, name)): (usize, &(f64, String))| {
            let mut line = vec![name.clone()];
            line.extend(self.series.iter().map(|series| cell(&series.2[at])));
            line
        };
        Table {
            header,
            rows: self.places.iter().enumerate().map(line).collect(),
        }
    }
}

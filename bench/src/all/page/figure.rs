//! A figure of the template, and the chart of its rows.

use super::super::result::Report;
use super::rows::{Keep, Row, Rows, kind_of, shown};
use crate::chart::{Axis, Chart, Kind, Mark, Point, Scale, Series};
use crate::locks::acquisitions_of;
use crate::spread::Spread;
use serde::Deserialize;

/// The percentiles of latencies.
const PERCENTILES: [&str; 7] = ["p10", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// A figure: which rows, and how they are drawn. With `x` it has a line for each series; with `groups` a bar; with
/// neither a line of the percentiles of the latencies with the most threads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The stem of its file.
    pub id: String,
    title: String,
    /// How it was measured.
    #[serde(default = "image_in_memory")]
    about: String,
    /// The sections of the report that its rows are from.
    pub sections: Vec<String>,
    /// Which of their rows.
    #[serde(default)]
    pub keep: Keep,
    /// The name of the series that a row belongs to.
    #[serde(default = "arm")]
    pub series: String,
    /// The field that is the place of a row on a logarithmic axis.
    pub x: Option<String>,
    #[serde(default)]
    x_label: String,
    /// The name of the group of bars that a row belongs to.
    pub groups: Option<String>,
    y_label: String,
    #[serde(default)]
    log: bool,
    #[serde(default)]
    value: Value,
    /// Rows of the same series and place are added up; otherwise the first counts.
    #[serde(default)]
    add: bool,
    /// Published results, each a name and its points.
    #[serde(default)]
    published: Vec<(String, Vec<(f64, f64)>)>,
    #[serde(default)]
    notes: Vec<String>,
    /// One more note, of the first row that has no place.
    pub remark: Option<String>,
}

fn image_in_memory() -> String {
    "image in memory".to_owned()
}

fn arm() -> String {
    "{arm}".to_owned()
}

/// What is drawn of a row.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    #[default]
    OpsPerS,
    CostNs,
    GainPercent,
    /// The rate over that of one thread.
    OverOne,
    /// The rate with lazytime over the rate without.
    OverNoLazytime,
    /// Acquisitions of the group lock for each operation.
    GroupLocks,
}

impl Value {
    fn of(self, row: &Row, rows: &Rows) -> Option<Spread> {
        let over = |base: f64| (base > 0.0).then(|| row.ops_per_s.median / base);
        let value = match self {
            Value::OpsPerS => return Some(row.ops_per_s),
            Value::CostNs => row.cost_ns,
            Value::GainPercent => row.gain_percent,
            Value::OverOne => over(rows.rate(&row.variant, 1)?),
            Value::OverNoLazytime => {
                let cache = row.variant.strip_suffix("/lazytime")?;
                over(rows.rate(&format!("{cache}/no-lazytime"), row.threads)?)
            }
            Value::GroupLocks => {
                let all = acquisitions_of(&row.locks, "group") as f64;
                (!row.locks.is_empty()).then(|| all / row.ops.max(1) as f64)
            }
        };
        value.map(|value| Spread::of(&[value]))
    }
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

impl Figure {
    /// The rows that it shows.
    pub fn rows(&self, report: &Report) -> Rows {
        let all = self
            .sections
            .iter()
            .flat_map(|name| Rows::of(report, name).0);
        let rows = Rows(all.collect()).keep(&self.keep);
        match (&self.x, &self.groups) {
            (None, None) => rows.busiest(),
            _ => rows,
        }
    }

    /// The chart of its rows.
    pub fn chart(&self, report: &Report) -> Chart {
        let rows = self.rows(report);
        let (x, mark) = match (&self.x, &self.groups) {
            (Some(_), _) => (Axis::new(&self.x_label, Scale::Log), Mark::Line),
            (None, Some(groups)) => {
                let mut names = Vec::new();
                for name in rows.0.iter().map(|row| row.filled(groups)) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                (Axis::new("", Scale::Categories(names)), Mark::Bars)
            }
            (None, None) => {
                let names = PERCENTILES.map(str::to_owned).to_vec();
                (
                    Axis::new("share of operations", Scale::Categories(names)),
                    Mark::Line,
                )
            }
        };
        let mut series: Vec<Series> = Vec::new();
        for row in &rows.0 {
            let (name, kind) = (shown(&row.filled(&self.series)), kind_of(&row.variant));
            for point in self.points(row, &rows, &x.scale) {
                let known = series.iter().position(|series| series.name == name);
                let known = known.unwrap_or_else(|| {
                    let (name, points) = (name.clone(), Vec::new());
                    series.push(Series {
                        name,
                        kind,
                        mark,
                        points,
                    });
                    series.len() - 1
                });
                self.add(&mut series[known].points, point);
            }
        }
        for series in &mut series {
            series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        series.extend(
            self.published
                .iter()
                .map(|(name, points)| published(name, points)),
        );
        let mut notes = self.notes.clone();
        if let Some(remark) = &self.remark {
            let other = rows.0.iter().find(|row| self.place(row).is_none());
            notes.extend(other.map(|row| row.filled(remark)));
        }
        let scale = if self.log { Scale::Log } else { Scale::Linear };
        Chart {
            id: self.id.clone(),
            title: self.title.clone(),
            subtitle: self.about.clone(),
            x,
            y: Axis::new(&self.y_label, scale),
            series,
            notes,
        }
    }

    /// The place of a row on an axis of counts.
    fn place(&self, row: &Row) -> Option<f64> {
        row.field(self.x.as_deref()?).parse().ok()
    }

    fn points(&self, row: &Row, rows: &Rows, scale: &Scale) -> Vec<Point> {
        let place = match (&self.groups, scale) {
            (Some(groups), Scale::Categories(names)) => {
                let at = names.iter().position(|name| *name == row.filled(groups));
                at.map(|at| at as f64)
            }
            (None, Scale::Categories(_)) => {
                let latency = row.latency_us.into_iter();
                let all =
                    latency.flat_map(|l| [l.p10, l.p50, l.p90, l.p99, l.p999, l.p9999, l.max]);
                return (0..)
                    .map(f64::from)
                    .zip(all)
                    .map(|(x, us)| Point::new(x, us))
                    .collect();
            }
            _ => self.place(row),
        };
        let point = |(x, Spread { min, median, max })| Point {
            x,
            y: median,
            spread: (min, max),
        };
        place
            .zip(self.value.of(row, rows))
            .map(point)
            .into_iter()
            .collect()
    }

    fn add(&self, points: &mut Vec<Point>, point: Point) {
        match points.iter_mut().find(|known| known.x == point.x) {
            Some(sum) if self.add => {
                sum.y += point.y;
                sum.spread.0 += point.spread.0;
                sum.spread.1 += point.spread.1;
            }
            Some(_) => {}
            None => points.push(point),
        }
    }
}

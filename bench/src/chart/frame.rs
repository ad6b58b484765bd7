//! Where everything of a chart stands: the data that can be drawn, the axes worked out for it,
//! and the places of the plot, of its labels and of the legend.

use crate::chart::legend::{self, Entry};
use crate::chart::look::{Look, looks};
use crate::chart::span::{Span, plottable};
use crate::chart::text::{BOLD, shorten_middle, widest_piece, width, wrap};
use crate::chart::{Chart, Mark, Point, Scale, Series};

/// A line of text and its baseline.
pub(crate) type Line = (String, f64);

/// A series with its points that have a place.
pub(crate) struct Drawn<'a> {
    pub series: &'a Series,
    pub look: Look,
    pub points: Vec<Point>,
    /// Its place in the chart, which names its pattern.
    pub at: usize,
}

/// How the labels below the plot are set.
pub(crate) enum XLabels {
    /// Centred below their places, in lines.
    Level(Vec<(f64, Vec<String>)>),
    /// Rising to their places, for long names.
    Slanted(Vec<(f64, String)>),
}

/// The places of a chart.
pub(crate) struct Frame<'a> {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub drawn: Vec<Drawn<'a>>,
    pub x: Span,
    pub y: Span,
    pub title: Vec<Line>,
    pub subtitle: Vec<Line>,
    pub y_title: Vec<Line>,
    pub x_title: Vec<Line>,
    pub x_labels: XLabels,
    pub legend: Vec<Entry>,
    inset: f64,
}

impl<'a> Frame<'a> {
    /// The size of all text but the title.
    pub(crate) const TEXT: f64 = 15.0;
    pub(crate) const TITLE: f64 = 18.0;
    /// From the edge of the chart to what stands in it.
    pub(crate) const EDGE: f64 = 12.0;
    pub(crate) const LINE: f64 = 18.0;
    /// The sine and cosine of slanted labels.
    pub(crate) const SLANT: f64 = std::f64::consts::FRAC_1_SQRT_2;
    const WIDTH: f64 = 520.0;
    const HEIGHT: f64 = 360.0;
    const PLOT_HEIGHT_MIN: f64 = 210.0;
    const LABEL_LINES_MAX: usize = 4;
    const SLANTED_WIDTH_MAX: f64 = 160.0;

    /// Works out the places of a chart.
    pub(crate) fn of(chart: &'a Chart) -> Self {
        let drawn = drawn(chart);
        let (x, y) = spans(chart, &drawn);
        let room = Self::WIDTH - 2.0 * Self::EDGE;
        let mut cursor = 6.0;
        let title = lines(&chart.title, Self::TITLE, room / BOLD, 22.0, &mut cursor);
        cursor += 2.0;
        let subtitle = lines(&chart.subtitle, Self::TEXT, room, 19.0, &mut cursor);
        cursor += 8.0;
        let y_title = lines(&chart.y.label, Self::TEXT, room, Self::LINE, &mut cursor);
        let top = cursor + 20.0;
        let y_labels = y.ticks.iter().filter_map(|tick| tick.label.as_deref());
        let widest = y_labels
            .map(|label| width(label, Self::TEXT))
            .fold(0.0, f64::max);
        let mut frame = Self {
            width: Self::WIDTH,
            height: Self::HEIGHT,
            left: Self::EDGE + widest.clamp(24.0, 150.0) + 8.0,
            right: Self::WIDTH - 16.0,
            top,
            bottom: top,
            inset: 14.0,
            drawn,
            x,
            y,
            title,
            subtitle,
            y_title,
            x_title: Vec::new(),
            x_labels: XLabels::Level(Vec::new()),
            legend: Vec::new(),
        };
        frame.set_inset(chart);
        let below = frame.set_x_labels(chart) + 6.0;
        let plot_height = Self::HEIGHT - top - below - 24.0;
        frame.bottom = top + plot_height.max(Self::PLOT_HEIGHT_MIN);
        let mut cursor = frame.bottom + below;
        frame.x_title = lines(&chart.x.label, Self::TEXT, room, Self::LINE, &mut cursor);
        (frame.legend, cursor) = legend::place(&frame.drawn, room, cursor + 12.0);
        frame.height = (cursor + 10.0).round();
        frame
    }

    /// The place of a value of the horizontal axis.
    pub(crate) fn place_x(&self, value: f64) -> f64 {
        let room = self.right - self.left - 2.0 * self.inset;
        self.left + self.inset + self.x.fraction(value) * room
    }

    /// The place of a value of the vertical axis.
    pub(crate) fn place_y(&self, value: f64) -> f64 {
        self.bottom - self.y.fraction(value) * (self.bottom - self.top)
    }

    /// Bars need half their width beside the first and the last place; categories bring their own.
    fn set_inset(&mut self, chart: &Chart) {
        if matches!(chart.x.scale, Scale::Categories(_)) {
            self.inset = 0.0;
        } else if self.drawn.iter().any(|d| d.series.mark == Mark::Bars) {
            let places = self.bar_places().len().max(1) as f64;
            self.inset = (self.right - self.left) / (2.0 * places);
        }
    }

    /// The different values of the horizontal axis where bars stand.
    pub(crate) fn bar_places(&self) -> Vec<f64> {
        let bars = self.drawn.iter().filter(|d| d.series.mark == Mark::Bars);
        let mut places: Vec<f64> = bars.flat_map(|d| d.points.iter().map(|p| p.x)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// Sets the labels below the plot; returns the height they take.
    fn set_x_labels(&mut self, chart: &Chart) -> f64 {
        let named: Vec<(f64, String)> = self
            .x
            .ticks
            .iter()
            .filter_map(|tick| Some((tick.value, tick.label.clone()?)))
            .collect();
        let Scale::Categories(names) = &chart.x.scale else {
            self.x_labels = XLabels::Level(self.without_collisions(&named));
            return 8.0 + Self::LINE;
        };
        let band = (self.right - self.left) / names.len().max(1) as f64;
        let room = band - 6.0;
        let wrapped: Vec<Vec<String>> = names
            .iter()
            .map(|name| wrap(name, Self::TEXT, room))
            .collect();
        let tallest = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        let fits = names
            .iter()
            .all(|name| widest_piece(name, Self::TEXT) <= room);
        if fits && tallest <= Self::LABEL_LINES_MAX {
            let labels = named
                .iter()
                .map(|(value, _)| self.place_x(*value))
                .zip(wrapped);
            self.x_labels = XLabels::Level(labels.collect());
            return 8.0 + Self::LINE * tallest as f64;
        }
        self.set_slanted(&named)
    }

    fn set_slanted(&mut self, named: &[(f64, String)]) -> f64 {
        let widths = named.iter().map(|(_, name)| width(name, Self::TEXT));
        let longest = widths.fold(0.0, f64::max).min(Self::SLANTED_WIDTH_MAX);
        // The first label reaches out to the left of the plot.
        let first = |frame: &Self| {
            named
                .first()
                .map_or(0.0, |(value, _)| frame.place_x(*value))
        };
        let reach = longest * Self::SLANT + Self::EDGE;
        // The plot narrows as its edge moves, so the label moves by less than the edge.
        let follows = 1.0
            - named
                .first()
                .map_or(0.0, |(value, _)| self.x.fraction(*value));
        self.left += ((reach - first(self)) / follows.max(0.5) + 0.5).clamp(0.0, 60.0);
        let band = (self.right - self.left) / named.len().max(1) as f64;
        let stride = ((Self::LINE / Self::SLANT) / band).ceil().max(1.0) as usize;
        let labels = named.iter().step_by(stride).map(|(value, name)| {
            let place = self.place_x(*value);
            let room = ((place - Self::EDGE) / Self::SLANT).min(Self::SLANTED_WIDTH_MAX);
            (place, shorten_middle(name, Self::TEXT, room))
        });
        let labels: Vec<(f64, String)> = labels.collect();
        let widest = labels.iter().map(|(_, name)| width(name, Self::TEXT));
        let height = widest.fold(0.0, f64::max) * Self::SLANT + 16.0;
        self.x_labels = XLabels::Slanted(labels);
        height
    }

    /// The labels that do not touch the one before them.
    fn without_collisions(&self, named: &[(f64, String)]) -> Vec<(f64, Vec<String>)> {
        let mut end = f64::MIN;
        let mut kept = Vec::new();
        for (value, label) in named {
            let place = self.place_x(*value);
            let half = width(label, Self::TEXT) / 2.0;
            if place - half >= end + 5.0 {
                end = place + half;
                kept.push((place, vec![label.clone()]));
            }
        }
        kept
    }
}

/// The lines of a text one below the other; the cursor moves below them.
fn lines(text: &str, size: f64, room: f64, height: f64, cursor: &mut f64) -> Vec<Line> {
    let set = |line| {
        *cursor += height;
        (line, *cursor)
    };
    wrap(text, size, room).into_iter().map(set).collect()
}

/// The series that have a point with a place.
fn drawn(chart: &Chart) -> Vec<Drawn<'_>> {
    let looks = looks(&chart.series);
    let all = chart.series.iter().zip(looks).enumerate();
    let drawn = all.map(|(at, (series, look))| {
        let points = series
            .points
            .iter()
            .filter(|p| plottable(p.x, &chart.x.scale) && plottable(p.y, &chart.y.scale));
        let spread = |end: Option<f64>| end.filter(|v| plottable(*v, &chart.y.scale));
        let points = points.map(|p| Point {
            low: spread(p.low),
            high: spread(p.high),
            ..*p
        });
        let mut points: Vec<Point> = points.collect();
        if series.mark == Mark::Line {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        Drawn {
            series,
            look,
            points,
            at,
        }
    });
    drawn.filter(|d| !d.points.is_empty()).collect()
}

fn spans(chart: &Chart, drawn: &[Drawn<'_>]) -> (Span, Span) {
    let points = || drawn.iter().flat_map(|d| &d.points);
    let xs: Vec<f64> = points().map(|p| p.x).collect();
    let ys: Vec<f64> = points()
        .flat_map(|p| [Some(p.y), p.low, p.high])
        .flatten()
        .collect();
    let bars = drawn.iter().any(|d| d.series.mark == Mark::Bars);
    (
        Span::of_x(&chart.x.scale, &xs),
        Span::of_y(&chart.y.scale, &ys, bars),
    )
}

#[cfg(test)]
mod tests {
    use super::{Frame, XLabels};
    use crate::chart::text::width;
    use crate::chart::{Axis, Chart, Kind, Mark, Point, Scale, Series};

    fn chart(x: Scale, xs: &[f64]) -> Chart {
        let points = xs.iter().map(|x| Point {
            x: *x,
            y: 1.0,
            low: None,
            high: None,
        });
        let series = Series {
            name: "arm".to_owned(),
            kind: Kind::Variant,
            mark: Mark::Line,
            points: points.collect(),
        };
        Chart {
            id: "c".to_owned(),
            title: "a title of more words than have room in one line of the picture".to_owned(),
            subtitle: String::new(),
            x: Axis {
                label: "threads".to_owned(),
                scale: x,
            },
            y: Axis {
                label: "ops/s".to_owned(),
                scale: Scale::Linear,
            },
            series: vec![series],
        }
    }

    #[test]
    fn labels_of_near_counts_do_not_touch() {
        let crowded = chart(Scale::Log, &[1.0, 2.0, 4.0, 200.0, 202.0, 204.0]);
        let XLabels::Level(labels) = Frame::of(&crowded).x_labels else {
            panic!("counts are level");
        };
        assert!(labels.len() >= 4, "{labels:?}");
        let end = |(x, lines): &(f64, Vec<String>), side: f64| {
            x + side * width(&lines.concat(), Frame::TEXT) / 2.0
        };
        for (a, b) in labels.iter().zip(labels.iter().skip(1)) {
            assert!(end(a, 1.0) < end(b, -1.0), "{a:?} {b:?}");
        }
    }

    #[test]
    fn long_names_wrap_and_longer_ones_slant() {
        let names = |name: &str, count| Scale::Categories(vec![name.to_owned(); count]);
        let wrapped = chart(names("random reads of 4 KiB", 5), &[0.0]);
        let slanted = chart(names("fsyncaftereveryappend", 5), &[0.0]);
        let lines = match Frame::of(&wrapped).x_labels {
            XLabels::Level(labels) => labels[0].1.len(),
            XLabels::Slanted(_) => 0,
        };
        assert!((2..=4).contains(&lines), "{lines}");
        let XLabels::Slanted(labels) = Frame::of(&slanted).x_labels else {
            panic!("no room for a word of this length");
        };
        assert!(
            labels
                .iter()
                .all(|(_, name)| name == "fsyncaftereveryappend"),
            "{labels:?}"
        );
        // Longer than the picture is wide: each is cut where it would leave the picture.
        let endless = chart(names(&"endless".repeat(20), 14), &[0.0]);
        let XLabels::Slanted(labels) = Frame::of(&endless).x_labels else {
            panic!("no room for a word of this length");
        };
        let left = |(x, name): &(f64, String)| x - width(name, Frame::TEXT) * Frame::SLANT;
        assert!(
            labels.iter().all(|label| left(label) > Frame::EDGE - 1.0),
            "{labels:?}"
        );
    }

    #[test]
    fn a_longer_title_moves_the_plot_and_not_its_edges() {
        let long = chart(Scale::Linear, &[1.0, 2.0]);
        let short = Chart {
            title: "short".to_owned(),
            ..long.clone()
        };
        let (long, short) = (Frame::of(&long), Frame::of(&short));
        assert_eq!((long.title.len(), short.title.len()), (2, 1));
        assert!(long.top > short.top && long.bottom - long.top >= Frame::PLOT_HEIGHT_MIN);
        assert_eq!((long.left, long.right), (short.left, short.right));
    }
}

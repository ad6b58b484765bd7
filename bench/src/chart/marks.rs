//! The data of a chart: lines, bars, dots, and the spread of each.

use crate::chart::frame::{Drawn, Frame};
use crate::chart::number::number;
use crate::chart::text::{length, width};
use crate::chart::{Axis, Chart, Kind, Mark, Point, Scale};
use maud::{Markup, html};

/// More points than this do not all have a large marker.
const LARGE_MARKERS_MAX: usize = 32;
/// About so many points of a longer line are marked.
const MARKERS_OF_MANY: usize = 10;
/// More bars than this have no room for their values.
const VALUED_BARS_MAX: usize = 14;
/// Of the distance between two places, what bars take.
const BAND_FILL: f64 = 0.78;
const BAND_MAX: f64 = 220.0;
/// What a chart without points says.
const NO_DATA: &str = "no data";

/// Identifies the pattern of a series among all charts of a page.
pub(crate) fn pattern_id(id: &str, at: usize) -> String {
    format!("{id}-hatch-{at}")
}

/// The patterns that bars are filled with.
pub(crate) fn patterns(frame: &Frame<'_>, id: &str) -> Markup {
    html! {
        @for d in frame.drawn.iter().filter(|d| d.series.mark == Mark::Bars) {
            (d.look.pattern(&pattern_id(id, d.at)))
        }
    }
}

/// Draws the series: bars first, then what others published, then lines and dots.
pub(crate) fn draw(chart: &Chart, frame: &Frame<'_>, id: &str) -> Markup {
    if frame.drawn.is_empty() {
        let x = f64::midpoint(frame.left, frame.right);
        let y = f64::midpoint(frame.top, frame.bottom);
        return html! {
            text x=(x) y=(y) textLength=(length(width(NO_DATA, Frame::TEXT))) lengthAdjust="spacingAndGlyphs"
                text-anchor="middle" fill="#777777" { (NO_DATA) }
        };
    }
    let slots = Slots::of(chart, frame);
    let mut order: Vec<&Drawn<'_>> = frame.drawn.iter().collect();
    order.sort_by_key(|d| {
        (
            d.series.mark != Mark::Bars,
            d.series.kind != Kind::Published,
        )
    });
    html! {
        @for d in order {
            g class="marks" { (series(chart, frame, &slots, d, id)) }
        }
        (bar_values(frame, &slots))
    }
}

fn series(chart: &Chart, frame: &Frame<'_>, slots: &Slots, d: &Drawn<'_>, id: &str) -> Markup {
    let place = |p: &Point| (slots.place_x(frame, d, p), frame.place_y(p.y));
    match d.series.mark {
        Mark::Bars => html! {
            @for p in &d.points { (bar(chart, frame, slots, d, p, id)) }
            @for p in &d.points { (whisker(frame, place(p).0, p, "#222222", 1.0)) }
        },
        Mark::Line | Mark::Dots => html! {
            @for p in &d.points { (whisker(frame, place(p).0, p, d.look.colour, 0.65)) }
            @if d.series.mark == Mark::Line && d.points.len() > 1 { (line(d, place)) }
            @for (at, p) in d.points.iter().enumerate() {
                @let (x, y) = place(p);
                (d.look.marker(x, y, radius(d, at), Some(&says(chart, d, p))))
            }
        },
    }
}

/// The marker of a point: where a line has many, most are only there to be pointed at.
fn radius(d: &Drawn<'_>, at: usize) -> f64 {
    let count = d.points.len();
    let stride = count.div_ceil(MARKERS_OF_MANY);
    match d.series.mark {
        _ if count <= LARGE_MARKERS_MAX => 4.6,
        Mark::Line if at % stride == stride / 2 => 4.6,
        Mark::Line => 1.5,
        Mark::Dots | Mark::Bars => 3.0,
    }
}

fn line(d: &Drawn<'_>, place: impl Fn(&Point) -> (f64, f64)) -> Markup {
    let corners = d.points.iter().map(|p| {
        let (x, y) = place(p);
        format!("{x:.1},{y:.1}")
    });
    let path = format!("M{}", corners.collect::<Vec<_>>().join(" L"));
    html! {
        path d=(path) fill="none" stroke=(d.look.colour) stroke-width=(d.look.line_width)
            stroke-dasharray=(d.look.dash) stroke-linejoin="round" {}
    }
}

fn bar(
    chart: &Chart,
    frame: &Frame<'_>,
    slots: &Slots,
    d: &Drawn<'_>,
    point: &Point,
    id: &str,
) -> Markup {
    let middle = slots.place_x(frame, d, point);
    let (base, end) = (frame.place_y(frame.y.base()), frame.place_y(point.y));
    let dash = if d.series.kind == Kind::Model {
        d.look.dash
    } else {
        "none"
    };
    html! {
        rect x=(format!("{:.2}", middle - slots.bar / 2.0)) y=(format!("{:.2}", base.min(end)))
            width=(format!("{:.2}", slots.bar)) height=(format!("{:.2}", (base - end).abs()))
            fill=(d.look.fill(&pattern_id(id, d.at))) stroke=(d.look.colour) stroke-width="1.2"
            stroke-dasharray=(dash) {
            title { (says(chart, d, point)) }
        }
    }
}

/// The spread of a point; a white edge lets it be seen on bars and lines.
fn whisker(frame: &Frame<'_>, x: f64, point: &Point, colour: &str, opacity: f64) -> Markup {
    if point.low.is_none() && point.high.is_none() {
        return html! {};
    }
    let low = frame.place_y(point.low.unwrap_or(point.y));
    let high = frame.place_y(point.high.unwrap_or(point.y));
    let (left, right) = (x - 4.0, x + 4.0);
    let d = format!(
        "M{x:.1},{low:.1} V{high:.1} M{left:.1},{low:.1} H{right:.1} M{left:.1},{high:.1} H{right:.1}"
    );
    html! {
        path d=(d) stroke="#ffffff" stroke-width="3.4" stroke-opacity=(opacity) fill="none" {}
        path d=(d) stroke=(colour) stroke-width="1.4" stroke-opacity=(opacity) fill="none" {}
    }
}

/// What a point says when pointed at: `shared-first: 24 threads, 276 k/s (260 k to 290 k)`.
fn says(chart: &Chart, d: &Drawn<'_>, point: &Point) -> String {
    let x = amount(point.x, &chart.x);
    let y = amount(point.y, &chart.y);
    let spread = match (point.low, point.high) {
        (None, None) => String::new(),
        (Some(low), None) => format!(" (from {})", number(low)),
        (None, Some(high)) => format!(" (to {})", number(high)),
        (Some(low), Some(high)) => format!(" ({} to {})", number(low), number(high)),
    };
    format!("{}: {x}, {y}{spread}", d.series.name)
}

/// A value with the unit of its axis, or with its name.
fn amount(value: f64, axis: &Axis) -> String {
    if let Scale::Categories(names) = &axis.scale {
        let name = names.get(value.round().max(0.0) as usize);
        return name.map_or_else(|| number(value), Clone::clone);
    }
    let label = axis.label.trim();
    let in_brackets = label
        .strip_suffix(')')
        .and_then(|head| head.rsplit_once('('));
    let unit = in_brackets.map_or(label, |(_, unit)| unit);
    let space = if unit.is_empty() || unit.starts_with('/') {
        ""
    } else {
        " "
    };
    format!("{}{space}{unit}", number(value))
}

/// The value above each bar, where a chart has only a few bars and they are wide enough.
fn bar_values(frame: &Frame<'_>, slots: &Slots) -> Markup {
    let bars = || {
        frame
            .drawn
            .iter()
            .flat_map(|d| d.points.iter().map(move |p| (d, p)))
    };
    let few = bars().count() <= VALUED_BARS_MAX;
    let all_fit = frame.drawn.iter().all(|d| d.series.mark == Mark::Bars)
        && bars().all(|(_, p)| p.y >= 0.0 && width(&number(p.y), Frame::TEXT) <= slots.step);
    if !few || !all_fit {
        return html! {};
    }
    html! {
        g class="values" fill="#222222" text-anchor="middle" {
            @for (d, p) in bars() {
                @let top = frame.place_y(p.high.unwrap_or(p.y).max(p.y)) - 6.0;
                @let value = number(p.y);
                text x=(format!("{:.1}", slots.place_x(frame, d, p))) y=(format!("{top:.1}"))
                    textLength=(length(width(&value, Frame::TEXT))) lengthAdjust="spacingAndGlyphs"
                    stroke="#ffffff" stroke-width="3" paint-order="stroke" { (value) }
            }
        }
    }
}

/// Where series that share a place stand beside each other.
struct Slots {
    /// The series that have a slot, by their place in the chart.
    series: Vec<usize>,
    /// From one slot to the next.
    step: f64,
    /// The width of a bar.
    bar: f64,
}

impl Slots {
    fn of(chart: &Chart, frame: &Frame<'_>) -> Self {
        let named = matches!(chart.x.scale, Scale::Categories(_));
        let shares = |d: &&Drawn<'_>| match d.series.mark {
            Mark::Bars => true,
            Mark::Dots => named,
            Mark::Line => false,
        };
        let series: Vec<usize> = frame.drawn.iter().filter(shares).map(|d| d.at).collect();
        let room = frame.right - frame.left;
        let nearest = match &chart.x.scale {
            Scale::Categories(names) => room / names.len().max(1) as f64,
            _ => {
                let places = frame.bar_places();
                let pairs = places.iter().zip(places.iter().skip(1));
                pairs
                    .map(|(a, b)| frame.place_x(*b) - frame.place_x(*a))
                    .fold(room, f64::min)
            }
        };
        let band = (nearest * BAND_FILL).min(BAND_MAX);
        let step = band / series.len().max(1) as f64;
        let bar = (step * 0.92).min(step - 0.5).clamp(0.5, 70.0);
        Self { series, step, bar }
    }

    fn place_x(&self, frame: &Frame<'_>, d: &Drawn<'_>, point: &Point) -> f64 {
        let middle = frame.place_x(point.x);
        let Some(slot) = self.series.iter().position(|at| *at == d.at) else {
            return middle;
        };
        let from_middle = slot as f64 - (self.series.len() as f64 - 1.0) / 2.0;
        middle + from_middle * self.step
    }
}

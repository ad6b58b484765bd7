//! What a chart is made of, and the SVG of it.

use crate::chart::frame::Frame;
use crate::chart::text::{BOLD, width};
use crate::chart::{axes, legend, marks, text};
use maud::{Markup, html};

/// A chart: series of points on two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Names the chart in links; also the stem of its file, `id.svg`.
    pub id: String,
    /// What the chart shows.
    pub title: String,
    /// How it was measured; may be empty.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
}

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is counted, with its unit: `creates/s`, or with the unit apart, `latency (us)`.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
}

/// How values become places on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Evenly; a vertical axis starts at zero.
    Linear,
    /// By ratio; values that are not above zero are left out.
    Log,
    /// By name; values are indices from 0.
    Categories(Vec<String>),
}

/// Points of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Where the points come from.
    pub kind: Kind,
    /// How they are drawn.
    pub mark: Mark,
    /// The points; lines join them by their order on the horizontal axis.
    pub points: Vec<Point>,
}

/// Where points come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Measured here.
    Variant,
    /// Another program, measured beside the variants.
    Peer,
    /// Measured by others elsewhere: grey.
    Published,
    /// Not measured but projected: dashed and hollow.
    Model,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Joined markers.
    Line,
    /// Bars, side by side where series share a place.
    Bars,
    /// Markers alone.
    Dots,
}

/// A value and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The place on the horizontal axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The least that was measured.
    pub low: Option<f64>,
    /// The most that was measured.
    pub high: Option<f64>,
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, scale: Scale) -> Axis {
        Axis {
            label: label.to_owned(),
            scale,
        }
    }
}

impl Point {
    /// A value without a spread.
    pub fn new(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            low: None,
            high: None,
        }
    }
}

impl Chart {
    /// The chart as an SVG file of its own, which may also stand in an HTML page beside others.
    pub fn svg(&self) -> String {
        let frame = Frame::of(self);
        let id = self.dom_id();
        let size = format!("0 0 {} {}", frame.width, frame.height);
        let svg = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(size) width=(frame.width)
                height=(frame.height) role="img" font-family=(text::FONTS) font-size=(Frame::TEXT)
                aria-labelledby={ (id) "-title " (id) "-desc" } {
                title id={ (id) "-title" } { (self.title) }
                desc id={ (id) "-desc" } { (self.description(&frame)) }
                defs { (marks::patterns(&frame, &id)) }
                rect width=(frame.width) height=(frame.height) fill="#ffffff" {}
                (header(&frame))
                (axes::draw(self, &frame))
                (marks::draw(self, &frame, &id))
                (legend::draw(&frame, &id))
            }
        };
        text::written(&svg.into_string())
    }

    /// The identifier in a form that may stand in a URL and in a reference between elements.
    pub(crate) fn dom_id(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        self.id.chars().map(plain).collect()
    }

    /// The alternative text of the chart.
    fn description(&self, frame: &Frame<'_>) -> String {
        let names: Vec<&str> = frame.drawn.iter().map(|d| d.series.name.as_str()).collect();
        let scale = |axis: &Axis| match axis.scale {
            Scale::Log => format!("{} (logarithmic)", axis.label),
            _ => axis.label.clone(),
        };
        let series = match names.as_slice() {
            [] => "no data".to_owned(),
            [one] => format!("one series: {one}"),
            many => format!("{} series: {}", many.len(), many.join("; ")),
        };
        format!("{} over {}; {series}.", scale(&self.y), scale(&self.x))
    }
}

fn header(frame: &Frame<'_>) -> Markup {
    html! {
        g class="header" {
            @for (line, y) in &frame.title {
                text x=(Frame::EDGE) y=(y) font-size=(Frame::TITLE) font-weight="bold"
                    textLength=(text::length(width(line, Frame::TITLE) * BOLD)) lengthAdjust="spacingAndGlyphs"
                    fill="#111111" { (line) }
            }
            @for (line, y) in &frame.subtitle {
                text x=(Frame::EDGE) y=(y) textLength=(text::length(width(line, Frame::TEXT)))
                    lengthAdjust="spacingAndGlyphs" fill="#555555" { (line) }
            }
        }
    }
}

//! Charts as SVG, and one self-contained page that shows them with their tables.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `number` | numbers as people read them |
//! | `axis` | the range and the ticks of an axis |
//! | `look` | colour, marker and dash of a series |
//! | `svg` | a chart as SVG |
//! | `page` | the HTML page |

mod axis;
mod look;
pub mod number;
mod page;
mod svg;

pub use page::{Block, Page, Section};

/// Figures in rows: the first column is text, the others are numbers, unless all of their cells begin with a letter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A name for each column.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(header: &[&str], rows: Vec<Vec<String>>) -> Table {
        Table {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            rows,
        }
    }
}

/// A chart: series of points on two axes, and what to know about it.
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
    /// Sentences below the chart.
    pub notes: Vec<String>,
}

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is counted, with its unit: `creates/s`.
    pub label: String,
    /// How values are placed.
    pub scale: Scale,
}

/// How values are placed on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Evenly; a vertical axis starts at zero.
    Linear,
    /// By ratio; values that are not above zero are left out.
    Log,
    /// By name; values are indices from 0. Horizontal only.
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
    /// The points, by their order on the horizontal axis.
    pub points: Vec<Point>,
}

/// Where points come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Measured here.
    Variant,
    /// Another program, measured beside the variants: black.
    Peer,
    /// Measured by others elsewhere: grey, dashed.
    Published,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Joined markers.
    Line,
    /// Bars with markers, side by side in each category.
    Bars,
}

/// A value and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The place on the horizontal axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The least and the most that was measured; the value itself where nothing else was.
    pub spread: (f64, f64),
}

/// Greater values are left out.
const PLACED_MAX: f64 = 1e100;

impl Axis {
    /// An axis.
    pub fn new(label: &str, scale: Scale) -> Axis {
        let label = label.to_owned();
        Axis { label, scale }
    }

    /// Whether a value has a place on it: sums and ratios of greater ones would overflow.
    fn has(&self, value: f64) -> bool {
        value.abs() <= PLACED_MAX
            && match &self.scale {
                Scale::Linear => value == 0.0 || value.abs() >= 1.0 / PLACED_MAX,
                Scale::Log => value >= 1.0 / PLACED_MAX,
                Scale::Categories(names) => value >= 0.0 && value < names.len() as f64,
            }
    }

    /// A value as text: its number, or the name of its category.
    fn text(&self, value: f64) -> String {
        match &self.scale {
            Scale::Categories(names) => names.get(value as usize).cloned().unwrap_or_default(),
            Scale::Linear | Scale::Log => number::number(value),
        }
    }
}

impl Point {
    /// A value without a spread.
    pub fn new(x: f64, y: f64) -> Point {
        let spread = (y, y);
        Point { x, y, spread }
    }
}

impl Chart {
    /// The identifier in a form that may stand in a URL.
    fn dom_id(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        self.id.chars().map(plain).collect()
    }

    /// What the chart shows as figures: a row for each place, a column for each series that is not published
    /// elsewhere.
    fn table(&self) -> Table {
        let shown = || self.series.iter().filter(|s| s.kind != Kind::Published);
        let mut places: Vec<f64> = shown().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let cell = |series: &Series, x: f64| {
            let at = series.points.iter().find(|p| p.x == x);
            at.map_or_else(String::new, |p| number::spread(p.spread.0, p.y, p.spread.1))
        };
        let row = |x: f64| {
            let cells = shown().map(|series| cell(series, x));
            std::iter::once(self.x.text(x)).chain(cells).collect()
        };
        let names = shown().map(|series| series.name.clone());
        Table {
            header: std::iter::once(self.x.label.clone()).chain(names).collect(),
            rows: places.into_iter().map(row).collect(),
        }
    }
}

/// The text with a space for what neither XML nor HTML has a way to write: most control characters, and two that
/// are not characters.
fn written(text: &str) -> String {
    let has_none = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.replace(has_none, " ")
}

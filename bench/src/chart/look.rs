//! Colour, marker, dash and hatch of each series: any one of the last three distinguishes series
//! without colour.

use crate::chart::{Kind, Series};
use maud::{Markup, html};

/// Okabe and Ito's colours without their yellow, which is too light for lines on white, and
/// with two dark ones at the end.
const PALETTE: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#7a5c00",
];
const PEER: &str = "#222222";
const PUBLISHED: &str = "#777777";
/// One fewer than colours, so that colour and dash repeat together only after 56 series.
const DASHES: [&str; 7] = [
    "none",
    "12 3",
    "12 3 3 3",
    "12 3 3 3 3 3",
    "20 4",
    "20 4 3 4",
    "8 3",
];
const PUBLISHED_DASHES: [&str; 4] = ["3 3", "1.5 3", "6 3 1.5 3", "8 4"];
/// Smaller markers are only there to be pointed at.
const SEEN_RADIUS_MIN: f64 = 2.0;
const MODEL_DASH: &str = "6 4";

/// The form of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Plus,
    TriangleDown,
    Cross,
    Star,
}

const SHAPES: [Shape; 8] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::TriangleDown,
    Shape::Plus,
    Shape::Star,
    Shape::Cross,
];

/// How the area of a bar is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hatch {
    Solid,
    Forward,
    Dots,
    Backward,
    Horizontal,
    Cross,
    Vertical,
}

const HATCHES: [Hatch; 7] = [
    Hatch::Solid,
    Hatch::Forward,
    Hatch::Dots,
    Hatch::Backward,
    Hatch::Horizontal,
    Hatch::Cross,
    Hatch::Vertical,
];

/// How one series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    pub colour: &'static str,
    /// For `stroke-dasharray`.
    pub dash: &'static str,
    pub line_width: f64,
    shape: Shape,
    hollow: bool,
    hatch: Hatch,
    /// Behind the hatch; its opacity.
    paper: (&'static str, f64),
    ink: &'static str,
}

/// The entry of a table that repeats.
fn nth<T: Copy, const N: usize>(table: [T; N], at: usize) -> T {
    table[at % N]
}

/// The look of each series of a chart, in order.
pub(crate) fn looks(series: &[Series]) -> Vec<Look> {
    let variants: Vec<&str> = series
        .iter()
        .filter(|s| s.kind == Kind::Variant)
        .map(|s| s.name.as_str())
        .collect();
    let mut models = variants.len();
    let mut linked = Vec::new();
    let (mut variant, mut peer, mut published) = (0, 0, 0);
    let next = |counter: &mut usize| {
        *counter += 1;
        *counter - 1
    };
    let mut looks: Vec<Look> = Vec::new();
    for (at, one) in series.iter().enumerate() {
        let look = match one.kind {
            Kind::Variant => Look::variant(next(&mut variant), at),
            Kind::Peer => Look::peer(next(&mut peer), at),
            Kind::Published => Look::published(next(&mut published), at),
            Kind::Model => {
                // What is projected for a variant has the variant's colour and marker.
                let same = |(slot, name): &(usize, &str)| {
                    one.name.starts_with(name) && !linked.contains(slot)
                };
                let found = variants.iter().copied().enumerate().find(same);
                match found {
                    Some((slot, _)) => {
                        linked.push(slot);
                        Look::model(slot, variant_position(series, slot))
                    }
                    None => Look::model(next(&mut models), at),
                }
            }
        };
        looks.push(look);
    }
    looks
}

/// Where in the chart the variant of a slot stands.
fn variant_position(series: &[Series], slot: usize) -> usize {
    let mut variants = series
        .iter()
        .enumerate()
        .filter(|(_, s)| s.kind == Kind::Variant);
    variants.nth(slot).map_or(slot, |(at, _)| at)
}

impl Look {
    fn variant(slot: usize, at: usize) -> Self {
        let colour = nth(PALETTE, slot);
        Self {
            colour,
            dash: nth(DASHES, slot),
            line_width: 2.4,
            shape: nth(SHAPES, at),
            hollow: at / SHAPES.len() % 2 == 1,
            hatch: nth(HATCHES, slot),
            paper: (colour, 0.22),
            ink: colour,
        }
    }

    fn peer(slot: usize, at: usize) -> Self {
        Self {
            colour: PEER,
            dash: nth(DASHES, slot),
            hatch: nth(HATCHES, slot % (HATCHES.len() - 1) + 1),
            paper: (PEER, 1.0),
            ink: "#ffffff",
            ..Self::variant(0, at)
        }
    }

    fn published(slot: usize, at: usize) -> Self {
        Self {
            colour: PUBLISHED,
            dash: nth(PUBLISHED_DASHES, slot),
            line_width: 1.4,
            hollow: true,
            hatch: nth(HATCHES, slot % (HATCHES.len() - 1) + 1),
            paper: ("#ffffff", 1.0),
            ink: "#aaaaaa",
            ..Self::variant(0, at)
        }
    }

    fn model(slot: usize, at: usize) -> Self {
        Self {
            dash: MODEL_DASH,
            line_width: 1.8,
            hollow: true,
            hatch: nth(HATCHES, slot % (HATCHES.len() - 1) + 1),
            paper: ("#ffffff", 1.0),
            ..Self::variant(slot, at)
        }
    }

    /// The marker at a place, with what it says when pointed at.
    pub(crate) fn marker(&self, x: f64, y: f64, radius: f64, says: Option<&str>) -> Markup {
        let (fill, stroke, width) = if radius < SEEN_RADIUS_MIN {
            // Wide enough to be pointed at.
            ("transparent", "transparent", 8.0)
        } else if self.hollow {
            ("#ffffff", self.colour, 1.7)
        } else {
            (self.colour, "#ffffff", 0.8)
        };
        let d = self.shape.path(x, y, radius);
        html! {
            path d=(d) fill=(fill) stroke=(stroke) stroke-width=(width) stroke-linejoin="round" {
                @if let Some(says) = says { title { (says) } }
            }
        }
    }

    /// What fills a bar: a colour, or the pattern that [`Look::pattern`] defines.
    pub(crate) fn fill(&self, pattern_id: &str) -> String {
        match self.hatch {
            Hatch::Solid => self.colour.to_owned(),
            _ => format!("url(#{pattern_id})"),
        }
    }

    /// The definition of the pattern, where the fill is one.
    pub(crate) fn pattern(&self, pattern_id: &str) -> Markup {
        let d = match self.hatch {
            Hatch::Solid => return html! {},
            Hatch::Forward => "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6",
            Hatch::Backward => "M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2",
            Hatch::Horizontal => "M0,2 H8 M0,6 H8",
            Hatch::Vertical => "M2,0 V8 M6,0 V8",
            Hatch::Cross => "M0,0 L8,8 M0,8 L8,0",
            Hatch::Dots => "M1,2 h2 M5,6 h2",
        };
        let width = match self.hatch {
            Hatch::Dots => 2.2,
            _ => 1.5,
        };
        html! {
            pattern id=(pattern_id) width="8" height="8" patternUnits="userSpaceOnUse" {
                rect width="8" height="8" fill="#ffffff" {}
                rect width="8" height="8" fill=(self.paper.0) fill-opacity=(self.paper.1) {}
                path d=(d) stroke=(self.ink) stroke-width=(width) fill="none" {}
            }
        }
    }
}

impl Shape {
    fn path(self, x: f64, y: f64, r: f64) -> String {
        // Corners as parts of the radius; the forms have about the same area.
        let corners: &[(f64, f64)] = match self {
            Self::Circle => {
                let r = r.max(0.1);
                return format!(
                    "M{:.2},{y:.2} a{r:.2},{r:.2} 0 1,0 {:.2},0 a{r:.2},{r:.2} 0 1,0 {:.2},0 z",
                    x - r,
                    2.0 * r,
                    -2.0 * r
                );
            }
            Self::Square => &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
            Self::Triangle => &[(0.0, -1.2), (1.12, 0.8), (-1.12, 0.8)],
            Self::TriangleDown => &[(0.0, 1.2), (1.12, -0.8), (-1.12, -0.8)],
            Self::Diamond => &[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)],
            Self::Plus => &PLUS,
            Self::Cross => return polygon(&PLUS.map(turned), x, y, r),
            Self::Star => &STAR,
        };
        polygon(corners, x, y, r)
    }
}

const PLUS: [(f64, f64); 12] = [
    (-0.42, -1.2),
    (0.42, -1.2),
    (0.42, -0.42),
    (1.2, -0.42),
    (1.2, 0.42),
    (0.42, 0.42),
    (0.42, 1.2),
    (-0.42, 1.2),
    (-0.42, 0.42),
    (-1.2, 0.42),
    (-1.2, -0.42),
    (-0.42, -0.42),
];

const STAR: [(f64, f64); 10] = [
    (0.0, -1.4),
    (0.37, -0.5),
    (1.33, -0.43),
    (0.59, 0.19),
    (0.82, 1.13),
    (0.0, 0.62),
    (-0.82, 1.13),
    (-0.59, 0.19),
    (-1.33, -0.43),
    (-0.37, -0.5),
];

/// By an eighth of a circle.
fn turned((x, y): (f64, f64)) -> (f64, f64) {
    let part = std::f64::consts::FRAC_1_SQRT_2;
    ((x - y) * part, (x + y) * part)
}

fn polygon(corners: &[(f64, f64)], x: f64, y: f64, r: f64) -> String {
    let points: Vec<String> = corners
        .iter()
        .map(|(dx, dy)| format!("{:.2},{:.2}", x + dx * r, y + dy * r))
        .collect();
    format!("M{} z", points.join(" L"))
}

#[cfg(test)]
mod tests {
    use super::looks;
    use crate::chart::{Kind, Mark, Series};

    fn series(name: &str, kind: Kind) -> Series {
        Series {
            name: name.to_owned(),
            kind,
            mark: Mark::Line,
            points: Vec::new(),
        }
    }

    #[test]
    fn twelve_series_differ_without_their_colour() {
        let mut all: Vec<Series> = (0..10)
            .map(|i| series(&format!("arm {i}!"), Kind::Variant))
            .collect();
        all.push(series("kernel", Kind::Peer));
        all.push(series("paper", Kind::Published));
        let looks = looks(&all);
        for (i, a) in looks.iter().enumerate() {
            for b in looks.iter().skip(i + 1) {
                assert!(
                    a.shape != b.shape || a.hollow != b.hollow || a.dash != b.dash,
                    "{a:?} {b:?}"
                );
                assert!((a.colour, a.hatch) != (b.colour, b.hatch), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_projection_looks_like_its_variant_but_hollow() {
        let all = [
            series("before", Kind::Variant),
            series("after", Kind::Variant),
            series("after, 8 CPUs", Kind::Model),
            series("after, 48 CPUs", Kind::Model),
        ];
        let looks = looks(&all);
        assert_eq!(
            (looks[1].colour, looks[1].shape),
            (looks[2].colour, looks[2].shape)
        );
        assert!(looks[2].hollow && !looks[1].hollow && looks[2].dash != looks[1].dash);
        assert_ne!(looks[3].colour, looks[2].colour);
    }
}

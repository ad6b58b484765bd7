//! Colour, marker and dash of each series: marker and dash distinguish series without colour.

use super::{Kind, Series};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use std::io;

/// What a chart is drawn on.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// A place on it.
pub(super) type Pixel = (i32, i32);
/// Whether something could be drawn.
pub(super) type Drawing = Result<(), DrawingAreaErrorKind<io::Error>>;

/// Okabe and Ito's colours without their yellow, which is too light for lines on white, and with two dark ones at the
/// end.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x7a, 0x5c, 0x00),
];
const PEER: RGBColor = RGBColor(0x22, 0x22, 0x22);
const PUBLISHED: RGBColor = RGBColor(0x77, 0x77, 0x77);
/// Half the size of a marker.
const RADIUS: i32 = 6;

/// The form of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Cross,
}

const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Cross];

/// How one series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) colour: RGBColor,
    /// A dash and the space after it; a solid line without.
    pub(super) dash: Option<(u32, u32)>,
    shape: Shape,
    hollow: bool,
}

impl Look {
    /// Of the series at `at`.
    pub(super) fn of(all: &[Series], at: usize) -> Self {
        let series = &all[at];
        let turn = at / SHAPES.len();
        Self {
            colour: match series.kind {
                Kind::Variant => PALETTE[at % PALETTE.len()],
                Kind::Peer => PEER,
                Kind::Published => PUBLISHED,
            },
            dash: match series.kind {
                Kind::Variant | Kind::Peer => [None, Some((16, 4)), Some((10, 4))][turn.min(2)],
                Kind::Published => Some((3, 4)),
            },
            shape: SHAPES[at % SHAPES.len()],
            hollow: turn % 2 == 1,
        }
    }

    /// Draws a line through points.
    pub(super) fn draw_line(&self, area: &Area<'_>, points: Vec<Pixel>) -> Drawing {
        let style = self.colour.stroke_width(2);
        match self.dash {
            None => area.draw(&PathElement::new(points, style)),
            Some((dash, space)) => area.draw(&DashedPathElement::new(points, dash, space, style)),
        }
    }

    /// Draws the marker of a point.
    pub(super) fn draw_marker(&self, area: &Area<'_>, at @ (x, y): Pixel) -> Drawing {
        let corners = |r: i32| [(x - r, y - r), (x + r, y + r)];
        let inside = if self.hollow { WHITE } else { self.colour };
        for (colour, r) in [(self.colour, RADIUS), (inside, RADIUS - 2)] {
            let style = colour.filled();
            match self.shape {
                Shape::Circle => area.draw(&Circle::new(at, r, style))?,
                Shape::Square => area.draw(&Rectangle::new(corners(r - 1), style))?,
                Shape::Triangle => area.draw(&TriangleMarker::new(at, r + 2, style))?,
                Shape::Cross if self.hollow => area.draw(&Circle::new(at, r, style))?,
                Shape::Cross => {}
            }
        }
        match self.shape {
            Shape::Cross => area.draw(&Cross::new(at, RADIUS - 1, self.colour.stroke_width(2))),
            Shape::Circle | Shape::Square | Shape::Triangle => Ok(()),
        }
    }
}

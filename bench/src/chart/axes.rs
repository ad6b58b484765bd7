//! The grid, the axes and their labels.

use crate::chart::frame::{Frame, XLabels};
use crate::chart::text::{length, shorten, width};
use crate::chart::{Chart, Scale};
use maud::{Markup, html};

/// Draws everything of a chart that is not data.
pub(crate) fn draw(chart: &Chart, frame: &Frame<'_>) -> Markup {
    html! {
        g class="grid" { (grid(frame)) (zero_line(frame)) }
        (x_ticks(chart, frame))
        g class="axis-y" fill="#444444" text-anchor="end" { (y_labels(frame)) }
        (x_labels(frame))
        g class="axis-titles" fill="#222222" {
            @for (line, y) in &frame.y_title {
                text x=(Frame::EDGE) y=(px(*y)) textLength=(long(line)) lengthAdjust="spacingAndGlyphs" { (line) }
            }
            @for (line, y) in &frame.x_title {
                text x=(px(f64::midpoint(frame.left, frame.right))) y=(px(*y)) text-anchor="middle"
                    textLength=(long(line)) lengthAdjust="spacingAndGlyphs" { (line) }
            }
        }
    }
}

/// The `textLength` of a label.
fn long(label: &str) -> String {
    length(width(label, Frame::TEXT))
}

/// A length to a tenth of a unit.
fn px(length: f64) -> String {
    format!("{length:.1}")
}

fn grid(frame: &Frame<'_>) -> Markup {
    html! {
        @for tick in &frame.y.ticks {
            @let y = frame.place_y(tick.value);
            @let (colour, width) = if tick.label.is_some() { ("#d9d9d9", "1") } else { ("#efefef", "0.7") };
            path d=(format!("M{:.1},{y:.1} H{:.1}", frame.left, frame.right)) stroke=(colour)
                stroke-width=(width) {}
        }
    }
}

/// The line that data stands on: the bottom, and zero where values fall below it.
fn zero_line(frame: &Frame<'_>) -> Markup {
    let base = frame.place_y(frame.y.base());
    html! {
        path d=(format!("M{:.1},{base:.1} H{:.1}", frame.left, frame.right)) stroke="#555555"
            stroke-width="1.3" {}
    }
}

fn x_ticks(chart: &Chart, frame: &Frame<'_>) -> Markup {
    if matches!(chart.x.scale, Scale::Categories(_)) {
        return html! {};
    }
    html! {
        g class="ticks-x" stroke="#555555" stroke-width="1" {
            @for tick in &frame.x.ticks {
                @let length = if tick.label.is_some() { 5.0 } else { 3.0 };
                path d=(format!("M{:.1},{:.1} v{length}", frame.place_x(tick.value), frame.bottom)) {}
            }
        }
    }
}

fn y_labels(frame: &Frame<'_>) -> Markup {
    let room = frame.left - Frame::EDGE - 7.0;
    html! {
        @for tick in &frame.y.ticks {
            @if let Some(label) = &tick.label {
                @let label = shorten(label, Frame::TEXT, room + 1.0);
                text x=(px(frame.left - 7.0)) y=(px(frame.place_y(tick.value) + 5.0))
                    textLength=(long(&label)) lengthAdjust="spacingAndGlyphs" { (label) }
            }
        }
    }
}

fn x_labels(frame: &Frame<'_>) -> Markup {
    match &frame.x_labels {
        XLabels::Level(labels) => html! {
            g class="axis-x" fill="#444444" text-anchor="middle" {
                @for (x, lines) in labels {
                    @for (at, line) in lines.iter().enumerate() {
                        text x=(px(*x)) y=(px(frame.bottom + 5.0 + Frame::LINE * (at as f64 + 1.0)))
                            textLength=(long(line)) lengthAdjust="spacingAndGlyphs" { (line) }
                    }
                }
            }
        },
        XLabels::Slanted(labels) => html! {
            g class="axis-x" fill="#444444" text-anchor="end" {
                @for (x, name) in labels {
                    @let (x, y) = (px(x + 4.0), px(frame.bottom + 15.0));
                    text x=(x) y=(y) transform=(format!("rotate(-45 {x} {y})"))
                        textLength=(long(name)) lengthAdjust="spacingAndGlyphs" { (name) }
                }
            }
        },
    }
}

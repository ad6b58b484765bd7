//! The legend below the plot: a swatch with the real marker and dash or hatch, and the name.

use crate::chart::Mark;
use crate::chart::frame::{Drawn, Frame};
use crate::chart::look::Look;
use crate::chart::marks::pattern_id;
use crate::chart::text::{length, shorten, width};
use maud::{Markup, html};

const SWATCH: f64 = 44.0;
/// Between swatch and name.
const GAP: f64 = 7.0;
const ROW: f64 = 22.0;
/// Entries take whole columns, so that those of one row stand below those of the row above.
const COLUMNS: usize = 6;

/// The place of one name.
pub(crate) struct Entry {
    x: f64,
    y: f64,
    name: String,
    full: String,
    look: Look,
    mark: Mark,
    at: usize,
}

/// Places the entries in rows from `top` on; returns them with the bottom of the last row.
pub(crate) fn place(drawn: &[Drawn<'_>], room: f64, top: f64) -> (Vec<Entry>, f64) {
    let column = room / COLUMNS as f64;
    let mut entries = Vec::new();
    let (mut row, mut used) = (0.0, 0);
    for d in drawn {
        let name = shorten(&d.series.name, Frame::TEXT, room - SWATCH - GAP);
        let wide = SWATCH + GAP + width(&name, Frame::TEXT) + 6.0;
        let columns = ((wide / column).ceil() as usize).clamp(2, COLUMNS);
        if used + columns > COLUMNS {
            row += 1.0;
            used = 0;
        }
        entries.push(Entry {
            x: Frame::EDGE + used as f64 * column,
            y: top + ROW * row + ROW / 2.0,
            name,
            full: d.series.name.clone(),
            look: d.look,
            mark: d.series.mark,
            at: d.at,
        });
        used += columns;
    }
    let rows = if entries.is_empty() { 0.0 } else { row + 1.0 };
    (entries, top + ROW * rows)
}

/// Draws the entries.
pub(crate) fn draw(frame: &Frame<'_>, id: &str) -> Markup {
    html! {
        g class="legend" fill="#222222" {
            @for entry in &frame.legend {
                (entry.swatch(id))
                text x=(format!("{:.1}", entry.x + SWATCH + GAP)) y=(format!("{:.1}", entry.y + 5.0))
                    textLength=(length(width(&entry.name, Frame::TEXT))) lengthAdjust="spacingAndGlyphs" {
                    (entry.name)
                    @if entry.name != entry.full { title { (entry.full) } }
                }
            }
        }
    }
}

impl Entry {
    fn swatch(&self, id: &str) -> Markup {
        let end = self.x + SWATCH;
        match self.mark {
            Mark::Bars => html! {
                rect x=(format!("{:.1}", self.x)) y=(format!("{:.1}", self.y - 7.0)) width=(SWATCH - 6.0)
                    height="14" fill=(self.look.fill(&pattern_id(id, self.at)))
                    stroke=(self.look.colour) stroke-width="1.2" {}
            },
            Mark::Line => html! {
                path d=(format!("M{:.1},{:.1} H{end:.1}", self.x, self.y)) stroke=(self.look.colour)
                    stroke-width=(self.look.line_width) stroke-dasharray=(self.look.dash) fill="none" {}
                (self.look.marker(self.x + SWATCH / 2.0, self.y, 4.6, None))
            },
            Mark::Dots => self.look.marker(self.x + SWATCH / 2.0, self.y, 4.6, None),
        }
    }
}

//! A chart as SVG: plotters places the axes, and everything else is drawn in pixels.

use super::axis::Span;
use super::look::{Area, Drawing, Look, Pixel};
use super::{Chart, Mark, Point, Scale, Series, written};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 640;
/// The plot with its axes.
const HEIGHT: u32 = 340;
/// About a letter's width, and from one line of text to the next.
const LETTER: i32 = 9;
const LINE: i32 = 21;
/// Space beside the plot and between entries of the legend.
const EDGE: i32 = 12;
const TEXT: i32 = 20;
/// What a legend shows of a line.
const SWATCH: i32 = 38;
/// The room for labels of the vertical axis.
const Y_LABELS: i32 = 88;
/// The spread of more series than this is in the table only, unless they are bars.
const WHISKERS_MAX: usize = 4;
/// Of the distance between two categories, what their bars take.
const BAND: f64 = 0.8;
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xd9, 0xd9, 0xd9);

/// A series with its points that have a place.
struct Drawn<'a> {
    series: &'a Series,
    look: Look,
    points: Vec<&'a Point>,
    /// Where its bars stand beside the middle of a category.
    offset: f64,
}

impl Chart {
    /// The chart as an SVG file of its own, which may also stand in an HTML page beside others.
    ///
    /// # Errors
    /// None is known: it is drawn in memory.
    pub fn svg(&self) -> anyhow::Result<String> {
        let drawn = self.drawn();
        let legend = Legend::of(&drawn);
        let columns = |letter| (WIDTH as i32 - 2 * EDGE) / letter;
        let title = wrap(&self.title, columns(LETTER + 3) as usize);
        let subtitle = wrap(&self.subtitle, columns(LETTER) as usize);
        let names = self.names();
        let top = (title.len() as i32 + 1) * (LINE + 4) + subtitle.len() as i32 * LINE;
        let below = LINE * names.iter().map(Vec::len).max().unwrap_or(1) as i32;
        let height = top + HEIGHT as i32 + below + legend.height;
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, height as u32));
            let root = root.into_drawing_area();
            root.fill(&WHITE)?;
            let mut y = EDGE;
            for (lines, size, step) in [(&title, TEXT + 4, LINE + 4), (&subtitle, TEXT, LINE)] {
                for line in lines {
                    text(&root, line, size, (EDGE, y), HPos::Left)?;
                    y += step;
                }
            }
            self.draw(
                &root.margin(top, legend.height, EDGE, 2 * EDGE),
                &root,
                &drawn,
                &names,
            )?;
            legend.draw(&root, height - legend.height)?;
            root.present()?;
        }
        Ok(written(&svg))
    }

    /// The series that have a point with a place.
    fn drawn(&self) -> Vec<Drawn<'_>> {
        let bars = self
            .series
            .iter()
            .filter(|s| s.mark == Mark::Bars)
            .count()
            .max(1) as f64;
        let mut slot = 0.0;
        let mut drawn = Vec::new();
        for (at, series) in self.series.iter().enumerate() {
            let has_place = |p: &&Point| self.x.has(p.x) && self.y.has(p.y);
            let points: Vec<&Point> = series.points.iter().filter(has_place).collect();
            let mut offset = 0.0;
            if series.mark == Mark::Bars {
                offset = (slot - (bars - 1.0) / 2.0) * BAND / bars;
                slot += 1.0;
            }
            if !points.is_empty() {
                let look = Look::of(&self.series, at);
                drawn.push(Drawn {
                    series,
                    look,
                    points,
                    offset,
                });
            }
        }
        drawn
    }

    /// The names of the categories, in lines: a word that is too long breaks after its hyphens.
    fn names(&self) -> Vec<Vec<String>> {
        let Scale::Categories(names) = &self.x.scale else {
            return Vec::new();
        };
        let room = (WIDTH as i32 - Y_LABELS) / names.len().max(1) as i32;
        let letters = (room / LETTER) as usize;
        let lines = |part: &str| match part.chars().count() <= letters {
            true => vec![part.to_owned()],
            false => wrap(&part.replace('-', "- "), letters),
        };
        let of_name = |name: &String| name.split(", ").flat_map(lines).collect();
        names.iter().map(of_name).collect()
    }

    /// Draws axes and series. `root` has the pixels that plotters calculates for `area`, which is a part of it.
    fn draw<'a>(
        &self,
        area: &Area<'a>,
        root: &Area<'a>,
        drawn: &[Drawn<'_>],
        names: &[Vec<String>],
    ) -> Drawing {
        let points = || drawn.iter().flat_map(|d| &d.points);
        let xs: Vec<f64> = points().map(|p| p.x).collect();
        let ends = |p: &&Point| [p.y, p.spread.0, p.spread.1];
        let ys: Vec<f64> = points().flat_map(ends).filter(|y| self.y.has(*y)).collect();
        let y_span = Span::of_y(&self.y, &ys);
        let base = y_span.base();
        let below = LINE * names.iter().map(Vec::len).max().unwrap_or(1) as i32;
        let mut plot = ChartBuilder::on(area)
            .x_label_area_size(below + 2 * LINE)
            .y_label_area_size(Y_LABELS)
            .build_cartesian_2d(Span::of_x(&self.x, &xs), y_span)?;
        plot.configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(("sans-serif", TEXT))
            .x_desc(self.x.label.clone())
            .y_desc(self.y.label.clone())
            .draw()?;
        let plot = plot.plotting_area();
        let place = |x: f64, y: f64| plot.map_coordinate(&(x, y));
        let (_, bottom) = plot.get_pixel_range();
        for (at, lines) in names.iter().enumerate() {
            let (x, _) = place(at as f64, base);
            for (line, nth) in lines.iter().zip(0..) {
                let below = (x, bottom.end + 8 + LINE * nth);
                text(root, line, TEXT, below, HPos::Center)?;
            }
        }
        if drawn.is_empty() {
            let (x, y) = plot.get_pixel_range();
            let middle = (i32::midpoint(x.start, x.end), i32::midpoint(y.start, y.end));
            return text(root, "no data", TEXT, middle, HPos::Center);
        }
        let bars = drawn.iter().filter(|d| d.series.mark == Mark::Bars).count();
        let spread = |d: &&Drawn<'_>| d.points.iter().any(|p| p.spread.0 < p.spread.1);
        let whiskers = bars > 0 || drawn.iter().filter(spread).count() <= WHISKERS_MAX;
        let half = BAND / bars.max(1) as f64 * 0.46;
        for d in drawn {
            let places = d.points.iter().map(|p| place(p.x + d.offset, p.y));
            if d.series.mark == Mark::Line {
                d.look.draw_line(root, places.clone().collect())?;
            }
            for (p, at) in d.points.iter().zip(places) {
                if d.series.mark == Mark::Bars {
                    let x = p.x + d.offset;
                    let corners = [place(x - half, base), place(x + half, p.y)];
                    root.draw(&Rectangle::new(corners, d.look.colour.mix(0.5).filled()))?;
                    root.draw(&Rectangle::new(corners, d.look.colour))?;
                }
                if whiskers && p.spread.0 < p.spread.1 {
                    let low = Some(p.spread.0).filter(|low| self.y.has(*low));
                    let low = low.unwrap_or(p.y);
                    let ends = [low, p.spread.1].map(|value| place(p.x, value).1);
                    whisker(root, d.look.colour, at.0, ends)?;
                }
                d.look.draw_marker(root, at)?;
            }
        }
        Ok(())
    }
}

/// Draws the spread of a point at `x`, from one end to the other.
fn whisker(area: &Area<'_>, colour: RGBColor, x: i32, [low, high]: [i32; 2]) -> Drawing {
    area.draw(&PathElement::new([(x, low), (x, high)], colour))?;
    for end in [low, high] {
        area.draw(&PathElement::new([(x - 5, end), (x + 5, end)], colour))?;
    }
    Ok(())
}

/// Draws a line of text below a place.
fn text(area: &Area<'_>, text: &str, size: i32, at: Pixel, h_pos: HPos) -> Drawing {
    let style = TextStyle::from(("sans-serif", size)).color(&INK);
    area.draw_text(text, &style.pos(Pos::new(h_pos, VPos::Top)), at)
}

/// The text in lines of at most so many letters, where its words permit.
fn wrap(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The names of the series below the plot, each with its marker.
struct Legend<'a> {
    entries: Vec<(Pixel, &'a Drawn<'a>)>,
    height: i32,
}

impl<'a> Legend<'a> {
    fn of(drawn: &'a [Drawn<'a>]) -> Self {
        let (mut x, mut y) = (EDGE, EDGE);
        let mut entries = Vec::new();
        for d in drawn {
            let width = SWATCH + EDGE + LETTER * d.series.name.chars().count() as i32;
            if x > EDGE && x + width > WIDTH as i32 {
                (x, y) = (EDGE, y + LINE + 5);
            }
            entries.push(((x, y), d));
            x += width + EDGE;
        }
        let height = y + LINE + EDGE;
        Self { entries, height }
    }

    fn draw(&self, root: &Area<'_>, top: i32) -> Drawing {
        for ((x, y), d) in &self.entries {
            let middle = top + y + LINE / 2;
            if d.series.mark == Mark::Line {
                d.look
                    .draw_line(root, vec![(*x, middle), (x + SWATCH, middle)])?;
            }
            d.look.draw_marker(root, (x + SWATCH / 2, middle))?;
            text(
                root,
                &d.series.name,
                TEXT,
                (x + SWATCH + EDGE / 2, top + y),
                HPos::Left,
            )?;
        }
        Ok(())
    }
}

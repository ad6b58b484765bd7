//! The range and the ticks of an axis, as plotters places them.

use super::{Axis, Scale};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use std::ops::Range;

/// Up to so many different counts are ticks themselves.
const COUNTS_MAX: usize = 9;
/// About so many ticks fit on an axis.
const TICKS: usize = 8;
/// 1, 2 and 5 are ticks of each power of ten where there are not more of these.
const DECADES_FEW: f64 = 2.5;

/// An axis of a chart.
#[derive(Clone)]
pub(super) struct Span<'a> {
    axis: &'a Axis,
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl<'a> Span<'a> {
    /// The horizontal axis, from the first value to the last.
    pub(super) fn of_x(axis: &'a Axis, values: &[f64]) -> Self {
        let mut counts = values.to_vec();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        let (low, high) = ends(&counts, &axis.scale);
        let (range, ticks) = match &axis.scale {
            // Their names are drawn beside the axis, in lines.
            Scale::Categories(names) => (-0.5..names.len().max(1) as f64 - 0.5, Vec::new()),
            Scale::Linear => linear(low, high),
            Scale::Log => {
                let margin = (high / low).powf(0.04).max(1.1);
                let few = counts.len() <= COUNTS_MAX && high / low <= 1e6;
                let ticks = if few { counts } else { powers(low, high) };
                (low / margin..high * margin, ticks)
            }
        };
        Self { axis, range, ticks }
    }

    /// The vertical axis: from zero where it is linear, between two ticks where it is logarithmic.
    pub(super) fn of_y(axis: &'a Axis, values: &[f64]) -> Self {
        let (low, high) = ends(values, &axis.scale);
        let (range, ticks) = match &axis.scale {
            Scale::Linear | Scale::Categories(_) => linear(low.min(0.0), high.max(0.0) * 1.04),
            Scale::Log => {
                let [low, high] = [below(low / 1.1), 1.0 / below(1.0 / (high * 1.1))];
                (low..high, powers(low, high))
            }
        };
        Self { axis, range, ticks }
    }

    /// Where bars stand.
    pub(super) fn base(&self) -> f64 {
        match self.axis.scale {
            Scale::Log => self.range.start,
            Scale::Linear | Scale::Categories(_) => 0.0,
        }
    }
}

/// The least and the greatest value; something to draw a frame with where there is none.
fn ends(values: &[f64], scale: &Scale) -> (f64, f64) {
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    match (low.zip(high), scale) {
        (Some(both), _) => both,
        (None, Scale::Log) => (1.0, 10.0),
        (None, Scale::Linear | Scale::Categories(_)) => (0.0, 1.0),
    }
}

fn linear(low: f64, high: f64) -> (Range<f64>, Vec<f64>) {
    let high = if high > low { high } else { low + 1.0 };
    let ticks = RangedCoordf64::from(low..high).key_points(TICKS);
    (low..high, ticks)
}

/// The greatest of 1, 2 and 5 times a power of ten that is not above `value`.
fn below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let steps = [5.0, 2.0].map(|step| step * decade);
    steps
        .into_iter()
        .find(|step| *step <= value * (1.0 + 1e-9))
        .unwrap_or(decade)
}

/// Powers of ten, with twice and five times each where there are few of them.
fn powers(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = if decades < DECADES_FEW {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let [first, last] = [low.log10().floor(), high.log10().ceil()].map(|power| power as i32);
    let of_power = |power: i32| steps.iter().map(move |step| step * 10f64.powi(power));
    let within = low * (1.0 - 1e-9)..=high * (1.0 + 1e-9);
    let all: Vec<f64> = (first..=last)
        .flat_map(of_power)
        .filter(|value| within.contains(value))
        .collect();
    let stride = all.len().div_ceil(TICKS).max(1);
    all.into_iter().step_by(stride).collect()
}

impl Ranged for Span<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| match self.axis.scale {
            Scale::Log => value.ln(),
            Scale::Linear | Scale::Categories(_) => value,
        };
        let [at, low, high] = [*value, self.range.start, self.range.end].map(place);
        let length = f64::from(limit.1 - limit.0);
        limit.0 + (((at - low) / (high - low)).clamp(0.0, 1.0) * length).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Span<'_> {
    fn format_ext(&self, value: &f64) -> String {
        self.axis.text(*value)
    }
}

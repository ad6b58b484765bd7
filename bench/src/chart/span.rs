//! The range of an axis and its ticks.

use crate::chart::Scale;
use crate::chart::number::{number, tick_label};

/// Values beyond this are left out: sums and ratios of them would overflow.
const PLOTTABLE_MAX: f64 = 1e100;
/// Up to so many different counts are ticks themselves on a logarithmic axis.
const DATA_TICKS_MAX: usize = 9;
/// At most about so many steps on a linear axis.
const LINEAR_STEPS: f64 = 6.5;

/// A place on an axis; one without a label is a minor tick.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: Option<String>,
}

/// The range of an axis with its ticks.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<Tick>,
    log: bool,
}

/// Whether a value has a place on an axis of this scale.
pub(crate) fn plottable(value: f64, scale: &Scale) -> bool {
    let finite = value.is_finite() && value.abs() <= PLOTTABLE_MAX;
    finite
        && match scale {
            // A step between ticks of less would be zero.
            Scale::Linear => value == 0.0 || value.abs() >= 1.0 / PLOTTABLE_MAX,
            Scale::Log => value >= 1.0 / PLOTTABLE_MAX,
            Scale::Categories(names) => value > -0.5 && value < names.len() as f64 - 0.5,
        }
}

impl Span {
    /// The horizontal axis: from the first value to the last.
    pub(crate) fn of_x(scale: &Scale, values: &[f64]) -> Self {
        let (low, high) = range(values, scale);
        match scale {
            Scale::Categories(names) => Self::of_names(names),
            // A range that starts near zero, seen from its end, may as well start there.
            Scale::Linear if low >= 0.0 && low <= high / 2.0 => Self::linear(0.0, high),
            Scale::Linear => Self::linear(low, high),
            Scale::Log => {
                let mut counts = values.to_vec();
                counts.sort_by(f64::total_cmp);
                counts.dedup();
                let few = counts.len() <= DATA_TICKS_MAX && high / low <= 1000.0;
                let ticks = if few && !counts.is_empty() {
                    counts.into_iter().map(named).collect()
                } else {
                    log_ticks(low, high)
                };
                let (low, high) = if low < high {
                    (low, high)
                } else {
                    (low / 2.0, high * 2.0)
                };
                Self {
                    low,
                    high,
                    ticks,
                    log: true,
                }
            }
        }
    }

    /// The vertical axis: from zero where it is linear, padded where it is logarithmic; bars
    /// on a logarithmic axis stand on a power of ten.
    pub(crate) fn of_y(scale: &Scale, values: &[f64], bars: bool) -> Self {
        let (low, high) = range(values, scale);
        match scale {
            Scale::Categories(names) => Self::of_names(names),
            Scale::Linear => Self::linear(low.min(0.0), high.max(0.0)),
            Scale::Log => {
                let pad = 10f64.powf(((high / low).log10() * 0.06).max(0.12));
                let low = if bars {
                    10f64.powf((low / 1.5).log10().floor())
                } else {
                    low / pad
                };
                let high = high * pad;
                Self {
                    low,
                    high,
                    ticks: log_ticks(low, high),
                    log: true,
                }
            }
        }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(crate) fn fraction(&self, value: f64) -> f64 {
        let part = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        part.clamp(0.0, 1.0)
    }

    /// Where bars stand.
    pub(crate) fn base(&self) -> f64 {
        if self.log {
            self.low
        } else {
            0f64.clamp(self.low, self.high)
        }
    }

    fn of_names(names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(at, name)| Tick {
            value: at as f64,
            label: Some(name.clone()),
        });
        Self {
            low: -0.5,
            high: names.len().max(1) as f64 - 0.5,
            ticks: ticks.collect(),
            log: false,
        }
    }

    fn linear(low: f64, high: f64) -> Self {
        let high = if high > low {
            high
        } else {
            low + low.abs().max(1.0)
        };
        let step = nice_step((high - low) / LINEAR_STEPS);
        let first = (low / step + 1e-9).floor();
        let last = (high / step - 1e-9).ceil();
        let count = (last - first).clamp(1.0, 4.0 * LINEAR_STEPS) as u32;
        let ticks: Vec<Tick> = (0..=count)
            .map(|i| (first + f64::from(i)) * step)
            .map(|value| Tick {
                value,
                label: Some(tick_label(value, step)),
            })
            .collect();
        Self {
            low: first * step,
            high: last * step,
            ticks,
            log: false,
        }
    }
}

fn named(value: f64) -> Tick {
    Tick {
        value,
        label: Some(number(value)),
    }
}

/// The smallest and the largest value; something to draw a frame with where there is none.
fn range(values: &[f64], scale: &Scale) -> (f64, f64) {
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    match (low, high, scale) {
        (Some(low), Some(high), _) => (low, high),
        (_, _, Scale::Log) => (1.0, 10.0),
        _ => (0.0, 1.0),
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn nice_step(rough: f64) -> f64 {
    let decade = 10f64.powf(rough.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0];
    let times = nice
        .into_iter()
        .find(|n| n * decade >= rough * (1.0 - 1e-9));
    times.unwrap_or(10.0) * decade
}

fn log_ticks(low: f64, high: f64) -> Vec<Tick> {
    let decades = (high / low).log10();
    // 1, 2, 5 where few powers of ten fall into the range, all nine where even these are few.
    let labelled: &[u32] = match decades {
        d if d < 0.5 => &[1, 2, 3, 4, 5, 6, 7, 8, 9],
        d if d < 1.6 => &[1, 2, 5],
        _ => &[1],
    };
    let stride = (decades / 7.0).ceil().max(1.0) as i32;
    let mut ticks = Vec::new();
    for exponent in low.log10().floor() as i32..=high.log10().ceil() as i32 {
        for times in 1..=9 {
            // From text: 10^-3 by multiplication is not the number that is written 0.001.
            let value = format!("{times}e{exponent}").parse().unwrap_or(f64::MAX);
            if value < low * (1.0 - 1e-9) || value > high * (1.0 + 1e-9) {
                continue;
            }
            let named_here = labelled.contains(&times) && exponent % stride == 0;
            if named_here {
                ticks.push(named(value));
            } else if stride == 1 && decades < 5.0 {
                ticks.push(Tick { value, label: None });
            }
        }
    }
    if ticks.iter().filter(|tick| tick.label.is_some()).count() >= 2 {
        return ticks;
    }
    // Less than one digit's step: as on a linear axis, within the range.
    let inside = |tick: &Tick| tick.value >= low && tick.value <= high;
    Span::linear(low, high)
        .ticks
        .into_iter()
        .filter(inside)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Span, plottable};
    use crate::chart::Scale;

    fn labels(span: &Span) -> Vec<&str> {
        span.ticks
            .iter()
            .filter_map(|t| t.label.as_deref())
            .collect()
    }

    #[test]
    fn linear_ticks_are_nice_and_start_at_zero() {
        let span = Span::of_y(&Scale::Linear, &[120_000.0, 810_000.0], false);
        assert_eq!(
            labels(&span),
            ["0", "200 k", "400 k", "600 k", "800 k", "1 M"]
        );
        assert_eq!((span.low, span.high), (0.0, 1e6));
        let small = Span::of_y(&Scale::Linear, &[0.97, 1.0], false);
        assert_eq!(labels(&small), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn losses_reach_below_zero() {
        let span = Span::of_y(&Scale::Linear, &[-12.0, 70.0], false);
        assert_eq!(labels(&span).first(), Some(&"\u{2212}20"));
        assert_eq!(span.base(), 0.0);
        let all_below = Span::of_y(&Scale::Linear, &[-12.0], false);
        assert_eq!(all_below.high, 0.0);
    }

    #[test]
    fn counts_of_workers_are_their_own_ticks() {
        let workers = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 2.0];
        let span = Span::of_x(&Scale::Log, &workers);
        assert_eq!(labels(&span), ["1", "2", "4", "8", "16", "32", "64", "128"]);
        let wide = Span::of_x(&Scale::Log, &[10.0, 1e2, 1e3, 1e4, 1e5]);
        assert_eq!(labels(&wide), ["10", "100", "1 k", "10 k", "100 k"]);
    }

    #[test]
    fn log_ranges_are_padded_and_have_minor_ticks() {
        let span = Span::of_y(&Scale::Log, &[900.0, 810_000.0], false);
        assert!(span.low < 900.0 && span.high > 810_000.0);
        assert_eq!(labels(&span), ["1 k", "10 k", "100 k", "1 M"]);
        assert!(span.ticks.iter().any(|tick| tick.label.is_none()));
        let one_decade = Span::of_y(&Scale::Log, &[100.0, 800.0], false);
        assert_eq!(labels(&one_decade), ["100", "200", "500", "1 k"]);
        let bars = Span::of_y(&Scale::Log, &[150.0, 800.0], true);
        assert!((bars.base() - 100.0).abs() < 1e-6);
    }

    #[test]
    fn any_range_has_some_ticks_and_never_too_many() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [
                vec![],
                vec![1.0],
                vec![5.0, 5.0],
                vec![1e-90, 1e90],
                vec![1000.0, 1000.1],
                vec![1e16, 1e16 + 2.0],
                vec![3.0, 3.4],
            ] {
                for span in [
                    Span::of_x(&scale, &values),
                    Span::of_y(&scale, &values, false),
                ] {
                    let count = labels(&span).len();
                    assert!((1..=25).contains(&count), "{scale:?} {values:?}: {span:?}");
                    assert!(span.low < span.high, "{scale:?} {values:?}: {span:?}");
                    assert!(values.iter().all(|v| span.fraction(*v).is_finite()));
                }
            }
        }
    }

    #[test]
    fn what_has_no_place_is_not_plottable() {
        assert!(!plottable(f64::NAN, &Scale::Linear));
        assert!(!plottable(f64::INFINITY, &Scale::Linear));
        assert!(plottable(0.0, &Scale::Linear) && !plottable(0.0, &Scale::Log));
        assert!(!plottable(5e-324, &Scale::Linear) && plottable(-1e-9, &Scale::Linear));
        let one = Scale::Categories(vec!["a".to_owned()]);
        assert!(plottable(0.0, &one) && !plottable(1.0, &one));
    }
}

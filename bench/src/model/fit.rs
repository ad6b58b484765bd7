//! Fitting one number of a variant to some of its points, and what the others say of it.
//!
//! # Invariants
//! One number is fitted for each variant, within bounds that its meaning gives. It is the one with the least sum of
//! squared logarithms of model over measurement, so that being twice too fast is as bad as being twice too slow.
//! Squares are weighted by how long the measured run was: in one that is as short as a tick of the scheduler two
//! workers may have shared a CPU while the other was idle, and it says little.
//!
//! The rest of the points is never looked at before the errors are computed. A point is the fastest round of its count
//! ([`Measured::undisturbed`]); the error against the median stands beside it.

use crate::model::document::Measured;
use crate::model::engine::{Machine, Run};
use crate::model::parameters::Parameters;
use crate::model::result::{Acquisitions, CorePoint, Cost, FitPoint, VariantModel};

/// Simulates a variant on a machine with so many workers and the number that is fitted.
pub type Simulate<'a> = &'a dyn Fn(&Machine, usize, f64) -> Run;

/// A variant that is fitted.
pub struct Subject<'a> {
    pub points: Vec<Measured>,
    /// The counts to fit to.
    pub counts: &'a [usize],
    /// What the number may be.
    pub bounds: (f64, f64),
    /// As it was measured.
    pub simulate: Simulate<'a>,
}

/// A variant that was fitted.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The number.
    pub value: f64,
    /// Model and measurement.
    pub points: Vec<FitPoint>,
    /// The worst error of those that were not fitted; nothing where all were.
    pub worst_error_percent: Option<f64>,
    /// Acquisitions that the model counts, at each count.
    acquisitions: Vec<(usize, f64)>,
}

/// A tick of Linux's scheduler at 250 Hz, in seconds: after that at the latest an idle CPU gets work from a busy one.
const TICK_S: f64 = 0.004;

/// Steps of the search; each leaves 0.618 of the range.
const STEPS: usize = 13;

impl Subject<'_> {
    /// Fits the number on the machine that was measured, and compares.
    pub fn fit(&self, here: &Machine) -> Fitted {
        let fitted: Vec<&Measured> = self.points.iter().filter(|p| self.is_fitted(p)).collect();
        let error = |value: f64| -> f64 {
            let log = |p: &&Measured| {
                let modelled = (self.simulate)(here, p.count, value).ops_per_s;
                weight(p) * (modelled.max(1e-9) / p.undisturbed()).ln().powi(2)
            };
            fitted.iter().map(log).sum()
        };
        let value = least(self.bounds, error);
        let mut points = Vec::new();
        let mut acquisitions = Vec::new();
        for measured in &self.points {
            let run = (self.simulate)(here, measured.count, value);
            acquisitions.push((measured.count, run.acquisitions_per_op));
            points.push(FitPoint {
                count: measured.count,
                measured_min: measured.min,
                measured: measured.median,
                measured_max: measured.max,
                modelled: run.ops_per_s,
                error_percent: (run.ops_per_s / measured.undisturbed() - 1.0) * 100.0,
                error_to_median_percent: (run.ops_per_s / measured.median - 1.0) * 100.0,
                fitted: self.is_fitted(measured),
            });
        }
        let held_out = points.iter().filter(|point| !point.fitted);
        let worst = held_out.map(|point| point.error_percent.abs());
        Fitted {
            value,
            worst_error_percent: worst.reduce(f64::max),
            points,
            acquisitions,
        }
    }

    fn is_fitted(&self, point: &Measured) -> bool {
        self.counts.contains(&point.count)
    }
}

impl Fitted {
    /// The variant; `measured` gives the acquisitions of its lock for each operation at a count.
    pub fn variant(
        self,
        name: &str,
        costs: Vec<Cost>,
        projected: Vec<CorePoint>,
        measured: impl Fn(usize) -> Option<f64>,
    ) -> VariantModel {
        let both = |&(count, modelled): &(usize, f64)| {
            let measured = measured(count)?;
            Some(Acquisitions {
                count,
                measured,
                modelled,
            })
        };
        VariantModel {
            name: name.to_owned(),
            costs,
            projected,
            acquisitions_per_op: self.acquisitions.iter().filter_map(both).collect(),
            worst_error_percent: self.worst_error_percent,
            points: self.points,
            other_machines: Vec::new(),
        }
    }
}

/// Half for a run that is as long as a tick of the scheduler, one for a long run.
fn weight(point: &Measured) -> f64 {
    match point.seconds {
        seconds if seconds.is_finite() => seconds / (seconds + TICK_S),
        _ => 1.0,
    }
}

/// Where `error` is least between `bounds`, by golden section of their logarithms.
fn least((low, high): (f64, f64), error: impl Fn(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let at = |log: f64| error(log.exp());
    let (mut low, mut high) = (low.ln(), high.ln());
    let mut left = high - GOLDEN * (high - low);
    let mut right = low + GOLDEN * (high - low);
    let (mut at_left, mut at_right) = (at(left), at(right));
    for _ in 0..STEPS {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = at(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = at(right);
        }
    }
    f64::midpoint(low, high).exp()
}

/// Rates with one worker a core of the projected machines; `machine` changes what differs from the parameters.
pub fn project(
    parameters: &Parameters,
    machine: impl Fn(Machine) -> Machine,
    rate: impl Fn(&Machine) -> f64,
) -> Vec<CorePoint> {
    let at = |cores: usize, line: f64| {
        rate(&machine(
            parameters.machine(cores, parameters.machine.line_ns * line),
        ))
    };
    let point = |cores| CorePoint {
        cores,
        ops_per_s: at(cores, 1.0),
        at_half_line_cost: at(cores, 0.5),
        at_double_line_cost: at(cores, 2.0),
    };
    parameters.sane_cores().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject<'a>(
        simulate: Simulate<'a>,
        rates: &[(usize, f64)],
        counts: &'a [usize],
    ) -> Subject<'a> {
        let point = |&(count, median): &(usize, f64)| Measured {
            count,
            min: median,
            median,
            max: median,
            seconds: f64::INFINITY,
        };
        Subject {
            points: rates.iter().map(point).collect(),
            counts,
            bounds: (0.5, 8.0),
            simulate,
        }
    }

    #[test]
    fn finds_the_number_and_tells_the_error_of_the_rest() {
        let simulate = |_: &Machine, workers: usize, value: f64| Run {
            ops_per_s: workers as f64 * 100.0 / value,
            acquisitions_per_op: 2.0,
        };
        let here = Parameters::default().here(2);
        let fitted = subject(&simulate, &[(1, 40.0), (2, 100.0), (4, 160.0)], &[1, 4]).fit(&here);
        assert!((fitted.value - 2.5).abs() < 0.02, "{}", fitted.value);
        assert!((fitted.worst_error_percent.expect("one was held out") - 20.0).abs() < 1.0);
        let kinds: Vec<bool> = fitted.points.iter().map(|p| p.fitted).collect();
        assert_eq!(kinds, [true, false, true]);
        let counted = |count| (count != 2).then_some(1.0);
        let variant = fitted.variant("a", Vec::new(), Vec::new(), counted);
        assert_eq!(variant.acquisitions_per_op.len(), 2);
    }

    #[test]
    fn a_run_as_short_as_a_tick_counts_half() {
        let point = |seconds| Measured {
            count: 2,
            min: 1.0,
            median: 1.0,
            max: 1.0,
            seconds,
        };
        assert_eq!(weight(&point(TICK_S)), 0.5);
        assert_eq!(weight(&point(f64::INFINITY)), 1.0);
        assert!(weight(&point(1.0)) > 0.99);
    }

    #[test]
    fn stays_within_its_bounds() {
        let simulate = |_: &Machine, _: usize, value: f64| Run {
            ops_per_s: 1.0 / value,
            acquisitions_per_op: 0.0,
        };
        let here = Parameters::default().here(2);
        let fitted = subject(&simulate, &[(1, 1e9)], &[1]).fit(&here);
        assert!((0.5..0.52).contains(&fitted.value));
    }
}

//! Splitting the time of an operation into what is measured of it.

use crate::model::Omitted;
use crate::model::document::{Document, Measured};
use crate::model::engine::Machine;
use crate::model::fit::{self, Subject};
use crate::model::parameters::Parameters;
use crate::model::result::{CorePoint, Cost, VariantModel};
use crate::model::script::{Part, play};

/// By how much two busy CPUs may slow each other down, or what was shared was cheaper than taken for.
pub const SLOWDOWN: (f64, f64) = (0.5, 6.0);

/// Every variant of a document that `model` can make, and a remark for each of the others.
pub fn variants(
    document: &Document,
    ops: &[&str],
    model: impl Fn(&str) -> Result<VariantModel, Omitted>,
) -> (Vec<VariantModel>, Vec<String>) {
    let (mut variants, mut remarks) = (Vec::new(), Vec::new());
    for name in document.variants(ops) {
        match model(&name) {
            Ok(variant) => variants.push(variant),
            Err(why) => remarks.push(format!("{name} is left out: {why}.")),
        }
    }
    (variants, remarks)
}

/// A variant whose operation is the same parts each time.
pub struct Scripted<'a> {
    /// What was measured.
    pub document: &'a Document,
    /// What is assumed.
    pub parameters: &'a Parameters,
    pub name: &'a str,
    pub ops: &'a [&'a str],
    /// The counts to fit to.
    pub counts: &'a [usize],
    /// The class of its lock, where it has one.
    pub class: Option<&'a str>,
}

impl Scripted<'_> {
    /// Fits by how much busy CPUs slow each other down, and projects. `parts` gets that number.
    pub fn model(&self, mut costs: Vec<Cost>, parts: impl Fn(f64) -> Vec<Part>) -> VariantModel {
        let Scripted {
            document,
            parameters,
            name,
            ops,
            ..
        } = *self;
        let simulate = |machine: &Machine, workers: usize, slowdown: f64| {
            let slowdown = if workers > 1 { slowdown } else { 1.0 };
            play(&parts(slowdown), machine, workers, parameters)
        };
        let subject = Subject {
            points: document.measured(name, ops),
            counts: self.counts,
            bounds: SLOWDOWN,
            simulate: &simulate,
        };
        let fitted = subject.fit(&parameters.here(document.cpus()));
        costs.push(slowdown_cost(fitted.value));
        let rate = |machine: &Machine| simulate(machine, machine.cores, fitted.value).ops_per_s;
        let measured = |count| Some(document.row(name, ops, count)?.lock(self.class?)?.per_op);
        let projected = fit::project(parameters, |m| m, rate);
        fitted.variant(name, costs, projected, measured)
    }
}

/// What an operation takes of one worker alone.
pub fn alone_ns(points: &[Measured]) -> Result<f64, Omitted> {
    let alone = points.iter().find(|point| point.count == 1);
    alone
        .map(|point| 1e9 / point.undisturbed())
        .ok_or_else(|| "one worker was not measured".to_owned())
}

/// How long one worker holds a lock, less what reading the clock takes; at least a nanosecond.
pub fn net_hold_ns(
    document: &Document,
    variant: &str,
    ops: &[&str],
    class: &str,
) -> Result<f64, Omitted> {
    let row = document.row(variant, ops, 1);
    let lock = row.and_then(|row| row.lock(class));
    lock.filter(|lock| lock.acquisitions > 0.0)
        .map(|lock| (lock.hold_ns() - document.clock_ns()).max(1.0))
        .ok_or_else(|| format!("no lock statistics of {class} at one worker"))
}

/// For the page.
pub fn cpu_cost(ns: f64) -> Cost {
    Cost::new(
        "CPU time",
        ns,
        "ns",
        "of an operation: the plain rate of one worker",
    )
}

/// For the page.
pub fn hold_cost(ns: f64) -> Cost {
    Cost::new(
        "hold",
        ns,
        "ns",
        "lock statistics at one worker, less the clock's own time",
    )
}

/// For the page.
pub fn slowdown_cost(times: f64) -> Cost {
    Cost::new(
        "slowdown",
        times,
        "times",
        "fitted: what CPUs that are all busy take longer for the same work",
    )
}

/// The first and the last count of cores of a projection, if there are two.
pub fn ends(variant: &VariantModel) -> Option<(&CorePoint, &CorePoint)> {
    let (first, last) = (variant.projected.first()?, variant.projected.last()?);
    (first.cores < last.cores).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_alone_tells_the_time() {
        let at = |count| Measured {
            count,
            min: 1.0,
            median: 2e6,
            max: 3e6,
            seconds: 1.0,
        };
        let alone = alone_ns(&[at(2), at(1)]).expect("was measured");
        assert!((alone - 1e9 / 3e6).abs() < 1e-6, "the fastest round tells");
        assert!(alone_ns(&[at(2)]).is_err() && alone_ns(&[]).is_err());
    }
}

//! What a projection gives; a page draws it.

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Projection {
    /// What is assumed of machines.
    pub parameters: Vec<Cost>,
    /// What the model takes for granted, in plain words.
    pub assumptions: Vec<String>,
    /// Those that were measured.
    pub mechanisms: Vec<Mechanism>,
    /// What was left out, and why.
    pub remarks: Vec<String>,
}

/// A mechanism with its variants.
#[derive(Clone, Debug, Serialize)]
pub struct Mechanism {
    /// Short and fixed.
    pub name: String,
    /// For a heading.
    pub title: String,
    /// Of all rates.
    pub unit: String,
    /// What is counted in the measurement: workers, tasks or threads.
    pub counts: String,
    /// Its variants, in the order of the measurement.
    #[serde(rename = "arms")]
    pub variants: Vec<VariantModel>,
    /// What was published; never fitted to.
    pub published: Vec<Curve>,
    /// What the numbers of this run say beside the published ones.
    pub remarks: Vec<String>,
}

/// A variant: what it costs, how well the model meets what was measured, and what it projects.
#[derive(Clone, Debug, Serialize)]
pub struct VariantModel {
    /// Its name in the measurement.
    pub name: String,
    /// What goes into its simulation.
    pub costs: Vec<Cost>,
    /// Model and measurement at each count.
    pub points: Vec<FitPoint>,
    /// The worst error of those that were not fitted, without its sign; nothing where all were.
    pub worst_error_percent: Option<f64>,
    /// Rates with one worker a core.
    pub projected: Vec<CorePoint>,
    /// The same on another machine.
    #[serde(rename = "variants")]
    pub other_machines: Vec<OtherMachine>,
    /// Acquisitions of the variant's lock for each operation, at each count.
    pub acquisitions_per_op: Vec<Acquisitions>,
}

/// A projection to a machine that differs in something.
#[derive(Clone, Debug, Serialize)]
pub struct OtherMachine {
    pub name: String,
    /// Rates with one worker a core.
    pub projected: Vec<CorePoint>,
}

/// A number that goes into a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    pub name: String,
    /// How much.
    pub value: f64,
    pub unit: String,
    /// Where it comes from.
    pub source: String,
}

impl Cost {
    pub fn new(name: &str, value: f64, unit: &str, source: &str) -> Cost {
        Cost {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            source: source.to_owned(),
        }
    }
}

/// Model and measurement at a count, in operations per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FitPoint {
    /// Workers.
    pub count: usize,
    /// The least of the rounds.
    pub measured_min: f64,
    /// The one in the middle.
    pub measured: f64,
    /// The most.
    pub measured_max: f64,
    /// What the model says.
    pub modelled: f64,
    /// Model over the fastest round, less one.
    pub error_percent: f64,
    /// Model over the round in the middle, less one.
    pub error_to_median_percent: f64,
    /// Whether the model was fitted to this point.
    pub fitted: bool,
}

/// A projection to a count of cores, in operations per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CorePoint {
    /// Cores, and workers.
    pub cores: usize,
    /// The rate.
    pub ops_per_s: f64,
    /// With a cache line that moves in half the time.
    pub at_half_line_cost: f64,
    /// With one that takes twice as long.
    pub at_double_line_cost: f64,
}

/// Acquisitions of a lock for each operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Acquisitions {
    /// Workers.
    pub count: usize,
    /// By the lock statistics.
    pub measured: f64,
    /// By the model.
    pub modelled: f64,
}

/// A published curve.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Whose it is.
    pub name: String,
    /// Count and value.
    pub points: Vec<(f64, f64)>,
    /// Of the values.
    pub unit: String,
    /// Where it was measured.
    pub source: String,
}

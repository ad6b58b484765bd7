//! The ratio of two rows, and whether it is more than their spread.

use crate::report::Spread;
use serde::Serialize;

/// How B differs from A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The ranges overlap.
    Within,
    /// The slowest run of B was faster than the fastest of A.
    Faster,
    /// The fastest run of B was slower than the slowest of A.
    Slower,
}

impl Verdict {
    /// What the ranges say.
    pub fn of(a: &Spread, b: &Spread) -> Verdict {
        if b.min > a.max {
            Verdict::Faster
        } else if b.max < a.min {
            Verdict::Slower
        } else {
            Verdict::Within
        }
    }

    /// The mark in tables.
    pub fn mark(self) -> &'static str {
        match self {
            Verdict::Within => "",
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
        }
    }
}

/// B over A; nothing where A is zero, or a number can't hold it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The slowest run of B over the fastest of A.
    pub min: Option<f64>,
    /// Of the medians.
    pub median: Option<f64>,
    /// The fastest run of B over the slowest of A.
    pub max: Option<f64>,
}

impl Ratio {
    /// Of two rows.
    pub fn of(a: &Spread, b: &Spread) -> Ratio {
        Ratio {
            min: over(b.min, a.max),
            median: over(b.median, a.median),
            max: over(b.max, a.min),
        }
    }
}

fn over(b: f64, a: f64) -> Option<f64> {
    let ratio = b / a;
    (a > 0.0 && ratio.is_finite()).then_some(ratio)
}

//! A row that two results have, whether it differs by more than its spread, and the sum of a section's.

use super::result::RowKey;
use crate::spread::Spread;
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

/// B over A; nothing where A is zero, or a number can't hold it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The slowest run of B over the fastest of A.
    pub min: Option<f64>,
    pub median: Option<f64>,
    /// The fastest run of B over the slowest of A.
    pub max: Option<f64>,
}

/// A row that both have.
#[derive(Debug, Serialize)]
pub struct Pair {
    #[serde(flatten)]
    pub key: RowKey,
    /// Operations per second in A.
    pub a: Spread,
    /// Operations per second in B.
    pub b: Spread,
    /// B over A.
    pub ratio: Ratio,
    /// Whether that is more than the spread.
    pub verdict: Verdict,
}

impl Pair {
    /// Of what both have of a row.
    pub fn of(key: RowKey, a: Spread, b: Spread) -> Pair {
        let over = |b: f64, a: f64| Some(b / a).filter(|ratio| a > 0.0 && ratio.is_finite());
        let ratio = Ratio {
            min: over(b.min, a.max),
            median: over(b.median, a.median),
            max: over(b.max, a.min),
        };
        let verdict = if b.min > a.max {
            Verdict::Faster
        } else if b.max < a.min {
            Verdict::Slower
        } else {
            Verdict::Within
        };
        Pair {
            key,
            a,
            b,
            ratio,
            verdict,
        }
    }
}

/// The rows of a section that both results have.
#[derive(Debug, Serialize)]
pub struct Section {
    /// Its name.
    pub section: String,
    pub rows: usize,
    /// How many are faster in B.
    pub faster: usize,
    /// How many are slower in B.
    pub slower: usize,
    /// How many differ by no more than their spread.
    pub within: usize,
    /// The geometric mean of B over A, by medians, where neither is zero.
    pub ratio: Option<f64>,
    /// Rows that are not in `ratio`.
    pub without_ratio: usize,
}

impl Section {
    /// Each section, in the order of the rows.
    pub fn all(pairs: &[Pair]) -> Vec<Section> {
        let mut names: Vec<&str> = Vec::new();
        for pair in pairs {
            if !names.contains(&pair.key.section.as_str()) {
                names.push(&pair.key.section);
            }
        }
        let of = |name| Section::of(name, pairs.iter().filter(move |p| p.key.section == name));
        names.into_iter().map(of).collect()
    }

    /// Of these rows.
    pub fn of<'a>(name: &str, pairs: impl Iterator<Item = &'a Pair>) -> Section {
        let pairs: Vec<&Pair> = pairs.collect();
        let count = |verdict| pairs.iter().filter(|pair| pair.verdict == verdict).count();
        let ratios = pairs.iter().filter_map(|pair| pair.ratio.median);
        let logarithms: Vec<f64> = ratios.filter(|r| *r > 0.0).map(f64::ln).collect();
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        Section {
            section: name.to_owned(),
            rows: pairs.len(),
            faster: count(Verdict::Faster),
            slower: count(Verdict::Slower),
            within: count(Verdict::Within),
            ratio: (!logarithms.is_empty()).then(|| mean.exp()),
            without_ratio: pairs.len() - logarithms.len(),
        }
    }
}

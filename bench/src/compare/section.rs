//! The rows of a section, summed up.

use super::change::Verdict;
use super::pairs::Pair;
use serde::Serialize;

/// The rows of a section that both results have.
#[derive(Debug, Serialize)]
pub struct Section {
    /// Its name.
    pub section: String,
    /// How many.
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
        let mut section = Section {
            section: name.to_owned(),
            rows: 0,
            faster: 0,
            slower: 0,
            within: 0,
            ratio: None,
            without_ratio: 0,
        };
        let (mut logarithms, mut ratios) = (0.0, 0usize);
        for pair in pairs {
            section.rows += 1;
            match pair.verdict {
                Verdict::Faster => section.faster += 1,
                Verdict::Slower => section.slower += 1,
                Verdict::Within => section.within += 1,
            }
            if let Some(ratio) = pair.ratio.median.filter(|ratio| *ratio > 0.0) {
                logarithms += ratio.ln();
                ratios += 1;
            }
        }
        section.without_ratio = section.rows - ratios;
        section.ratio = (ratios > 0).then(|| (logarithms / ratios as f64).exp());
        section
    }
}

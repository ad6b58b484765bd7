//! The summary: the variants of each mechanism against each other, and ours against the peers.

use super::super::result::Report;
use super::rows::{Keep, Row, Rows, shown, spread_text};
use crate::chart::Table;
use crate::tables::count;
use serde::Deserialize;

/// A table of comparisons.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headlines {
    caption: String,
    /// The headings of what is compared.
    before: String,
    after: String,
    pub lines: Vec<Line>,
}

/// What a line compares.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    what: String,
    section: String,
    /// Which rows of the section.
    #[serde(default)]
    pub keep: Keep,
    before: String,
    /// Without it, the fastest of ours.
    after: Option<String>,
}

impl Headlines {
    /// The table with its caption; nothing if it would be empty.
    pub fn table(&self, report: &Report) -> Option<(String, Table)> {
        let rows: Vec<_> = self
            .lines
            .iter()
            .filter_map(|line| line.row(report))
            .collect();
        let table = Table::new(&["", &self.before, &self.after, "gain"], rows);
        (!table.rows.is_empty()).then(|| (self.caption.clone(), table))
    }
}

impl Line {
    fn row(&self, report: &Report) -> Option<Vec<String>> {
        let rows = Rows::of(report, &self.section).keep(&self.keep);
        let (rows, alive) = match rows.0.iter().filter_map(|row| row.live).max() {
            // Namespaces: where the most are alive, whatever the workers.
            Some(most) => (
                rows.filter(|row| row.live == Some(most)),
                format!(", {} alive", count(most as f64)),
            ),
            None if self.section == "fuse" => (rows, String::new()),
            None => (rows.busiest(), String::new()),
        };
        let of = |name: &str| rows.0.iter().find(|row| row.variant == name);
        let ours = rows.0.iter().filter(|row| row.variant.starts_with("uext4"));
        let before = of(&self.before)?;
        let after = match &self.after {
            Some(name) => of(name)?,
            None => ours.max_by(|a, b| a.ops_per_s.median.total_cmp(&b.ops_per_s.median))?,
        };
        let (slow, fast) = (before.ops_per_s, after.ops_per_s);
        let gain = match fast.median / slow.median {
            _ if slow.max >= fast.min && fast.max >= slow.min => "within the spread".to_owned(),
            gain if !gain.is_finite() => return None,
            gain if gain >= 10.0 => format!("{gain:.0} times"),
            gain => format!("{gain:.2} times"),
        };
        let rate = |row: &Row| format!("{}: {}", shown(&row.variant), spread_text(&row.ops_per_s));
        let threads = match after.threads {
            1 => String::new(),
            n => format!(", {n} threads"),
        };
        let what = format!("{}{alive}{threads}", self.what);
        Some(vec![what, rate(before), rate(after), gain])
    }
}

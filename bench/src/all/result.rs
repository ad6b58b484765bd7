//! What the sections gave: `report.json`.

use crate::host::Host;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// `all`.
    pub benchmark: String,
    /// Where it ran.
    pub host: Host,
    /// The version of uext4.
    pub version: String,
    /// When it began, in UTC.
    pub date: String,
    /// How long it took.
    pub seconds: f64,
    /// The short run.
    pub quick: bool,
    /// Where images in memory were.
    pub memory: String,
    /// Where images on a disk were.
    pub disk: String,
    /// The files of the charts.
    #[serde(default)]
    pub charts: Vec<String>,
    /// In the order of the page.
    pub sections: Vec<SectionResult>,
}

/// What a section gave.
#[derive(Debug, Serialize, Deserialize)]
pub struct SectionResult {
    pub name: String,
    /// How it is run alone.
    pub command: String,
    /// What is done before, so that the names in the command are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// How long it took, making images and checking them included.
    pub seconds: f64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a section.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// What the workload printed.
    Document(Value),
    /// What the machine lacks.
    Skipped(String),
    /// Why there is nothing.
    Failed(String),
}

impl Report {
    /// The document of a section, if it has one.
    pub fn document(&self, name: &str) -> Option<&Value> {
        let section = self.sections.iter().find(|s| s.name == name)?;
        match &section.outcome {
            Outcome::Document(document) => Some(document),
            Outcome::Skipped(_) | Outcome::Failed(_) => None,
        }
    }

    /// The sections that failed, each with the reason.
    pub fn failed(&self) -> Vec<String> {
        let failed = |s: &SectionResult| match &s.outcome {
            Outcome::Failed(why) => Some(format!("{} ({why})", s.name)),
            Outcome::Document(_) | Outcome::Skipped(_) => None,
        };
        self.sections.iter().filter_map(failed).collect()
    }
}

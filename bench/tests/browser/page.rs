//! What is wrong with a page of charts, as the browser sees it.

use super::{Browser, BrowserError};
use serde_json::{Value, json};
use std::path::Path;

/// Returns a list of sentences; its argument is the list of the figures that may have no data.
const CHECKS: &str = include_str!("checks.js");

impl Browser {
    /// Opens a page and says what is wrong with it, a sentence each: errors of scripts, requests to the network,
    /// what is wider than the screen, figures without marks, texts that overlap, are cut off or are too small.
    /// Only the figures named in `may_be_empty` may show no data.
    ///
    /// # Errors
    /// The page can't be opened or inspected.
    pub fn faults_of_page(
        &self,
        page: &Path,
        may_be_empty: &[&str],
    ) -> Result<Vec<String>, BrowserError> {
        self.open_file(page)?;
        let found = self.eval_with(CHECKS, &json!([may_be_empty]))?;
        let found = found
            .as_array()
            .ok_or_else(|| BrowserError::new("the checks gave no list"))?;
        let sentence = |fault: &Value| {
            fault
                .as_str()
                .map_or_else(|| fault.to_string(), str::to_owned)
        };
        let mut faults: Vec<String> = found.iter().map(sentence).collect();
        let errors = self.console_errors()?;
        faults.extend(errors.into_iter().map(|error| format!("console: {error}")));
        Ok(faults)
    }
}

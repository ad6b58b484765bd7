//! The workspace's own rules: module cycles, sizes, bare locks, words.

mod cycles;
mod links;
mod size;
mod source;
mod words;

/// Fails the calling test with every finding, one a line.
fn assert_none(findings: &[String]) {
    let count = findings.len();
    assert!(
        findings.is_empty(),
        "{count} found:\n{}",
        findings.join("\n")
    );
}

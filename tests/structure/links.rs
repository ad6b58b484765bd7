//! Links between the pages of the documentation lead somewhere, and the site has every page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use uext4_testkit::built::WORKSPACE;

/// Pages of the documentation that the site lists only by what they are made of.
const MADE: [&str; 2] = ["INTRODUCTION.md", "reference/commands.md"];

/// The pages below a folder, by path.
fn pages(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
}

/// The pages in the root of the workspace and in `docs`.
fn all() -> BTreeMap<PathBuf, String> {
    let root = fs::canonicalize(WORKSPACE).unwrap();
    let mut found = BTreeMap::new();
    pages(&root.join("docs"), &mut found);
    for name in [
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        found.insert(
            root.join(name),
            fs::read_to_string(root.join(name)).unwrap(),
        );
    }
    found
}

/// The name of a heading as a place in a page.
fn place(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_place(page: &str, name: &str) -> bool {
    let headings = page.lines().filter_map(|line| line.strip_prefix('#'));
    headings
        .map(|line| place(line.trim_start_matches('#')))
        .any(|found| found == name)
}

#[test]
fn links_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let pages = all();
    let mut broken = Vec::new();
    for (path, text) in &pages {
        for found in link.captures_iter(text) {
            let target = &found[1];
            if target.contains("://") || path.ends_with("docs/SUMMARY.md") && MADE.contains(&target)
            {
                continue;
            }
            let (file, name) = target.split_once('#').unwrap_or((target, ""));
            let to = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let to = fs::canonicalize(&to).unwrap_or(to);
            let is_found = match pages.get(&to) {
                Some(page) => name.is_empty() || has_place(page, name),
                None => to.exists(),
            };
            if !is_found {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    crate::assert_none(&broken);
}

#[test]
fn the_site_has_every_page() {
    let docs = fs::canonicalize(WORKSPACE).unwrap().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut found = BTreeMap::new();
    pages(&docs, &mut found);
    let names = found.keys().map(|path| path.strip_prefix(&docs).unwrap());
    let missing = names.filter(|name| !name.ends_with("SUMMARY.md"));
    let missing = missing.filter(|name| !summary.contains(&format!("]({})", name.display())));
    let missing: Vec<String> = missing.map(|name| name.display().to_string()).collect();
    crate::assert_none(&missing);
}

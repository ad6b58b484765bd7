//! Old names and unclear words, by the rules in `patterns.txt`.

use regex::{Regex, RegexBuilder};

use crate::source::{self, SourceFile, workspace};

const ENDINGS: [&str; 7] = [".rs", ".md", ".toml", ".sh", ".h", ".c", "Makefile"];
/// The files that name the words they forbid.
const SELF: &str = "tests/structure/";

fn patterns() -> Rules {
    let path = workspace().join(SELF).join("patterns.txt");
    Rules::read(&std::fs::read_to_string(path).expect("patterns.txt"))
}

/// A place where a rule does not hold.
struct Exception {
    /// What the file's path starts with.
    path: String,
    /// What the line contains, empty for every line.
    text: String,
}

struct Rule {
    /// In comments, literals and documents only; elsewhere too otherwise.
    prose: bool,
    pattern: Regex,
    /// Matches that are accepted, by their own text.
    allowed: Option<Regex>,
    replacement: String,
    canary: String,
    exceptions: Vec<Exception>,
}

struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// Reads blocks of `key: value` lines; a blank line ends each.
    fn read(text: &str) -> Self {
        let mut all = Self { rules: Vec::new() };
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (key, value) = line.trim().split_once(": ").expect("key: value");
            let last = all.rules.last_mut();
            match (key, last) {
                ("prose" | "name", _) => all.rules.push(Rule::new(key == "prose", value)),
                ("allow", Some(rule)) => rule.allowed = Some(Regex::new(value).expect("a pattern")),
                ("use", Some(rule)) => rule.replacement = value.into(),
                ("bad", Some(rule)) => rule.canary = value.into(),
                ("except", Some(rule)) => {
                    let (place, _) = reasoned(value);
                    let (path, text) = place.split_once(' ').unwrap_or((&place, ""));
                    let (path, text) = (path.to_owned(), text.to_owned());
                    rule.exceptions.push(Exception { path, text });
                }
                _ => panic!("patterns.txt: {line}"),
            }
        }
        all
    }

    fn check(&self, file: &SourceFile) -> Vec<String> {
        let prose = file.prose();
        let mut found = Vec::new();
        for rule in &self.rules {
            let text = if rule.prose { &prose } else { &file.text };
            for hit in rule.pattern.find_iter(text) {
                let line = file.line_at(hit.start());
                if !rule.allows(hit.as_str()) && !rule.is_excepted(&file.path, line) {
                    let (path, number) = (&file.path, file.line_of(hit.start()));
                    let (word, better) = (hit.as_str(), &rule.replacement);
                    found.push(format!("{path}:{number}: \"{word}\": use {better}: {line}"));
                }
            }
        }
        found
    }
}

/// `place -- reason`.
fn reasoned(value: &str) -> (String, String) {
    let (place, reason) = value.split_once(" -- ").expect("an exception has a reason");
    assert!(!reason.trim().is_empty(), "{place} has no reason");
    (place.trim().to_owned(), reason.trim().to_owned())
}

impl Rule {
    fn new(prose: bool, pattern: &str) -> Self {
        let pattern = pattern.replace(' ', r"\s+");
        let mut builder = RegexBuilder::new(&pattern);
        builder.case_insensitive(prose);
        Self {
            prose,
            pattern: builder.build().expect("a pattern"),
            allowed: None,
            replacement: String::new(),
            canary: String::new(),
            exceptions: Vec::new(),
        }
    }

    fn allows(&self, text: &str) -> bool {
        self.allowed
            .as_ref()
            .is_some_and(|allowed| allowed.is_match(text))
    }

    fn is_excepted(&self, path: &str, line: &str) -> bool {
        let holds = |e: &Exception| path.starts_with(&e.path) && line.contains(&e.text);
        self.exceptions.iter().any(holds)
    }
}

#[test]
fn words_are_those_of_the_style() {
    let rules = patterns();
    let mut all = source::files(
        &["crates", "bench", "tests", "docs", "tools", "include"],
        &ENDINGS,
    );
    all.extend(source::files(
        &["README.md", "CHANGELOG.md", "Makefile"],
        &ENDINGS,
    ));
    for more in ["CONTRIBUTING.md", "SECURITY.md"] {
        if workspace().join(more).exists() {
            all.extend(source::files(&[more], &ENDINGS));
        }
    }
    all.retain(|file| !file.path.starts_with(SELF));
    let found: Vec<String> = all.iter().flat_map(|file| rules.check(file)).collect();
    crate::assert_none(&found);
}

#[test]
fn each_rule_catches_its_canary() {
    for rule in patterns().rules {
        let Rule {
            pattern, canary, ..
        } = &rule;
        assert!(!rule.replacement.is_empty(), "{pattern} has no replacement");
        assert!(!canary.is_empty(), "{pattern} has no canary");
        let code = if rule.prose {
            format!("fn f() {{}} // {canary}\n")
        } else {
            canary.clone()
        };
        let planted = SourceFile {
            path: "planted.rs".into(),
            text: code,
        };
        let alone = Rules { rules: vec![rule] };
        let found = alone.check(&planted);
        assert!(!found.is_empty(), "not caught: {}", planted.text);
    }
}

#[test]
fn prose_rules_ignore_code_and_cross_lines() {
    let rules = Rules::read("prose: \\bas long as\\b\n  use: while\n  bad: as long as\n");
    let file = |text: &str| SourceFile {
        path: "planted.rs".into(),
        text: text.into(),
    };
    assert!(
        rules
            .check(&file("fn as_long_as() {}\nlet a = x as long;\nas\n"))
            .is_empty()
    );
    let found = rules.check(&file("// held as\n// long as it lives\n"));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("planted.rs:1:"), "{found:?}");
}

//! The files of the workspace, and which of their characters are prose.

use std::path::{Path, PathBuf};

/// One file as the checks see it.
pub struct SourceFile {
    /// Relative to the workspace, with `/`.
    pub path: String,
    pub text: String,
}

pub fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace exists")
}

/// The files below `folders` whose names end in one of `endings`, in order of their paths.
pub fn files(folders: &[&str], endings: &[&str]) -> Vec<SourceFile> {
    let root = workspace();
    let mut found = Vec::new();
    for folder in folders {
        collect(&root, &root.join(folder), endings, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(root: &Path, path: &Path, endings: &[&str], found: &mut Vec<SourceFile>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a readable folder") {
            collect(root, &entry.expect("an entry").path(), endings, found);
        }
        return;
    }
    let relative = path.strip_prefix(root).expect("below the workspace");
    let relative = relative.to_str().expect("a name in UTF-8").to_owned();
    if endings.iter().any(|ending| relative.ends_with(ending)) {
        let text = std::fs::read_to_string(path).expect("a text file");
        found.push(SourceFile {
            path: relative,
            text,
        });
    }
}

/// The crates' `src` folders, and that of the benchmarks.
pub fn crate_sources() -> Vec<String> {
    let crates = std::fs::read_dir(workspace().join("crates")).expect("crates/");
    let mut roots: Vec<String> = crates
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| format!("crates/{}/src", name.to_str().expect("UTF-8")))
        .collect();
    roots.push("bench/src".into());
    roots.sort();
    roots
}

/// The files of [`crate_sources`].
pub fn crate_files() -> Vec<SourceFile> {
    let folders = crate_sources();
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    files(&folders, &[".rs"])
}

impl SourceFile {
    pub fn line_of(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    pub fn line_at(&self, offset: usize) -> &str {
        let start = self.text[..offset].rfind('\n').map_or(0, |at| at + 1);
        self.text[start..].lines().next().unwrap_or("").trim()
    }

    /// The text with each character of code replaced, so that offsets stay: comments and literals
    /// remain. A sentence over several comment lines reads as one.
    pub fn prose(&self) -> String {
        if !(self.path.ends_with(".rs") || self.path.ends_with(".c") || self.path.ends_with(".h")) {
            return self.text.clone();
        }
        Prose::of(&self.text)
    }
}

/// Separates comments and literals from code.
struct Prose<'a> {
    text: &'a str,
    at: usize,
    out: String,
}

impl<'a> Prose<'a> {
    fn of(text: &'a str) -> String {
        let mut prose = Self {
            text,
            at: 0,
            out: String::with_capacity(text.len()),
        };
        while prose.at < text.len() {
            prose.token();
        }
        prose.out
    }

    fn token(&mut self) {
        let rest = &self.text[self.at..];
        if rest.starts_with("//") {
            let marker = rest.bytes().take_while(|&byte| matches!(byte, b'/' | b'!'));
            let marker = marker.count();
            self.blank(marker, b' ');
            self.keep(rest[marker..].find('\n').unwrap_or(rest.len() - marker));
        } else if rest.starts_with("/*") {
            self.keep(rest.find("*/").map_or(rest.len(), |end| end + 2));
        } else if let Some(length) = raw_string(rest) {
            self.keep(length);
        } else if rest.starts_with('"') {
            self.keep(string(rest));
        } else if let Some(length) = character(rest) {
            self.blank(length, b'`');
        } else if rest.starts_with(char::is_whitespace) {
            self.keep(1);
        } else {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            self.blank(word.filter(|&length| length > 0).unwrap_or(1), b'`');
        }
    }

    fn keep(&mut self, length: usize) {
        self.out.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    fn blank(&mut self, length: usize, with: u8) {
        self.out
            .extend(std::iter::repeat_n(char::from(with), length));
        self.at += length;
    }
}

/// The length of the raw string that `rest` starts with.
fn raw_string(rest: &str) -> Option<usize> {
    let prefix = rest.find(|c| c != 'b' && c != 'r')?;
    if prefix > 2 || !rest[..prefix].ends_with('r') {
        return None;
    }
    let hashes = rest[prefix..].bytes().take_while(|&b| b == b'#').count();
    let body = prefix + hashes + 1;
    if !rest[prefix + hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    Some(
        rest[body..]
            .find(&end)
            .map_or(rest.len(), |at| body + at + end.len()),
    )
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// The length of the character literal that `rest` starts with; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if inner.starts_with('\\') {
        return inner[2..].find('\'').map(|at| at + 4);
    }
    let length = inner.chars().next()?.len_utf8();
    inner[length..].starts_with('\'').then_some(length + 2)
}

#[test]
fn prose_is_comments_and_literals() {
    let text =
        "let a = 'x'; // one\n/// two\nf::<'a>(\"three \\\" four\", r#\"five\"#); let who = b;\n";
    let file = SourceFile {
        path: "a.rs".into(),
        text: text.into(),
    };
    let prose = file.prose();
    assert_eq!(prose.len(), text.len());
    for kept in ["one\n    two", "\"three \\\" four\"", "five"] {
        assert!(prose.contains(kept), "{prose}");
    }
    assert!(!prose.contains("who") && !prose.contains("let"), "{prose}");
}

//! Command lines that people type from habit, each run twice: by the program that they know on the kernel's mount of an
//! image, and by uext4 on the image. `lines/*.txt` has them, a file for each of the tests below; docs/HABITS.md is
//! made of them.

mod document;
mod image;
mod record;
mod run;
mod snapshot;
mod stage;

use uext4_testkit::prelude::*;

/// Runs every record of a file of lines.
fn all_equal(name: &str) {
    let Some(stage) = stage::Stage::new() else {
        return;
    };
    let records = record::of_file(name);
    let differing: Vec<String> = records
        .iter()
        .filter_map(|record| run::difference(&stage, record))
        .collect();
    let (count, all) = (differing.len(), records.len());
    assert!(
        differing.is_empty(),
        "{count} of {all} differ:\n{}",
        differing.join("\n")
    );
}

macro_rules! files {
    ($($name:ident)*) => {
        /// The files of lines.
        const FILES: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            all_equal(stringify!($name));
        })*
    };
}

files! { operands ls find stat du lsattr cp names modes mkfs mount }

/// A line that differs is found: each kind of difference, and none where there is none.
#[test]
fn differences_are_found() {
    let Some(stage) = stage::Stage::new() else {
        return;
    };
    for (line, theirs, what) in [
        ("cat @/etc/passwd", "cat @/etc/group", "standard output"),
        ("cat @/etc/passwd", "cat @/etc/passwd; false", "exit code"),
        (
            "cat @/etc/passwd",
            "cat @/etc/passwd; echo x >&2",
            "standard error",
        ),
        ("mkdir @/new", "mkdir -m 700 @/new", "the tree afterwards"),
    ] {
        let record = record::parse(&format!("$ {line}\ntheirs: {theirs}\n"));
        let found = run::difference(&stage, &record[0]);
        assert!(found.is_some_and(|f| f.contains(what)), "{line}");
    }
    let record = record::parse("$ mkdir @/new\n");
    assert_eq!(run::difference(&stage, &record[0]), None);
}

/// docs/HABITS.md is what the lines say; with UEXT4_WRITE_DOCS in the environment it is written.
#[test]
fn the_document_is_current() {
    let path = Path::new(WORKSPACE).join("docs/HABITS.md");
    let text = document::text();
    if std::env::var_os("UEXT4_WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "docs/HABITS.md is old: make docs writes it");
}

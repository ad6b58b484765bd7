//! The programs in docs/C.md, and in the guide about programs, compile and run.

use crate::programs::{Link, compile, here, succeeds};
use uext4_testkit::prelude::*;

#[test]
fn the_programs_of_the_manual_run() {
    for page in ["docs/C.md", "crates/cli/topics/embedding.md"] {
        run_programs(page);
    }
}

fn run_programs(page: &str) {
    let manual = std::fs::read_to_string(here(page)).expect("the page");
    let blocks = manual.split("\n```c\n").skip(1);
    let programs: Vec<&str> = blocks
        .filter_map(|rest| rest.split("\n```").next())
        .collect();
    assert!(!programs.is_empty(), "{page}");
    for text in programs {
        let dir = TempDir::new().expect("a directory");
        let source = dir.path().join("program.c");
        std::fs::write(&source, format!("{text}\n")).expect("it is written");
        let Some(program) = compile(&source, Link::Shared, dir.path()) else {
            return;
        };
        succeeds(Command::new(program).current_dir(dir.path()));
    }
}

#[test]
fn the_calls_of_the_manual_are_in_the_header() {
    let read = |path: &str| std::fs::read_to_string(here(path)).expect("a file");
    let (manual, header) = (read("docs/C.md"), read("bindings/c/include/uext4.h"));
    let names = regex::Regex::new(r"\b(?:uext4|UEXT4)_\w+").expect("a pattern");
    for name in names.find_iter(&manual) {
        assert!(header.contains(name.as_str()), "{}", name.as_str());
    }
}

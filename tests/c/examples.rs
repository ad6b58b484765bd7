//! The programs of `examples/c` run, and leave images without a fault.

use crate::programs::{Link, compile, here, sources, succeeds};
use uext4_testkit::built::uext4;
use uext4_testkit::prelude::*;

fn runs(source: &Path, link: Link) {
    let dir = TempDir::new().expect("a directory");
    let Some(program) = compile(source, link, dir.path()) else {
        return;
    };
    let image = dir.path().join("image");
    succeeds(Command::new(program).arg(&image));
    succeeds(Command::new(uext4()).arg("check").arg(&image));
    succeeds(Command::new("e2fsck").arg("-fn").arg(&image));
}

#[test]
fn every_example_runs() {
    for source in sources() {
        runs(&source, Link::Shared);
    }
}

#[test]
fn an_example_runs_with_the_static_library() {
    runs(&here("examples/c/write_file.c"), Link::Static);
}

#[test]
fn eight_threads_are_clean_under_valgrind() {
    if !is_installed("valgrind") {
        eprintln!("skipped: no valgrind");
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let source = here("examples/c/threads.c");
    let Some(program) = compile(&source, Link::Shared, dir.path()) else {
        return;
    };
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
    valgrind.args([
        "--errors-for-leak-kinds=definite",
        "--show-leak-kinds=definite",
    ]);
    succeeds(valgrind.arg(program).arg(dir.path().join("image")));
}

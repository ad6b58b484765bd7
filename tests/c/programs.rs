//! Programs in C, compiled with the library.

use uext4_testkit::built::{WORKSPACE, c_library};
use uext4_testkit::prelude::*;

pub fn here(path: &str) -> PathBuf {
    Path::new(WORKSPACE).join(path)
}

/// The programs of `examples/c`, in the order of their names.
pub fn sources() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(here("examples/c")).expect("examples");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_c = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "c");
    let mut sources: Vec<PathBuf> = paths.filter(is_c).collect();
    sources.sort();
    assert!(!sources.is_empty());
    sources
}

/// The library that a program is linked with.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    Shared,
    Static,
}

/// What a program needs of the host beside libuext4.a, as `rustc --print native-static-libs` and the .pc file have it.
pub const STATIC_LIBRARIES: [&str; 7] = [
    "-lgcc_s",
    "-lutil",
    "-lrt",
    "-lpthread",
    "-lm",
    "-ldl",
    "-lc",
];

/// Compiles a program into `into`, or prints why the test is skipped.
pub fn compile(source: &Path, link: Link, into: &Path) -> Option<PathBuf> {
    if !is_installed("cc") {
        eprintln!("skipped: no cc");
        return None;
    }
    let library = c_library().expect("it builds");
    // The name that the library gives programs to find it by.
    let shared = into.join("libuext4.so.0");
    if !shared.exists() {
        std::os::unix::fs::symlink(library, &shared).expect("a link");
    }
    let program = into.join(source.file_stem().expect("a name"));
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11",
        "-D_GNU_SOURCE",
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]);
    cc.arg("-pthread").arg("-I").arg(here("bindings/c/include"));
    cc.arg("-o").arg(&program).arg(source);
    match link {
        Link::Shared => cc
            .arg(library)
            .arg(format!("-Wl,-rpath,{}", into.display())),
        Link::Static => cc.arg(library.with_extension("a")).args(STATIC_LIBRARIES),
    };
    succeeds(&mut cc);
    Some(program)
}

/// Runs a command that must succeed, and returns what it prints.
pub fn succeeds(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

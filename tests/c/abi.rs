//! The symbols of libuext4.so and the sizes of its structures are those of `bindings/c/abi.txt`; each symbol is declared in the header and
//! used by an example. UEXT4_WRITE_ABI=1 writes the list, of which no line goes while the library's major version stays.

use crate::programs::{Link, compile, here, sources, succeeds};
use uext4_testkit::built::c_library;
use uext4_testkit::prelude::*;

/// The names that the library defines for programs, by nm(1).
fn exported() -> Vec<String> {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--format=posix"]);
    let output = nm.arg(c_library().expect("it builds")).output();
    let output = output.expect("nm is there, with cc");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    names
}

/// `sizeof` of every structure that the header defines; `None` without a compiler.
fn sizes() -> Option<Vec<String>> {
    let header = std::fs::read_to_string(here("bindings/c/include/uext4.h")).expect("the header");
    let defined = regex::Regex::new(r"typedef struct (uext4_\w+) \{").expect("a pattern");
    let mut program = "#include <stdio.h>\n#include <uext4.h>\nint main(void) {\n".to_owned();
    for found in defined.captures_iter(&header) {
        let name = &found[1];
        program += &format!("printf(\"sizeof {name} %zu\\n\", sizeof({name}));\n");
    }
    let dir = TempDir::new().expect("a directory");
    let source = dir.path().join("sizes.c");
    std::fs::write(&source, program + "}\n").expect("it is written");
    let text = succeeds(&mut Command::new(compile(
        &source,
        Link::Shared,
        dir.path(),
    )?));
    let mut sizes: Vec<String> = text.lines().map(str::to_owned).collect();
    sizes.sort();
    Some(sizes)
}

#[test]
fn the_symbols_and_sizes_are_those_of_the_list() {
    let path = here("bindings/c/abi.txt");
    let Some(sizes) = sizes() else { return };
    let names = [sizes, exported()].concat();
    if std::env::var_os("UEXT4_WRITE_ABI").is_some() {
        std::fs::write(&path, names.join("\n") + "\n").expect("it is written");
    }
    let list = std::fs::read_to_string(&path).expect("the list");
    assert_eq!(names, list.lines().collect::<Vec<_>>());
}

#[test]
fn every_symbol_is_declared_and_has_an_example() {
    let header = std::fs::read_to_string(here("bindings/c/include/uext4.h")).expect("the header");
    let examples: String = sources()
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("an example"))
        .collect();
    for name in exported() {
        let call = format!("{name}(");
        assert!(header.contains(&call), "{name} is not in the header");
        assert!(examples.contains(&call), "{name} has no example");
    }
}

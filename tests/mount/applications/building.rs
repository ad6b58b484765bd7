//! Cargo: a crate that is built, tested, changed and built again in the mount, with all that the build writes there too.

use super::transports::{can_run, on_each_transport, run};
use uext4_testkit::prelude::*;

const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\nbuild = \"build.rs\"\n\n[workspace]\n",
    ),
    (
        "build.rs",
        r#"fn main() {
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap());
    std::fs::write(out.join("made.rs"), "pub const MADE: u32 = 30;\n").unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
"#,
    ),
    (
        "src/lib.rs",
        r#"include!(concat!(env!("OUT_DIR"), "/made.rs"));

pub fn answer() -> u32 {
    MADE + 12
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_answers() {
        assert!(super::answer() > super::MADE);
    }
}
"#,
    ),
    (
        "src/main.rs",
        "fn main() {\n    println!(\"{}\", small::answer());\n}\n",
    ),
    (
        "tests/outside.rs",
        r#"#[test]
fn the_program_answers() {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_small")).output().unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap().trim(), small::answer().to_string());
}
"#,
    ),
];

fn cargo(dir: &Path, args: &[&str]) -> Result<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(dir).args(args).arg("--offline");
    // Of the Cargo that runs these tests.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER"] {
        cargo.env_remove(name);
    }
    cargo.env("CARGO_TARGET_DIR", dir.join("target"));
    run(cargo.env("CARGO_INCREMENTAL", "1"))
}

#[test]
fn a_crate_is_built_tested_and_built_again() -> Result<()> {
    if !can_run(&["cargo"]) {
        return Ok(());
    }
    on_each_transport("", |mount| {
        let dir = mount.dir().join("small");
        for (name, text) in FILES {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&dir))?;
            fs::write(path, text)?;
        }
        let program = dir.join("target/debug/small");
        cargo(&dir, &["build", "-q"])?;
        ensure!(run(&mut Command::new(&program))?.trim() == "42");
        cargo(&dir, &["test", "-q"])?;
        let lib = dir.join("src/lib.rs");
        let changed = fs::read_to_string(&lib)?.replace("MADE + 12", "MADE + 13");
        fs::write(&lib, changed)?;
        cargo(&dir, &["build", "-q"])?;
        ensure!(run(&mut Command::new(&program))?.trim() == "43");
        mount.remount()?;
        // What is built is up to date, and still runs.
        let said = cargo(&dir, &["build", "--message-format=json"])?;
        ensure!(!said.contains("\"fresh\":false"), "built again: {said}");
        ensure!(run(&mut Command::new(&program))?.trim() == "43");
        cargo(&dir, &["clean", "-q"])?;
        ensure!(!dir.join("target").exists());
        Ok(())
    })
}

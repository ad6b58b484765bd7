//! Programs that are run, and the mounts that they are run on.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use uext4_mounted::place::{Driver, Place, Shape, can_mount};
use uext4_mounted::served::transports;

/// Room for all that these tests write; what is not written takes no memory.
pub const SHAPE: Shape = Shape {
    bytes: 2 << 30,
    ..Shape::DEFAULT
};

/// Whether this machine can mount, and has these programs; says what is missing.
pub fn can_run(programs: &[&str]) -> bool {
    can_mount() && programs.iter().all(|program| is_installed(program))
}

/// Whether a program is there; says so if it is not.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !there {
        eprintln!("skipped: needs {program}");
    }
    there
}

/// Runs a program, and gives what it wrote to its standard output.
///
/// # Errors
/// It can't be run, or fails; with all that it said.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{command:?}: {}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}

/// Does something on a new mount of each transport, which is then checked.
///
/// # Errors
/// What `work` says, and what e2fsck finds.
pub fn on_each_transport(options: &str, work: impl Fn(&mut Place) -> Result<()>) -> Result<()> {
    for transport in transports() {
        on_mount(&format!("transport={transport},{options}"), &work)?;
    }
    Ok(())
}

/// Does something on a new mount, which is then checked.
///
/// # Errors
/// What `work` says, and what e2fsck finds.
pub fn on_mount(options: &str, work: impl Fn(&mut Place) -> Result<()>) -> Result<()> {
    let options = options.trim_end_matches(',');
    let mut place = Place::new(Driver::compared(options), &SHAPE)?;
    work(&mut place).with_context(|| format!("mounted with {options}"))?;
    place.finish().with_context(|| options.to_owned())
}

/// The checkout that these tests were built from.
pub fn workspace() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?)
}

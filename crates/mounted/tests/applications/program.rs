//! Programs that are run, and the mounts that they are run on.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use uext4_mounted::place::{Driver, Place, Shape, can_mount};
use uext4_mounted::program::is_installed;
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

/// Runs a program, and gives what it wrote to its standard output.
///
/// # Errors
/// It can't be run, or fails; with all that it said.
pub fn run(command: &mut Command) -> Result<String> {
    uext4_mounted::program::run(command).map(|said| said.out)
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

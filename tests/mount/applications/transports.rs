//! Programs that are run, and the mounts that they are run on.

use crate::*;

/// Room for all that these tests write; what is not written takes no memory.
pub const SHAPE: Shape = Shape {
    bytes: 2 << 30,
    ..Shape::DEFAULT
};

/// Whether this machine can mount, and has these programs; says what is missing.
pub fn can_run(programs: &[&str]) -> bool {
    can_mount() && programs.iter().all(|program| is_installed(program))
}

/// Runs a program; returns its standard output.
pub fn run(command: &mut Command) -> Result<String> {
    uext4_testkit::program::run(command).map(|printed| printed.out)
}

/// Does something on a new mount of each transport, which is then checked.
pub fn on_each_transport(
    options: &str,
    work: impl Fn(&mut MountedDir) -> Result<()>,
) -> Result<()> {
    for transport in transports() {
        on_mount(&format!("transport={transport},{options}"), &work)?;
    }
    Ok(())
}

/// Does something on a new mount, which is then checked.
pub fn on_mount(options: &str, work: impl Fn(&mut MountedDir) -> Result<()>) -> Result<()> {
    let options = options.trim_end_matches(',');
    let mut mount = MountedDir::new(Driver::compared(options), &SHAPE)?;
    work(&mut mount).with_context(|| format!("mounted with {options}"))?;
    mount.finish().with_context(|| options.to_owned())
}

/// The checkout that these tests were built from.
pub fn workspace() -> Result<PathBuf> {
    Ok(Path::new(WORKSPACE).canonicalize()?)
}

//! The command and the preloaded library, built from this workspace.

use crate::external::*;
use std::sync::LazyLock;

/// The root of the workspace.
pub const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The command `uext4`: `UEXT4_BIN`, or the workspace's, built by Cargo in the profile of this test.
pub fn command() -> Result<&'static Path> {
    static COMMAND: LazyLock<Result<PathBuf, String>> =
        LazyLock::new(|| match std::env::var_os("UEXT4_BIN") {
            Some(path) => Ok(path.into()),
            None => built("uext4"),
        });
    found(&COMMAND)
}

/// The library `libuext4_mq.so`, as [`command`].
pub fn preloaded_library() -> Result<&'static Path> {
    static LIBRARY: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| built("libuext4_mq.so"));
    found(&LIBRARY)
}

/// The library `libuext4.so`, with `libuext4.a` beside it, as [`command`].
pub fn c_library() -> Result<&'static Path> {
    static LIBRARY: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| built("libuext4.so"));
    found(&LIBRARY)
}

/// The directory of the programs in `examples/`, built as [`command`].
pub fn examples() -> Result<&'static Path> {
    static EXAMPLES: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let profile = build(&["--examples", "--features", "uext4/unstable"])
            .map_err(|error| format!("{error:#}"))?;
        Ok(profile.join("examples"))
    });
    found(&EXAMPLES)
}

/// As [`command`], for tests that have no errors to return.
///
/// # Panics
/// It does not build.
pub fn uext4() -> &'static str {
    let path = command().unwrap_or_else(|error| panic!("{error}"));
    path.to_str().expect("UTF-8")
}

/// The command `uext4`, which SIGINT and SIGTERM end also where the tests run in the background: a shell passes on that SIGINT is
/// ignored there.
///
/// # Panics
/// As [`uext4`].
pub fn uext4_in_foreground() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM").arg(uext4());
    command
}

fn found(file: &'static Result<PathBuf, String>) -> Result<&'static Path> {
    match file {
        Ok(path) => Ok(path),
        Err(error) => bail!("{error}"),
    }
}

fn built(name: &str) -> Result<PathBuf, String> {
    static PROFILE: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let mut args = vec!["--bin", "uext4", "--lib"];
        if cfg!(feature = "rbd") {
            args.extend(["--features", "uext4-cli/rbd,uext4-testkit/rbd"]);
        }
        if cfg!(feature = "s3") {
            args.extend(["--features", "uext4-cli/s3,uext4-testkit/s3"]);
        }
        build(&args).map_err(|error| format!("{error:#}"))
    });
    Ok(PROFILE.clone()?.join(name))
}

/// Builds the program of one file of the workspace, which needs no library where it runs, such as a guest.
///
/// # Errors
/// rustc is not there, or refuses it.
pub fn static_program(source: &str, program: &Path) -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc.args([
        "--edition",
        "2024",
        "-O",
        "-C",
        "target-feature=+crt-static",
    ]);
    rustc.arg("-o").arg(program);
    rustc.arg(Path::new(WORKSPACE).join(source));
    let output = rustc.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{rustc:?}: {errors}");
    Ok(())
}

/// Builds what `args` select of the workspace; a moment if that is current. Returns the directory of the profile.
///
/// Beside a test, so that Cargo takes the features that dependencies have in tests, and with those has built nearly all of it
/// for `make test`.
fn build(args: &[&str]) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).context("a target directory")?;
    let target = profile.parent().context("a target directory")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .current_dir(WORKSPACE)
        .args([
            "build",
            "--quiet",
            "--workspace",
            "--exclude",
            "uext4-bench",
        ])
        .args(["--test", "structure"]);
    cargo.args(args).arg("--target-dir").arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    // Variables that Cargo sets for the package of the test: build scripts of others that read the same variables would run again, and all that
    // depends on them be built again.
    let of_package =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_package) {
            cargo.env_remove(name);
        }
    }
    let output = cargo.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{cargo:?}: {errors}");
    Ok(profile.to_owned())
}

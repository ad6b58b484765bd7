//! Python's posix_ipc, which is built from its source and runs its own tests of message queues.

use crate::program::{run, run_on_kernel, run_on_mount};
use uext4_testkit::prelude::*;

/// The source, by its version and what is in it.
const SOURCE: &str = "posix_ipc-1.2.0";
const REQUIREMENT: &str = "posix_ipc==1.2.0 --hash=sha256:b7444e2703c156b3cb9fcb568e85d716232f3e78f04529ebc881cfb2aedb3838\n";
/// How many tests it has. All of them pass on the kernel's queues.
const TESTS: usize = 43;

/// The interpreter itself: what stands for it in the path may be a shell script.
fn python() -> Result<PathBuf> {
    let said = run(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?;
    Ok(said.trim().into())
}

/// Gets and builds it; afterwards the directory has the source and what was built.
fn build(python: &Path, into: &Path) -> Result<()> {
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let requirement = files.path().join("requirement");
    std::fs::write(&requirement, REQUIREMENT)?;
    let pip = || {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "--disable-pip-version-check", "-q"]);
        pip
    };
    let mut download = pip();
    download.args(["download", "--no-deps", "--no-binary", "posix_ipc", "-d"]);
    run(download.arg(files.path()).arg("-r").arg(requirement))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf")
        .arg(files.path().join(format!("{SOURCE}.tar.gz")));
    run(tar.arg("-C").arg(files.path()))?;
    let source = files.path().join(SOURCE);
    let mut install = pip();
    install.args(["install", "--no-deps", "--target"]);
    run(install.arg(source.join("built")).arg(&source))?;
    std::fs::rename(source, into).context("kept for the next time")
}

/// The directory; `None`, having said so, where it can't be got or built.
fn built(python: &Path) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(SOURCE);
    if !dir.exists()
        && let Err(error) = build(python, &dir)
    {
        eprintln!("skipped: posix_ipc can't be built: {error:#}");
        return None;
    }
    Some(dir)
}

fn passed(said: &str) -> Result<()> {
    let ran = format!("Ran {TESTS} tests");
    let well = said.contains(&ran) && said.trim_end().ends_with("\nOK");
    ensure!(well, "not all tests passed: {said}");
    Ok(())
}

#[test]
fn posix_ipc_passes_its_own_tests() -> Result<()> {
    if !is_installed("python3") || !is_installed("cc") {
        return Ok(());
    }
    let python = python()?;
    let Some(dir) = built(&python) else {
        return Ok(());
    };
    let mut tests = Command::new(&python);
    tests.args(["-m", "unittest", "tests.test_message_queues"]);
    // Not the directory of the source's own module, which is not built.
    tests.current_dir(&dir).env("PYTHONPATH", dir.join("built"));
    if let Some(said) = run_on_kernel(&tests)? {
        passed(&said)?;
    }
    if let Some((said, ioctls)) = run_on_mount(&mut tests)? {
        passed(&said)?;
        ensure!(ioctls > 0, "these were not the mount's queues: {said}");
    }
    Ok(())
}

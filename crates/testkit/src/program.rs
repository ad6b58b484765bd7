//! Programs that tests run.

use crate::external::*;

/// Whether a program is installed; if it is not, prints that the test is skipped.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !there {
        eprintln!("skipped: needs {program}");
    }
    there
}

/// What a program printed.
pub struct Printed {
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Runs a program.
pub fn run(command: &mut Command) -> Result<Printed> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err, status) = (text(&output.stdout), text(&output.stderr), output.status);
    ensure!(status.success(), "{command:?}: {status}: {out}{err}");
    Ok(Printed { out, err })
}

//! C programs of these tests.

use uext4_testkit::prelude::*;

/// Compiles `tests/mqueue/c/NAME.c` into that directory.
pub fn compile(name: &str, into: &Path) -> Result<PathBuf> {
    let program = into.join(name);
    let source = Path::new(WORKSPACE).join(format!("tests/mqueue/c/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
    let output = cc.arg(&program).arg(source).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cc: {said}");
    Ok(program)
}

//! Questions before something is overwritten or removed.

use anyhow::Result;
use std::io::{BufRead, Write};
use uext4::unstable::printable;

/// Asks on standard error; whether a line of standard input says yes. The end of the input does not.
///
/// # Errors
/// Standard input cannot be read.
pub fn ask(question: &str) -> Result<bool> {
    let mut stderr = std::io::stderr();
    write!(stderr, "uext4: {}? ", printable(question))?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim_start().starts_with(['y', 'Y']))
}

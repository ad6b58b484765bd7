//! Rewrites source files so that one program has all their mutants, of which the environment variable `UEXT4_MUTANT` chooses one.
//!
//! `mutants FIRST FILE[:LINE,...]...` changes the files in place, which must be copies, and prints a line of JSON for each mutant; lines that are
//! named have none, as theirs do not compile. `tools/mutants.py` copies, builds and runs.

mod rewrite;

use anyhow::{Context, Result};
use serde_json::json;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let first = args.next().context("FIRST FILE...")?;
    let mut next: u32 = first.parse()?;
    for arg in args {
        let (path, lines) = arg.split_once(':').unwrap_or((&arg, ""));
        let lines = lines.split(',').filter(|line| !line.is_empty());
        let skipped: Vec<usize> = lines.map(str::parse).collect::<Result<_, _>>()?;
        let source = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
        let rewritten =
            rewrite::rewrite(&source, next, &skipped).with_context(|| path.to_owned())?;
        for mutant in &rewritten.mutants {
            println!(
                "{}",
                json!({"id": mutant.id, "file": path, "line": mutant.line, "function": mutant.function, "what": mutant.what})
            );
        }
        next += rewritten.mutants.len() as u32;
        std::fs::write(path, rewritten.text)?;
    }
    Ok(())
}

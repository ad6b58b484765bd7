//! What the run says on standard output in the end.

use super::page;
use super::result::Report;
use crate::tables;
use std::io::Write;

/// What stands out.
pub fn print(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for (caption, table) in page::headlines(report)? {
        writeln!(out, "\n{caption}")?;
        writeln!(out, "{}", tables::with_header(table.header, table.rows))?;
    }
    Ok(())
}

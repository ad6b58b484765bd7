//! What the run says on standard output in the end.

use super::page::headlines;
use super::result::Report;
use crate::tables;
use std::io::{self, Write};
use uext4_model::{ArmModel, Projection};

/// What stands out, and how well the projection meets what was measured.
///
/// # Errors
/// Of the output.
pub fn print(report: &Report, projection: &Projection, out: &mut dyn Write) -> io::Result<()> {
    for (caption, table) in headlines::tables(report) {
        writeln!(out, "\n{caption}")?;
        let mut shown = tables::with_header(table.header);
        shown.add_rows(table.rows);
        tables::align(&mut shown);
        writeln!(out, "{shown}")?;
    }
    let arms: Vec<&ArmModel> = projection.mechanisms.iter().flat_map(|m| &m.arms).collect();
    let worse =
        |a: &&&ArmModel, b: &&&ArmModel| a.worst_error_percent.total_cmp(&b.worst_error_percent);
    if let Some(worst) = arms.iter().max_by(worse) {
        writeln!(
            out,
            "\nprojection of {} arms: at counts that it was not fitted to it is off by at most {:.0} % ({})",
            arms.len(),
            worst.worst_error_percent,
            worst.name
        )?;
    }
    Ok(())
}

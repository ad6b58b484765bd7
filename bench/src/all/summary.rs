//! What the run says on standard output in the end.

use super::page;
use super::result::Report;
use crate::model::VariantModel;
use crate::tables;
use std::io::Write;

/// What stands out, and how well the projection meets what was measured.
pub fn print(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for (caption, table) in page::headlines(report)? {
        writeln!(out, "\n{caption}")?;
        writeln!(out, "{}", tables::with_header(table.header, table.rows))?;
    }
    let mechanisms = report.model.iter().flat_map(|model| &model.mechanisms);
    let variants: Vec<&VariantModel> = mechanisms.flat_map(|m| &m.variants).collect();
    let worst = variants
        .iter()
        .filter_map(|variant| Some((variant.worst_error_percent?, variant.name.as_str())))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((percent, name)) = worst {
        writeln!(
            out,
            "\nprojection of {} variants: at counts that it was not fitted to it is off by at most {percent:.0} % ({name})",
            variants.len(),
        )?;
    }
    Ok(())
}

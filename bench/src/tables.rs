//! Tables without lines, numbers to the right.

use crate::report::Spread;
use comfy_table::{CellAlignment, Table, presets};

/// A table with these headings.
pub fn plain<const N: usize>(header: [&str; N]) -> Table {
    with_header(header.iter().map(|h| (*h).to_owned()).collect())
}

/// A table with as many headings as there are variants.
pub fn with_header(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}

/// Every column but the first to the right.
pub fn align(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A number without fraction, its thousands apart.
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut out = String::new();
    if number <= -0.5 {
        out.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A row's label, and for each variant what was measured.
pub type ComparedRow = (String, Vec<Spread>);

/// More variants than this stand below each other.
const BESIDE_MAX: usize = 3;

/// Variants side by side: the median, its ratio to the first variant's, minimum and maximum.
pub fn side_by_side(what: &str, variants: &[String], rows: &[ComparedRow]) -> Table {
    if variants.len() > BESIDE_MAX {
        return below_each_other(what, variants, rows);
    }
    let mut header = vec![what.to_owned()];
    for (i, variant) in variants.iter().enumerate() {
        header.push(variant.clone());
        if i > 0 {
            header.push("ratio".to_owned());
        }
        header.push("min-max".to_owned());
    }
    let mut table = with_header(header);
    for (label, spreads) in rows {
        let mut cells = vec![label.clone()];
        let first = spreads.first().map_or(0.0, |s| s.median);
        for (i, spread) in spreads.iter().enumerate() {
            cells.push(count(spread.median));
            if i > 0 {
                cells.push(ratio(spread.median, first));
            }
            cells.push(min_max(spread));
        }
        table.add_row(cells);
    }
    align(&mut table);
    table
}

fn below_each_other(what: &str, variants: &[String], rows: &[ComparedRow]) -> Table {
    let mut table = plain([what, "arm", "median", "ratio", "min-max"]);
    for (label, spreads) in rows {
        let first = spreads.first().map_or(0.0, |s| s.median);
        for (i, (variant, spread)) in variants.iter().zip(spreads).enumerate() {
            let label = if i == 0 { label.as_str() } else { "" };
            table.add_row([
                label.to_owned(),
                variant.clone(),
                count(spread.median),
                ratio(spread.median, first),
                min_max(spread),
            ]);
        }
    }
    align(&mut table);
    table
}

fn min_max(spread: &Spread) -> String {
    format!("{}-{}", count(spread.min), count(spread.max))
}

/// `a` over `b`.
pub fn ratio(a: f64, b: f64) -> String {
    match b > 0.0 {
        true => format!("{:.2}", a / b),
        false => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_apart() {
        for (number, text) in [(0.0, "0"), (999.6, "1,000"), (-1234567.0, "-1,234,567")] {
            assert_eq!(super::count(number), text);
        }
    }
}

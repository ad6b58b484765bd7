//! Tables without lines, numbers to the right.

use crate::spread::Spread;
use comfy_table::{CellAlignment, Row, Table, presets};

/// A table of rows, below headings that bars separate.
pub fn table(header: &str, rows: impl IntoIterator<Item: Into<Row>>) -> Table {
    with_header(header.split('|').map(str::to_owned).collect(), rows)
}

/// A table of rows, every column but the first to the right.
pub fn with_header(header: Vec<String>, rows: impl IntoIterator<Item: Into<Row>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
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
    let row = |(label, spreads): &ComparedRow| {
        let mut cells = vec![label.clone()];
        let first = spreads.first().map_or(0.0, |s| s.median);
        for (i, spread) in spreads.iter().enumerate() {
            cells.push(count(spread.median));
            if i > 0 {
                cells.push(ratio(spread.median, first));
            }
            cells.push(min_max(spread));
        }
        cells
    };
    with_header(header, rows.iter().map(row))
}

fn below_each_other(what: &str, variants: &[String], rows: &[ComparedRow]) -> Table {
    let mut lines = Vec::new();
    for (label, spreads) in rows {
        let first = spreads.first().map_or(0.0, |s| s.median);
        for (i, (variant, spread)) in variants.iter().zip(spreads).enumerate() {
            let label = if i == 0 { label.as_str() } else { "" };
            lines.push([
                label.to_owned(),
                variant.clone(),
                count(spread.median),
                ratio(spread.median, first),
                min_max(spread),
            ]);
        }
    }
    table(&format!("{what}|arm|median|ratio|min-max"), lines)
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

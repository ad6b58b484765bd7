//! Names in columns.

use super::long::Line;
use std::io::{self, Write};
use terminal_size::{Width, terminal_size_of};

/// Of a terminal that does not say how wide it is.
const WIDTH: usize = 80;
/// Between two columns.
const GAP: usize = 2;
const TAB: usize = 8;

/// How wide the columns may be together: as the user says, or the environment, or the terminal.
pub fn width(given: Option<usize>) -> usize {
    let from_environment = || std::env::var("COLUMNS").ok()?.parse().ok();
    let of_terminal = || {
        let (Width(columns), _) = terminal_size_of(std::io::stdout())?;
        Some(usize::from(columns))
    };
    given
        .or_else(from_environment)
        .or_else(of_terminal)
        .unwrap_or(WIDTH)
}

/// Writes names, one below the other, in as many columns as there is room for.
pub fn write(names: &[Line], width: usize, out: &mut impl Write) -> io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let lengths: Vec<usize> = names.iter().map(|name| name.width).collect();
    let rows = rows(&lengths, width);
    let widths: Vec<usize> = column_widths(&lengths, rows).collect();
    for row in 0..rows {
        let mut at = 0;
        let mut start = 0;
        for (column, i) in (row..names.len()).step_by(rows).enumerate() {
            pad(&mut at, start, out)?;
            out.write_all(&names[i].text)?;
            at += lengths[i];
            start += widths[column] + GAP;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The fewest rows whose columns fit.
fn rows(lengths: &[usize], width: usize) -> usize {
    let fits = |rows: &usize| {
        let columns = lengths.len().div_ceil(*rows);
        let total: usize = column_widths(lengths, *rows).sum();
        width == 0 || total + GAP * (columns - 1) < width
    };
    (1..lengths.len())
        .find(fits)
        .unwrap_or(lengths.len().max(1))
}

fn column_widths(lengths: &[usize], rows: usize) -> impl Iterator<Item = usize> {
    let columns = lengths.chunks(rows);
    columns.map(|column| column.iter().copied().max().unwrap_or(0))
}

/// Advances to a column, with tabs where one stands for several spaces.
fn pad(at: &mut usize, to: usize, out: &mut impl Write) -> io::Result<()> {
    while *at < to {
        let stop = (*at / TAB + 1) * TAB;
        if stop <= to && stop > *at + 1 {
            out.write_all(b"\t")?;
            *at = stop;
        } else {
            out.write_all(b" ")?;
            *at += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Line, write};

    #[test]
    fn columns_fit() {
        let names: Vec<Line> = ["a", "bbbb", "cc", "ddddddd", "e"]
            .map(|name| Line {
                text: name.as_bytes().to_vec(),
                width: name.len(),
            })
            .into();
        let written = |width| {
            let mut out = Vec::new();
            write(&names, width, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(80), "a  bbbb  cc  ddddddd  e\n");
        assert_eq!(written(0), written(80));
        assert_eq!(written(18), "a     cc       e\nbbbb  ddddddd\n");
        assert_eq!(written(1), "a\nbbbb\ncc\nddddddd\ne\n");
        let mut none = Vec::new();
        write(&[], 80, &mut none).unwrap();
        assert!(none.is_empty());
    }
}

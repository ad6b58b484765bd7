//! The runs of all series and cases, and their rows.

use crate::report::Row;
use crate::sample::{Cell, Sample};

/// A cell for each series, case and operation.
#[derive(Debug)]
pub struct Grid {
    cases: usize,
    ops: usize,
    cells: Vec<Cell>,
}

impl Grid {
    /// All empty.
    pub fn new(all_series: usize, cases: usize, ops: usize) -> Grid {
        let cells = (0..all_series * cases * ops).map(|_| Cell::default());
        Grid {
            cases,
            ops,
            cells: cells.collect(),
        }
    }

    fn at(&self, series: usize, case: usize, op: usize) -> usize {
        (series * self.cases + case) * self.ops + op
    }

    /// Adds a run.
    pub fn push(&mut self, [series, case, op]: [usize; 3], sample: Sample, counted: bool) {
        let at = self.at(series, case, op);
        self.cells[at].push(sample, counted);
    }

    /// The runs of a series, case and operation.
    pub fn cell(&self, series: usize, case: usize, op: usize) -> &Cell {
        &self.cells[self.at(series, case, op)]
    }

    /// A row of the first operation for each series and count of threads, the counts of a series together.
    pub fn rows(&self, names: &[String], op: &'static str, counts: &[usize]) -> Vec<Row> {
        let of_series = |(series, name): (usize, &String)| -> Vec<Row> {
            let counts = counts.iter().enumerate();
            let row = |(case, &count)| Row::of(name, op, count, self.cell(series, case, 0));
            counts.map(row).collect()
        };
        names.iter().enumerate().flat_map(of_series).collect()
    }
}

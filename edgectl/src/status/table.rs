//! Text in columns: each as wide as its widest cell and three spaces, at least ten; the last one isn't padded.

use std::fmt;

const NARROWEST: usize = 10;
const GAP: usize = 3;

/// A header and rows.
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    /// Only the header yet.
    pub(super) fn new(header: Vec<String>) -> Self {
        Self(vec![header])
    }

    /// Appends a row.
    pub(super) fn push(&mut self, row: Vec<String>) {
        self.0.push(row);
    }

    /// Whether there is nothing but the header.
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.0.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        (widest + GAP).max(NARROWEST)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.0 {
            let last = row.len().saturating_sub(1);
            for (column, cell) in row.iter().enumerate() {
                match column == last {
                    true => writeln!(f, "{cell}")?,
                    false => write!(f, "{cell:<width$}", width = self.width(column))?,
                }
            }
        }
        Ok(())
    }
}

//! [`Lines`]: the line of a file on which each row begins. Readers of text record it, messages name rows by it.

/// The line of every row, in little memory if most rows take one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// Rows from which on the line number minus the row number has this value.
    shifts: Vec<(usize, usize)>,
}

impl Lines {
    /// Records that a row begins on a line; rows are counted from 0, lines from 1, and a line is never before its row.
    pub(super) fn begin(&mut self, row: usize, line: usize) {
        let shift = line - row;
        if self.shifts.last().is_none_or(|(_, last)| *last != shift) {
            self.shifts.push((row, shift));
        }
    }

    /// The line of a row.
    pub(super) fn of(&self, row: usize) -> usize {
        let next = self.shifts.partition_point(|(first, _)| *first <= row);
        row + next.checked_sub(1).map_or(1, |at| self.shifts[at].1)
    }
}

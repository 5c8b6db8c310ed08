//! [`Lines`]: on which line of a file each row begins. Readers of text tell it, messages name rows by it.

/// The line of every row: little is held, as most rows have a line each.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// From each of these rows on, how much later than its own number the line of a row is.
    shifts: Vec<(usize, usize)>,
}

impl Lines {
    /// Takes in that a row begins on a line; rows are counted from 0, lines from 1, and a line is never before its row.
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

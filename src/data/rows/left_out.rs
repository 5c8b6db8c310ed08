//! [`LeftOut`]: the rows of a file that are no rows of the data, as they have no class or no number. Turns the number of a row of
//! the data into its number in the file, which is the number a person looks for.

use serde::{Deserialize, Serialize};

use crate::base::order;

/// Numbers of the rows left out of the file, counted from 0, as ranges `[from, up to)`, ascending and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeftOut(Vec<[u32; 2]>);

impl LeftOut {
    /// Tells if no row is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number in the file of a row of the data.
    pub fn in_file(&self, row: u32) -> u32 {
        self.numbers([row])[0]
    }

    /// The numbers in the file of many rows of the data.
    pub fn numbers(&self, rows: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut out = 0;
        // For each gap: the first row of the data after it, and the number of rows left out before that.
        let gaps = self.0.iter().map(|[from, to]| {
            let row = from - out;
            out += to - from;
            [row, out]
        });
        let gaps: Vec<[u32; 2]> = gaps.collect();
        let number = |row: u32| match gaps.partition_point(|[from, _]| *from <= row) {
            0 => row,
            before => row + gaps[before - 1][1],
        };
        rows.into_iter().map(number).collect()
    }

    /// Leaves out more rows: the rows of the data for which `keep` is false.
    pub(crate) fn leave_out(&mut self, keep: &[bool]) {
        let out = (0..).zip(keep).filter(|(_, keep)| !**keep);
        let out = self.numbers(out.map(|(row, _)| row));
        let mut all: Vec<[u32; 2]> = out.into_iter().map(|row| [row, row + 1]).collect();
        all.append(&mut self.0);
        order::sort_by_key(&mut all, |stretch| *stretch);
        for stretch in all {
            match self.0.last_mut() {
                Some(last) if last[1] == stretch[0] => last[1] = stretch[1],
                _ => self.0.push(stretch),
            }
        }
    }

    /// The rows left out of two files one after the other, of which the first has `rows` rows in the data.
    pub(crate) fn before(&self, rows: usize, other: &Self) -> Self {
        let of_first: u32 = self.0.iter().map(|[from, to]| to - from).sum();
        let first = rows as u32 + of_first;
        let mut both = self.clone();
        both.0
            .extend(other.0.iter().map(|stretch| stretch.map(|row| row + first)));
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_the_numbers_of_their_file_however_often_others_are_left_out() {
        let mut file: Vec<u32> = (0..12).collect();
        let mut out = LeftOut::default();
        for gone in [&[0u32, 3, 4, 11][..], &[1, 2], &[9]] {
            let keep: Vec<bool> = file.iter().map(|row| !gone.contains(row)).collect();
            out.leave_out(&keep);
            file.retain(|row| !gone.contains(row));
            let numbers: Vec<u32> = (0..file.len() as u32).map(|row| out.in_file(row)).collect();
            assert_eq!(numbers, file);
        }
        assert_eq!(out.0, [[0, 5], [9, 10], [11, 12]]);
        let other = LeftOut(vec![[1, 2]]);
        let both = out.before(file.len(), &other);
        assert_eq!([5, 6].map(|row| both.in_file(row)), [12, 14]);
    }
}

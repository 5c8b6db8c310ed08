//! [`ByClass`]: rows grouped by their class, each class ascending. Finds the positives of a query or an anchor without a look at
//! every row.

use std::ops::Range;

/// Rows by class: `members[starts[c] .. starts[c + 1]]` are those of class `c`, ascending.
#[derive(Clone, Debug)]
pub(crate) struct ByClass {
    starts: Vec<u32>,
    /// All rows, class after class.
    pub(crate) members: Vec<u32>,
}

impl ByClass {
    /// Groups rows by the numbers of their classes, in one pass; some classes may have no row.
    pub(crate) fn new(labels: &[u32]) -> Self {
        let counts = class_counts(labels);
        let mut starts = vec![0];
        for count in &counts {
            starts.push(starts[starts.len() - 1] + count);
        }
        let mut next = starts.clone();
        let mut members = vec![0; labels.len()];
        for (row, label) in (0..).zip(labels) {
            let place = &mut next[*label as usize];
            members[*place as usize] = row;
            *place += 1;
        }
        Self { starts, members }
    }

    /// Range of a class in `members`; empty for a class without rows.
    pub(crate) fn of(&self, class: u32) -> Range<usize> {
        match self.starts.get(class as usize..) {
            Some([start, end, ..]) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }
}

/// Number of rows of each class, up to the last class that has one.
pub(crate) fn class_counts(labels: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; labels.iter().max().map_or(0, |most| *most as usize + 1)];
    for label in labels {
        counts[*label as usize] += 1;
    }
    counts
}

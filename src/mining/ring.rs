//! [`Ring`]: labels of the rows in a memory's slots, and the number of each class that has rows there. Classes come and go with their
//! rows, so that a memory takes labels without end in as many numbers as it has slots.

use std::collections::HashMap;
use std::ops::Range;

/// Class of an anchor without a stored row of its class.
pub(super) const NO_CLASS: u32 = u32::MAX;

/// Labels by slot, the oldest replaced first.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    capacity: usize,
    labels: Vec<i64>,
    cursor: usize,
    numbers: HashMap<i64, u32>,
    /// Stored rows of each class, by its number.
    counts: Vec<u32>,
    /// Numbers below those in use that no class has.
    free: Vec<u32>,
}

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            labels: Vec::new(),
            cursor: 0,
            numbers: HashMap::new(),
            counts: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Ring of the labels of slots from 0 on, whose next row goes to the slot `cursor`.
    pub(super) fn of(capacity: usize, labels: &[i64], cursor: usize) -> Self {
        let mut ring = Self::new(capacity);
        ring.add(labels);
        ring.cursor = cursor;
        ring
    }

    /// Stretches of slots that so many rows are stored in, in their order: two if they pass the end.
    pub(super) fn next_slots(&self, rows: usize) -> [Range<usize>; 2] {
        let before_end = rows.min(self.capacity - self.cursor);
        let first = self.cursor..self.cursor + before_end;
        [first, 0..rows - before_end]
    }

    /// Stores rows of these labels, at most as many as there are slots.
    pub(super) fn add(&mut self, labels: &[i64]) {
        for label in labels {
            match self.labels.get_mut(self.cursor) {
                Some(stored) => {
                    let old = std::mem::replace(stored, *label);
                    self.leave(old);
                }
                None => self.labels.push(*label),
            }
            let number = self.take(*label);
            self.counts[number as usize] += 1;
            self.cursor = (self.cursor + 1) % self.capacity;
        }
    }

    /// Number of a class, a new one if it has none.
    fn take(&mut self, label: i64) -> u32 {
        let Self {
            numbers,
            counts,
            free,
            ..
        } = self;
        *numbers.entry(label).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                counts.push(0);
                counts.len() as u32 - 1
            })
        })
    }

    /// Takes a row off its class, whose number is free with its last row.
    fn leave(&mut self, label: i64) {
        let number = self.number(label);
        let count = &mut self.counts[number as usize];
        *count -= 1;
        if *count == 0 {
            self.numbers.remove(&label);
            self.free.push(number);
        }
    }

    /// Number of a class; [`NO_CLASS`] without stored rows.
    pub(super) fn number(&self, label: i64) -> u32 {
        self.numbers.get(&label).copied().unwrap_or(NO_CLASS)
    }

    /// Label of each slot.
    pub(super) fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// Stored rows of each class, by its number.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Slot of the next row.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Number of stored rows.
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_without_rows_give_their_numbers_back() {
        let mut ring = Ring::new(3);
        for label in 0..1000 {
            ring.add(&[label, -label]);
            let of_stored = ring.labels.iter().map(|label| ring.number(*label));
            assert!(of_stored.clone().all(|number| number < 4));
            assert_eq!(ring.counts.iter().sum::<u32>() as usize, ring.len());
            assert!(of_stored.eq(ring.labels.iter().map(|label| ring.numbers[label])));
        }
        assert_eq!(ring.number(0), NO_CLASS);
        assert!(ring.counts.len() < 5 && ring.numbers.len() < 4, "{ring:?}");
    }

    #[test]
    fn rows_that_pass_the_end_go_to_two_stretches_and_the_oldest_are_replaced() {
        let mut ring = Ring::new(5);
        ring.add(&[1, 1, 2]);
        assert_eq!(ring.next_slots(4), [3..5, 0..2]);
        ring.add(&[3, 3, 4, 4]);
        assert_eq!(ring.labels(), [4, 4, 2, 3, 3]);
        assert_eq!((ring.cursor(), ring.number(1)), (2, NO_CLASS));
        assert_eq!(ring.counts()[ring.number(4) as usize], 2);
        let again = Ring::of(5, ring.labels(), ring.cursor());
        assert_eq!(again.next_slots(5), [2..5, 0..2]);
        assert_eq!(again.counts()[again.number(3) as usize], 2);
    }
}

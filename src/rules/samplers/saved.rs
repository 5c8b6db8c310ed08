//! State of a sampler as numbers: orders and places. A saved state may hold anything, so it is checked against the rows there are.

use super::Classes;
use crate::base::order;

/// Numbers that a sampler saved, from its first on.
#[derive(Debug)]
pub(crate) struct Saved<'a>(pub(crate) &'a [u32]);

impl<'a> Saved<'a> {
    /// The next `count` numbers.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u32]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// The next number, a place from 0 to `most`; `None` beyond it.
    pub(super) fn place(&mut self, most: usize) -> Option<usize> {
        let place = self.take(1)?[0] as usize;
        (place <= most).then_some(place)
    }

    /// The next numbers, if they are `numbers` in some order.
    pub(super) fn order_of(&mut self, numbers: &[u32]) -> Option<Vec<u32>> {
        let order = self.take(numbers.len())?;
        (sorted(order) == sorted(numbers)).then(|| order.to_vec())
    }

    /// Lists that [`save`] wrote, if they are `lists` in some order, each in some order.
    pub(super) fn orders_of(&mut self, lists: &Classes) -> Option<Classes> {
        let mut orders = Vec::new();
        for _ in lists {
            let count = self.take(1)?[0] as usize;
            orders.push(self.take(count)?.to_vec());
        }
        let all = |lists: &Classes| {
            let mut all: Vec<Vec<u32>> = lists.iter().map(|list| sorted(list)).collect();
            crate::base::order::sort_by(&mut all, Ord::cmp);
            all
        };
        (all(&orders) == all(lists)).then_some(orders)
    }
}

/// Appends lists, each with its length before it.
pub(super) fn save<'a>(lists: impl IntoIterator<Item = &'a Vec<u32>>, numbers: &mut Vec<u32>) {
    for list in lists {
        numbers.push(list.len() as u32);
        numbers.extend(list);
    }
}

fn sorted(numbers: &[u32]) -> Vec<u32> {
    let mut sorted = numbers.to_vec();
    order::sort_numbers(&mut sorted);
    sorted
}

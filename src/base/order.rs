//! Sorting, and maps of pairs, by code that all types and orders share: with the standard library each type adds a sort of 4 kB to
//! the page, and each map another.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::cpu;

/// Sorts places of a list by the items there; equal items stay in order. Sorted runs of 1, 2, 4 .. places are merged two by two.
pub fn sort_places(places: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    let mut merged = places.to_vec();
    let mut length = 1;
    while length < places.len() {
        for (run, merged) in places.chunks(2 * length).zip(merged.chunks_mut(2 * length)) {
            let (mut left, mut right) = run.split_at(length.min(run.len()));
            for place in merged {
                let of = match (left, right) {
                    ([l, ..], [r, ..]) if compare(*l, *r).is_gt() => &mut right,
                    ([], _) => &mut right,
                    _ => &mut left,
                };
                *place = of[0];
                *of = &of[1..];
            }
        }
        places.copy_from_slice(&merged);
        length *= 2;
    }
}

/// Sorts a list; equal items stay in order.
pub fn sort_by<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let mut places: Vec<usize> = (0..items.len()).collect();
    sort_places(&mut places, &|a, b| compare(&items[a], &items[b]));
    let mut left: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(places.into_iter().filter_map(|place| left[place].take()));
}

/// Sorts a list by a number or the like that each item has, the smallest first; equal items stay in order.
pub fn sort_by_key<T, K: Ord>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts whole numbers.
pub fn sort_numbers(numbers: &mut [u32]) {
    let mut wide: Vec<u64> = numbers.iter().map(|number| u64::from(*number)).collect();
    sort_wide(&mut wide);
    for (number, wide) in numbers.iter_mut().zip(wide) {
        *number = wide as u32;
    }
}

/// Sorts whole numbers of 64 bits.
pub fn sort_wide(numbers: &mut [u64]) {
    // By the sort of the searches: a number is its lower word and its upper one.
    cpu::tile::sort_numbers(bytemuck::cast_slice_mut(numbers));
}

/// The map of these pairs; of equal keys the last one counts.
pub fn map_of<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key, value);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted() {
        let mut numbers = [7, u32::MAX, 0, 7, 1 << 31];
        sort_numbers(&mut numbers);
        assert_eq!(numbers, [0, 7, 7, 1 << 31, u32::MAX]);
    }

    #[test]
    fn equal_items_stay_in_order() {
        for count in [0, 1, 2, 3, 64, 100, 257] {
            let mut items: Vec<(u32, String)> = (0..count)
                .map(|i| ((i * 37) % 5, format!("item {i}")))
                .collect();
            let mut sorted = items.clone();
            sorted.sort_by_key(|(key, _)| *key);
            sort_by_key(&mut items, |(key, _)| *key);
            assert_eq!(items, sorted);
        }
    }
}

//! Folds: rows dealt into parts, each of which is held out once while the others train.

use rand::seq::SliceRandom as _;

use super::{Dataset, Sides};
use crate::base::order;
use crate::base::rng;

impl Sides {
    /// Deals these rows to `count` folds by the seed, and returns for each the sides on which its rows validate and the others train;
    /// no row is tested. Rows of one `unit` (a class, a group) stay together; without units every class is dealt evenly.
    pub(crate) fn folds(
        dataset: &Dataset,
        rows: &[u32],
        units: Option<&[u32]>,
        count: usize,
        seed: u64,
    ) -> Vec<Self> {
        let mut rng = rng::stream(seed, "folds");
        let key =
            |row: u32| units.map_or(dataset.labels[row as usize], |units| units[row as usize]);
        let mut sorted = rows.to_vec();
        sorted.shuffle(&mut rng);
        order::sort_by_key(&mut sorted, |row| key(*row));
        let parts = sorted.chunk_by(|a, b| key(*a) == key(*b));
        let mut parts: Vec<&[u32]> = parts.collect();
        let (mut fold_of, mut sizes) = (vec![0; dataset.rows()], vec![0; count]);
        parts.shuffle(&mut rng);
        // The largest first, so that whole ones come out even.
        order::sort_by_key(&mut parts, |part| std::cmp::Reverse(part.len()));
        for part in parts {
            let first = (0..count).min_by_key(|fold| sizes[*fold]).unwrap_or(0);
            for (place, row) in part.iter().enumerate() {
                let fold = match units {
                    Some(_) => first,
                    None => (first + place) % count,
                };
                fold_of[*row as usize] = fold;
                sizes[fold] += 1;
            }
        }
        let (mut folds, mut rows) = (vec![Self::default(); count], rows.to_vec());
        order::sort_numbers(&mut rows);
        for row in rows {
            for (fold, sides) in folds.iter_mut().enumerate() {
                match fold_of[row as usize] == fold {
                    true => sides.validation.push(row),
                    false => sides.train.push(row),
                }
            }
        }
        folds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_held_out_once_with_its_share_of_each_class_or_with_its_whole_unit() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let rows: Vec<u32> = (100..1797).collect();
        let units: Vec<u32> = (0..1797).map(|row| row % 13).collect();
        for units in [None, Some(&units[..])] {
            let folds = Sides::folds(&dataset, &rows, units, 5, 3);
            let held = folds.iter().map(|fold| &fold.validation[..]);
            let mut held: Vec<u32> = held.collect::<Vec<_>>().concat();
            order::sort_numbers(&mut held);
            assert_eq!(held, rows);
            for Sides {
                train, validation, ..
            } in &folds
            {
                assert_eq!(train.len() + validation.len(), rows.len());
                let of = |rows: &[u32], number: u32| {
                    let key =
                        |row: &&u32| units.unwrap_or(&dataset.labels)[**row as usize] == number;
                    rows.iter().filter(key).count()
                };
                for number in 0..10 {
                    let (all, own) = (of(&rows, number), of(validation, number));
                    match units {
                        None => assert!((all / 5..=all / 5 + 1).contains(&own), "{own} of {all}"),
                        Some(_) => assert!(own == 0 || own == all, "{own} of {all}"),
                    }
                }
            }
            assert_ne!(folds, Sides::folds(&dataset, &rows, units, 5, 4));
        }
    }
}

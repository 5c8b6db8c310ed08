//! [`RowsToCheck`]: rows whose neighbours contradict their label, and classes that are taken for one another.
//!
//! If nearly all of a row's nearest rows are of one other class, either its label is wrong or it is a case that people, too, would
//! take for the other. Rows that were never trained on say more: a head can be taught a wrong label.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::order;
use crate::search::knn::Neighbors;

/// The part of the neighbours that must be of one other class.
const AGREE: f64 = 0.8;
/// The most pairs of classes that are listed.
const CONFUSIONS: usize = 20;

/// Rows and classes that a person may want to look at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowsToCheck {
    /// Rows that were looked at.
    pub rows: u64,
    /// Rows that are likely mislabelled, the surest first.
    pub suspects: Vec<Suspect>,
    /// Classes that are taken for another most often: at most 20 pairs.
    pub confused: Vec<Confusion>,
}

/// A row whose neighbours are of another class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// Number of the row in the data, counted from 0.
    pub row: u32,
    /// The class that its label says.
    pub class: String,
    /// Class of most of its neighbours.
    pub likely: String,
    /// Neighbours of the likely class.
    pub votes: u32,
    /// Neighbours of the row's own class.
    pub own: u32,
    /// All of its neighbours.
    pub neighbours: u32,
    /// Mean cosine similarity to the neighbours of the likely class.
    pub similarity: f64,
}

/// A class that is taken for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    /// The class.
    pub class: String,
    /// Class of the nearest row instead.
    pub taken_for: String,
    /// Rows of the class whose nearest row is of the other class.
    pub rows: u64,
    /// Rows of the class.
    pub of: u64,
}

impl RowsToCheck {
    /// Checks rows by their neighbours among themselves. `rows`: their numbers in the data; `labels`: their classes.
    ///
    /// # Panics
    /// If there are not as many labels and lists of neighbours as rows.
    pub fn new(rows: &[u32], labels: &[String], found: &Neighbors) -> Self {
        assert_eq!(rows.len(), labels.len(), "a label a row");
        let k = found.k;
        assert_eq!(found.ids.len(), rows.len() * k, "neighbours of each row");
        let similarities = found.similarities.chunks_exact(k);
        let lists = found.ids.chunks_exact(k).zip(similarities);
        let mut suspects = Vec::new();
        let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
        let mut confused: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for ((row, class), (ids, similarities)) in rows.iter().zip(labels).zip(lists) {
            let class = class.as_str();
            *sizes.entry(class).or_default() += 1;
            let of = |id: &u32| labels[*id as usize].as_str();
            let nearest = of(&ids[0]);
            if nearest != class {
                *confused.entry((class, nearest)).or_default() += 1;
            }
            let mut votes: BTreeMap<&str, (u32, f64)> = BTreeMap::new();
            for (id, similarity) in ids.iter().zip(similarities) {
                let (count, sum) = votes.entry(of(id)).or_default();
                *count += 1;
                *sum += f64::from(*similarity);
            }
            let own = votes.get(class).map_or(0, |(count, _)| *count);
            let others = votes.into_iter().filter(|(other, _)| *other != class);
            let likely = others.max_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            if let Some((likely, (votes, sum))) = likely
                && f64::from(votes) >= AGREE * k as f64
            {
                suspects.push(Suspect {
                    row: *row,
                    class: class.to_owned(),
                    likely: likely.to_owned(),
                    votes,
                    own,
                    neighbours: k as u32,
                    similarity: sum / f64::from(votes),
                });
            }
        }
        order::sort_by(&mut suspects, |a, b| {
            let surer = b.votes.cmp(&a.votes);
            let nearer = b.similarity.total_cmp(&a.similarity);
            surer.then(nearer).then(a.row.cmp(&b.row))
        });
        let confusion = |((class, taken_for), rows): ((&str, &str), u64)| Confusion {
            class: class.to_owned(),
            taken_for: taken_for.to_owned(),
            rows,
            of: sizes[class],
        };
        let mut confused: Vec<Confusion> = confused.into_iter().map(confusion).collect();
        order::sort_by_key(&mut confused, |confusion| std::cmp::Reverse(confusion.rows));
        confused.truncate(CONFUSIONS);
        Self {
            rows: rows.len() as u64,
            suspects,
            confused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_among_another_class_is_found_and_its_class_is_said_to_be_taken_for_it() {
        // Six rows on a line, three of each class; row 102 bears the label of the other side.
        let rows = [100, 101, 102, 103, 104, 105];
        let labels = ["a", "a", "b", "b", "b", "b"].map(str::to_owned);
        let found = Neighbors {
            k: 2,
            ids: vec![1, 2, 0, 2, 1, 0, 4, 5, 3, 5, 4, 3],
            similarities: vec![0.9, 0.8, 0.9, 0.9, 0.9, 0.7, 0.9, 0.8, 0.9, 0.9, 0.9, 0.8],
        };
        let check = RowsToCheck::new(&rows, &labels, &found);
        assert_eq!(check.rows, 6);
        let [suspect] = &check.suspects[..] else {
            panic!("{check:?}");
        };
        assert_eq!(
            (suspect.row, &suspect.likely[..], suspect.votes, suspect.own),
            (102, "a", 2, 0)
        );
        assert!((suspect.similarity - 0.8).abs() < 1e-6);
        let confused = |class: &str, taken_for: &str, rows, of| Confusion {
            class: class.to_owned(),
            taken_for: taken_for.to_owned(),
            rows,
            of,
        };
        // Row 100's nearest is 101, row 101's is 100: only row 102 is nearest to another class.
        assert_eq!(check.confused, [confused("b", "a", 1, 4)]);
    }

    #[test]
    fn a_row_between_two_classes_is_no_suspect() {
        let labels = ["a", "a", "b", "b", "c"].map(str::to_owned);
        let found = Neighbors {
            k: 4,
            ids: vec![1, 2, 3, 4, 0, 2, 3, 4, 3, 4, 0, 1, 2, 4, 0, 1, 0, 2, 1, 3],
            similarities: vec![0.5; 20],
        };
        let check = RowsToCheck::new(&[0, 1, 2, 3, 4], &labels, &found);
        assert_eq!(check.suspects, []);
    }
}

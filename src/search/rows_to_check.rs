//! [`RowsToCheck`]: rows whose neighbours contradict their label, and classes that are taken for one another.
//!
//! If nearly all of a row's nearest rows are of one other class, either its label is wrong or it is a case that people, too, would
//! take for the other. Rows that were never trained on say more: a head can be taught a wrong label.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::order;
use crate::search::knn::Neighbors;

/// The part of the neighbours that must be of one other class.
const AGREE: f64 = 0.8;
/// Part of the usual margin that a row must have on the wrong side.
const FAR: f64 = 0.7;
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
    /// The head contradicts its label; else the features alone do.
    pub by_head: bool,
    /// By how much nearer it lies, in cosine, to the mean of another class than to that of its own, if that was measured.
    pub margin: Option<f64>,
    /// Neighbours of the likely class by the features alone, if these were looked at too.
    pub by_features: Option<u32>,
}

/// What is known of rows that a head did not train on, beside their neighbours.
#[derive(Debug)]
pub(crate) struct Beside {
    /// Neighbours by the features alone.
    pub(crate) by_features: Neighbors,
    /// By how much nearer each row lies to the mean of another class than to that of its own.
    pub(crate) margins: Vec<f32>,
}

impl Beside {
    /// The least margin of a row that is on the wrong side: most of what usual rows have on the right side. A row between classes that
    /// overlap has less.
    fn least(&self) -> f64 {
        let mut margins = self.margins.clone();
        order::sort_by(&mut margins, f32::total_cmp);
        let median = margins.get(margins.len() / 2).copied().unwrap_or_default();
        (-FAR * f64::from(median)).max(0.0)
    }
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

/// Votes of a row's neighbours: of each class, their number and the sum of their similarities.
type Votes<'a> = BTreeMap<&'a str, (u32, f64)>;

impl RowsToCheck {
    /// Checks rows by their neighbours among themselves. `rows`: their numbers in the data; `labels`: their classes.
    ///
    /// # Panics
    /// If there are not as many labels and lists of neighbours as rows.
    pub fn new(rows: &[u32], labels: &[String], found: &Neighbors) -> Self {
        Self::beside(rows, labels, found, None)
    }

    /// Checks rows as [`RowsToCheck::new`] does. With what is known beside, only those that lie far on the wrong side are listed, and
    /// those whose neighbours by the features alone contradict their label.
    pub(crate) fn beside(
        rows: &[u32],
        labels: &[String],
        found: &Neighbors,
        beside: Option<&Beside>,
    ) -> Self {
        let least = beside.map_or(0.0, Beside::least);
        assert_eq!(rows.len(), labels.len(), "a label a row");
        let k = found.k;
        assert_eq!(found.ids.len(), rows.len() * k, "neighbours of each row");
        let mut suspects = Vec::new();
        for (place, (row, class)) in rows.iter().zip(labels).enumerate() {
            let class = class.as_str();
            let votes = votes(found, labels, place);
            let of_features = beside.map(|of| self::votes(&of.by_features, labels, place));
            let margin = beside.map(|of| f64::from(of.margins[place]));
            let is_far = margin.is_none_or(|margin| margin >= least);
            let by_head = agreed(&votes, class, k).filter(|_| is_far);
            let by_features = of_features.as_ref().and_then(|of| agreed(of, class, k));
            if let Some(likely) = by_head.or(by_features) {
                let count =
                    |votes: &Votes<'_>, class| votes.get(class).map_or(0, |(count, _)| *count);
                let (agree, sum) = votes.get(likely).copied().unwrap_or_default();
                suspects.push(Suspect {
                    row: *row,
                    class: class.to_owned(),
                    likely: likely.to_owned(),
                    votes: agree,
                    own: count(&votes, class),
                    neighbours: k as u32,
                    similarity: sum / f64::from(agree.max(1)),
                    by_head: by_head.is_some(),
                    margin,
                    by_features: of_features.as_ref().map(|votes| count(votes, likely)),
                });
            }
        }
        let sure = |of: &Suspect| (of.by_head, of.margin.unwrap_or(0.0), of.votes);
        order::sort_by(&mut suspects, |a, b| {
            let surer = sure(b).partial_cmp(&sure(a)).unwrap_or(Ordering::Equal);
            let nearer = b.similarity.total_cmp(&a.similarity);
            surer.then(nearer).then(a.row.cmp(&b.row))
        });
        Self {
            rows: rows.len() as u64,
            suspects,
            confused: confused(labels, found),
        }
    }
}

impl Suspect {
    /// Tells if a number of its neighbours is nearly all of them, so that they contradict its label.
    pub fn is_clear(&self, votes: u32) -> bool {
        f64::from(votes) >= AGREE * f64::from(self.neighbours)
    }
}

/// The classes that are taken for another most often.
fn confused(labels: &[String], found: &Neighbors) -> Vec<Confusion> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (class, near) in labels.iter().zip(found.ids.chunks_exact(found.k)) {
        *sizes.entry(class).or_default() += 1;
        let nearest = &labels[near[0] as usize];
        if nearest != class {
            *counts.entry((class, nearest)).or_default() += 1;
        }
    }
    let confusion = |((class, taken_for), rows): ((&str, &str), u64)| Confusion {
        class: class.to_owned(),
        taken_for: taken_for.to_owned(),
        rows,
        of: sizes[class],
    };
    let mut confused: Vec<Confusion> = counts.into_iter().map(confusion).collect();
    order::sort_by_key(&mut confused, |confusion| std::cmp::Reverse(confusion.rows));
    confused.truncate(CONFUSIONS);
    confused
}

fn votes<'a>(found: &Neighbors, labels: &'a [String], place: usize) -> Votes<'a> {
    let mut votes = Votes::new();
    let near = place * found.k..(place + 1) * found.k;
    for (id, similarity) in found.ids[near.clone()]
        .iter()
        .zip(&found.similarities[near])
    {
        let (count, sum) = votes.entry(&labels[*id as usize]).or_default();
        *count += 1;
        *sum += f64::from(*similarity);
    }
    votes
}

/// The other class that nearly all of `k` neighbours are of.
fn agreed<'a>(votes: &Votes<'a>, class: &str, k: usize) -> Option<&'a str> {
    let others = votes.iter().filter(|(other, _)| **other != class);
    let (likely, (count, _)) =
        others.max_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    (f64::from(*count) >= AGREE * k as f64).then_some(*likely)
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
    fn a_row_that_the_features_alone_contradict_is_listed_after_those_that_both_do() {
        let labels = ["a", "a", "b", "b", "b", "a"].map(str::to_owned);
        let rows = [0, 1, 2, 3, 4, 5];
        let by = |ids: [[u32; 2]; 6]| Neighbors {
            k: 2,
            ids: ids.concat(),
            similarities: vec![0.5; 12],
        };
        // Row 2 by both, row 5 by the features alone; row 4 is at the border.
        let head = by([[1, 5], [0, 5], [0, 1], [4, 2], [0, 1], [0, 1]]);
        let beside = Beside {
            by_features: by([[1, 5], [0, 5], [0, 1], [4, 2], [3, 2], [3, 4]]),
            margins: vec![-1.0, -0.9, 0.8, -0.9, 0.6, -1.0],
        };
        let check = RowsToCheck::beside(&rows, &labels, &head, Some(&beside));
        let found: Vec<_> = check
            .suspects
            .iter()
            .map(|of| (of.row, of.by_head, of.by_features))
            .collect();
        assert_eq!(found, [(2, true, Some(2)), (5, false, Some(2))]);
        assert!(check.suspects[0].is_clear(2) && !check.suspects[1].is_clear(0));
        assert_eq!(RowsToCheck::new(&rows, &labels, &head).suspects.len(), 2);
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

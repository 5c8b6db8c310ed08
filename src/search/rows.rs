//! Rows that search and rows that are searched: their labels, their classes and groups as the kernels compare them, and a seeded
//! choice of some.

use std::borrow::Cow;
use std::collections::HashMap;

use rand::seq::SliceRandom as _;

use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::rng;
use crate::data::{RowSource, classes};
use crate::kernels::ranks::LabelBits;

/// Rows with a label each: references, or rows that search them.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// `[labels, dim]`, of any length.
    pub rows: &'a RowSource,
    /// Label of each row.
    pub labels: &'a [String],
}

impl Rows<'_> {
    /// Checks that every row has a label and that both sets have as many dimensions.
    ///
    /// # Errors
    /// [`Error::Data`] with the numbers.
    pub fn check_against(self, references: Self) -> Result<()> {
        check_dims(self.rows, references.rows)?;
        check_count("embeddings", self.rows, self.labels.len())?;
        check_count("references", references.rows, references.labels.len())
    }
}

/// Rows with the number of a class each: not much above the number of classes, since there is a place for each.
#[derive(Clone, Copy, Debug)]
pub struct NumberedRows<'a> {
    /// `[labels, dim]`.
    pub rows: &'a RowSource,
    /// Class of each row.
    pub labels: &'a [u32],
}

impl NumberedRows<'_> {
    /// Checks that every row has a class and that both sides have as many dimensions.
    ///
    /// # Errors
    /// [`Error::Data`] with the numbers.
    pub(crate) fn check_against(self, references: Self) -> Result<()> {
        check_dims(self.rows, references.rows)?;
        check_count("embeddings", self.rows, self.labels.len())?;
        check_count("references", references.rows, references.labels.len())
    }
}

/// Checks that every row has a label.
fn check_count(what: &str, rows: &RowSource, labels: usize) -> Result<()> {
    let rows = rows.rows();
    match rows == labels {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "{labels} labels for {rows} rows of {what}: there must be one a row"
        ))),
    }
}

/// Checks that both sides have as many dimensions.
///
/// # Errors
/// [`Error::Data`] with the numbers.
fn check_dims(own: &RowSource, references: &RowSource) -> Result<()> {
    let (dim, own_dim) = (references.dim(), own.dim());
    match dim == own_dim {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "references have {dim} dimensions, embeddings {own_dim}: they must be as many"
        ))),
    }
}

/// Class of each row, and its group if rows have groups: rows of one group are no neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes<'a> {
    pub(crate) labels: &'a [u32],
    pub(crate) groups: Option<&'a [u32]>,
}

impl<'a> Classes<'a> {
    /// Keys of rows for the kernels: the class, and above its bits the group.
    ///
    /// # Errors
    /// [`Error::Data`] if 32 bits do not hold both.
    pub(crate) fn keys(all: [Self; 2]) -> Result<([Cow<'a, [u32]>; 2], LabelBits)> {
        let [Some(own), Some(known)] = all.map(|classes| classes.groups) else {
            let keys = all.map(|classes| Cow::Borrowed(classes.labels));
            return Ok((keys, LabelBits::CLASSES));
        };
        let most = |a: &[u32], b: &[u32]| a.iter().chain(b).max().copied().unwrap_or(0);
        let class = most(all[0].labels, all[1].labels);
        let group = most(own, known);
        let bits = u32::BITS - class.leading_zeros();
        if bits + u32::BITS - group.leading_zeros() > u32::BITS || bits == u32::BITS {
            return Err(Error::Data(format!(
                "{} classes in {} groups are more than 32 bits tell apart: leave out group",
                u64::from(class) + 1,
                u64::from(group) + 1
            )));
        }
        let keys = all.map(|classes| {
            let rows = classes
                .labels
                .iter()
                .zip(classes.groups.unwrap_or_default());
            Cow::Owned(rows.map(|(class, group)| class | group << bits).collect())
        });
        Ok((keys, LabelBits::with_groups(bits)))
    }
}

/// Names of the classes of `known` rows, and the class of each of these rows and of other ones by number. A label that no known row
/// has gets the number after the last.
pub(crate) fn numbered(others: &[String], known: &[String]) -> (Vec<String>, [Vec<u32>; 2]) {
    let names = classes(known);
    let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let none = names.len() as u32;
    let number = |label: &String| *numbers.get(label.as_str()).unwrap_or(&none);
    let both = [others, known].map(|labels| labels.iter().map(number).collect());
    (names, both)
}

/// Numbers in ascending order.
pub(crate) fn sorted(numbers: &[u32]) -> Vec<u32> {
    let mut sorted = numbers.to_vec();
    order::sort_numbers(&mut sorted);
    sorted
}

/// Number of times that a number stands in an ascending list.
pub(crate) fn count(sorted: &[u32], number: u32) -> u32 {
    let before = |bound: u64| sorted.partition_point(|other| u64::from(*other) < bound) as u32;
    before(u64::from(number) + 1) - before(u64::from(number))
}

/// A seeded choice of `most` of `count` rows, ascending; all of them if `most` is 0 or more than there are.
pub(crate) fn choose(count: usize, most: usize, seed: u64) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..count as u32).collect();
    if most > 0 && most < count {
        rows.shuffle(&mut rng::stream(seed, "queries"));
        rows.truncate(most);
        order::sort_numbers(&mut rows);
    }
    rows
}

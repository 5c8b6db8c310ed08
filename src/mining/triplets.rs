//! [`Triplets`]: every valid triplet of anchors and references by its number, in the order of PML's `get_all_triplets_indices`,
//! without storing any. Takes class numbers; windows of the list are written from it.

use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::data::by_class::ByClass;
use crate::kernels::triplets::{NO_PLACE, Row};

/// All triplets `[anchor, positive, negative]`, lexicographic: a positive is another reference of the anchor's class, a
/// negative a reference of another class.
#[derive(Clone, Debug)]
pub struct Triplets<'a> {
    anchors: &'a [u32],
    references: &'a [u32],
    own: bool,
    by_class: ByClass,
    /// First triplet of each anchor, and at last the number of all.
    offsets: Vec<u64>,
}

impl<'a> Triplets<'a> {
    /// Triplets of rows with each other: no row is its own positive. `labels` are numbers of classes.
    ///
    /// # Errors
    /// [`Error::Data`] if they are more than 64 bits can count.
    pub fn own(labels: &'a [u32]) -> Result<Self> {
        Self::new(labels, labels, true)
    }

    /// Triplets of anchors with references apart from them; an anchor of a class that no reference has is in none.
    ///
    /// # Errors
    /// As [`Triplets::own`].
    pub fn apart(anchors: &'a [u32], references: &'a [u32]) -> Result<Self> {
        Self::new(anchors, references, false)
    }

    fn new(anchors: &'a [u32], references: &'a [u32], own: bool) -> Result<Self> {
        let by_class = ByClass::new(references);
        let mut offsets = vec![0u64];
        let mut last = 0u64;
        for label in anchors {
            let members = by_class.of(*label).len() as u64;
            let positives = members.saturating_sub(u64::from(own));
            let more = positives * (references.len() as u64 - members);
            last = last.checked_add(more).ok_or_else(|| {
                Error::Data("more triplets than 64 bits can count: use fewer rows".to_owned())
            })?;
            offsets.push(last);
        }
        Ok(Self {
            anchors,
            references,
            own,
            by_class,
            offsets,
        })
    }

    /// Number of triplets.
    pub fn len(&self) -> u64 {
        self.offsets[self.anchors.len()]
    }

    /// Tells if there is no triplet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The triplet with this number.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn at(&self, t: u64) -> [u32; 3] {
        assert!(t < self.len(), "triplet {t} of {}", self.len());
        let row = self.row(self.anchor_of(t));
        let [positive, negative] = self.begin(&row, t);
        let members = &self.by_class.members[row.first as usize..][..row.members as usize];
        let before = row.members_before(members, negative);
        [row.anchor, members[row.place(positive)], negative + before]
    }

    /// All triplets, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = [u32; 3]> {
        (0..self.anchors.len() as u32).flat_map(move |anchor| {
            let label = self.anchors[anchor as usize];
            let members = &self.by_class.members[self.by_class.of(label)];
            let positives = members.iter().filter(move |p| !self.own || **p != anchor);
            positives.flat_map(move |positive| {
                let others = (0..).zip(self.references);
                others
                    .filter(move |(_, other)| **other != label)
                    .map(move |(negative, _)| [anchor, *positive, negative])
            })
        })
    }

    /// References by class, each class ascending.
    pub(crate) fn members(&self) -> &[u32] {
        &self.by_class.members
    }

    /// Number of anchors.
    pub(crate) fn anchors(&self) -> usize {
        self.anchors.len()
    }

    /// Number of references.
    pub(crate) fn references(&self) -> usize {
        self.references.len()
    }

    /// Row of an anchor as the kernels take it; its `offset` is 0.
    pub(crate) fn row(&self, anchor: usize) -> Row {
        let label = self.anchors[anchor];
        let class = self.by_class.of(label);
        let members = &self.by_class.members[class.clone()];
        let place = || members.partition_point(|row| (*row as usize) < anchor) as u32;
        Row {
            anchor: anchor as u32,
            offset: 0,
            label,
            first: class.start as u32,
            members: class.len() as u32,
            own: if self.own { place() } else { NO_PLACE },
        }
    }

    /// The anchors of the triplets in `window`, at most `most`, with offsets from the window's start; the numbers of the positive
    /// and the negative at which the window begins in the first anchor's triplets; and the end of the window that these anchors
    /// cover.
    pub(crate) fn rows(&self, window: Range<u64>, most: usize) -> (Vec<Row>, [u32; 2], u64) {
        let mut rows: Vec<Row> = Vec::new();
        let (mut begin, mut t) = ([0, 0], window.start);
        while t < window.end && rows.len() < most {
            let anchor = self.anchor_of(t);
            let row = Row {
                offset: (t - window.start) as u32,
                ..self.row(anchor)
            };
            if rows.is_empty() {
                begin = self.begin(&row, t);
            }
            rows.push(row);
            t = self.offsets[anchor + 1];
        }
        (rows, begin, t.min(window.end))
    }

    /// The anchor of a triplet.
    fn anchor_of(&self, t: u64) -> usize {
        self.offsets.partition_point(|offset| *offset <= t) - 1
    }

    /// Numbers of the positive and of the negative, among the anchor's own, of this triplet of the row's anchor.
    fn begin(&self, row: &Row, t: u64) -> [u32; 2] {
        let within = t - self.offsets[row.anchor as usize];
        let negatives = self.references.len() as u64 - u64::from(row.members);
        [(within / negatives) as u32, (within % negatives) as u32]
    }
}

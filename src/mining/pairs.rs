//! [`Pairs`]: the pairs that a miner keeps, as PML's four index arrays. They live on the host and may be long: long lists go to a
//! sink anchor by anchor instead.

use crate::base::error::Result;
use crate::cpu::Distance;
use crate::engine::Engine;
use crate::kernels::ranks::Row;
use crate::mining::row_pass::RowPass;

/// Pairs of an anchor and a positive, and of an anchor and a negative: PML's `(a1, p, a2, n)`.
///
/// Anchors ascend, and within one so do positives and negatives; of [`crate::MultiSimilarityMiner`] by their similarity or
/// distance, of equal ones by their place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// The anchors of the positives.
    pub a1: Vec<u32>,
    /// The positives, among the references.
    pub p: Vec<u32>,
    /// The anchors of the negatives.
    pub a2: Vec<u32>,
    /// The negatives, among the references.
    pub n: Vec<u32>,
}

/// Pairs that a miner keeps of one anchor, by place among the references, in the order of [`Pairs`].
#[derive(Clone, Copy, Debug)]
pub struct KeptOfAnchor<'a> {
    /// The anchor.
    pub anchor: u32,
    /// Its positives.
    pub positives: &'a [u32],
    /// Its negatives.
    pub negatives: &'a [u32],
}

impl Pairs {
    /// Adds the pairs of the next anchor.
    pub fn add(&mut self, kept: KeptOfAnchor<'_>) {
        let anchors = |others: &[u32]| std::iter::repeat_n(kept.anchor, others.len());
        self.a1.extend(anchors(kept.positives));
        self.p.extend(kept.positives);
        self.a2.extend(anchors(kept.negatives));
        self.n.extend(kept.negatives);
    }
}

/// Hands the kept pairs of a block of anchors, which begins at `first`, to `sink`. With `by`, the positives and the negatives of an
/// anchor are sorted by the value that PML compares, ascending: similarity or distance.
pub(super) async fn read(
    engine: &Engine,
    pass: &RowPass,
    first: usize,
    rows: &[Row],
    references: usize,
    by: Option<Distance>,
    sink: &mut impl FnMut(KeptOfAnchor<'_>) -> Result<()>,
) -> Result<()> {
    let width = RowPass::width(references);
    let (kept, cells) = (pass.kept(), (rows.len() * width) as u64);
    let counts = engine.view(&kept.counts, 0, rows.len() as u64).await?;
    let places = engine.view(&kept.places, 0, cells).await?;
    let values = engine.view(&kept.values, 0, cells).await?;
    let of_rows = places.chunks_exact(width).zip(values.chunks_exact(width));
    let (mut positives, mut negatives) = (Vec::new(), Vec::new());
    for ((anchor, count), (places, values)) in (first as u32..).zip(counts.iter()).zip(of_rows) {
        let [of_p, of_n] = count.map(|count| count as usize);
        positives.clear();
        positives.extend(&places[..of_p]);
        negatives.clear();
        negatives.extend(places[width - of_n..].iter().rev());
        for others in [&mut positives, &mut negatives] {
            let value = |place: &u32| values[*place as usize];
            match by {
                None => {}
                Some(Distance::Cosine) => others.sort_by(|a, b| value(a).total_cmp(&value(b))),
                Some(Distance::L2) => others.sort_by(|a, b| value(b).total_cmp(&value(a))),
            }
        }
        sink(KeptOfAnchor {
            anchor,
            positives: &positives,
            negatives: &negatives,
        })?;
    }
    Ok(())
}

//! [`Pairs`]: what a miner keeps, written down as PML's four index arrays. Lives on the host: a list is as long as it is.

use crate::distance::Distance;
use crate::engine::Engine;
use crate::error::Result;
use crate::kernels::ranks::Row;
use crate::row_pass::RowPass;

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
    /// The values of the positives, and of the negatives, to sort by.
    values: [Vec<f32>; 2],
}

impl Pairs {
    /// Adds what was kept of a block of anchors, the first of them `first`.
    pub(super) async fn read(
        &mut self,
        engine: &Engine,
        pass: &RowPass,
        first: usize,
        rows: &[Row],
        references: usize,
    ) -> Result<()> {
        let width = RowPass::width(references);
        let (kept, cells) = (pass.kept(), (rows.len() * width) as u64);
        let counts = engine.read(&kept.counts, 0, rows.len() as u64).await?;
        let places = engine.read(&kept.places, 0, cells).await?;
        let values = engine.read(&kept.values, 0, cells).await?;
        let of_rows = places.chunks_exact(width).zip(values.chunks_exact(width));
        for ((anchor, count), (places, values)) in (first as u32..).zip(counts).zip(of_rows) {
            let [positives, negatives] = count.map(|count| count as usize);
            let positives = &places[..positives];
            let negatives = places[width - negatives..].iter().rev();
            self.a1.extend(vec![anchor; positives.len()]);
            self.a2.extend(vec![anchor; negatives.len()]);
            let value = |place: &u32| values[*place as usize];
            self.values[0].extend(positives.iter().map(value));
            self.values[1].extend(negatives.clone().map(value));
            self.p.extend(positives);
            self.n.extend(negatives);
        }
        Ok(())
    }

    /// Sorts the positives and the negatives of every anchor by what PML compares, the smallest first: similarities, or
    /// distances.
    pub(super) fn sort_by(&mut self, distance: Distance) {
        let [of_p, of_n] = &mut self.values;
        for (anchors, others, values) in
            [(&self.a1, &mut self.p, of_p), (&self.a2, &mut self.n, of_n)]
        {
            let mut order: Vec<usize> = (0..others.len()).collect();
            order.sort_by(|a, b| {
                let by_value = match distance {
                    Distance::Cosine => values[*a].total_cmp(&values[*b]),
                    Distance::L2 => values[*b].total_cmp(&values[*a]),
                };
                anchors[*a].cmp(&anchors[*b]).then(by_value)
            });
            *others = order.iter().map(|place| others[*place]).collect();
            *values = order.iter().map(|place| values[*place]).collect();
        }
    }
}

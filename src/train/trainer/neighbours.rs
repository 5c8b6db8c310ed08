//! Nearest rows of one row by the current head, for a click on a point of the map.

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::base::error::Result;
use crate::data::Side;
use crate::engine::pace::Slices;
use crate::kernels::knn::{QueryBound, Search};
use crate::kernels::stride;
use crate::model::unit_rows::UnitRows;

/// The most neighbours of a row.
pub(super) const NEIGHBOURS: usize = 10;

/// A row, and the rows of its side that lie nearest to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbourhood {
    /// The row's number in the data set.
    pub row: u32,
    /// Its class.
    pub class: String,
    /// Side of the row, all of whose other rows were searched.
    pub side: Side,
    /// Steps that the head had done.
    pub step: u64,
    /// Nearest first: by descending similarity, then by place in the side.
    pub neighbours: Vec<Neighbour>,
}

/// A row near another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Number of the row in the data set.
    pub row: u32,
    /// Its class.
    pub class: String,
    /// The cosine of the two embeddings.
    pub similarity: f32,
    /// The two rows are of one class.
    pub right: bool,
}

impl Trainer {
    /// Finds the ten nearest rows of a row by the current head, or all if its side has fewer: exactly, among all other rows of the
    /// side, which are also those that an evaluation of the side ranks. `None` if the row is not of the side.
    ///
    /// Takes no further memory: the rows go to the evaluator's buffers.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn neighbours(&mut self, side: Side, row: u32) -> Result<Option<Neighbourhood>> {
        let rows = self.setup.sides.of(side).to_vec();
        let Some(place) = rows.iter().position(|of_side| *of_side == row) else {
            return Ok(None);
        };
        let nearest = self.nearest(&rows, place as u32).await?;
        let class = |row: u32| self.dataset.labels[row as usize];
        let name = |row: u32| self.dataset.class_names[class(row) as usize].clone();
        let neighbour = |[similarity, place]: [u32; 2]| {
            let other = rows[place as usize];
            Neighbour {
                row: other,
                class: name(other),
                similarity: f32::from_bits(similarity),
                right: class(other) == class(row),
            }
        };
        Ok(Some(Neighbourhood {
            row,
            class: name(row),
            side,
            step: self.step,
            neighbours: nearest.into_iter().map(neighbour).collect(),
        }))
    }

    /// `[bits of the similarity, place]` of the rows nearest to the one at `place`.
    async fn nearest(&mut self, rows: &[u32], place: u32) -> Result<Vec<[u32; 2]>> {
        let k = NEIGHBOURS.min(rows.len() - 1);
        if k == 0 {
            return Ok(Vec::new());
        }
        let seeker = &mut self.seeker;
        let (engine, mut pace) = (self.engine.clone(), self.evaluation_pace);
        let mut slices = Slices::new(&engine, &mut pace);
        let mut embedded = UnitRows::Embedded {
            features: &mut self.features,
            dataset: &self.dataset,
            model: Some(&self.model),
            tile: &mut self.tile,
            chosen: rows,
        };
        let at_once = self.evaluator.capacity();
        let (references, query) = self.evaluator.search_mut();
        let one = std::iter::once(place);
        embedded.bring_among(&mut slices, one, query, 0).await?;
        seeker.ask(&mut slices, &[QueryBound::first(place)]).await?;
        loop {
            for first in (0..rows.len()).step_by(at_once) {
                let places = first as u32..rows.len().min(first + at_once) as u32;
                let chunk = Search {
                    first_row: 0,
                    rows: 1,
                    references: places.len(),
                    first_id: places.start,
                    stride: stride(self.model.embedding_size()),
                    k,
                };
                embedded
                    .bring_among(&mut slices, places, references, 0)
                    .await?;
                seeker
                    .look(&mut slices, &chunk, query, references, first == 0)
                    .await?;
            }
            if let Some(nearest) = seeker.kept(&mut slices, 1, k).await? {
                return Ok(nearest);
            }
        }
    }
}

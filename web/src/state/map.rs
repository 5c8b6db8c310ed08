//! Rows on a map, and their places by PCA or UMAP.

use leptos::prelude::*;
use nearfar::{Pictures, Side};

use super::{Curves, State};
use crate::protocol::Part;

/// Rows on a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapData {
    /// Side of the rows; `None` if there is no run, and they are those of the data.
    pub(crate) side: Option<Side>,
    pub(crate) places: Places,
    pub(crate) names: Vec<String>,
    pub(crate) pictures: Option<Pictures>,
    /// The map is the exact circle that the embeddings lie on, not a projection.
    pub(crate) circle: bool,
    /// Layout by UMAP, if it is shown.
    pub(crate) by_umap: Option<ByUmap>,
    /// UMAP cannot place the rows.
    pub(crate) refused: bool,
}

/// Colours of the rows of a map by a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Coloured {
    pub(crate) column: String,
    /// Numbers of the rows.
    pub(crate) rows: Vec<u32>,
    /// Colour of each row: place of its text in `names`, or step of the scale; `u16::MAX` if its cell is empty.
    pub(crate) colours: Vec<u16>,
    /// Texts that the colours stand for; none of a scale of numbers.
    pub(crate) names: Vec<String>,
    /// Numbers at the ends of the scale.
    pub(crate) ends: [f64; 2],
}

/// What a map is coloured by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint<'a> {
    /// Classes, or texts of a column: colour of each row, and the names.
    Names(&'a [u16], &'a [String]),
    /// Numbers of a column: step of each row on the scale, and its ends.
    Scale(&'a [u16], [f64; 2]),
}

impl<'a> Paint<'a> {
    /// Colour of each row.
    pub(crate) fn colours(self) -> &'a [u16] {
        match self {
            Self::Names(colours, _) | Self::Scale(colours, _) => colours,
        }
    }
}

impl MapData {
    /// What the map is coloured by: the column that a person chose, as soon as its colours are there, or the classes.
    pub(crate) fn paint<'a>(&'a self, coloured: Option<&'a Coloured>) -> Paint<'a> {
        match coloured.filter(|coloured| coloured.rows == self.places.rows) {
            None => Paint::Names(&self.places.classes, &self.names),
            Some(by) if by.names.is_empty() => Paint::Scale(&by.colours, by.ends),
            Some(by) => Paint::Names(&by.colours, &by.names),
        }
    }
}

/// A layout by UMAP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ByUmap {
    /// Positions of the rows by their principal components: of the features and of the embeddings.
    pub(crate) principal: [Vec<[f32; 2]>; 2],
    /// Progress in epochs; `None` before the first.
    pub(crate) epochs: Option<Part>,
}

/// The rows of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places {
    pub(crate) points: Vec<[f32; 2]>,
    /// Positions by their features.
    pub(crate) before: Vec<[f32; 2]>,
    /// Index of each row's class among the names; `u16::MAX` if it is not named.
    pub(crate) classes: Vec<u16>,
    /// Numbers of the rows in the data, ascending.
    pub(crate) rows: Vec<u32>,
    /// Numbers in their file of rows without a label, whose points stand behind those of `rows`.
    pub(crate) aside: Vec<u32>,
}

impl Places {
    /// Index of a row on the map, if it is there.
    pub(crate) fn of(&self, row: u32) -> Option<usize> {
        self.rows.binary_search(&row).ok()
    }

    /// The row of the map that comes after this one, or before it; itself if none does, and the first of all after none.
    pub(crate) fn next(&self, row: Option<u32>, up: bool) -> Option<u32> {
        let Some(row) = row else {
            return self.rows.first().copied();
        };
        let mut rows = self.rows.iter().copied();
        let next = match up {
            true => rows.find(|other| *other > row),
            false => rows.rfind(|other| *other < row),
        };
        next.or(Some(row))
    }
}

impl State {
    /// Takes in a map. A chosen row that is not on it stays chosen.
    pub(crate) fn take_map(
        &self,
        side: Option<Side>,
        names: Vec<String>,
        pictures: Option<Pictures>,
        places: Places,
    ) {
        let circle = |curves: &Curves| curves.config.embedding_size == 2;
        let map = Some(MapData {
            side,
            places,
            names,
            pictures,
            circle: side.is_some() && self.curves.with_untracked(circle),
            by_umap: None,
            refused: false,
        });
        if side.is_none() {
            self.raw_map.set(map.clone());
        }
        if side.is_some() || !untrack(|| self.has_run()) {
            self.map.set(map);
        }
    }

    /// Places the map by UMAP, or by principal components again.
    pub(crate) fn place_by_umap(&self, by_umap: bool) {
        self.map.update(|map| {
            let Some(map) = map else { return };
            match map.by_umap.take() {
                Some(umap) if !by_umap => [map.places.before, map.places.points] = umap.principal,
                Some(umap) => map.by_umap = Some(umap),
                None if by_umap => {
                    let principal = [map.places.before.clone(), map.places.points.clone()];
                    let epochs = None;
                    map.by_umap = Some(ByUmap { principal, epochs });
                }
                None => {}
            }
        });
    }

    /// Goes back to principal components, as UMAP cannot place the rows; says why if a person asked for it.
    pub(crate) fn take_unplaced(&self, why: String) {
        self.place_by_umap(false);
        self.map.update(|map| {
            if let Some(map) = map {
                map.refused = true;
            }
        });
        if self.by_umap.get_untracked() == Some(true) {
            self.by_umap.set(None);
            self.say(why);
        }
    }

    /// Takes in the positions by UMAP so far, of the features and of the embeddings.
    pub(crate) fn take_placed(&self, points: [Vec<[f32; 2]>; 2], epochs: Part) {
        self.map.update(|map| {
            let Some(map) = map else { return };
            if let Some(umap) = &mut map.by_umap
                && points[1].len() == map.places.points.len()
            {
                umap.epochs = Some(epochs);
                [map.places.before, map.places.points] = points;
            }
        });
    }
}

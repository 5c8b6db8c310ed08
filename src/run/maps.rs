//! Maps of a run: places of rows in two dimensions, by principal components and by UMAP.

use super::Run;
use crate::base::error::{Error, Result};
use crate::base::working::Working;
use crate::data::{Aside, Dataset, RowSource, Side, Sides};
use crate::map::umap::{self, Umap};
use crate::map::{self, Map, Pictures};
use crate::model::embeddings::Embeddings;
use crate::rules::config::TrainConfig;
use crate::search::knn::KnnIndex;
use crate::search::near;

impl Run {
    /// The most bytes of the host that a map of such a run and its layouts take, beside the budget: of the side with the most rows.
    ///
    /// # Errors
    /// [`Error::Config`] or [`Error::Data`] if the rows cannot be dealt to sides as asked.
    pub fn plan_map(dataset: &Dataset, config: &TrainConfig) -> Result<u64> {
        let (sides, dim) = (Sides::new(dataset, config)?, dataset.features.dim());
        let rows = [&sides.train, &sides.validation, &sides.test].map(Vec::len);
        let rows = rows.into_iter().max().unwrap_or(0);
        let rows = rows.min(map::most_rows(dim));
        Ok(map::host_bytes(dataset, rows, config.embedding_size))
    }

    /// The side of a map, and the rows on it.
    fn map_rows(&self) -> (Side, Vec<u32>) {
        let sides = self.trainer.sides();
        let may_show = |side: &Side| {
            !sides.of(*side).is_empty() && self.seen_sides().any(|seen| seen == *side)
        };
        let side = self.shown.filter(may_show).unwrap_or_else(|| self.side());
        let all = sides.of(side);
        let dim = self.trainer.dataset().features.dim();
        let most = map::most_rows(dim);
        (
            side,
            map::rows_of(all, most, self.trainer.config().data_seed()),
        )
    }

    /// Rows whose embeddings come with an evaluation.
    pub(super) fn watched_rows(&self) -> Vec<u32> {
        match self.is_watched() {
            true => self.map_rows().1,
            false => Vec::new(),
        }
    }

    /// Tells if embeddings of the map's rows come with evaluations: not those of a chosen side, which may change in between.
    pub(super) fn is_watched(&self) -> bool {
        self.watched && self.shown.is_none()
    }

    /// Makes evaluations bring what [`Run::map`] needs, so that a viewer does not wait for it.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// Puts the rows of a side on the maps from now on; those of the test side only once the run is over.
    pub fn show_side(&mut self, side: Side) {
        self.shown = Some(side);
        self.placed = None;
    }

    /// Current map of the rows of the side that was chosen, or else of the test side once the run is over, until then of the
    /// validation side, or of the training side if there are no validation rows. Once the run is over the rows of the file without a
    /// label stand behind them.
    ///
    /// # Errors
    /// As [`crate::Trainer::embed`].
    pub async fn map(&mut self) -> Result<Map> {
        let (side, rows) = self.map_rows();
        let step = self.step();
        let placed = self.placed.take();
        let embeddings = match placed.filter(|(at, _)| *at == step && !self.is_finished()) {
            Some((_, placed)) => placed,
            None => self.trainer.embed(&rows).await?,
        };
        let none = Aside::default();
        let aside = match self.is_finished() {
            true => &self.trainer.dataset().aside,
            false => &none,
        };
        let drawn = self.map.take().filter(|map| map.aside == aside.rows);
        let mut map = match drawn.filter(|map| map.side == Some(side) && map.rows == rows) {
            Some(map) => map,
            None => {
                let heard = &mut |working| self.trainer.engine().hear(working);
                let scaling = self.trainer.scaling().0;
                let dataset = self.trainer.dataset();
                Map::of(dataset, scaling, Some(side), rows, aside, heard).await?
            }
        };
        let plane = map.place(&embeddings, &mut self.axes);
        if !map.aside.is_empty() {
            let aside = self.trainer.embed_aside().await?;
            map.points.extend(plane.place(&aside));
        }
        self.plane = Some(plane);
        self.map = Some(map.clone());
        Ok(map)
    }

    /// `[x, y]` of rows of any side on the plane of the last [`Run::map`], by the head as it is now; none before there is a map.
    ///
    /// # Errors
    /// As [`crate::Trainer::embed`].
    pub async fn on_map(&mut self, rows: &[u32]) -> Result<Vec<[f32; 2]>> {
        let Some(plane) = self.plane.clone() else {
            return Ok(Vec::new());
        };
        let embeddings = self.trainer.embed(rows).await?;
        Ok(plane.place(&embeddings).collect())
    }

    /// The pictures of rows of any side, if the rows are pictures.
    ///
    /// # Errors
    /// [`Error::Data`] if a file has changed.
    pub async fn pictures(&mut self, rows: &[u32]) -> Result<Option<Pictures>> {
        Pictures::of(self.trainer.dataset(), rows).await
    }

    /// Starts UMAP layouts of all rows of the last [`Run::map`], from their places there: one of their features, scaled if the run
    /// scales them, and one of their embeddings. Finds the 15 nearest rows of each, or all if there are fewer: of more than 4,096 rows
    /// most of them, of fewer all, within the remaining budget.
    ///
    /// # Errors
    /// [`Error::Config`] before there is a map; as [`crate::Trainer::embed`], [`KnnIndex::new`] and [`KnnIndex::search`].
    pub async fn umap(&mut self) -> Result<[Umap; 2]> {
        let no_map = || Error::Config("there is no map of the run yet: wait for it".to_owned());
        let map = self.map.clone().ok_or_else(no_map)?;
        let Dataset {
            features, aside, ..
        } = self.trainer.dataset();
        let count = map.rows.len() + map.aside.len();
        let mut values = Vec::with_capacity(count * features.dim());
        features.read(&map.rows, &mut values).await?;
        if !map.aside.is_empty() {
            values.extend(&aside.values);
        }
        self.trainer.scaling().0.apply(&mut values);
        let dim = features.dim();
        let before = self.layout(Embeddings { values, dim }, &map.before).await?;
        let mut embeddings = self.trainer.embed(&map.rows).await?;
        if !map.aside.is_empty() {
            let aside = self.trainer.embed_aside().await?;
            embeddings.values.extend(aside.values);
        }
        let after = self.layout(embeddings, &map.points).await?;
        Ok([before, after])
    }

    /// A UMAP layout of these rows that starts from these points.
    async fn layout(&mut self, mut rows: Embeddings, start: &[[f32; 2]]) -> Result<Umap> {
        let k = umap::NEIGHBOURS.min(start.len().saturating_sub(1));
        let seed = self.trainer.config().data_seed();
        let engine = self.trainer.engine();
        let heard = |done, total| {
            engine.hear(Working {
                what: "finding the nearest rows of each row on the map".to_owned(),
                unit: "rows".to_owned(),
                done,
                total,
            });
        };
        if start.len() > near::EXACT {
            map::make_unit(&mut rows);
            let found = near::near(engine, rows, k, seed, heard).await?;
            return Ok(Umap::new(&found, start, seed));
        }
        let Embeddings { values, dim } = rows;
        let rows = RowSource::Memory { values, dim };
        let mut index = KnnIndex::new(engine, &rows, None, k).await?;
        let found = index.search(None, heard).await?;
        Ok(Umap::new(&found, start, seed))
    }
}

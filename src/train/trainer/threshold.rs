//! The threshold of a head: fitted on the validation side, reported on the test side.

use super::Trainer;
use crate::base::error::{Error, Result};
use crate::data::Side;
use crate::data::by_class::class_counts;
use crate::engine::pace::Slices;
use crate::model::unit_rows::UnitRows;
use crate::search::rows::{Classes, choose};
use crate::search::threshold::{
    Counted, PairCounter, Threshold, ThresholdConfig, ThresholdSpec, chosen_edge, fit_edge, report,
};

impl Trainer {
    /// Finds the similarity from which on two embeddings mean the same class: the lowest that lets in no more than a given part of
    /// the pairs of different classes of the validation side. Reports its rates on the test side, if there is one; as many rows of
    /// a side are queries as at the end of a run ([`crate::TrainConfig::test_queries`]). The head stays as it is.
    ///
    /// Its buffers are taken from the run's unused budget, and freed.
    ///
    /// # Errors
    /// As [`crate::search::threshold::find_threshold`]; [`Error::Data`] if no row validates.
    pub async fn find_threshold(&mut self, false_match_rate: Option<f64>) -> Result<Threshold> {
        self.count_at(false_match_rate, None).await
    }

    /// Reports the rates of a threshold that a person chose, as [`Trainer::find_threshold`] does of one that it finds.
    ///
    /// # Errors
    /// As [`Trainer::find_threshold`].
    pub async fn threshold_at(&mut self, similarity: f64) -> Result<Threshold> {
        self.count_at(None, Some(similarity)).await
    }

    /// Counts the pairs of both sides, and reports on the chosen similarity, or on the one that a rate asks for.
    async fn count_at(
        &mut self,
        false_match_rate: Option<f64>,
        chosen: Option<f64>,
    ) -> Result<Threshold> {
        let config = ThresholdConfig {
            false_match_rate,
            queries: self.config.test_queries,
            seed: self.config.data_seed(),
        };
        config.check()?;
        let sides = [Side::Validation, Side::Test].map(|side| self.setup.sides.of(side).to_vec());
        let [fit, test] = &sides;
        if fit.is_empty() {
            return Err(Error::Data(
                "no row validates, and a threshold is fitted on such rows: set validation_fraction above 0".to_owned(),
            ));
        }
        let dim = self.model.embedding_size();
        let spec = ThresholdSpec::of(&[fit.len(), test.len()], dim, config.queries);
        let engine = self.engine.clone();
        let mut counter = PairCounter::new(&engine, &spec).await?;
        let fitted = self.count_pairs(&mut counter, Side::Validation, fit, &config, None);
        let fitted = fitted.await?;
        let side = Side::Validation.name();
        let (at, rate) = match chosen {
            Some(similarity) => (chosen_edge(&fitted, side, similarity)?, None),
            None => {
                let (at, rate) = fit_edge(&fitted, side, false_match_rate)?;
                (at, Some(rate))
            }
        };
        if test.is_empty() {
            return Ok(report((at, rate), fitted, None, false));
        }
        let tested = self.count_pairs(&mut counter, Side::Test, test, &config, Some(at));
        let tested = tested.await?;
        let known = class_counts(&self.dataset.labels_of(fit));
        let new_classes = !self
            .dataset
            .labels_of(test)
            .iter()
            .any(|class| known.get(*class as usize).is_some_and(|rows| *rows > 0));
        Ok(report((at, rate), fitted, Some(tested), new_classes))
    }

    async fn count_pairs(
        &mut self,
        counter: &mut PairCounter,
        side: Side,
        rows: &[u32],
        config: &ThresholdConfig,
        at: Option<usize>,
    ) -> Result<Counted> {
        let (engine, mut pace) = (self.engine.clone(), self.evaluation_pace);
        let mut slices = Slices::new(&engine, &mut pace);
        let labels = self.dataset.labels_of(rows);
        let groups = self.setup.groups_of(rows);
        let classes = Classes {
            labels: &labels,
            groups: groups.as_deref(),
        };
        let asking = choose(rows.len(), config.queries, config.seed);
        let mut embedded = UnitRows::Embedded {
            features: &mut self.features,
            dataset: &self.dataset,
            model: Some(&self.model),
            tile: &mut self.tile,
            chosen: rows,
        };
        let what = format!("counting pairs of {} rows", side.name());
        let counted = counter
            .count(&mut slices, &what, classes, &mut embedded, &asking, at)
            .await?;
        self.evaluation_pace = pace;
        Ok(counted)
    }
}

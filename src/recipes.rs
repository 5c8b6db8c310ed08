//! [`Recipe`]: settings that belong together, as a paper or PML's notebooks have them, to start from and to compare.

use crate::config::TrainConfig;
use crate::dataset::{Dataset, Sides};
use crate::error::{Error, Result};

/// Loss, miner, sampler and memory that go together. Batch size, steps and learning rate stay those that suit the data, unless
/// the recipe says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The name in options and links.
    pub name: &'static str,
    /// What a list calls it.
    pub title: &'static str,
    /// Why one would take it, in a sentence.
    pub why: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    sets: &'static [&'static str],
}

const TRIPLETS: [&str; 2] = ["loss.name=triplet-margin", "miner.name=triplet-margin"];

impl Recipe {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 7] = [
        Self {
            name: "memory-triplet",
            title: "Triplets with a memory",
            why: "A memory of past batches brings positives to batches that are drawn at random: for many classes with few rows \
                  each.",
            source: "Wang et al. 2020, Cross-Batch Memory; PML's CrossBatchMemory",
            sets: &[
                TRIPLETS[0],
                TRIPLETS[1],
                "memory_size=1024",
                "m_per_class=0",
            ],
        },
        Self {
            name: "class-sampler-triplet",
            title: "Triplets with a class sampler",
            why: "Several rows of each class in a batch are positives enough: no memory, and nothing in it goes stale.",
            source: "Hermans et al. 2017, In Defense of the Triplet Loss; PML's MPerClassSampler",
            sets: &[TRIPLETS[0], TRIPLETS[1], "memory_size=0", "m_per_class=4"],
        },
        Self {
            name: "multi-similarity",
            title: "Multi-similarity",
            why: "All pairs of an anchor are weighed against each other, the hardest most: for batches with several rows of each \
                  class.",
            source: "Wang et al. 2019, Multi-Similarity Loss; PML's MultiSimilarityLoss with MultiSimilarityMiner",
            sets: &[
                "loss.name=multi-similarity",
                "miner.name=multi-similarity",
                "memory_size=0",
                "m_per_class=4",
            ],
        },
        Self {
            name: "sup-con",
            title: "Supervised contrastive",
            why: "Every positive of a batch is told from all other rows at once, without a miner and without margins.",
            source: "Khosla et al. 2020, Supervised Contrastive Learning; PML's SupConLoss",
            sets: &[
                "loss.name=sup-con",
                "miner.name=none",
                "memory_size=0",
                "m_per_class=4",
            ],
        },
        Self {
            name: "proxy-anchor",
            title: "Proxy anchor",
            why: "One learned proxy stands for each class, so that rows need no other rows of their class in the batch: quick and \
                  steady.",
            source: "Kim et al. 2020, Proxy Anchor Loss; PML's ProxyAnchorLoss",
            sets: &[
                "loss.name=proxy-anchor",
                "miner.name=none",
                "memory_size=0",
                "m_per_class=0",
            ],
        },
        Self {
            name: "arc-face",
            title: "ArcFace",
            why: "A classifier with a margin of angle, as face recognition trains it: for classes with many rows each.",
            source: "Deng et al. 2019, ArcFace; PML's ArcFaceLoss",
            sets: &[
                "loss.name=arc-face",
                "miner.name=none",
                "memory_size=0",
                "m_per_class=0",
            ],
        },
        Self {
            name: "linear-from-lda",
            title: "Linear head from LDA",
            why: "The linear map that every head is compared with, trained on with small steps: the simplest head that may be \
                  enough.",
            source: "Fisher 1936; scikit-learn's LinearDiscriminantAnalysis",
            sets: &[
                TRIPLETS[0],
                TRIPLETS[1],
                "memory_size=1024",
                "m_per_class=0",
                "hidden_layers=[]",
                "initial_weights=lda",
                "optimizer.lr=0.0001",
            ],
        },
    ];

    /// The recipe of this name.
    ///
    /// # Errors
    /// [`Error::Config`], with the names that there are.
    pub fn named(name: &str) -> Result<&'static Self> {
        Self::ALL
            .iter()
            .find(|recipe| recipe.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|recipe| recipe.name).collect();
                Error::Config(format!(
                    "there is no recipe \"{name}\": there are {}",
                    names.join(", ")
                ))
            })
    }

    /// What it sets, `key=value` each.
    pub fn sets(&self) -> &'static [&'static str] {
        self.sets
    }

    /// These settings with the recipe's in their place. Where the data has too few classes for four rows of each in a batch,
    /// there are more rows of each.
    ///
    /// # Errors
    /// As [`Sides::new`].
    pub fn apply(&self, config: TrainConfig, dataset: &Dataset) -> Result<TrainConfig> {
        let set = |config: TrainConfig, set: &&str| config.with_set(set);
        let mut config = self.sets.iter().try_fold(config, set)?;
        if config.m_per_class > 0 {
            let mut classes = dataset.labels_of(&Sides::new(dataset, &config)?.train);
            classes.sort_unstable();
            classes.dedup();
            let batch = config.batch_size;
            let fits = |m: &usize| batch.is_multiple_of(*m) && batch / m <= classes.len();
            config.m_per_class = (config.m_per_class..=batch).find(fits).unwrap_or(0);
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_sets_what_goes_with_its_loss_whatever_was_set_before() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let before = dataset.default_config();
        for recipe in &Recipe::ALL {
            let config = recipe
                .apply(before.clone(), &dataset)
                .expect("suits the data");
            config.check().expect("is in range");
            for other in &Recipe::ALL {
                let over = other
                    .apply(before.clone(), &dataset)
                    .expect("suits the data");
                let again = recipe.apply(over, &dataset).expect("suits the data");
                assert_eq!(
                    (
                        &again.loss,
                        &again.miner,
                        again.memory_size,
                        again.m_per_class
                    ),
                    (
                        &config.loss,
                        &config.miner,
                        config.memory_size,
                        config.m_per_class
                    ),
                    "{} after {}",
                    recipe.name,
                    other.name
                );
            }
        }
    }

    #[test]
    fn few_classes_have_more_rows_of_each_in_a_batch() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let recipe = Recipe::named("class-sampler-triplet").expect("is there");
        let rows = |batch: &str| {
            let config = dataset.default_config().with_set(batch).expect("sets");
            recipe
                .apply(config, &dataset)
                .expect("suits the data")
                .m_per_class
        };
        assert_eq!([rows("batch_size=40"), rows("batch_size=64")], [4, 8]);
    }

    #[test]
    fn an_unknown_recipe_is_refused_with_those_that_there_are() {
        let refused = Recipe::named("proxy")
            .expect_err("there is none")
            .to_string();
        assert!(refused.contains("proxy-anchor, arc-face"), "{refused}");
    }
}

//! [`Recipe`]: settings that belong together, from a paper or from PML's notebooks, to start from and to compare.

use crate::base::error::{Error, Result};
use crate::data::Shape;
use crate::rules::config::{Split, TrainConfig};
use crate::rules::samplers::Sampler;

/// Loss, miner, sampler and memory that go together. Batch size, steps and learning rate stay those that suit the data, unless the
/// recipe sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Name in options and links.
    pub name: &'static str,
    /// Title in lists.
    pub title: &'static str,
    /// Reason to take it, in a sentence.
    pub why: &'static str,
    /// Data that it is for.
    pub suits: &'static str,
    /// Paper or notebook that it is from.
    pub source: &'static str,
    sets: &'static [&'static str],
}

const TRIPLETS: [&str; 2] = ["loss.name=triplet-margin", "miner.name=triplet-margin"];

impl Recipe {
    /// All recipes, in the order of lists.
    pub const ALL: [Self; 11] = [
        Self {
            name: "batch-triplet",
            title: "Triplets within a batch",
            why: "A batch of 128 rows has positives of its own where classes are few, so no memory is needed and none goes stale.",
            suits: "two or three classes",
            source: "Schroff et al. 2015, FaceNet; PML's TripletMarginMiner",
            sets: Shape::TwoOrThreeClasses.sets(),
        },
        Self {
            name: "batch-sup-con",
            title: "Supervised contrastive within a batch",
            why: "Each positive is told from all other rows of a batch of 128 at once, without a miner and without margins.",
            suits: "4 to 64 classes and fewer than 64 columns",
            source: "Khosla et al. 2020, Supervised Contrastive Learning; PML's SupConLoss",
            sets: Shape::FewClasses.sets(),
        },
        Self {
            name: "wide-sup-con",
            title: "Supervised contrastive, wide",
            why: "Like batch-sup-con (supervised contrastive within a batch), with a wider network, of 1,024 and 128 outputs; takes several times as long.",
            suits: "4 to 64 classes and 64 columns or more: embeddings of sentences and pictures, spectra",
            source: "Khosla et al. 2020, Supervised Contrastive Learning; PML's SupConLoss",
            sets: Shape::FewClassesOfManyFeatures.sets(),
        },
        Self {
            name: "memory-triplet",
            title: "Triplets with a memory",
            why: "A memory of past batches brings positives to batches that are drawn at random: for many classes with few rows \
                  each.",
            suits: "so many classes that a batch cannot hold two rows of each",
            source: "Wang et al. 2020, Cross-Batch Memory; PML's CrossBatchMemory",
            sets: Shape::ManyClasses.sets(),
        },
        Self {
            name: "class-sampler-triplet",
            title: "Triplets with a class sampler",
            why: "Several rows of each class in a batch give every row positives, so no memory is needed and none goes stale.",
            suits: "classes of four rows and more, few or many",
            source: "Hermans et al. 2017, In Defense of the Triplet Loss; PML's MPerClassSampler",
            sets: &[
                TRIPLETS[0],
                TRIPLETS[1],
                "memory_size=0",
                "sampler=m-per-class",
            ],
        },
        Self {
            name: "multi-similarity",
            title: "Multi-similarity",
            why: "All pairs of an anchor are weighed against each other, the hardest most: for batches with several rows of each \
                  class.",
            suits: "classes of four rows and more, few or many",
            source: "Wang et al. 2019, Multi-Similarity Loss; PML's MultiSimilarityLoss with MultiSimilarityMiner",
            sets: &[
                "loss.name=multi-similarity",
                "miner.name=multi-similarity",
                "memory_size=0",
                "sampler=m-per-class",
            ],
        },
        Self {
            name: "sup-con",
            title: "Supervised contrastive",
            why: "Every positive of a batch is told from all other rows at once, without a miner and without margins.",
            suits: "classes of four rows and more, up to some hundreds",
            source: "Khosla et al. 2020, Supervised Contrastive Learning; PML's SupConLoss",
            sets: &[
                "loss.name=sup-con",
                "miner.name=none",
                "memory_size=0",
                "sampler=m-per-class",
            ],
        },
        Self {
            name: "proxy-anchor",
            title: "Proxy anchor",
            why: "One learned proxy stands for each class, so that rows need no other rows of their class in the batch: quick and \
                  steady.",
            suits: "classes that are known beforehand, not thousands of them",
            source: "Kim et al. 2020, Proxy Anchor Loss; PML's ProxyAnchorLoss",
            sets: &[
                "loss.name=proxy-anchor",
                "miner.name=none",
                "memory_size=0",
                "sampler=shuffled",
            ],
        },
        Self {
            name: "arc-face",
            title: "ArcFace",
            why: "A classifier with a margin of angle, as face recognition trains it: for classes with many rows each.",
            suits: "classes that are known beforehand, with many rows each",
            source: "Deng et al. 2019, ArcFace; PML's ArcFaceLoss",
            sets: &[
                "loss.name=arc-face",
                "miner.name=none",
                "memory_size=0",
                "sampler=shuffled",
            ],
        },
        Self {
            name: "linear-from-lda",
            title: "Linear head from LDA",
            why: "Starts from the linear map (LDA) that every head is compared with, and trains it further in small steps.",
            suits: "few rows of many columns, where the verdict prefers the linear map",
            source: "Fisher 1936; scikit-learn's LinearDiscriminantAnalysis",
            sets: &[
                TRIPLETS[0],
                TRIPLETS[1],
                "memory_size=1024",
                "sampler=shuffled",
                "hidden_layers=[]",
                "initial_weights=lda",
                "optimizer.lr=0.0001",
            ],
        },
        Self {
            name: "single-cell",
            title: "Single cells",
            why: "Four hidden layers down to 25 numbers, four cells of each type in a batch: how PML's notebook embeds gene \
                  expression.",
            suits: "gene expression of cells, as in an .h5ad file",
            source: "PML's notebook scRNAseq_MetricEmbedding",
            sets: &[
                "loss.name=triplet-margin",
                "loss.margin=0.1",
                "distance=l2",
                "miner.name=multi-similarity",
                "miner_distance=cosine",
                "memory_size=0",
                "batch_size=64",
                "sampler=m-per-class",
                "split=stratified",
                "hidden_layers=[1000, 500, 250, 100]",
                "embedding_size=25",
            ],
        },
    ];

    /// Recipe of this name.
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

    /// The recipe for data like this: for an AnnData file that of PML's notebook on cells, else one by its classes and columns. The
    /// settings of the latter are the data's default settings.
    pub fn proposed(data: &str, shape: Shape) -> &'static Self {
        let name = match shape {
            _ if data.to_ascii_lowercase().ends_with(".h5ad") => "single-cell",
            Shape::ManyClasses => "memory-triplet",
            Shape::TwoOrThreeClasses => "batch-triplet",
            Shape::FewClasses => "batch-sup-con",
            Shape::FewClassesOfManyFeatures => "wide-sup-con",
        };
        let recipe = Self::ALL.iter().find(|recipe| recipe.name == name);
        recipe.expect("it is among them")
    }

    /// Settings of the recipe, `key=value` each.
    pub fn sets(&self) -> &'static [&'static str] {
        self.sets
    }

    /// These settings with the recipe's in their place, for data of `classes` classes of which `train` rows train. If there are too
    /// few classes for four rows of each in a batch, it has more rows of each; a batch has no more rows than train.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting of the recipe does not go with the others.
    pub fn apply(&self, config: TrainConfig, train: usize, classes: usize) -> Result<TrainConfig> {
        let set = |config: TrainConfig, set: &&str| config.with_set(set);
        // Margins depend on the distance, which is part of a recipe.
        let config = TrainConfig {
            miner_distance: None,
            ..config.with_set("distance=cosine")?
        };
        let mut config = self.sets.iter().try_fold(config, set)?;
        while config.batch_size > train.max(2) {
            config.batch_size /= 2;
        }
        Ok(with_rows_of_few_classes(config, classes))
    }
}

/// These settings with more rows of each class in a batch, if the data has too few classes to fill one.
pub(crate) fn with_rows_of_few_classes(mut config: TrainConfig, classes: usize) -> TrainConfig {
    let m = match &mut config.sampler {
        Sampler::MPerClass(sampler) => &mut sampler.m,
        Sampler::MPerClassEpoch(sampler) => &mut sampler.m,
        Sampler::Shuffled(_) | Sampler::ClassBalanced(_) | Sampler::Hierarchical(_) => {
            return config;
        }
    };
    let held_out = (config.test_fraction + config.validation_fraction) * classes as f64;
    let classes = match config.split {
        Split::ByClass | Split::ByClassShuffled => {
            classes.saturating_sub(held_out.ceil() as usize + 1)
        }
        Split::Random | Split::Stratified | Split::ByGroup | Split::Column(_) => classes,
    };
    let batch = config.batch_size;
    let fits = |m: &usize| batch.is_multiple_of(*m) && batch / m <= classes.max(2);
    *m = (*m..batch).find(fits).unwrap_or(*m);
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::samplers::MPerClassSampler;

    #[test]
    fn every_recipe_sets_what_goes_with_its_loss_whatever_was_set_before() {
        let before = TrainConfig::default();
        let chosen = |config: &TrainConfig| {
            let TrainConfig {
                loss,
                miner,
                memory_size,
                sampler,
                ..
            } = config.clone();
            (loss, miner, memory_size, sampler)
        };
        for recipe in &Recipe::ALL {
            let config = recipe
                .apply(before.clone(), 10_000, 100)
                .expect("goes together");
            config.check().expect("is in range");
            for other in &Recipe::ALL {
                let over = other
                    .apply(before.clone(), 10_000, 100)
                    .expect("goes together");
                let again = recipe.apply(over, 10_000, 100).expect("goes together");
                let what = format!("{} after {}", recipe.name, other.name);
                assert_eq!(chosen(&again), chosen(&config), "{what}");
            }
        }
    }

    #[test]
    fn the_settings_that_suit_data_are_those_of_its_recipe_alone() {
        for (classes, dim) in [(3, 256), (10, 24), (10, 256), (100, 256)] {
            let shape = Shape::of(classes, dim);
            let suited = shape.over(TrainConfig::default(), 10_000);
            let gives = |recipe: &&Recipe| {
                let config = recipe.apply(suited.clone(), 10_000, classes);
                config.is_ok_and(|config| config == suited)
            };
            let found: Vec<_> = Recipe::ALL.iter().filter(gives).collect();
            assert_eq!(found, [Recipe::proposed("", shape)], "{classes}, {dim}");
        }
    }

    #[test]
    fn few_classes_have_more_rows_of_each_in_a_batch() {
        let recipe = Recipe::named("class-sampler-triplet").expect("is there");
        let sampler = |batch: &str, classes: usize| {
            let config = TrainConfig::default().with_set(batch).expect("sets");
            recipe
                .apply(config, 10_000, classes)
                .expect("goes together")
                .sampler
        };
        let m = |m| Sampler::MPerClass(MPerClassSampler { m });
        assert_eq!(sampler("batch_size=40", 10), m(4));
        assert_eq!(sampler("batch_size=64", 10), m(8));
        assert_eq!(sampler("batch_size=64", 2), m(32));
    }

    #[test]
    fn an_unknown_recipe_is_refused_with_those_that_there_are() {
        let refused = Recipe::named("proxy")
            .expect_err("there is none")
            .to_string();
        assert!(refused.contains("proxy-anchor, arc-face"), "{refused}");
    }
}

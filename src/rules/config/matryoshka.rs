//! [`Matryoshka`]: sizes to which embeddings are truncated, each with a loss of its own.

use serde::{Deserialize, Serialize};

/// Sizes to which embeddings are truncated, brought to unit length anew, mined and compared: the loss is the weighted sum of that of
/// each size (Kusupati et al. 2022; `MatryoshkaLoss` of sentence-transformers).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Matryoshka {
    /// Sizes, the whole one among them; none for a loss of whole embeddings alone.
    pub dims: Vec<usize>,
    /// Weight of the loss of each size, in the order of the sizes; if there are none, each is 1.
    pub weights: Vec<f64>,
}

/// One size, and the weight of its loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    pub(crate) dim: usize,
    pub(crate) weight: f32,
}

impl Matryoshka {
    /// The most sizes.
    const MOST: usize = 8;

    /// The sizes from the whole one down; none without such a loss.
    pub(crate) fn levels(&self) -> Vec<Level> {
        let weight = |i: usize| self.weights.get(i).map_or(1.0, |weight| *weight as f32);
        let levels = self.dims.iter().enumerate();
        let mut levels: Vec<Level> = levels
            .map(|(i, dim)| Level {
                dim: *dim,
                weight: weight(i),
            })
            .collect();
        levels.sort_by_key(|level| std::cmp::Reverse(level.dim));
        levels
    }

    /// Tells if the sizes are different ones from 2 on, up to that of whole embeddings.
    pub(super) fn is_of(&self, embedding_size: usize) -> bool {
        let levels = self.levels();
        let fall = levels.windows(2).all(|two| two[0].dim > two[1].dim);
        let whole = levels
            .first()
            .is_none_or(|level| level.dim == embedding_size);
        levels.len() <= Self::MOST && fall && whole && levels.iter().all(|level| level.dim >= 2)
    }

    /// Tells if each size has a weight in range, or none has one.
    pub(super) fn is_weighed(&self) -> bool {
        let in_range = |weight: &f64| (1e-6..=1e6).contains(weight);
        (self.weights.is_empty() || self.weights.len() == self.dims.len())
            && self.weights.iter().all(in_range)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TrainConfig;

    #[test]
    fn sizes_and_weights_are_read_and_refused_with_their_range() {
        let set = |sets: &[&str]| {
            let config = sets
                .iter()
                .try_fold(TrainConfig::default(), |config, set| config.with_set(set));
            config
                .and_then(|config| config.check().map(|()| config))
                .map_err(|error| error.to_string())
        };
        let config =
            set(&["matryoshka.dims=[16,64,8]", "matryoshka.weights=[0.5,1,2]"]).expect("in range");
        let levels: Vec<(usize, f32)> = config
            .matryoshka
            .levels()
            .iter()
            .map(|l| (l.dim, l.weight))
            .collect();
        assert_eq!(levels, [(64, 1.0), (16, 0.5), (8, 2.0)]);
        for (sets, part) in [
            (
                &["matryoshka.dims=[32,16]"][..],
                "matryoshka.dims is [32, 16]: it must be up to eight different sizes",
            ),
            (&["matryoshka.dims=[64,64]"], "embedding_size the largest"),
            (&["matryoshka.dims=[64,1]"], "2 or more"),
            (
                &["matryoshka.dims=[64,128]"],
                "matryoshka.dims is [64, 128]",
            ),
            (
                &["matryoshka.dims=[64,8]", "matryoshka.weights=[1]"],
                "matryoshka.weights is [1.0]: it must be",
            ),
            (
                &["matryoshka.dims=[64,8]", "matryoshka.weights=[1,0]"],
                "matryoshka.weights is [1.0, 0.0]",
            ),
            (&["matryoshka.weights=[1]"], "matryoshka.weights is [1.0]"),
            (
                &["matryoshka.weights=heavy"],
                "it must be a list of numbers",
            ),
        ] {
            let refused = set(sets).expect_err("is refused");
            assert!(refused.contains(part), "{refused}");
        }
    }
}

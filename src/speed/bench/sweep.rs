//! [`Sweep`]: the sizes to measure, in every combination, from the command line or the page's link.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rows;
use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Rate};
use crate::engine::Engine;
use crate::kernels::stride;
use crate::mining::MiningSpec;
use crate::mining::listing::ListingSpec;
use crate::search::evaluation::EvaluationSpec;
use crate::search::knn::KnnSpec;

/// Kind of work that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum Work {
    /// A search.
    Knn {
        /// Neighbours of each query.
        k: usize,
    },
    /// Every metric of the queries.
    Evaluate {
        /// Number of classes.
        classes: usize,
    },
    /// Triplets of the queries, as anchors, with the references.
    Mining {
        /// Result that is asked for.
        asked: MiningOutput,
        /// Number of classes.
        classes: usize,
    },
}

/// Result that a mining is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MiningOutput {
    /// Number of triplets of each kind.
    Counts,
    /// The loss and its gradient.
    Loss,
    /// A list of every valid triplet, window by window.
    Valid,
    /// A list of the triplets that the miner keeps.
    Mined,
}

impl MiningOutput {
    /// Everything that can be asked for.
    pub const ALL: [Self; 4] = [Self::Counts, Self::Loss, Self::Valid, Self::Mined];
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Kind of work that is measured.
    #[serde(flatten)]
    pub work: Work,
    /// Number of queries.
    pub queries: usize,
    /// Number of references.
    pub references: usize,
    /// Columns of both.
    pub dim: usize,
}

/// Lists of sizes, measured in every combination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Kinds of work that are measured.
    pub works: Vec<Work>,
    /// Numbers of queries.
    pub queries: Vec<usize>,
    /// Numbers of references.
    pub references: Vec<usize>,
    /// Columns of both.
    pub dim: Vec<usize>,
    /// Chosen sizes, instead of every combination, until one of the lists is set.
    pub chosen: Vec<Shape>,
    /// Number of queries whose neighbours are in the report, for others to check.
    pub answers: usize,
}

impl Sweep {
    /// The sweep of a name, `knn`, `evaluate` or `mining`: a minute or two on two cores.
    ///
    /// # Errors
    /// [`Error::Config`] for another name.
    pub fn named(name: &str) -> Result<Self> {
        let (works, references) = match name {
            "knn" => (
                [10, 100].map(|k| Work::Knn { k }),
                vec![1000, 10_000, 100_000],
            ),
            "evaluate" => (
                [10, 100].map(|classes| Work::Evaluate { classes }),
                vec![1000, 3000, 10_000, 30_000],
            ),
            "mining" => return Ok(Self::mining()),
            _ => {
                return Err(Error::Config(format!(
                    "there is no bench \"{name}\": knn, evaluate or mining"
                )));
            }
        };
        Ok(Self {
            works: works.to_vec(),
            queries: vec![1000],
            references,
            dim: vec![64, 128],
            chosen: Vec::new(),
            answers: 0,
        })
    }

    /// The shapes that the release note of PML's loop names, a memory of 65,536, and 10^12 cells.
    fn mining() -> Self {
        let mut chosen = Vec::new();
        let mut add = |asked: &[MiningOutput], [queries, references]: [usize; 2], classes| {
            chosen.extend(asked.iter().map(|&asked| Shape {
                work: Work::Mining { asked, classes },
                queries,
                references,
                dim: 128,
            }));
        };
        for size in [[21, 10_000], [512, 2000], [1000, 1000]] {
            for classes in [10, 32, 100] {
                add(&MiningOutput::ALL, size, classes);
            }
        }
        add(
            &[MiningOutput::Counts, MiningOutput::Loss],
            [64, 65_536],
            100,
        );
        add(&[MiningOutput::Counts], [1000, 31_623], 2);
        Self {
            works: works_of(&[100]),
            queries: vec![512],
            references: vec![2000],
            dim: vec![128],
            chosen,
            answers: 0,
        }
    }

    /// Sets a list, sizes with commas: `queries`, `references`, `dim`, and `k` or `classes`; or `answers`, one number.
    ///
    /// # Errors
    /// [`Error::Config`] for an unknown key, an empty list, or anything but numbers above 0.
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        let sizes: Vec<usize> = text
            .split(',')
            .map(|size| size.trim().parse().ok().filter(|size| *size > 0))
            .collect::<Option<_>>()
            .ok_or_else(|| {
                Error::Config(format!(
                    "{key} is \"{text}\": numbers above 0 with commas are expected"
                ))
            })?;
        match (key, &self.works[0]) {
            ("queries" | "anchors", _) => self.queries = sizes,
            ("references", _) => self.references = sizes,
            ("dim", _) => self.dim = sizes,
            ("k", Work::Knn { .. }) => {
                self.works = sizes.into_iter().map(|k| Work::Knn { k }).collect();
            }
            ("answers", Work::Knn { .. }) => self.answers = sizes[0],
            ("classes", Work::Mining { .. }) => self.works = works_of(&sizes),
            ("classes", Work::Evaluate { .. }) => {
                let work = |classes| Work::Evaluate { classes };
                self.works = sizes.into_iter().map(work).collect();
            }
            (_, work) => {
                let last = match work {
                    Work::Knn { .. } => "k, answers",
                    Work::Evaluate { .. } | Work::Mining { .. } => "classes",
                };
                return Err(Error::Config(format!(
                    "there is no \"{key}\": queries, references, dim, {last}"
                )));
            }
        }
        self.chosen.clear();
        Ok(())
    }

    /// Every combination: references change first, then queries, then columns.
    pub fn shapes(&self) -> Vec<Shape> {
        let mut shapes = self.chosen.clone();
        if !shapes.is_empty() {
            return shapes;
        }
        for &work in &self.works {
            for &dim in &self.dim {
                for &queries in &self.queries {
                    shapes.extend(self.references.iter().map(|&references| Shape {
                        work,
                        queries,
                        references,
                        dim,
                    }));
                }
            }
        }
        shapes
    }
}

/// Mining of so many classes with every result that can be asked for.
fn works_of(classes: &[usize]) -> Vec<Work> {
    let all = |&classes: &usize| MiningOutput::ALL.map(|asked| Work::Mining { asked, classes });
    classes.iter().flat_map(all).collect()
}

impl Shape {
    /// Forecast of the work on the engine.
    ///
    /// # Errors
    /// As [`KnnSpec::plan`] and [`EvaluationSpec::plan`].
    pub fn plan(&self, engine: &Engine) -> Result<Forecast> {
        let Self {
            queries,
            references,
            dim,
            ..
        } = *self;
        match self.work {
            Work::Knn { k } => {
                let own = false;
                let spec = KnnSpec {
                    queries,
                    references,
                    dim,
                    k,
                    own,
                };
                spec.plan(&engine.room(), &Rate::default())
            }
            Work::Evaluate { classes } => {
                let labels = rows::labels(rows::REFERENCES, references, classes);
                EvaluationSpec::of(&labels, dim, queries).plan(&engine.room(), &Rate::default())
            }
            Work::Mining { asked, classes } => {
                let labels = rows::labels(rows::REFERENCES, references, classes);
                let EvaluationSpec { positives, .. } = EvaluationSpec::of(&labels, dim, queries);
                if matches!(asked, MiningOutput::Counts | MiningOutput::Loss) {
                    let spec = MiningSpec {
                        anchors: queries,
                        references,
                        dim,
                        positives,
                        own: false,
                        gradient: asked == MiningOutput::Loss,
                        ..MiningSpec::default()
                    };
                    return spec.plan(&engine.room(), &Rate::default());
                }
                let spec = ListingSpec {
                    anchors: queries,
                    references,
                    dim,
                    positives,
                    mined: asked == MiningOutput::Mined,
                    window_bytes: ListingSpec::WINDOW_BYTES,
                };
                spec.plan(&engine.room(), &Rate::default())
            }
        }
    }

    /// Bytes of the references, if they stay on the device; else 0.
    pub(super) fn resident_bytes(&self, forecast: &Forecast) -> u64 {
        let row = 4 * stride(self.dim) as u64;
        let row_bytes = match self.work {
            Work::Knn { .. } => row,
            Work::Evaluate { .. } => row + 8,
            Work::Mining { asked, .. } => match asked {
                MiningOutput::Counts | MiningOutput::Loss | MiningOutput::Mined => row + 8,
                MiningOutput::Valid => 4,
            },
        };
        if forecast.resident {
            self.references as u64 * row_bytes
        } else {
            0
        }
    }

    /// Floating-point operations of its similarities.
    pub fn operations(&self) -> f64 {
        2.0 * self.pairs() * self.dim as f64
    }

    /// Queries times references.
    fn pairs(&self) -> f64 {
        self.queries as f64 * self.references as f64
    }

    /// The work, in a word or two.
    fn name(&self) -> &'static str {
        match self.work {
            Work::Knn { .. } => "knn",
            Work::Evaluate { .. } => "evaluate",
            Work::Mining { asked, .. } => match asked {
                MiningOutput::Counts => "mine",
                MiningOutput::Loss => "loss",
                MiningOutput::Valid => "list valid",
                MiningOutput::Mined => "list mined",
            },
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            queries,
            references,
            dim,
            ..
        } = self;
        write!(f, "{} {queries} x {references} x {dim}, ", self.name())?;
        match self.work {
            Work::Knn { k } => write!(f, "k {k}"),
            Work::Evaluate { classes } | Work::Mining { classes, .. } => {
                write!(f, "{classes} classes")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_combined_with_every_other() {
        let mut sweep = Sweep::named("knn").expect("is there");
        for (key, list) in [
            ("queries", "10"),
            ("references", "100,200"),
            ("dim", "3, 5"),
        ] {
            sweep.set(key, list).expect("is set");
        }
        sweep.set("k", "7").expect("is set");
        let mut mining = Sweep::named("mining").expect("is there");
        mining.set("anchors", "21").expect("is set");
        assert_eq!(mining.queries, [21]);
        let names: Vec<String> = sweep.shapes().iter().map(Shape::to_string).collect();
        let expected = [
            "10 x 100 x 3",
            "10 x 200 x 3",
            "10 x 100 x 5",
            "10 x 200 x 5",
        ];
        assert_eq!(names, expected.map(|sizes| format!("knn {sizes}, k 7")));
    }

    #[test]
    fn what_is_no_list_of_sizes_is_refused_by_name() {
        let mut sweep = Sweep::named("evaluate").expect("is there");
        let mut say = |key, text| sweep.set(key, text).expect_err("refused").to_string();
        let wrong = "dim is \"64,0\": numbers above 0 with commas are expected";
        assert_eq!(say("dim", "64,0"), wrong);
        assert_eq!(
            say("k", "10"),
            "there is no \"k\": queries, references, dim, classes"
        );
        let unknown = Sweep::named("mine").expect_err("refused");
        assert_eq!(
            unknown.to_string(),
            "there is no bench \"mine\": knn, evaluate or mining"
        );
    }
}

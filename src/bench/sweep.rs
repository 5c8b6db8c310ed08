//! [`Sweep`]: the sizes to measure, each with each, from the command line or the page's link.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rows;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::evaluation::EvaluationSpec;
use crate::forecast::{Forecast, Rate};
use crate::kernels::stride;
use crate::knn::KnnSpec;

/// What is measured.
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
        /// How many classes there are.
        classes: usize,
    },
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// What is measured.
    #[serde(flatten)]
    pub work: Work,
    /// How many queries.
    pub queries: usize,
    /// How many references.
    pub references: usize,
    /// Columns of both.
    pub dim: usize,
}

/// Lists of sizes, each combined with each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// What is measured.
    pub works: Vec<Work>,
    /// How many queries.
    pub queries: Vec<usize>,
    /// How many references.
    pub references: Vec<usize>,
    /// Columns of both.
    pub dim: Vec<usize>,
    /// Of how many queries the report holds the neighbours, for whoever checks them as well.
    pub answers: usize,
}

impl Sweep {
    /// The sweep of a name, `knn` or `evaluate`: a minute or two on two cores.
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
            _ => {
                return Err(Error::Config(format!(
                    "there is no bench \"{name}\": knn or evaluate"
                )));
            }
        };
        Ok(Self {
            works: works.to_vec(),
            queries: vec![1000],
            references,
            dim: vec![64, 128],
            answers: 0,
        })
    }

    /// Sets a list, sizes with commas: `queries`, `references`, `dim`, and `k` or `classes`; or `answers`, one number.
    ///
    /// # Errors
    /// [`Error::Config`] for an unknown key, an empty list, or what is no number above 0.
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
            ("queries", _) => self.queries = sizes,
            ("references", _) => self.references = sizes,
            ("dim", _) => self.dim = sizes,
            ("k", Work::Knn { .. }) => {
                self.works = sizes.into_iter().map(|k| Work::Knn { k }).collect();
            }
            ("answers", Work::Knn { .. }) => self.answers = sizes[0],
            ("classes", Work::Evaluate { .. }) => {
                let work = |classes| Work::Evaluate { classes };
                self.works = sizes.into_iter().map(work).collect();
            }
            (_, work) => {
                let last = match work {
                    Work::Knn { .. } => "k, answers",
                    Work::Evaluate { .. } => "classes",
                };
                return Err(Error::Config(format!(
                    "there is no \"{key}\": queries, references, dim, {last}"
                )));
            }
        }
        Ok(())
    }

    /// Every combination: references change first, then queries, then columns.
    pub fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
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

impl Shape {
    /// What the engine would hold.
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
        }
    }

    /// Bytes of the references, where they stay on the device.
    pub(super) fn resident_bytes(&self, forecast: &Forecast) -> u64 {
        let tag_bytes = match self.work {
            Work::Knn { .. } => 0,
            Work::Evaluate { .. } => 8,
        };
        let row_bytes = 4 * stride(self.dim) as u64 + tag_bytes;
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
    pub fn pairs(&self) -> f64 {
        self.queries as f64 * self.references as f64
    }

    /// What is measured, in a word.
    pub fn name(&self) -> &'static str {
        match self.work {
            Work::Knn { .. } => "knn",
            Work::Evaluate { .. } => "evaluate",
        }
    }

    /// What does not change along a curve: `64 dimensions, k 10`.
    pub fn series(&self) -> String {
        let dim = self.dim;
        match self.work {
            Work::Knn { k } => format!("{dim} dimensions, k {k}"),
            Work::Evaluate { classes } => format!("{dim} dimensions, {classes} classes"),
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
        match self.work {
            Work::Knn { k } => write!(f, "knn {queries} x {references} x {dim}, k {k}"),
            Work::Evaluate { classes } => {
                write!(
                    f,
                    "evaluate {queries} x {references} x {dim}, {classes} classes"
                )
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
            "there is no bench \"mine\": knn or evaluate"
        );
    }
}

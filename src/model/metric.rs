//! [`Metric`]: the value by which a search or an evaluation compares rows as they are stored, larger for nearer.

use serde::{Deserialize, Serialize};

/// Value of a query and a reference, larger for nearer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Cosine similarity.
    #[default]
    Cosine,
    /// Inner product.
    Dot,
    /// Minus the Euclidean distance. Ranks follow from `<q, r> - |r|^2 / 2` in f32, as those of faiss's `IndexFlatL2` do: rows far from
    /// the origin and close to each other are told apart to as many digits as that leaves.
    L2,
}

/// Layout of stored rows on an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Divided by their length.
    #[default]
    Unit,
    /// As they are stored.
    Stored,
    /// As they are stored, and a column of ones behind.
    WithOne,
    /// As they are stored, and behind them a column of minus half of their squared length.
    WithHalfSquare,
}

impl Metric {
    /// Columns of rows of `dim` columns on an engine.
    pub(crate) fn columns(self, dim: usize) -> usize {
        dim + usize::from(self == Self::L2)
    }

    /// Layout of queries.
    pub(crate) fn of_queries(self) -> Form {
        match self {
            Self::Cosine => Form::Unit,
            Self::Dot => Form::Stored,
            Self::L2 => Form::WithOne,
        }
    }

    /// Layout of references.
    pub(crate) fn of_references(self) -> Form {
        match self {
            Self::Cosine => Form::Unit,
            Self::Dot => Form::Stored,
            Self::L2 => Form::WithHalfSquare,
        }
    }
}

impl Form {
    /// Columns of rows of `dim` columns in this layout.
    pub(crate) fn columns(self, dim: usize) -> usize {
        dim + usize::from(matches!(self, Self::WithOne | Self::WithHalfSquare))
    }

    /// Writes the last column of rows of `dim` columns that lie `stride` apart, if this layout has one.
    pub(crate) fn complete(self, rows: &mut [f32], dim: usize, stride: usize) {
        if self.columns(dim) == dim {
            return;
        }
        for row in rows.chunks_exact_mut(stride) {
            row[dim] = match self {
                Self::WithHalfSquare => {
                    let squares = row[..dim].iter().map(|value| f64::from(*value).powi(2));
                    (-0.5 * squares.sum::<f64>()) as f32
                }
                _ => 1.0,
            };
        }
    }
}

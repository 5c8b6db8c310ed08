//! [`EarlyStop`]: the validation score by which the best step of a run is kept, and after how many validations without a better one
//! the run ends.

use serde::{Deserialize, Serialize};

/// Best step of a run by a score of the validation rows. With a metric, the weights of the best validation are kept and are those of
/// the head at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Named")]
pub struct EarlyStop {
    /// Score that is compared; `none` leaves the head that of the last step, unless an earlier one did clearly better.
    pub metric: StopMetric,
    /// Validations in a row without a better one after which the run ends, as Keras and Lightning count them; 0 never ends it.
    pub patience: u64,
}

/// The settings as they are written: any of them, or none.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Named {
    metric: Option<StopMetric>,
    patience: Option<u64>,
}

impl From<Named> for EarlyStop {
    /// A patience alone asks for the default metric; without a metric there is nothing to be patient for.
    fn from(named: Named) -> Self {
        let metric = match (named.metric, named.patience) {
            (Some(metric), _) => metric,
            (None, Some(_)) => StopMetric::USUAL,
            (None, None) => StopMetric::None,
        };
        let patience = named.patience.filter(|_| metric != StopMetric::None);
        Self {
            metric,
            patience: patience.unwrap_or(Self::default().patience),
        }
    }
}

impl Default for EarlyStop {
    fn default() -> Self {
        Self {
            metric: StopMetric::None,
            patience: 5,
        }
    }
}

impl EarlyStop {
    /// Tells if the best step is kept.
    pub fn is_on(self) -> bool {
        self.metric != StopMetric::None
    }
}

/// Score of the validation rows by which the best step is chosen: higher is better. In the order of [`StopMetric::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMetric {
    /// None: nothing is stopped.
    None,
    /// Precision@1.
    #[serde(rename = "precision_at_1")]
    PrecisionAt1,
    /// R-precision.
    RPrecision,
    /// MAP@R.
    MeanAveragePrecisionAtR,
    /// Mean average precision over all rows.
    MeanAveragePrecision,
    /// Mean reciprocal rank.
    MeanReciprocalRank,
}

impl StopMetric {
    /// The metric of a patience that comes without one: it changes less from one draw of queries to another than precision@1.
    const USUAL: Self = Self::MeanAveragePrecisionAtR;

    /// Names in settings and reports, and in words.
    pub const ALL: [(&str, &str); 6] = [
        ("none", "none"),
        ("precision_at_1", "precision@1"),
        ("r_precision", "R-precision"),
        ("mean_average_precision_at_r", "MAP@R"),
        ("mean_average_precision", "MAP"),
        ("mean_reciprocal_rank", "MRR"),
    ];

    /// The metric in words.
    pub fn words(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

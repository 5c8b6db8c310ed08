//! [`Terms`]: the numbers by which the kernels compute a loss, as the loss's own file lowers its arguments to them.

use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::kernels::triplet_margin::TERMS;
use crate::rules::arguments::Facts;

/// A loss with arguments of its own.
pub(super) trait Formula: Facts {
    /// Its terms, if it is a loss of pairs.
    fn terms(&self, distance: Distance) -> Option<Terms>;
}

/// A loss of pairs as the kernels take it: its formula, and factors and margins of positives and of negatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::rules) struct Terms {
    pub(in crate::rules) form: Form,
    pub(in crate::rules) scales: [f64; 2],
    pub(in crate::rules) margins: [f64; 2],
    pub(in crate::rules) proxies: Option<ProxyTerms>,
}

/// The proxies of a loss: rows that are learned with the head, some for each class of the training rows, and compared with the rows
/// of a batch as if they were rows of their class. They start in random directions; their length then and the learning rate decide
/// how fast they turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProxyTerms {
    /// Proxies of each class.
    pub(crate) per_class: usize,
    /// Factor of the softmax that weighs the proxies of a class; 0: only the nearest counts.
    pub(crate) gamma: f64,
    /// The proxies are the anchors, and the rows of the batch their positives and negatives.
    pub(crate) are_rows: bool,
    /// Their learning rate.
    pub(crate) lr: f64,
    /// The numbers that they start as.
    pub(crate) start: ProxyStart,
}

/// Distribution from which PML draws the first proxies of a loss, `[count, dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyStart {
    /// Normal numbers.
    Normal,
    /// Normal numbers of variance 2 / count: `kaiming_normal_` with `mode="fan_out"`.
    KaimingNormal,
    /// Uniform numbers within 1 / sqrt(count) of zero: `kaiming_uniform_` with `a=math.sqrt(5)`.
    KaimingUniform,
}

/// Learning rate of proxies by default. With a tenth of it `arc-face` learns the default sample much worse.
pub(super) const PROXY_LR: f64 = 0.5;
/// Learning rate by default of several proxies of a class: with 0.5 `sub-center-arc-face` learns the default sample much worse.
pub(super) const PROXY_LR_OF_SEVERAL: f64 = 0.05;

/// A similarity or a distance as a value: larger is nearer.
pub(super) fn side(distance: Distance, margin: f64) -> f64 {
    match distance {
        Distance::Cosine => margin,
        Distance::L2 => -margin,
    }
}

/// The sum of the terms of `rows` rows in a report.
pub(super) fn sum_of_terms(report: &[u32], rows: usize) -> f64 {
    let terms = &report[TERMS..TERMS + rows];
    terms
        .iter()
        .map(|bits| f64::from(f32::from_bits(*bits)))
        .sum()
}

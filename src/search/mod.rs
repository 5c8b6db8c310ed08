//! What is near? Nearest rows, the scores and the threshold that follow from them, and rows whose neighbours speak against their label.

pub(crate) mod metrics;

pub(crate) mod knn;

pub(crate) mod evaluation;

pub(crate) mod threshold;

pub(crate) mod rows_to_check;

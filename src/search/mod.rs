//! What is near? Nearest rows, scores and threshold that follow from them, and rows whose neighbours contradict their label.

pub(crate) mod metrics;

pub(crate) mod knn;

pub(crate) mod near;

pub(crate) mod rows;

pub(crate) mod evaluation;

pub(crate) mod threshold;

pub(crate) mod rows_to_check;

//! How does a run learn? Batches, and the loop over steps.

pub(crate) mod batches;

pub(crate) mod trainer;

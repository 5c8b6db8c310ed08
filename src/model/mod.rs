//! What is learned? Feature rows on their way to the device, the network and its optimizer, memory, proxies and a boundary.

pub(crate) mod scaling;

pub(crate) mod features;

pub(crate) mod architecture;

pub(crate) mod activations;

pub(crate) mod gradients;

pub(crate) mod layer_weights;

pub(crate) mod embedding_model;

pub(crate) mod embeddings;

pub(crate) mod cross_batch_memory;

pub(crate) mod optimizer;

pub(crate) mod proxies;

pub(crate) mod boundary;

pub(crate) mod row_weights;

pub(crate) mod metric;

pub(crate) mod unit_rows;

pub(crate) mod embedder;

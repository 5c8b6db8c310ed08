//! The library, by topic: one program, as each that links it takes seconds and 60 MB.

#[path = "../common/mod.rs"]
mod common;

mod anchor;
mod checkpoints;
mod chunks;
mod compare;
mod contest;
mod corpus;
mod defaults;
mod docs;
mod doctor;
mod early_stop;
mod engines;
mod fit;
mod gradients;
mod graph;
mod groups;
mod knn;
mod largest;
mod ledger;
mod linear;
mod memory_loss;
mod metric;
mod metrics;
mod miners;
mod mining;
mod npz;
mod pml_losses;
mod pml_miners;
mod pml_peaks;
mod pml_proxies;
mod shapes;
mod shards;
mod standardize;
mod tables;
mod take_home;
mod threshold;
mod trace;
mod training;
mod triplets;
mod umap;
mod vector_sizes;
mod waits;

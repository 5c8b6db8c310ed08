//! Base of all other modules: refusals, the account of the memory, the plans that keep to it, and small numerics.

pub(crate) mod ledger;

pub(crate) mod error;

pub(crate) mod quote;

pub mod order;

pub(crate) mod memory;

pub(crate) mod plan;

pub(crate) mod forecast;

pub(crate) mod working;

pub(crate) mod rng;

pub(crate) mod student;

pub(crate) mod interval;

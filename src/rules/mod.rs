//! The settings of a run, and the miners, losses and samplers that they name.

pub(crate) mod miners;

pub(crate) mod losses;

pub(crate) mod samplers;

pub(crate) mod config;

pub(crate) mod pml;

//! The settings of a run, and the miners, losses, samplers, optimizers and schedules that they name.

mod arguments;

pub(crate) mod miners;

pub(crate) mod losses;

pub(crate) mod mining_rule;

pub(crate) mod samplers;

pub(crate) mod optimizers;

pub(crate) mod schedules;

pub(crate) mod early_stop;

pub(crate) mod config;

pub(crate) mod pml;

pub(crate) mod pml_step;

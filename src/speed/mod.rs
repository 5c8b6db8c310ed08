//! Speed of the device: one number for a person, a rate for forecasts, the fastest shape of tiles, and the bench.

pub(crate) mod rate;

pub(crate) mod device_speed;

pub(crate) mod tuning;

pub mod bench;

//! Knowledge of an engine that the browser keeps from visit to visit: its best tile shape, and its speed.

use nearfar::{DeviceInfo, TileShape};

use crate::kept;

/// Storage key of the tile shape that the browser's GPU is fastest with.
const SHAPE: &str = "nearfar.shape";

/// Storage key of the speed of runs, to which the name of the adapter is appended.
const RATE: &str = "nearfar.rate.";

/// Has the browser keep the tile shape that a GPU is fastest with.
pub(crate) fn keep_shape(device: &DeviceInfo) {
    if let Some(shape) = device.tuned {
        kept::keep(SHAPE, &tuned_text(device, shape));
    }
}

/// The tile shape that the browser keeps, as [`tuned_text`] writes it.
pub(crate) fn shape() -> Option<String> {
    kept::kept(SHAPE)
}

/// Text that names a GPU and the tile shape that it is fastest with.
pub(crate) fn tuned_text(gpu: &DeviceInfo, shape: TileShape) -> String {
    format!("{shape}; {}", gpu.tuning_key())
}

/// Has the browser keep the speed of a run, in operations of a forecast per millisecond.
pub(crate) fn keep_rate(adapter: &str, rate: f64) {
    kept::keep(&[RATE, adapter].concat(), &rate.to_string());
}

/// The speed of runs on this adapter that the browser keeps.
pub(crate) fn rate(adapter: &str) -> Option<f64> {
    let text = kept::kept(&[RATE, adapter].concat())?;
    // `serde_json` is in the page anyway; the standard library's parser of numbers would be 12 kB more.
    let rate = serde_json::from_str(&text).ok();
    rate.filter(|rate: &f64| *rate > 0.0)
}

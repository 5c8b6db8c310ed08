//! The text of shaders, as `build/` leaves it.

/// The code of files in `shaders/`, one part for each: a file that several shaders share is compiled in once.
macro_rules! wgsl {
    ($($file:literal),+) => {
        &[$(include_str!(concat!(env!("OUT_DIR"), "/", $file))),+]
    };
}
pub(super) use wgsl;

//! Drives the parsers of `parsers.rs` with what a fuzzer makes up.

mod parsers;

use std::sync::Once;

/// Gives bytes to the parser of this name.
///
/// # Panics
/// Where the parser breaks a promise.
pub fn run(name: &str, bytes: &[u8]) {
    static HOOK: Once = Once::new();
    // Fuzzing ends with any panic; one that a reader takes for a damaged file is none.
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !nearfar::is_guarded() {
                hook(panic);
            }
        }));
    });
    let mut parsers = parsers::PARSERS.iter();
    let (_, parse) = parsers.find(|(known, _)| *known == name).expect("is one");
    parse(bytes);
}

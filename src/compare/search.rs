//! [`Search`]: a comparison whose time is limited.

/// A search: its limit, and what was found out about its candidates before it starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Search {
    /// Milliseconds that it may take.
    pub(super) limit_ms: f64,
    /// Candidates that cannot run, each with the reason.
    pub(super) left_out: Vec<(String, String)>,
    /// By candidate: predicted milliseconds of a run that takes no step, and of each step.
    pub(super) costs: Vec<[f64; 2]>,
    /// By candidate: device memory of a run, in bytes, and the settings that were lowered so that it fits, each with its value before.
    pub(super) sizes: Vec<(u64, Vec<String>)>,
}

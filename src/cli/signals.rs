//! Ctrl-C and its like: they stop the work between two slices, so that nothing half-written is left, and the exit code
//! says which it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::SIGINT;
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::flag;

use nearfar::{Error, Result};

/// The number of the last one that came; 0 before.
static SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Makes the signals set this flag, which [`nearfar::Engine::breathe`] looks at.
pub(super) fn set(stop: &Arc<AtomicBool>) {
    catch(SIGINT, stop);
    #[cfg(unix)]
    for signal in [SIGTERM, SIGHUP] {
        if !is_ignored(signal) {
            catch(signal, stop);
        }
    }
}

fn catch(signal: i32, stop: &Arc<AtomicBool>) {
    // What cannot be caught ends the process, as it does by itself.
    flag::register_usize(signal, &SIGNAL, signal as usize)
        .and_then(|_| flag::register(signal, Arc::clone(stop)))
        .ok();
}

/// Whether a signal is ignored on purpose, as `nohup` has it of a terminal that closes.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

/// Stops where a signal came: for work that does not pass through an engine.
pub(super) fn check() -> Result<()> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(Error::Stopped),
    }
}

/// The exit code of what a signal stopped: 130 for Ctrl-C, 143 for a polite kill.
pub(super) fn exit_code() -> Option<u8> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => None,
        signal => Some((128 + signal) as u8),
    }
}

//! Ctrl-C and similar signals: they stop the work between two slices, so that nothing half-written is left, and the exit code tells
//! which signal it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(unix)]
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::flag;
#[cfg(unix)]
use signal_hook::iterator::Signals;

#[cfg(unix)]
use nearfar::reserve;
use nearfar::{Error, Result};

#[cfg(unix)]
use super::temporary;

/// Number of the last signal; 0 before any.
static SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Signals that come together count as one: `timeout` sends its own twice.
#[cfg(unix)]
const TOGETHER: Duration = Duration::from_millis(300);

/// Makes the signals set this flag, which [`nearfar::Engine::breathe`] reads. A second signal ends the process at once, whatever it
/// does.
pub(super) fn set(stop: &Arc<AtomicBool>) {
    catch(SIGINT, stop);
    #[cfg(unix)]
    {
        let others = [SIGTERM, SIGHUP].into_iter();
        let others: Vec<i32> = others.filter(|signal| !is_ignored(*signal)).collect();
        others.iter().for_each(|signal| catch(*signal, stop));
        end_at_the_second(others);
    }
}

fn catch(signal: i32, stop: &Arc<AtomicBool>) {
    // A signal that cannot be caught ends the process by itself.
    flag::register_usize(signal, &SIGNAL, signal as usize)
        .and_then(|_| flag::register(signal, Arc::clone(stop)))
        .ok();
}

/// Stack of the waiting thread, and memory that must be free before it starts: Rust ends a process whose new thread finds no
/// memory.
#[cfg(unix)]
const STACK_BYTES: usize = 128 << 10;
#[cfg(unix)]
const ROOM_BYTES: u64 = 4 << 20;

/// Waits for signals on a thread of its own: the work may be in code that does not read the flag.
#[cfg(unix)]
fn end_at_the_second(others: Vec<i32>) {
    if reserve(&mut Vec::<u8>::new(), ROOM_BYTES, "a thread").is_err() {
        return;
    }
    let Ok(mut signals) = Signals::new(others.into_iter().chain([SIGINT])) else {
        return;
    };
    let wait = move || {
        let mut first = None;
        for signal in signals.forever() {
            let first: &mut Instant = first.get_or_insert_with(Instant::now);
            if first.elapsed() > TOGETHER {
                temporary::remove_temporaries();
                std::process::exit(128 + signal);
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(wait)
        .ok();
}

/// Tells if a signal is ignored on purpose, as under `nohup` for a terminal that closes.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

/// Returns an error after a signal: for work that does not pass through an engine.
pub(super) fn check() -> Result<()> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(Error::Stopped),
    }
}

/// Exit code after a signal: 130 for Ctrl-C, 143 for SIGTERM.
pub(super) fn exit_code() -> Option<u8> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => None,
        signal => Some((128 + signal) as u8),
    }
}

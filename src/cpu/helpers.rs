//! Threads of a browser, which starts none by itself: helpers are workers that share the memory of the one that computes, and wait
//! here for their part in its pool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rayon::{ThreadBuilder, ThreadPoolBuilder};

/// Parts in the pool that no helper has taken yet.
static FREE: Mutex<Vec<ThreadBuilder>> = Mutex::new(Vec::new());
static IS_FREE: Condvar = Condvar::new();
static THREADS: AtomicUsize = AtomicUsize::new(1);

/// Shares the work of kernels between this thread and `helpers` others, which are in [`help`] or about to be; returns their number,
/// this one included. Once a program: a second call changes nothing.
pub fn start(helpers: usize) -> usize {
    if helpers == 0 || threads() > 1 {
        return threads();
    }
    let hand_over = |part: ThreadBuilder| {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(part);
        IS_FREE.notify_one();
        Ok(())
    };
    // The calling thread does its part of the work itself, as natively.
    let pool = ThreadPoolBuilder::new().num_threads(1 + helpers);
    let built = pool
        .use_current_thread()
        .spawn_handler(hand_over)
        .build_global();
    if built.is_ok() {
        THREADS.store(1 + helpers, Ordering::Relaxed);
    }
    threads()
}

/// Takes a part in the pool, and works for it until the program ends.
pub fn help() {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let part = loop {
        if let Some(part) = free.pop() {
            break part;
        }
        free = IS_FREE.wait(free).unwrap_or_else(PoisonError::into_inner);
    };
    drop(free);
    part.run();
}

/// Number of threads that share the work of a kernel, the calling one among them.
pub(super) fn threads() -> usize {
    THREADS.load(Ordering::Relaxed)
}

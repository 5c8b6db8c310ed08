//! The threads that share the work of a kernel.

/// Bytes that must be free before a thread is started: its stack, and as much again.
const HEADROOM_BYTES: u64 = 4 << 20;

/// Starts a thread for every core but one, or as many as the system gives. The calling thread does its part of the work itself: to
/// wait for others to do all of it takes as long as a small kernel. Done once a process: by itself rayon ends the process if a
/// thread cannot start.
pub(crate) fn start_threads() {
    static STARTED: std::sync::Once = std::sync::Once::new();
    STARTED.call_once(|| {
        let workers = workers();
        // The first of the pool is this thread.
        let start = |thread: rayon::ThreadBuilder| {
            let sent = workers[thread.index() - 1].send(thread);
            sent.map_err(|_| std::io::ErrorKind::BrokenPipe.into())
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1 + workers.len());
        let built = pool
            .use_current_thread()
            .spawn_handler(start)
            .build_global();
        // If the program has a pool of its own, that one is used.
        built.ok();
    });
}

/// Threads that wait for their part in the pool, one for every core but one, or as many as the system gives.
fn workers() -> Vec<std::sync::mpsc::Sender<rayon::ThreadBuilder>> {
    use std::sync::mpsc::channel;

    let asked_for = std::env::var("RAYON_NUM_THREADS").ok();
    let asked_for = asked_for.and_then(|count| count.parse().ok());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = asked_for.filter(|count| *count > 0).unwrap_or(cores);
    let mut workers = Vec::new();
    while workers.len() + 1 < wanted.min(rayon::max_num_threads()) {
        // A thread takes its stack and a little more: without headroom the rest would not be enough to work with.
        let headroom =
            crate::base::memory::reserve(&mut Vec::<u8>::new(), HEADROOM_BYTES, "a thread");
        let (work, take) = channel::<rayon::ThreadBuilder>();
        let (say, ready) = channel();
        let thread = std::thread::Builder::new();
        let started = headroom.is_ok()
            && thread
                .spawn(move || {
                    say.send(()).ok();
                    if let Ok(part) = take.recv() {
                        part.run();
                    }
                })
                .is_ok();
        if !started || ready.recv().is_err() {
            break;
        }
        workers.push(work);
    }
    workers
}

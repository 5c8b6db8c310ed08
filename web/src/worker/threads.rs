//! Threads of the CPU engine in the core that is compiled for them: helpers of this worker, which are workers themselves, share its
//! memory, and end with it. `worker.js` loads them. The other core has one thread.

#[cfg(feature = "threads")]
pub(crate) use shared::start;

/// Number of threads that share the work of the CPU engine: this one.
#[cfg(not(feature = "threads"))]
pub(crate) async fn start(_scope: &web_sys::DedicatedWorkerGlobalScope) -> usize {
    1
}

#[cfg(feature = "threads")]
mod shared {
    use js_sys::{Array, Promise};
    use nearfar_cpu::helpers;
    use wasm_bindgen::prelude::*;
    use wasm_bindgen_futures::JsFuture;
    use web_sys::{DedicatedWorkerGlobalScope, Worker, WorkerOptions, WorkerType};

    /// The name by which `worker.js` knows a helper.
    const HELPER: &str = "helper";
    /// The most threads: each helper takes a stack of a MiB, and a few MiB of the browser's own.
    const MOST_THREADS: usize = 16;

    /// Starts a helper for every core but one, or as many as come up; returns the number of threads, this one included.
    pub(crate) async fn start(scope: &DedicatedWorkerGlobalScope) -> usize {
        let cores = scope.navigator().hardware_concurrency() as usize;
        let begun: Vec<_> = (1..cores.min(MOST_THREADS))
            .filter_map(|_| begin(scope))
            .collect();
        let mut came = 0;
        for helper in begun {
            came += usize::from(JsFuture::from(helper).await.is_ok());
        }
        helpers::start(came)
    }

    /// Loads a helper: a promise that it waits for its part.
    fn begin(scope: &DedicatedWorkerGlobalScope) -> Option<Promise> {
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        options.set_name(HELPER);
        // It loads the same two files.
        let worker = Worker::new_with_options(&scope.location().href(), &options).ok()?;
        let is_there = Promise::new(&mut |resolve, reject| {
            worker.set_onmessage(Some(&resolve));
            worker.set_onerror(Some(&reject));
        });
        let core = Array::of2(&wasm_bindgen::module(), &wasm_bindgen::memory());
        worker.post_message(&core).ok()?;
        // A browser may end a worker that nothing holds.
        std::mem::forget(worker);
        Some(is_there)
    }

    /// Works as a helper until the worker ends; called by `worker.js`.
    #[wasm_bindgen]
    pub fn help() {
        helpers::help();
    }
}

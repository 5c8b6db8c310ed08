//! Resources of this process that the CPU engine uses: memory, by [`CpuVec`], and threads.

#[cfg(not(target_arch = "wasm32"))]
mod threads;
mod vec;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use threads::start_threads;
pub(crate) use vec::CpuVec;

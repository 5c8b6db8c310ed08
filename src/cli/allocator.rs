//! The allocator of the command line: if the system has no memory left, it prints one sentence and exits with code 1, while Rust's
//! own would abort. Requests of the library through [`nearfar::reserve`] are refused by name instead.
#![allow(
    unsafe_code,
    reason = "an allocator can only be installed with it; it hands everything on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use super::temporary;

/// The system's allocator, with a sentence if it has no memory.
pub(crate) struct Allocator;

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        let pointer = unsafe { System.alloc(layout) };
        in_large_pages(pointer, layout.size());
        given(pointer, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        given(unsafe { System.realloc(pointer, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Asks for large pages if whole ones lie in an allocation: handing out 512 small ones takes longer than reading rows to their
/// place. No page reaches past the allocation.
#[cfg(target_os = "linux")]
fn in_large_pages(pointer: *mut u8, bytes: usize) {
    const PAGE: usize = 2 << 20;
    // Smaller allocations cost little, and may lie in pages that were in use just before.
    const FEWEST: usize = 8 * PAGE;
    if bytes < FEWEST || pointer.is_null() {
        return;
    }
    let before = pointer.align_offset(PAGE);
    let whole = bytes.saturating_sub(before) / PAGE * PAGE;
    // SAFETY: the pages are this allocation's, and the advice changes nothing that they hold.
    unsafe { libc::madvise(pointer.add(before).cast(), whole, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn in_large_pages(_pointer: *mut u8, _bytes: usize) {}

fn given(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() && !nearfar::may_fail() {
        give_up(bytes);
    }
    pointer
}

/// Prints the sentence and ends the process; takes no memory. Returns only to a thread that fails again while it does that.
#[cold]
fn give_up(bytes: usize) {
    static SAID: AtomicBool = AtomicBool::new(false);
    thread_local! {
        static SAYS: Cell<bool> = const { Cell::new(false) };
    }
    if SAYS.replace(true) {
        return;
    }
    if SAID.swap(true, Ordering::Relaxed) {
        // Another thread is ending the process.
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
    let mut text = [0; 256];
    let mut rest = &mut text[..];
    let (count, unit) = match bytes >> 20 {
        0 => (bytes, "bytes"),
        mebibytes => (mebibytes, "MiB"),
    };
    writeln!(
        rest,
        "nearfar: out of memory: the system gives this process no more, and {count} {unit} are needed: use less data or a \
         lower --budget, or end other programs"
    )
    .ok();
    let length = 256 - rest.len();
    std::io::stderr().write_all(&text[..length]).ok();
    temporary::remove_temporaries();
    // At once: handlers at the end of a process may take memory.
    signal_hook::low_level::exit(1);
}

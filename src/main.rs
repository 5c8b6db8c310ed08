//! The `nearfar` command line: the playground without the page.

#[cfg(not(target_arch = "wasm32"))]
mod cli;

#[cfg(not(target_arch = "wasm32"))]
#[global_allocator]
static ALLOCATOR: cli::Allocator = cli::Allocator;

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    cli::main()
}

/// In a browser the page in `web/` takes this place.
#[cfg(target_arch = "wasm32")]
fn main() {}

//! Times the kernels on this machine, each checked against the f64 reference first, and prints one table.

#![cfg_attr(
    target_arch = "wasm32",
    allow(unused, reason = "the page has its own way in")
)]

#[cfg(not(target_arch = "wasm32"))]
mod evaluate;
#[cfg(not(target_arch = "wasm32"))]
mod knn;
#[cfg(not(target_arch = "wasm32"))]
mod mine;
#[cfg(not(target_arch = "wasm32"))]
mod peaks;
#[cfg(not(target_arch = "wasm32"))]
mod report;
#[cfg(not(target_arch = "wasm32"))]
mod train;

#[cfg(target_arch = "wasm32")]
fn main() {}

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    match pollster::block_on(native::bench()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use clap::Parser as _;
    use nearfar::{Engine, EngineChoice, EngineKind, Result};

    use crate::{evaluate, knn, mine, peaks, report, train};

    /// Time the kernels on this machine, each checked against the f64 reference first
    #[derive(Debug, clap::Parser)]
    #[command(name = "bench")]
    struct Bench {
        /// gpu or cpu; without it a hardware GPU if there is one, else the CPU
        #[arg(long)]
        engine: Option<EngineKind>,
        /// A part of the GPU adapter's name
        #[arg(long, value_name = "NAME_PART")]
        adapter: Option<String>,
        /// Device memory, e.g. 512MiB
        #[arg(long, value_name = "BYTES", default_value = "512MiB")]
        budget: bytesize::ByteSize,
        /// Compile the shaders without wgpu's runtime checks
        #[arg(long)]
        trusted: bool,
        /// Print one JSON object on standard output
        #[arg(long)]
        json: bool,
    }

    pub(super) async fn bench() -> Result<()> {
        let options = Bench::parse();
        let choice = EngineChoice {
            kind: options.engine,
            adapter: options.adapter,
            trusted: options.trusted,
        };
        let open = || Engine::open(&choice, options.budget.0);
        let engine = open().await?;
        let mut report = report::Report::new(engine.info(), options.trusted);
        let peaks = peaks::measure(&engine, &mut report).await?;
        drop(engine);
        for shape in [mine::SMALL, mine::LARGE] {
            mine::measure(&open().await?, &shape, &peaks, &mut report).await?;
        }
        for shape in [knn::SMALL, knn::LARGE] {
            knn::measure(&open().await?, &shape, &peaks, &mut report).await?;
        }
        for references in [1_500, 10_000] {
            evaluate::measure(&open().await?, references, &peaks, &mut report).await?;
        }
        for recipe in [train::SMALL, train::LARGE] {
            train::measure(open().await?, &recipe, &peaks, &mut report).await?;
        }
        report.print(options.json);
        Ok(())
    }
}

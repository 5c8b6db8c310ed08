//! Times the kernels on this machine, each checked against the f64 reference first, and prints one table.

#![cfg_attr(
    target_arch = "wasm32",
    allow(unused, reason = "the page has its own way in")
)]

#[cfg(not(target_arch = "wasm32"))]
mod table;
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
    use nearfar::bench::{self, Line, Pass, Report, Shape, Sweep, Work};
    use nearfar::{Engine, EngineChoice, EngineKind, Error, Result, TileShape};

    use crate::{table, train};

    /// Time the kernels on this machine, each checked against the f64 reference first
    #[derive(Debug, clap::Parser)]
    #[command(name = "bench")]
    struct Bench {
        /// gpu or cpu; without it a hardware GPU if there is one, else the CPU
        #[arg(long, global = true)]
        engine: Option<EngineKind>,
        /// Both engines, their times side by side
        #[arg(long, global = true, conflicts_with = "engine")]
        both: bool,
        /// A part of the GPU adapter's name
        #[arg(long, global = true, value_name = "NAME_PART")]
        adapter: Option<String>,
        /// How a GPU cuts its work into workgroups, strip, tile or quads [default: the fastest, by timing]
        #[arg(long, global = true)]
        shape: Option<TileShape>,
        /// Device memory, e.g. 512MiB
        #[arg(long, global = true, value_name = "BYTES", default_value = "512MiB")]
        budget: bytesize::ByteSize,
        /// Compile the shaders without wgpu's runtime checks; `--trusted=both` shows times with and without them side by side
        #[arg(
            long,
            global = true,
            value_name = "only|both",
            num_args = 0..=1,
            require_equals = true,
            default_missing_value = "only"
        )]
        trusted: Option<Trusted>,
        /// List what each kernel took on the device
        #[arg(long, global = true, conflicts_with_all = ["both", "json"])]
        kernels: bool,
        /// Print one JSON object on standard output
        #[arg(long, global = true)]
        json: bool,
        /// Without one: a few lines of everything
        #[command(subcommand)]
        what: Option<What>,
    }

    /// Runs whose shaders are compiled without runtime checks.
    #[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
    enum Trusted {
        /// Those of everything.
        Only,
        /// Those of the second of two reports.
        Both,
    }

    #[derive(Debug, clap::Subcommand)]
    enum What {
        /// Searches of every size, each list combined with each
        Knn {
            #[command(flatten)]
            sizes: Sizes,
            /// Neighbours of each query [default: 10,100]
            #[arg(short, long, value_name = "LIST")]
            k: Option<String>,
            /// Put the neighbours of the first so many queries into the JSON
            #[arg(long, value_name = "N")]
            answers: Option<String>,
        },
        /// Evaluations of every size, each list combined with each
        Evaluate {
            #[command(flatten)]
            sizes: Sizes,
            /// How many classes [default: 10,100]
            #[arg(long, value_name = "LIST")]
            classes: Option<String>,
        },
        /// Training steps of every loss with every memory
        Train {
            /// Losses by their names, with commas [default: all]
            #[arg(long, value_name = "LIST")]
            losses: Option<String>,
            /// Rows of the memory, with commas [default: 0,1024,16384,65536]
            #[arg(long, value_name = "LIST")]
            memory: Option<String>,
        },
        /// Counts, loss with gradient, and lists of triplets, of semi-hard mining with margin 0.2
        Mining {
            #[command(flatten)]
            sizes: Sizes,
            /// How many classes [default: 10, 32 and 100]
            #[arg(long, value_name = "LIST")]
            classes: Option<String>,
        },
    }

    #[derive(Debug, clap::Args)]
    struct Sizes {
        /// How many queries, or anchors, with commas [default: 1000]
        #[arg(long, visible_alias = "anchors", value_name = "LIST")]
        queries: Option<String>,
        /// How many references [default: 1000 to 100000 for knn, 1000 to 30000 for evaluate]
        #[arg(long, value_name = "LIST")]
        references: Option<String>,
        /// Columns of both [default: 64,128]
        #[arg(long, value_name = "LIST")]
        dim: Option<String>,
    }

    impl What {
        fn sweep(&self) -> Option<Result<Sweep>> {
            let (name, sizes, others) = match self {
                Self::Train { .. } => return None,
                Self::Knn { sizes, k, answers } => {
                    ("knn", sizes, vec![("k", k), ("answers", answers)])
                }
                Self::Evaluate { sizes, classes } => {
                    ("evaluate", sizes, vec![("classes", classes)])
                }
                Self::Mining { sizes, classes } => ("mining", sizes, vec![("classes", classes)]),
            };
            let lists = [
                ("queries", &sizes.queries),
                ("references", &sizes.references),
                ("dim", &sizes.dim),
            ];
            let set = |sweep: Result<Sweep>, (key, list): (&str, &Option<String>)| {
                let mut sweep = sweep?;
                if let Some(list) = list {
                    sweep.set(key, list)?;
                }
                Ok(sweep)
            };
            Some(
                lists
                    .into_iter()
                    .chain(others)
                    .fold(Sweep::named(name), set),
            )
        }
    }

    pub(super) async fn bench() -> Result<()> {
        let options = Bench::parse();
        let sweep = options.what.as_ref().and_then(What::sweep).transpose()?;
        let (kind, sweep) = (options.engine, sweep.as_ref());
        let (only, both) = (Some(Trusted::Only), Some(Trusted::Both));
        if options.both && options.trusted == both {
            return Err(Error::Config(
                "--both and --trusted=both are two comparisons: one at a time".to_owned(),
            ));
        }
        let trusted = options.trusted == only;
        if options.both || options.trusted == both {
            let ([first, second], second_trusted) = match options.both {
                true => ([Some(EngineKind::Gpu), Some(EngineKind::Cpu)], trusted),
                // The two reports differ by their shaders.
                false => ([Some(EngineKind::Gpu); 2], true),
            };
            if kind.is_some_and(|kind| Some(kind) != first) {
                return Err(Error::Config(
                    "--trusted=both compares shaders, which the CPU engine has none of".to_owned(),
                ));
            }
            let first = options.measure(first, trusted, sweep).await?;
            let second = options.measure(second, second_trusted, sweep).await?;
            table::print_both(&[first, second], options.json);
            return Ok(());
        }
        let report = options.measure(kind, trusted, sweep).await?;
        table::print(&report, options.json);
        if options.kernels {
            table::print_kernels(&report);
        }
        Ok(())
    }

    impl Bench {
        async fn measure(
            &self,
            kind: Option<EngineKind>,
            trusted: bool,
            sweep: Option<&Sweep>,
        ) -> Result<Report> {
            let choice = EngineChoice {
                kind,
                // The CPU engine has no adapter to choose.
                adapter: self
                    .adapter
                    .clone()
                    .filter(|_| kind != Some(EngineKind::Cpu)),
                trusted,
                shape: self.shape,
                ..EngineChoice::default()
            };
            let open = || bench::open(&choice, self.budget.0);
            let mut report = match (sweep, &self.what) {
                (Some(sweep), _) => bench::run(&open().await?, sweep, say).await?,
                (None, Some(What::Train { losses, memory })) => {
                    training(
                        open,
                        &train::workloads(losses.as_deref(), memory.as_deref())?,
                    )
                    .await?
                }
                (None, _) => everything(open).await?,
            };
            report.trusted = trusted;
            Ok(report)
        }
    }

    /// Steps of each recipe, on an engine of its own.
    async fn training(
        open: impl AsyncFn() -> Result<Engine>,
        recipes: &[train::Workload],
    ) -> Result<Report> {
        let engine = open().await?;
        let mut report = Report::new(engine.info());
        let (_, peak) = bench::measure_peak(&engine).await?;
        report.peak_gflops = peak / 1e9;
        drop(engine);
        for recipe in recipes {
            let line = train::measure(open().await?, recipe, peak).await?;
            say(&line);
            report.lines.push(line);
        }
        Ok(report)
    }

    /// A few lines of everything, each on an engine of its own.
    async fn everything(open: impl AsyncFn() -> Result<Engine>) -> Result<Report> {
        let engine = open().await?;
        let mut report = Report::new(engine.info());
        let add = |report: &mut Report, line: Line| {
            say(&line);
            report.lines.push(line);
        };
        let (line, peak) = bench::measure_peak(&engine).await?;
        report.peak_gflops = peak / 1e9;
        add(&mut report, line);
        for line in bench::measure_bandwidth(&engine).await? {
            add(&mut report, line);
        }
        drop(engine);
        for shape in [Pass::SMALL, Pass::LARGE] {
            add(
                &mut report,
                bench::measure_pass(&open().await?, &shape, peak).await?,
            );
        }
        let shape = |work, references, dim| Shape {
            work,
            queries: 1000,
            references,
            dim,
        };
        let shapes = [
            shape(Work::Knn { k: 10 }, 10_000, 64),
            shape(Work::Knn { k: 10 }, 100_000, 128),
            shape(Work::Evaluate { classes: 100 }, 1_500, 64),
            shape(Work::Evaluate { classes: 100 }, 10_000, 64),
        ];
        for shape in shapes {
            add(
                &mut report,
                bench::measure(&open().await?, &shape, 0, peak).await?,
            );
        }
        for recipe in [train::SMALL, train::LARGE] {
            add(
                &mut report,
                train::measure(open().await?, &recipe, peak).await?,
            );
        }
        Ok(report)
    }

    /// Prints on standard error that a line is done.
    fn say(line: &Line) {
        eprintln!("{}", line.said());
    }
}

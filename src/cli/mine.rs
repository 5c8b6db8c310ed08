//! `nearfar mine` and `nearfar loss`: what a miner keeps of all triplets, and what those cost. A triplet is stored only
//! where a list is asked for: see `triplets`.

use std::path::{Path, PathBuf};

use clap::Args;
use nearfar::{
    Engine, Forecast, MemoryReport, Mined, MiningSpec, Rate, Result, Room, TrainConfig, Wanted,
    mine, pml_bytes, write_matrix,
};

use super::files::{LabelledFiles, LabelledRows, Output};
use super::{Common, pairs, print_json, print_line, progress, triplets};

/// Count the triplets that a miner keeps, by kind, and list them
#[derive(Debug, Args)]
pub(super) struct Mine {
    #[command(flatten)]
    rows: LabelledFiles,
    /// Which triplets are kept: triplet-margin, batch-hard, batch-easy-hard, multi-similarity, pair-margin, facenet-semihard,
    /// distance-weighted or none
    #[arg(long, value_name = "NAME", default_value = "triplet-margin")]
    miner: String,
    /// An argument of the miner, e.g. `margin=0.1` or `type_of_triplets=hard`; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What margins are differences of: cosine, or l2 on rows over their length
    #[arg(long, value_name = "NAME", default_value = "cosine")]
    distance: String,
    /// NPY for the triplets that are kept, [t, 3] u32: anchor, positive, negative; NPZ for the pairs of miners that keep
    /// those, a1, p, a2 and n
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// List the triplets through one window and give a number that changes with each and with their order; writes nothing
    #[arg(long, conflicts_with = "out")]
    checksum: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Compute a loss over all mined triplets, and its gradient
#[derive(Debug, Args)]
pub(super) struct Loss {
    #[command(flatten)]
    rows: LabelledFiles,
    /// The loss: triplet-margin
    #[arg(long, value_name = "NAME", default_value = "triplet-margin")]
    loss: String,
    /// Which triplets it sees: those of triplet-margin, batch-hard, batch-easy-hard, multi-similarity, pair-margin or
    /// facenet-semihard, or with none all
    #[arg(long, value_name = "NAME", default_value = "none")]
    miner: String,
    /// An argument of the loss, e.g. margin=0.1, or of the miner: miner.margin=0.2; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What margins are differences of: cosine, or l2 on rows over their length
    #[arg(long, value_name = "NAME", default_value = "cosine")]
    distance: String,
    /// NPY for the gradient with respect to the embeddings, [n, dim] f32
    #[arg(long, value_name = "FILE.npy")]
    gradient: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Mine {
    pub(super) fn run(&self) -> Result<()> {
        let settings = settings(&self.miner, None, &self.distance, &self.sets, "miner.")?;
        let job = Job::read(&self.rows, &self.common)?;
        let engine = self.common.open(Common::default_budget())?;
        if self.checksum {
            let references = job.references.as_ref();
            let report = triplets::sum_up(&engine, &job.anchors, references, &settings)?;
            if self.common.json {
                print_json(&report);
            } else {
                print_line(format_args!(
                    "{} triplets, checksum {}",
                    report["triplets"], report["checksum"]
                ));
            }
            return Ok(());
        }
        let triplets = self
            .out
            .as_deref()
            .filter(|_| !settings.miner.gives_pairs());
        let file = triplets.map(|out| {
            triplets::File::create(
                out,
                &engine,
                &job.anchors,
                job.references.as_ref(),
                &settings,
            )
        });
        let file = file.transpose()?;
        let pairs = self.out.as_deref().filter(|_| settings.miner.gives_pairs());
        let wanted = match pairs {
            None => Wanted::Counts,
            Some(_) => Wanted::Pairs,
        };
        let counting = match &file {
            Some(file) => file.counting(),
            None => settings.clone(),
        };
        let (mined, mut report) = job.run(&engine, &counting, wanted)?;
        if let Some(path) = pairs {
            pairs::write(path, &settings.miner, &mined.pairs)?;
        }
        if let Some(file) = file {
            file.write(mined.mining.mined, &mut report)?;
        }
        if let Some(mining) = report["mining"].as_object_mut() {
            // What is active is a matter of a loss.
            mining.remove("active");
        }
        job.print(&report);
        Ok(())
    }

    /// What a mining would hold and take; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let settings = settings(&self.miner, None, &self.distance, &self.sets, "miner.")?;
        let (anchors, references) = self.rows.read()?;
        let counting = spec(&anchors, references.as_ref(), false)
            .mined_by(&settings.miner, None)
            .plan(room, rate)?;
        if self.out.is_none() || settings.miner.gives_pairs() {
            return Ok(counting);
        }
        let spec = triplets::spec(&anchors, references.as_ref(), &settings);
        let listing = spec.plan(room, rate)?;
        Ok(triplets::both(counting, listing))
    }
}

impl Loss {
    pub(super) fn run(&self) -> Result<()> {
        let settings = settings(
            &self.miner,
            Some(&self.loss),
            &self.distance,
            &self.sets,
            "loss.",
        )?;
        let job = Job::read(&self.rows, &self.common)?;
        let wanted = match self.gradient {
            None => Wanted::Loss(&settings.loss),
            Some(_) => Wanted::Gradient(&settings.loss),
        };
        let engine = self.common.open(Common::default_budget())?;
        let (mined, mut report) = job.run(&engine, &settings, wanted)?;
        if let Some(path) = &self.gradient {
            write_gradient(path, &mined.gradient, job.anchors.rows.dim())?;
        }
        report["loss"] = mined.loss.into();
        job.print(&report);
        if !self.common.json {
            let active = mined.mining.active;
            print_line(format_args!("loss {} over {active} active", mined.loss));
        }
        Ok(())
    }

    /// What it would hold and take; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let settings = settings(
            &self.miner,
            Some(&self.loss),
            &self.distance,
            &self.sets,
            "loss.",
        )?;
        let (anchors, references) = self.rows.read()?;
        spec(&anchors, references.as_ref(), self.gradient.is_some())
            .mined_by(&settings.miner, Some(&settings.loss))
            .plan(room, rate)
    }
}

/// The settings of a run with this miner and loss. A key without a dot is an argument of what `prefix` names.
fn settings(
    miner: &str,
    loss: Option<&str>,
    distance: &str,
    sets: &[String],
    prefix: &str,
) -> Result<TrainConfig> {
    let mut config = TrainConfig::default()
        .with_set(&format!("miner.name={miner}"))?
        .with_set(&format!("distance={distance}"))?;
    if let Some(loss) = loss {
        config = config.with_set(&format!("loss.name={loss}"))?;
    }
    for set in sets {
        let key = set.split('=').next().unwrap_or_default();
        let prefix = if key.contains('.') { "" } else { prefix };
        config = config.with_set(&format!("{prefix}{set}"))?;
    }
    config.check()?;
    Ok(config)
}

fn spec(anchors: &LabelledRows, references: Option<&LabelledRows>, gradient: bool) -> MiningSpec {
    let known = references.unwrap_or(anchors);
    let own = references.is_none();
    MiningSpec {
        own,
        gradient,
        ..MiningSpec::of_names(&known.labels, known.rows.dim(), anchors.labels.len())
    }
}

/// Rows, and the engine that mines them.
struct Job<'a> {
    anchors: LabelledRows,
    references: Option<LabelledRows>,
    common: &'a Common,
}

impl<'a> Job<'a> {
    fn read(files: &LabelledFiles, common: &'a Common) -> Result<Self> {
        let (anchors, references) = files.read()?;
        Ok(Self {
            anchors,
            references,
            common,
        })
    }

    fn run(
        &self,
        engine: &Engine,
        settings: &TrainConfig,
        wanted: Wanted<'_>,
    ) -> Result<(Mined, serde_json::Value)> {
        let started = std::time::Instant::now();
        let bar = progress::Progress::new(self.anchors.labels.len() as u64, "anchors");
        let mined = pollster::block_on(mine(
            engine,
            self.anchors.rows(),
            self.references.as_ref().map(LabelledRows::rows),
            &settings.miner,
            settings.distance,
            wanted,
            |done, _| bar.set(done),
        ))?;
        bar.finish();
        let info = engine.info();
        let references = self.references.as_ref().unwrap_or(&self.anchors);
        let report = serde_json::json!({
            "engine": info.engine,
            "adapter": info.adapter,
            "elapsed_ms": started.elapsed().as_secs_f64() * 1e3,
            "references": references.labels.len(),
            "mining": mined.mining,
            "pml_bytes": pml_bytes(
                mined.mining.anchors,
                references.labels.len() as u64,
                mined.mining.valid,
            ),
            "memory": MemoryReport::new(engine.ledger()),
        });
        Ok((mined, report))
    }

    fn print(&self, report: &serde_json::Value) {
        if self.common.json {
            print_json(report);
            return;
        }
        for name in ["anchors", "valid", "easy", "semihard", "hard", "mined"] {
            if let Some(count) = report["mining"][name].as_u64() {
                print_line(format_args!("{name:<10} {count:>20}"));
            }
        }
    }
}

fn write_gradient(path: &Path, gradient: &[f32], dim: usize) -> Result<()> {
    let mut file = Output::create(path)?;
    file.write(&write_matrix(gradient, dim))?;
    file.finish()
}

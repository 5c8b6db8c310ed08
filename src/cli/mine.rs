//! `nearfar mine` and `nearfar loss`: the triplets or pairs that a miner keeps, and their loss. Triplets are stored only if a list
//! is asked for: see `triplets`.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Asked, Engine, Error, Forecast, KeptOfAnchor, Mined, Miner, MiningSpec, Rate, Result, Room,
    TrainConfig, Tuples, Wanted, matrix_header, mine_into, pml_bytes,
};
use serde_json::Value;

use super::files::{LabelledFiles, LabelledRows, compare};
use super::output::Output;
use super::{Common, of_work, pairs, print_json, print_line, progress, triplets};

/// Count the triplets that a miner keeps, by kind, and list them
///
/// A triplet is an anchor, another row of its class (positive) and a row of another class (negative). It is easy where the
/// positive is nearer by more than the margin, semihard where it is nearer by less, hard where the negative is nearer.
#[derive(Debug, Args)]
pub(super) struct Mine {
    #[command(flatten)]
    rows: LabelledFiles,
    #[arg(long, value_name = "NAME", default_value = "triplet-margin", help = format!(
        "The miner, which says what is kept: {}, or none, which keeps every triplet",
        miners()
    ))]
    miner: String,
    /// An argument of the miner under PML's name, e.g. margin=0.1 or `type_of_triplets=hard`; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What rows are compared by: cosine similarity, or l2, the distance of rows divided by their length. Margins that are not
    /// given follow it: by l2 they are PML's
    #[arg(long, value_name = "NAME", default_value = "cosine")]
    distance: String,
    /// The same of the miner alone, where it keeps pairs [default: as --distance]
    #[arg(long, value_name = "NAME")]
    miner_distance: Option<String>,
    /// The file to write: an NPY of the triplets that are kept, [triplets, 3] row numbers counted from 0, anchor, positive,
    /// negative; of miners that keep pairs an NPZ with a1, p, a2 and n [default: only counts]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// List the triplets, write nothing, and print their checksum: another one where any triplet or their order differs
    #[arg(long, conflicts_with = "out")]
    checksum: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Compute the loss of what a miner keeps, and its gradient
///
/// The triplet margin loss is the mean over active triplets: those that are kept and whose loss is not 0. The other losses look
/// at pairs, and are averaged as in PML.
#[derive(Debug, Args)]
pub(super) struct Loss {
    #[command(flatten)]
    rows: LabelledFiles,
    #[arg(long, value_name = "NAME", default_value = "triplet-margin", help = format!(
        "The loss: {}; or one with proxies, which are then the references",
        losses()
    ))]
    loss: String,
    #[arg(long, value_name = "NAME", default_value = "none", help = format!(
        "The miner, which says which triplets it sees: {}, or none for every triplet",
        miners()
    ))]
    miner: String,
    /// An argument of the loss, e.g. margin=0.1, or of the miner, e.g. miner.margin=0.2; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What rows are compared by: cosine similarity, or l2, the distance of rows divided by their length. Margins that are not
    /// given follow it: by l2 they are PML's
    #[arg(long, value_name = "NAME", default_value = "cosine")]
    distance: String,
    /// The same of the miner alone, where it keeps pairs [default: as --distance]
    #[arg(long, value_name = "NAME")]
    miner_distance: Option<String>,
    /// The file to write: an NPY of the loss's gradient with respect to the embeddings, float32, [rows, columns]
    /// [default: only the loss]
    #[arg(long, value_name = "FILE.npy")]
    gradient: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Names of the miners, for a help.
fn miners() -> String {
    let names = Miner::ALL.map(|(name, _)| name);
    let names: Vec<&str> = names.into_iter().filter(|name| *name != "none").collect();
    names.join(", ")
}

/// Names of the losses without proxies, for a help.
fn losses() -> String {
    let names = nearfar::Loss::ALL.map(|(name, _)| name);
    let has_none = |name: &&str| {
        let config = TrainConfig::default().with_set(&format!("loss={name}"));
        config.is_ok_and(|config| !config.loss.learns_proxies())
    };
    let names: Vec<&str> = names.into_iter().filter(has_none).collect();
    names.join(", ")
}

impl Mine {
    fn settings(&self) -> Result<TrainConfig> {
        let distances = [Some(&self.distance[..]), self.miner_distance.as_deref()];
        settings(&self.miner, None, distances, &self.sets, "miner.")
    }

    pub(super) fn run(&self) -> Result<()> {
        let settings = self.settings()?;
        let job = Job::read(&self.rows, &self.common, &settings)?;
        let engine = self.common.open(Common::default_budget())?;
        if self.checksum {
            let references = job.references.as_ref();
            let report = triplets::sum_up(&engine, &job.anchors, references, &settings)?;
            if self.common.json {
                return print_json(&report);
            }
            print_line(format_args!(
                "{} triplets, checksum {}",
                report["triplets"], report["checksum"]
            ));
            return Ok(());
        }
        let inputs = self.rows.inputs();
        let (mut triplets, mut pairs) = (None, None);
        if let Some(out) = self.out.as_deref() {
            if settings.miner.gives_pairs() {
                pairs = Some(pairs::File::create(out, &settings.miner, &inputs)?);
            } else {
                let references = job.references.as_ref();
                let source = triplets::Source::new(&engine, &job.anchors, references, &settings)?;
                triplets = Some(triplets::File::create(out, source, &inputs)?);
            }
        }
        let counting = match triplets {
            None => settings.clone(),
            Some(_) => triplets::counting(&settings),
        };
        let wanted = match pairs {
            None => Wanted::Counts,
            Some(_) => Wanted::Pairs,
        };
        let keep = |kept: KeptOfAnchor<'_>| pairs.as_mut().map_or(Ok(()), |file| file.add(kept));
        let (mined, mut report) = job.run(&engine, &counting, wanted, keep)?;
        if let Some(file) = pairs {
            file.finish()?;
        }
        if let Some(file) = triplets {
            file.write(mined.mining.mined, &mut report)?;
        }
        if let Some(mining) = report["mining"].as_object_mut() {
            // `active` is defined by a loss alone.
            mining.remove("active");
        }
        report["arguments"] = arguments(&settings, false);
        job.print(&report)
    }

    /// Forecast of the mining; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let settings = self.settings()?;
        let job = Job::read(&self.rows, &self.common, &settings)?;
        let (anchors, references) = (job.anchors, job.references);
        let lists = self.out.is_some() && !settings.miner.gives_pairs();
        let miner = match lists {
            true => triplets::counting(&settings).miner,
            false => settings.miner.clone(),
        };
        let counting = spec(&anchors, references.as_ref(), false)
            .mined_by(&miner, None)
            .plan(room, rate)?;
        if !lists {
            return Ok(counting);
        }
        let spec = triplets::spec(&anchors, references.as_ref(), &settings);
        let listing = spec.plan(room, rate)?;
        Ok(triplets::both(counting, listing))
    }
}

impl Loss {
    fn settings(&self) -> Result<TrainConfig> {
        let distances = [Some(&self.distance[..]), self.miner_distance.as_deref()];
        settings(
            &self.miner,
            Some(&self.loss),
            distances,
            &self.sets,
            "loss.",
        )
    }

    pub(super) fn run(&self) -> Result<()> {
        let settings = self.settings()?;
        let job = Job::read(&self.rows, &self.common, &settings)?;
        let wanted = match self.gradient {
            None => Wanted::Loss(&settings.loss),
            Some(_) => Wanted::Gradient(&settings.loss),
        };
        let engine = self.common.open(Common::default_budget())?;
        let gradient = self.gradient.as_deref();
        let gradient = gradient.map(|path| Output::create(path, &self.rows.inputs()));
        let gradient = gradient.transpose()?;
        let (mined, mut report) = job.run(&engine, &settings, wanted, |_| Ok(()))?;
        if let Some(mut file) = gradient {
            file.write(&matrix_header(
                job.anchors.labels.len(),
                job.anchors.rows.dim(),
            ))?;
            file.write(bytemuck::cast_slice(&mined.gradient))?;
            file.finish()?;
        }
        report["loss"] = mined.loss.into();
        report["arguments"] = arguments(&settings, true);
        job.print(&report)?;
        if !self.common.json {
            let (loss, active) = (mined.loss, mined.mining.active);
            match mined.mining.of {
                Tuples::Triplets => {
                    print_line(format_args!(
                        "loss {loss}, the mean over {active} active triplets"
                    ));
                }
                Tuples::Pairs => print_line(format_args!("loss {loss}, of {active} active pairs")),
            }
        }
        Ok(())
    }

    /// Forecast of the loss; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let settings = self.settings()?;
        let job = Job::read(&self.rows, &self.common, &settings)?;
        let (anchors, references) = (job.anchors, job.references);
        spec(&anchors, references.as_ref(), self.gradient.is_some())
            .mined_by(&settings.miner, Some(&settings.loss))
            .plan(room, rate)
    }
}

/// Settings of a run with this miner and loss. A key without a dot is an argument of the part that `prefix` names, except the
/// miner's distance.
fn settings(
    miner: &str,
    loss: Option<&str>,
    distances: [Option<&str>; 2],
    sets: &[String],
    prefix: &str,
) -> Result<TrainConfig> {
    let mut config = TrainConfig::default();
    let of_miner = sets.iter().filter(|set| set.starts_with(MINER_DISTANCE));
    let given = ["distance=", MINER_DISTANCE].iter().zip(distances);
    let given = given.filter_map(|(key, distance)| Some(format!("{key}{}", distance?)));
    for set in given.chain(of_miner.cloned()) {
        config = config.with_set(&set)?;
    }
    config = config.with_set(&format!("miner.name={miner}"))?;
    if let Some(loss) = loss {
        config = config.with_set(&format!("loss.name={loss}"))?;
    }
    for set in sets.iter().filter(|set| !set.starts_with(MINER_DISTANCE)) {
        let key = set.split('=').next().unwrap_or_default();
        let all = config.to_value();
        let (part, known) = (prefix.trim_end_matches('.'), |of: &Value| {
            of.get(key).is_some()
        });
        if known(&all) && !known(&all[part]) {
            return Err(Error::Config(format!(
                "{key} is a setting of `train`, whose batches it is about: here --set takes arguments of the {part}"
            )));
        }
        let prefix = if key.contains('.') { "" } else { prefix };
        config = config.with_set(&format!("{prefix}{set}"))?;
    }
    config.check()?;
    Ok(config)
}

/// Arguments in use, of the miner and, if there is one, of the loss.
fn arguments(settings: &TrainConfig, with_loss: bool) -> serde_json::Value {
    let all = settings.to_value();
    let mut used = serde_json::json!({ "distance": all["distance"], "miner": all["miner"] });
    if settings.miner_distance.is_some() {
        used["miner_distance"] = all["miner_distance"].clone();
    }
    if with_loss {
        used["loss"] = all["loss"].clone();
    }
    used
}

/// Key of the miner's own distance.
const MINER_DISTANCE: &str = "miner_distance=";

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
    warnings: Vec<String>,
}

impl<'a> Job<'a> {
    fn read(files: &LabelledFiles, common: &'a Common, settings: &TrainConfig) -> Result<Self> {
        let (anchors, references) = files.read()?;
        let warnings = compare(files, &anchors, references.as_ref(), settings.distance)?;
        Ok(Self {
            anchors,
            references,
            common,
            warnings,
        })
    }

    fn run(
        &self,
        engine: &Engine,
        settings: &TrainConfig,
        wanted: Wanted<'_>,
        keep: impl FnMut(KeptOfAnchor<'_>) -> Result<()>,
    ) -> Result<(Mined, serde_json::Value)> {
        let started = std::time::Instant::now();
        let bar = progress::Progress::new(self.anchors.labels.len() as u64, "anchors");
        let mined = pollster::block_on(mine_into(
            engine,
            self.anchors.rows(),
            self.references.as_ref().map(LabelledRows::rows),
            &settings.miner,
            &Asked {
                distances: [
                    settings.miner_distance.unwrap_or(settings.distance),
                    settings.distance,
                ],
                ..Asked::of(settings.distance, wanted)
            },
            keep,
            |done, _| bar.set(done),
        ))?;
        bar.finish();
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        let references = self.references.as_ref().unwrap_or(&self.anchors);
        let report = serde_json::json!({
            "references": references.labels.len(),
            "mining": mined.mining,
            "pml_bytes": pml_bytes(
                mined.mining.anchors,
                references.labels.len() as u64,
                mined.mining.valid,
            ),
            "warnings": self.warnings,
            "data": std::iter::once(&self.anchors)
                .chain(&self.references)
                .map(LabelledRows::said)
                .collect::<serde_json::Value>(),
        });
        Ok((mined, of_work(report, engine, elapsed_ms)))
    }

    fn print(&self, report: &serde_json::Value) -> Result<()> {
        if self.common.json {
            return print_json(report);
        }
        if let Some(parts) = report["arguments"].as_object() {
            for (what, part) in parts {
                print_line(format_args!("{what:<10} {}", said(part)));
            }
        }
        let names: &[&str] = match report["mining"]["of"].as_str() {
            Some("pairs") => &["anchors", "valid", "mined"],
            _ => &["anchors", "valid", "easy", "semihard", "hard", "mined"],
        };
        for name in names {
            if let Some(count) = report["mining"][name].as_u64() {
                print_line(format_args!("{name:<10} {count:>20}"));
            }
        }
        Ok(())
    }
}

/// A part of the settings in a line: its name, then its arguments.
fn said(part: &serde_json::Value) -> String {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    match part.as_object() {
        None => text(part),
        Some(arguments) => {
            let others = arguments.iter().filter(|(key, _)| *key != "name");
            let others = others.map(|(key, value)| format!(" {key}={}", text(value)));
            text(&part["name"]) + &others.collect::<String>()
        }
    }
}

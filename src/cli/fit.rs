//! `nearfar fit`: the settings that do best within a budget and some seconds.

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use nearfar::{
    CompareConfig, CompareReport, Comparison, Contest, Result, RowKind, TrainConfig, Trainer,
};
use serde_json::{Value, json};

use super::data::{self, DataFiles};
use super::{Common, compare, io, note_line, of_work, print_json, print_line, progress};

const EXAMPLES: &str = "\
Examples:
  nearfar fit --data flowers.csv --labels species --budget 64MiB --seconds 30 --out run.json
  nearfar train --data flowers.csv --labels species --config run.json
  nearfar fit --data sample:digits --budget 2MiB --seconds 0 --json

Report of --json: `config`, all settings of the winner, which run within the budget; `winner`; `candidates[]`, best first, as `rows[]` of
compare, with `memory_bytes` of a run and `lowered[]`, the settings that were made smaller so that it fits; `largest[].{setting, value,
sets[], memory_bytes}`, each by itself; `cut[]`, in sentences; `verdict`, `seconds`, `budget_bytes`, `engine`, `adapter`, `elapsed_ms`,
`memory`.";

/// Find settings that fit: the recipe that does best within a memory budget and some seconds, and the largest sizes that fit
///
/// Every recipe is planned first; one that does not fit the budget gets a smaller memory, then a smaller batch, until it does. Then all
/// are trained for a part of their steps, the best third goes on for three times as many, and the best on the validation rows wins.
/// Rounds are as long as the time allows at the speed that is measured, and what was cut is said. Test rows are not looked at: `train` scores them
/// once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Fit {
    #[command(flatten)]
    files: DataFiles,
    /// Seconds that the search may take, after the data is read; 0 trains nothing: it plans, and takes the recipe for such data
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Recipes to try, by their names in `nearfar recipes` [default: all]
    #[arg(long, alias = "recipe", value_name = "NAME,..", value_delimiter = ',')]
    recipes: Vec<String>,
    /// One setting for all candidates, e.g. steps=1000, over what recipes set; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The first seed, which the data and its split follow too [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Where to write the settings of the winner, for `train --config` [default: they are printed]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

impl Fit {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.fit())
    }

    fn asked(&self) -> Result<CompareConfig> {
        let mut sets = self.files.sets();
        sets.extend_from_slice(&self.sets);
        self.files.check_split(&sets)?;
        sets.extend(self.seed.map(|seed| format!("seed={seed}")));
        let budget = self.common.budget;
        sets.extend(budget.map(|budget| format!("budget_bytes={}", budget.0)));
        Ok(CompareConfig {
            recipes: self.recipes.clone(),
            sets,
            seconds: Some(self.seconds),
            ..CompareConfig::default()
        })
    }

    async fn fit(&self) -> Result<()> {
        let asked = self.asked()?;
        let config = asked.of_data()?;
        let mut origin = self.files.origin()?;
        origin.columns = origin.columns.with(&config);
        let dataset = Rc::new(data::read(&origin, config.data_seed()).await?);
        let contest = Contest::new(&dataset, &asked)?;
        let tasks = progress::Tasks::default();
        let heard = tasks.clone();
        let engine = self.common.open(config.budget_bytes)?;
        let engine = engine.with_listener(move |working| heard.hear(&working));
        data::describe(&dataset, &contest.base, engine.info());
        let (engine, rate) = Trainer::measure_rate(engine).await?;
        engine.settle().await?;
        let room = engine.room();
        let contest = contest.within(&room, &dataset, &rate)?;
        let mut comparison = Comparison::new(engine, Rc::clone(&dataset), contest)?;
        let followed = compare::follow(&mut comparison, &tasks).await;
        let report = comparison.report();
        let winner = comparison.chosen().to_owned();
        let settings = comparison.contest().settings_of(&winner);
        let config = settings.unwrap_or_default();
        let largest = Contest::largest(&room, &dataset, &config)?;
        if let Some(path) = &self.out {
            let mut text = serde_json::to_string_pretty(&config).expect("settings are plain data");
            text.push('\n');
            let written = std::fs::write(path, text);
            written.map_err(io(format!("writing {}", path.display())))?;
        }
        if self.common.json {
            let largest = json!(largest);
            let found = found(&comparison, &report, &winner, &config, &largest);
            let engine = comparison.engine();
            print_json(&of_work(found, engine, report.elapsed_ms))?;
        } else {
            let largest = largest.iter().map(|largest| largest.words());
            self.print(&comparison, &report, &winner, &config, largest);
        }
        followed
    }

    fn print(
        &self,
        comparison: &Comparison,
        report: &CompareReport,
        winner: &str,
        config: &TrainConfig,
        largest: impl Iterator<Item = String>,
    ) {
        compare::print_rows(report);
        let contest = comparison.contest();
        for (name, (_, lowered)) in
            names(report).filter_map(|name| Some((name, contest.size(name)?)))
        {
            if !lowered.is_empty() {
                print_line(format_args!("{name} fits with {}", lowered.join(", ")));
            }
        }
        for cut in &report.cut {
            print_line(format_args!("{cut}"));
        }
        print_line(format_args!("\n{}", report.basis()));
        print_line(&report.verdict);
        print_line(format_args!(
            "The settings: {winner}. The largest that fit with them, each by itself:"
        ));
        for largest in largest {
            print_line(format_args!("  {largest}"));
        }
        match &self.out {
            Some(path) => note_line(format_args!(
                "they are in {}: nearfar train --config {} and the same data trains them",
                path.display(),
                path.display()
            )),
            None => {
                let row = report.rows.iter().find(|row| row.name == winner);
                let sets = row.map_or(&[][..], |row| &row.settings);
                let sets = sets
                    .iter()
                    .map(|set| format!(" --set '{set}'"))
                    .collect::<String>();
                let budget = match config.budget_bytes {
                    bytes if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
                    bytes => format!("{bytes}B"),
                };
                print_line(format_args!(
                    "To train, with the same data: nearfar train --budget {budget} --seed {}{sets}",
                    config.seed
                ));
            }
        }
    }
}

/// Names of the candidates, best first.
fn names(report: &CompareReport) -> impl Iterator<Item = &str> {
    let heads = report.rows.iter().filter(|row| row.kind == RowKind::Head);
    heads.map(|row| &row.name[..])
}

/// The report as JSON.
fn found(
    comparison: &Comparison,
    report: &CompareReport,
    winner: &str,
    config: &TrainConfig,
    largest: &Value,
) -> Value {
    let candidates = report.rows.iter().map(|row| {
        let mut candidate = json!(row);
        if let Some((bytes, lowered)) = comparison.contest().size(&row.name) {
            candidate["memory_bytes"] = (*bytes).into();
            candidate["lowered"] = json!(lowered);
        }
        candidate
    });
    json!({
        "version": report.version,
        "data": report.data,
        "config": config,
        "winner": winner,
        "candidates": candidates.collect::<Vec<_>>(),
        "largest": largest,
        "cut": report.cut,
        "verdict": report.verdict,
        "seconds": report.seconds,
        "budget_bytes": report.budget_bytes,
        "queries": report.queries,
        "finished": report.finished,
    })
}

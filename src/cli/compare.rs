//! `nearfar compare`: the leaderboard of several settings over several seeds.

use std::rc::Rc;

use clap::Args;
use nearfar::{
    Bytes, CompareConfig, CompareForecast, CompareProgress, CompareReport, CompareRow, Comparison,
    Contest, Preset, Result, Standing, Survey, Trainer,
};

use super::data::{self, DataFiles};
use super::{Common, note_line, print_json, print_line, progress};

const EXAMPLES: &str = "\
Examples:
  nearfar compare
  nearfar compare --data flowers.csv --labels species --grid memory_size=0,1024 --grid optimizer.lr=0.001,0.01
  nearfar compare --data sample:digits --recipes sup-con,proxy-anchor,arc-face --seeds 5
  nearfar compare --preset losses --set steps=1000 --json
  nearfar compare --data flowers.csv --folds 5 --race

Report of --json: `rows[]`, best first, with `name`, `kind` (raw, linear_map, head), `settings[]`, `standing` (leader, clear,
within_noise, unjudged, dropped, failed, waiting), `precision_at_1`, `mean_average_precision_at_r`, `standard_deviation`,
`seeds[].{seed, precision_at_1, mean_average_precision_at_r, elapsed_ms}`, `steps`, `peak_bytes`, `error`, and the intervals
`behind` (the best row), `behind_head` (the best head, if no head leads), `over_raw`, `over_linear_map`, each `{difference, low, high}`,
`queries` and `worse_than` (the best when a race excluded it); `test.{name, seed, metrics}`, `verdict`, `finished`,
`runs` (done, all), `folds`, `folds_scored`, `queries`, `classes`, `new_classes`, `seeds[]`, `data`, `data_seed`, `elapsed_ms`, `peak_bytes`, `budget_bytes`,
`engine`, `adapter`, `version`.";

/// Compare settings: which loss, sampler, memory or any other setting is best, and whether that is more than chance
///
/// Trains every entry with several seeds on the same rows, and ranks them by precision@1 (how often the nearest other row has the
/// same class) on the validation rows. Raw features, a linear map and a linear head are always in the table. A row is
/// "clear" where it would be worse than the best with other queries and other seeds, too. Where all entries are equally good, at most
/// 5 of 100 comparisons call one clear. Only the best is scored on the test rows, once. More than 20 entries are halved first: each is
/// trained for a part of its steps with one seed, from the start, and the better half goes on. Ctrl-C stops, and what was done is
/// printed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Compare {
    #[command(flatten)]
    files: DataFiles,
    /// A setting and the values to try, e.g. steps=400,800; given again, every value is tried with every other
    #[arg(long = "grid", value_name = "KEY=VALUE,..")]
    grids: Vec<String>,
    /// Recipes, by their names in `nearfar recipes` [default: four of them, where there is no grid and no preset]
    #[arg(long, alias = "recipe", value_name = "NAME,..", value_delimiter = ',')]
    recipes: Vec<String>,
    /// A common question: memory (with and without), losses (loss by loss), samplers (which sampler)
    #[arg(long, value_name = "NAME", value_parser = Preset::named)]
    preset: Option<Preset>,
    /// One setting for all entries, e.g. steps=1000, over what recipes set; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// How many seeds each entry is trained with
    #[arg(long, value_name = "COUNT", default_value_t = CompareConfig::default().seeds)]
    seeds: u64,
    /// Rank by this many folds: all rows that are not tested are scored, each part by heads that trained on the others. Takes as many
    /// times as long, and tells smaller differences from chance
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    folds: u64,
    /// After each fold, stop training what is clearly worse than the best, and end once one row is left; needs --folds
    #[arg(long)]
    race: bool,
    /// The first seed, which the data and its split follow too [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    common: Common,
}

impl Compare {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.compare())
    }

    async fn compare(&self) -> Result<()> {
        let asked = self.asked()?;
        // The sample depends on the seed, the entries on the data.
        let config = asked.of_data()?;
        let mut origin = self.files.origin()?;
        origin.columns = origin.columns.with(&config);
        let dataset = data::read(&origin, config.data_seed()).await?;
        let contest = Contest::new(&dataset, &asked)?;
        let tasks = progress::Tasks::default();
        let survey = Survey::of(&dataset.features, |working| tasks.hear(&working)).await;
        tasks.finish();
        let survey = survey?;
        let heard = tasks.clone();
        let engine = self.common.open_beside_others(config.budget_bytes)?;
        let engine = engine.with_listener(move |working| heard.hear(&working));
        data::describe(&dataset, &contest.base, engine.info());
        for finding in survey.findings(&dataset.feature_names) {
            note_line(format_args!("  {finding}"));
        }
        let (engine, rate) = Trainer::measure_rate(engine).await?;
        let forecast = contest.plan(&engine.room(), &dataset, &rate)?;
        announce(&contest, &forecast);
        let mut comparison = Comparison::new(engine, Rc::new(dataset), contest)?;
        let followed = follow(&mut comparison, &tasks).await;
        let report = comparison.report();
        // Results so far are printed, even if an error ended the comparison.
        let printed = if self.common.json {
            print_json(&report)
        } else {
            print(&report);
            Ok(())
        };
        followed.and(printed)
    }

    fn asked(&self) -> Result<CompareConfig> {
        let mut sets = self.files.sets();
        sets.extend_from_slice(&self.sets);
        self.files.check_split(&sets)?;
        sets.extend(self.seed.map(|seed| format!("seed={seed}")));
        let budget = self.common.budget;
        sets.extend(budget.map(|budget| format!("budget_bytes={}", budget.0)));
        Ok(CompareConfig {
            grids: self.grids.clone(),
            recipes: self.recipes.clone(),
            preset: self.preset,
            sets,
            seeds: self.seeds,
            folds: self.folds,
            race: self.race,
            seconds: None,
        })
    }
}

/// Prints the plan: entries, runs, time and memory.
fn announce(contest: &Contest, forecast: &CompareForecast) {
    let CompareForecast {
        runs,
        steps,
        predicted_ms,
        least_ms,
        peak_bytes,
        largest,
    } = forecast;
    let [seconds, least] = [predicted_ms, least_ms].map(|ms| (ms / 1e3).max(1.0));
    let ends = match contest.race() {
        true => format!(", or {least:.0} s if the first fold decides"),
        false => String::new(),
    };
    note_line(format_args!(
        "{} entries, {runs} runs, {steps} steps: about {seconds:.0} s{ends}, and at most {} ({largest})",
        contest.entries.len(),
        Bytes(*peak_bytes).rounded_up()
    ));
}

/// Compares to the end, with progress.
pub(super) async fn follow(comparison: &mut Comparison, tasks: &progress::Tasks) -> Result<()> {
    let seconds = comparison.contest().seconds();
    let bar = match seconds {
        Some(seconds) => progress::Progress::new(seconds, "seconds"),
        None => progress::Progress::new(comparison.steps()[1], "steps"),
    };
    loop {
        let progress = comparison.next(u64::MAX).await;
        tasks.finish();
        bar.hold(comparison.engine());
        match progress? {
            CompareProgress::Baselines | CompareProgress::Steps => {}
            CompareProgress::Run {
                name,
                seed,
                steps,
                precision_at_1,
            } => {
                let score = precision_at_1.map_or_else(
                    || "broke off".to_owned(),
                    |score| format!("precision@1 {score:.3}"),
                );
                bar.note(&format!("{name}, seed {seed}, {steps} steps: {score}"));
            }
            CompareProgress::Halved { left, steps } => {
                bar.say(&format!("the best {left} after {steps} steps go on"));
            }
            CompareProgress::Fold { excluded, .. } if excluded.is_empty() => {}
            CompareProgress::Fold { scored, excluded } => bar.say(&format!(
                "after fold {scored} clearly worse, and trained no more: {}",
                excluded.join(", ")
            )),
            CompareProgress::Finished => break,
        }
        bar.set(match seconds {
            Some(seconds) => seconds.min((comparison.elapsed_ms() / 1e3) as u64),
            None => comparison.steps()[0],
        });
    }
    bar.finish();
    Ok(())
}

/// Prints the rows, best first.
pub(super) fn print_rows(report: &CompareReport) {
    print_line(format_args!(
        "{:<12} {:<9} {:<7} {:<27} {:<13} {:>6} {:>9}  entry",
        "precision@1", "spread", "MAP@R", "behind the best, 95 %", "", "s", "memory"
    ));
    for row in &report.rows {
        print_line(line(row));
    }
}

fn print(report: &CompareReport) {
    print_rows(report);
    print_line(format_args!("\n{}", report.basis()));
    print_line(&report.verdict);
}

fn line(row: &CompareRow) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let spread = row
        .standard_deviation
        .map_or_else(String::new, |spread| format!("± {spread:.3}"));
    let behind = row.behind.map_or_else(String::new, |behind| {
        format!(
            "{:.3} ({:.3} to {:.3})",
            behind.difference, behind.low, behind.high
        )
    });
    let seconds: f64 = row.seeds.iter().map(|seed| seed.elapsed_ms / 1e3).sum();
    let (seconds, memory) = match row.seeds.len() {
        0 => (String::new(), String::new()),
        runs => (
            format!("{:.1}", seconds / runs as f64),
            Bytes(row.peak_bytes).rounded_up().to_string(),
        ),
    };
    let name = match (row.standing, &row.error) {
        (Standing::Dropped, _) => format!("{} (after {} steps)", row.name, row.steps),
        _ if row.worse_than.is_some() => format!("{} (judged by {} rows)", row.name, row.queries),
        (_, Some(error)) => format!("{}: {error}", row.name),
        _ => row.name.clone(),
    };
    format!(
        "{:<12} {spread:<9} {:<7} {behind:<27} {:<13} {seconds:>6} {memory:>9}  {name}",
        number(row.precision_at_1),
        number(row.mean_average_precision_at_r),
        row.standing.words()
    )
}

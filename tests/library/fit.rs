//! `fit`: every candidate and every largest value that it offers starts within the budget and runs; a search that has the time is a
//! full one, and one that has not says what was cut.

use std::rc::Rc;

use rand::RngExt as _;

use crate::common::{Rng, open, random_rows, rng};
use nearfar::{
    CompareConfig, CompareProgress, CompareReport, Comparison, Contest, Dataset, EngineKind, Error,
    InitialWeights, Labelled, Rate, Recipe, Room, RowKind, Run, Standing, TrainConfig, Trainer,
};

/// Rows about a centre for each class.
fn made(rng: &mut Rng, rows: usize, dim: usize, classes: usize) -> Rc<Dataset> {
    let centres = random_rows(rng, classes, dim);
    let mut values = random_rows(rng, rows, dim);
    for (row, values) in values.chunks_exact_mut(dim).enumerate() {
        let centre = &centres[row % classes * dim..][..dim];
        let pairs = values.iter_mut().zip(centre);
        pairs.for_each(|(value, centre)| *value = centre + 0.4 * *value);
    }
    let labels = (0..rows).map(|row| format!("class {}", row % classes));
    let dataset = Dataset::new(Labelled {
        name: "made".to_owned(),
        values,
        dim,
        labels: labels.collect(),
        ..Labelled::default()
    });
    Rc::new(dataset.expect("is data"))
}

fn asked(recipes: &[&str], sets: &[String], seconds: u64) -> CompareConfig {
    CompareConfig {
        recipes: recipes.iter().map(|name| (*name).to_owned()).collect(),
        sets: sets.to_vec(),
        seconds: Some(seconds),
        ..CompareConfig::default()
    }
}

fn room(budget_bytes: u64) -> Room {
    Room {
        free_bytes: budget_bytes,
        budget_bytes,
        max_buffer_bytes: 1 << 30,
    }
}

/// Random settings that candidates share: some of them suit no recipe, or no data.
fn some_sets(rng: &mut Rng) -> Vec<String> {
    let mut sets = Vec::new();
    for set in [
        format!("batch_size={}", 1 << rng.random_range(3..11)),
        format!("memory_size={}", 1 << rng.random_range(10..17)),
        format!("embedding_size={}", rng.random_range(2..300)),
        format!("hidden_layers=[{}]", rng.random_range(1..600)),
        "early_stop.patience=2".to_owned(),
        "optimizer=sgd".to_owned(),
    ] {
        if rng.random_range(0..3) == 0 {
            sets.push(set);
        }
    }
    sets
}

#[test]
fn whatever_is_offered_fits_by_the_plan_of_its_run() {
    let mut rng = rng(11);
    let datasets = [
        made(&mut rng, 90, 4, 3),
        made(&mut rng, 300, 24, 20),
        made(&mut rng, 1500, 70, 8),
        made(&mut rng, 640, 16, 160),
    ];
    let rate = Rate::default();
    let (mut offered, mut lowered, mut left_out, mut largest) = (0, 0, 0, 0);
    for case in 0..500 {
        let dataset = &datasets[case % datasets.len()];
        let names = [0; 2].map(|_| Recipe::ALL[rng.random_range(0..Recipe::ALL.len())].name);
        let budget_bytes = 1u64 << rng.random_range(18..25);
        let mut sets = some_sets(&mut rng);
        sets.push(format!("budget_bytes={budget_bytes}"));
        let asked = asked(&names, &sets, 0);
        let Ok(contest) = Contest::new(dataset, &asked) else {
            continue;
        };
        let room = room(budget_bytes);
        let contest = match contest.within(&room, dataset, &rate) {
            Ok(contest) => contest,
            // Each candidate is refused, with the numbers.
            Err(Error::Refused { .. } | Error::TooLarge { .. } | Error::Config(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        left_out += contest.left_out().len();
        contest
            .plan(&room, dataset, &rate)
            .expect("all candidates fit");
        for entry in &contest.entries {
            let config = contest.settings_of(&entry.name).expect("is there");
            let name = format!("{case}: {} {sets:?}", entry.name);
            let planned = Trainer::plan(&room, dataset, &config, &rate).expect(&name);
            let bytes = planned.memory.total_bytes();
            let (said, lower) = contest.size(&entry.name).expect("is a candidate");
            assert_eq!(bytes, *said, "{name}");
            assert!(bytes <= budget_bytes, "{name}");
            lowered += usize::from(!lower.is_empty());
            offered += 1;
        }
        // The largest values that fit with the first candidate: each does, and the next does not.
        let config = contest
            .settings_of(&contest.entries[0].name)
            .expect("is there");
        for found in Contest::largest(&room, dataset, &config).expect("suits the data") {
            let with = |sets: &[String]| config.with_all(sets.iter()).expect("sets");
            let name = format!("{case}: {} {:?}", contest.entries[0].name, found.sets);
            let planned = Trainer::plan(&room, dataset, &with(&found.sets), &rate).expect(&name);
            assert_eq!(planned.memory.total_bytes(), found.memory_bytes, "{name}");
            let unit = match found.setting {
                "batch_size" => config.sampler_rows(),
                _ => 1,
            };
            let next = found.value + unit;
            let more = match found.setting {
                "hidden_layers" => vec![format!(
                    "hidden_layers={:?}",
                    vec![next; config.hidden_layers.len()]
                )],
                "batch_size" if config.memory() > 0 => {
                    let memory = config.memory_size.max(next);
                    vec![
                        format!("batch_size={next}"),
                        format!("memory_size={memory}"),
                    ]
                }
                setting => vec![format!("{setting}={next}")],
            };
            let is_refused = Trainer::plan(&room, dataset, &with(&more), &rate).is_err();
            let train = dataset.rows_to_train(&config, &config.splitting());
            let of_rows = ["memory_size", "batch_size"].contains(&found.setting);
            // A run that starts from the linear map needs the room for it, which the plan of a run alone does without.
            let from_linear = config.initial_weights == InitialWeights::Lda;
            let is_bound = of_rows && next > train.expect("has rows") || next > 1 << 16;
            assert!(
                is_refused || is_bound || from_linear,
                "{name} is not the largest"
            );
            largest += 1;
        }
    }
    println!(
        "{offered} candidates, {lowered} lowered, {left_out} left out, {largest} largest values"
    );
    assert!(offered > 400 && lowered > 40 && left_out > 100 && largest > 400);
}

/// Rows of a class that the sampler draws together; 1 if it fixes no number.
trait SamplerRows {
    fn sampler_rows(&self) -> usize;
}

impl SamplerRows for TrainConfig {
    fn sampler_rows(&self) -> usize {
        let m = self.to_value()["sampler"]["m"].as_u64();
        m.map_or(1, |m| m as usize)
    }
}

fn finish(comparison: &mut Comparison) -> CompareReport {
    loop {
        let progress = pollster::block_on(comparison.next(u64::MAX)).expect("goes on");
        if progress == CompareProgress::Finished {
            return comparison.report();
        }
    }
}

/// Searches, and gives the comparison back at its end.
fn searched(dataset: &Rc<Dataset>, budget_bytes: u64, sets: &[&str], seconds: u64) -> Comparison {
    let mut all: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    all.push(format!("budget_bytes={budget_bytes}"));
    let engine = open(EngineKind::Cpu, budget_bytes);
    let contest = Contest::new(dataset, &asked(&[], &all, seconds)).expect("holds");
    let contest = contest.within(&engine.room(), dataset, &Rate::default());
    let contest = contest.expect("some candidate fits");
    let mut comparison = Comparison::new(engine, Rc::clone(dataset), contest).expect("fits");
    finish(&mut comparison);
    comparison
}

/// Takes three steps of such a run in an engine of its budget, and scores it.
fn runs(dataset: &Rc<Dataset>, config: &TrainConfig) {
    let config = TrainConfig {
        steps: 3,
        ..config.clone()
    };
    let engine = open(EngineKind::Cpu, config.budget_bytes);
    let mut run = pollster::block_on(Run::new(engine, Rc::clone(dataset), config)).expect("fits");
    while !run.is_finished() {
        pollster::block_on(run.next(u64::MAX)).expect("goes on");
    }
    assert!(run.memory().peak_bytes <= run.memory().budget_bytes);
}

#[test]
fn a_search_with_time_enough_is_a_full_one_and_what_it_offers_runs() {
    let mut rng = rng(5);
    for (dataset, budget_bytes) in [
        (made(&mut rng, 300, 24, 20), 1 << 20),
        (made(&mut rng, 400, 12, 5), 1250 << 10),
    ] {
        let comparison = searched(&dataset, budget_bytes, &["steps=27"], 600);
        let report = comparison.report();
        let contest = comparison.contest();
        let heads: Vec<_> = report
            .rows
            .iter()
            .filter(|row| row.kind == RowKind::Head)
            .collect();
        assert!(
            heads.iter().all(|row| row.standing != Standing::Failed),
            "{report:?}"
        );
        // A third of the steps first, then all of them and three seeds.
        let of = |steps: u64| heads.iter().filter(|row| row.steps == steps).count();
        let last = contest.entries.len().div_ceil(3);
        assert!(contest.entries.len() > 4, "{:?}", contest.left_out());
        assert_eq!([of(9), of(27)], [contest.entries.len() - last, last]);
        assert_eq!(report.seeds.len(), 3);
        assert!(
            report.cut.iter().all(|cut| cut.contains(" is left out: ")),
            "{:?}",
            report.cut
        );
        assert!(report.finished && report.test.is_none());
        assert!(report.peak_bytes <= budget_bytes);
        let best = heads.iter().find(|row| row.steps == 27).expect("some");
        assert_eq!(comparison.chosen(), best.name);
        let config = contest.settings_of(comparison.chosen()).expect("is there");
        assert_eq!(config.budget_bytes, budget_bytes);
        runs(&dataset, &config);
        let room = open(EngineKind::Cpu, budget_bytes).room();
        let largest = Contest::largest(&room, &dataset, &config).expect("suits");
        assert!(!largest.is_empty());
        for found in largest {
            runs(&dataset, &config.with_all(found.sets.iter()).expect("sets"));
        }
    }
}

#[test]
fn a_search_without_time_takes_the_recipe_for_such_data_and_says_so() {
    let mut rng = rng(6);
    let dataset = made(&mut rng, 300, 24, 20);
    let comparison = searched(&dataset, 8 << 20, &[], 0);
    let report = comparison.report();
    let proposed = Recipe::proposed("made", dataset.shape()).name;
    assert_eq!(comparison.chosen(), proposed);
    assert!(
        report
            .verdict
            .starts_with("Nothing was scored in that time: "),
        "{}",
        report.verdict
    );
    assert!(report.rows.iter().all(|row| row.precision_at_1.is_none()));
    runs(
        &dataset,
        &comparison
            .contest()
            .settings_of(proposed)
            .expect("is there"),
    );
}

#[test]
fn a_search_with_too_little_time_says_what_was_cut() {
    let mut rng = rng(7);
    let dataset = made(&mut rng, 2000, 40, 20);
    // Far more than a second of work on any machine.
    let comparison = searched(&dataset, 64 << 20, &["steps=2000000"], 1);
    let report = comparison.report();
    let cut = report.cut.join("; ");
    assert!(
        cut.contains(" steps of 666666") || cut.contains("the time was over"),
        "{cut}"
    );
    assert!(report.rows.iter().all(|row| row.steps <= 2_000_000));
    let config = comparison
        .contest()
        .settings_of(comparison.chosen())
        .expect("is there");
    assert_eq!(
        config.steps, 2_000_000,
        "the settings are those of the whole run"
    );
}

#[test]
fn a_comparison_without_a_limit_is_no_search() {
    let mut rng = rng(8);
    let dataset = made(&mut rng, 300, 24, 20);
    let contest = Contest::new(&dataset, &CompareConfig::default()).expect("holds");
    let room = room(1 << 20);
    let within = contest.clone().within(&room, &dataset, &Rate::default());
    assert_eq!(within.expect("stays as it is"), contest);
    assert!(contest.left_out().is_empty() && contest.seconds().is_none());
    assert_eq!(contest.seconds_for(2), None);
}

#[test]
fn a_search_says_how_long_it_takes_to_train_its_last_candidates_with_more_seeds() {
    let mut rng = rng(9);
    let dataset = made(&mut rng, 2000, 40, 20);
    let contest = Contest::new(&dataset, &asked(&[], &["steps=200000".to_owned()], 0));
    let room = room(64 << 20);
    let contest = contest.and_then(|it| it.within(&room, &dataset, &Rate::default()));
    let contest = contest.expect("holds");
    let [one, two, three] = [1, 2, 3].map(|seeds| contest.seconds_for(seeds).expect("a search"));
    assert!(one > 100, "{one} s");
    // A third of the steps for all, then all of them for the best third, with each seed.
    let more = two - one;
    assert!(three.abs_diff(two + more) <= 1, "{one}, {two}, {three}");
    assert!(two < 2 * one && one > more, "{one}, {two}");
}

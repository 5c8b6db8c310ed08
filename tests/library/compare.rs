//! The leaderboard over real runs: its verdicts, its repeatability, and its parts.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use nearfar::{
    CompareConfig, CompareProgress, CompareReport, Comparison, Contest, Dataset, EngineKind, Error,
    Labelled, Progress, Rate, Result, RowKind, Run, Standing,
};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;

use crate::common::{open, rng};

const CLASSES: usize = 30;
const ROWS: usize = 10;
const DIM: usize = 8;

/// Rows around a centre for each class; `shuffled` labels are independent of the rows.
fn dataset(seed: u64, shuffled: bool) -> Dataset {
    let mut rng = rng(seed);
    let mut values = Vec::new();
    for _ in 0..CLASSES {
        let centre: Vec<f32> = (0..DIM).map(|_| rng.random_range(-1.0..1.0)).collect();
        for _ in 0..ROWS {
            values.extend(centre.iter().map(|c| c + rng.random_range(-0.5f32..0.5)));
        }
    }
    let mut labels: Vec<usize> = (0..CLASSES * ROWS).map(|row| row / ROWS).collect();
    if shuffled {
        labels.shuffle(&mut rng);
    }
    Dataset::new(Labelled {
        values,
        dim: DIM,
        labels: labels.iter().map(usize::to_string).collect(),
        ..Labelled::default()
    })
    .expect("classes")
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A request with small heads, few steps, and a third of the rows for validation.
fn asked(grids: &[&str], sets: &[&str]) -> CompareConfig {
    let small = [
        "hidden_layers=[16]",
        "embedding_size=8",
        "batch_size=16",
        "memory_size=32",
        "steps=20",
        "test_fraction=0.3",
        "validation_fraction=0.5",
    ];
    CompareConfig {
        grids: strings(grids),
        sets: strings(&[&small[..], sets].concat()),
        ..CompareConfig::default()
    }
}

fn begun(dataset: Dataset, asked: &CompareConfig) -> Comparison {
    let engine = open(EngineKind::Cpu, 256 << 20);
    let contest = Contest::new(&dataset, asked).expect("holds");
    Comparison::new(engine, Rc::new(dataset), contest).expect("fits")
}

/// Runs the comparison to the end.
fn finish(comparison: &mut Comparison) -> Result<CompareReport> {
    pollster::block_on(async {
        while comparison.next(u64::MAX).await? != CompareProgress::Finished {}
        Ok(comparison.report())
    })
}

fn compared(dataset: Dataset, asked: &CompareConfig) -> CompareReport {
    finish(&mut begun(dataset, asked)).expect("runs")
}

/// The report without values that depend on the clock.
fn timeless(mut report: CompareReport) -> CompareReport {
    report.elapsed_ms = 0.0;
    for row in &mut report.rows {
        row.seeds.iter_mut().for_each(|seed| seed.elapsed_ms = 0.0);
    }
    report
}

#[test]
fn on_shuffled_labels_nothing_is_clear() {
    for split in ["split=by-class", "split=random"] {
        let mut clear = 0;
        for seed in 0..100 {
            let asked = asked(
                &["optimizer.lr=0.001,0.01", "memory_size=0,32"],
                &[split, &format!("seed={seed}")],
            );
            let report = compared(dataset(seed, true), &asked);
            assert_eq!(report.rows.len(), 7);
            let is_clear = |row: &&nearfar::CompareRow| row.standing == Standing::Clear;
            clear += usize::from(report.rows.iter().filter(is_clear).count() > 0);
        }
        println!("{split}: clear in {clear} of 100");
        assert!(clear <= 5, "{split}: {clear} of 100");
    }
}

#[test]
fn an_entry_that_learns_is_clearly_before_one_that_cannot() {
    let asked = asked(
        &["optimizer.lr=0.01,1e-9"],
        &["split=random", "steps=150", "hidden_layers=[2]"],
    );
    let report = compared(dataset(0, false), &asked);
    let row = |name: &str| {
        let row = report.rows.iter().find(|row| row.name == name);
        row.expect("is there")
    };
    assert_eq!(row("optimizer.lr=1e-9").standing, Standing::Clear);
    assert!(report.finished && report.test.is_some(), "{report:?}");
    assert_eq!(report.rows[0].standing, Standing::Leader);
    assert_eq!(
        report.test.map(|test| test.name),
        Some(report.rows[0].name.clone())
    );
}

#[test]
fn the_same_comparison_gives_the_same_table() {
    let asked = asked(&["memory_size=0,32"], &[]);
    let tables = [(); 2].map(|()| timeless(compared(dataset(1, false), &asked)));
    assert_eq!(tables[0], tables[1]);
    let names: Vec<&str> = tables[0].rows.iter().map(|row| row.name.as_str()).collect();
    for always in ["raw features", "linear map (LDA)", "linear head"] {
        assert!(names.contains(&always), "{names:?}");
    }
}

#[test]
fn a_row_has_the_scores_of_the_run_that_its_settings_give() {
    let asked = asked(&["memory_size=0,32"], &[]);
    let report = compared(dataset(2, false), &asked);
    let contest = Contest::new(&dataset(2, false), &asked).expect("holds");
    for entry in &contest.entries {
        let row = report.rows.iter().find(|row| row.name == entry.name);
        let row = row.expect("is there");
        for score in &row.seeds {
            let mut config = entry.config.clone();
            config.seed = score.seed;
            let engine = open(EngineKind::Cpu, 256 << 20);
            let scores = pollster::block_on(async {
                let dataset = Rc::new(dataset(2, false));
                let mut run = Run::new(engine, dataset, config).await.expect("fits");
                while run.next(u64::MAX).await.expect("runs") != Progress::Finished {}
                run.final_scores().expect("is over")
            });
            let validation = scores.validation.expect("was scored");
            assert_eq!(score.precision_at_1, validation.precision_at_1);
            let test = report.test.as_ref().expect("was scored");
            if test.name == entry.name && test.seed == score.seed {
                assert_eq!(Some(test.metrics), scores.test);
            }
        }
    }
}

#[test]
fn a_comparison_that_is_stopped_shows_what_it_did_and_goes_on_where_it_was() {
    let asked = asked(&["memory_size=0,32"], &[]);
    let whole = timeless(compared(dataset(3, false), &asked));
    let mut comparison = begun(dataset(3, false), &asked);
    let stop = comparison.engine().stop_flag();
    let mut stops = 0;
    loop {
        stop.store(stops % 2 == 0, Ordering::Relaxed);
        stops += 1;
        match pollster::block_on(comparison.next(7)) {
            Err(Error::Stopped) => {
                let report = comparison.report();
                assert!(!report.finished && report.test.is_none());
                assert!(
                    report.verdict.starts_with("Stopped: "),
                    "{}",
                    report.verdict
                );
            }
            progress => {
                if progress.expect("runs") == CompareProgress::Finished {
                    break;
                }
            }
        }
    }
    let mut report = timeless(comparison.report());
    report.peak_bytes = whole.peak_bytes;
    assert_eq!(report, whole);
}

#[test]
fn the_forecast_has_the_runs_the_steps_and_the_bytes() {
    let engine = open(EngineKind::Cpu, 256 << 20);
    let rates = "optimizer.lr=0.001,0.002,0.003,0.004,0.005,0.006,0.007";
    for (grids, runs, steps) in [
        (&["memory_size=0,32"][..], 9, 180),
        // 21 and the linear head, of which 11 are trained in full.
        (&["memory_size=0,16,32", rates], 55, 880),
    ] {
        let dataset = dataset(4, false);
        let contest = Contest::new(&dataset, &asked(grids, &[])).expect("holds");
        let forecast = contest.plan(&engine.room(), &dataset, &Rate::default());
        let forecast = forecast.expect("fits");
        assert_eq!((forecast.runs, forecast.steps), (runs, steps), "{grids:?}");
        let report = compared(dataset, &asked(grids, &[]));
        assert_eq!(report.runs, [runs, runs]);
        assert_eq!(report.peak_bytes, forecast.peak_bytes);
    }
}

#[test]
fn of_many_entries_the_better_half_goes_on_and_the_linear_head_in_any_case() {
    let rates: Vec<String> = (1..=21).map(|i| format!("0.{i:03}")).collect();
    let grid = format!("optimizer.lr={}", rates.join(","));
    let report = compared(dataset(4, false), &asked(&[&grid], &[]));
    let (dropped, others): (Vec<_>, Vec<_>) = report
        .rows
        .iter()
        .partition(|row| row.standing == Standing::Dropped);
    assert_eq!((dropped.len(), others.len()), (11, 13));
    for row in dropped {
        assert_eq!((row.steps, row.seeds.len()), (10, 1), "{}", row.name);
    }
    assert!(others.iter().any(|row| row.name == "linear head"));
}

#[test]
fn what_does_not_fit_is_refused_by_its_name_before_anything_starts() {
    let engine = open(EngineKind::Cpu, 8 << 20);
    let dataset = dataset(5, false);
    let contest = Contest::new(
        &dataset,
        &asked(
            &["memory_size=32,4194304"],
            &["loss.name=triplet-margin", "miner.name=triplet-margin"],
        ),
    )
    .expect("holds");
    let refused = Comparison::new(engine, Rc::new(dataset), contest).expect_err("refused");
    let text = refused.to_string();
    assert!(text.starts_with("memory_size=4194304: \""), "{text}");
    assert_eq!(refused.exit_code(), 2);
}

#[test]
fn one_seed_ranks_and_calls_nothing_clear() {
    let asked = CompareConfig {
        seeds: 1,
        ..asked(&["optimizer.lr=0.01,1e-9"], &["steps=100", "split=random"])
    };
    let report = compared(dataset(6, false), &asked);
    let heads = report.rows.iter().filter(|row| row.kind == RowKind::Head);
    for row in heads {
        assert!(
            matches!(row.standing, Standing::Leader | Standing::Unjudged),
            "{row:?}"
        );
    }
}

#[test]
fn an_entry_that_breaks_off_is_said_to_and_the_others_go_on() {
    // Large enough to be read, and too large to go through a layer.
    let values = (0..800).map(|i| (i as f32 * 0.7311).sin() * 8e18).collect();
    let dataset = Dataset::new(Labelled {
        values,
        dim: 4,
        labels: (0..200).map(|row| (row % 5).to_string()).collect(),
        ..Labelled::default()
    });
    let sets = [
        "split=random",
        "standardize=true",
        "hidden_layers=[]",
        "embedding_size=64",
    ];
    let asked = asked(&["standardize=false,true"], &sets);
    let report = compared(dataset.expect("classes"), &asked);
    let last = report.rows.last().expect("there are rows");
    assert_eq!(
        (last.name.as_str(), last.standing),
        ("standardize=false", Standing::Failed)
    );
    let why = last.error.as_deref().unwrap_or_default();
    assert!(why.contains("is not finite: lower `optimizer.lr`"), "{why}");
    assert!(report.finished && report.rows[0].standing == Standing::Leader);
    assert_eq!(report.runs, [4, 4]);
}

#[test]
fn folds_score_every_row_that_is_not_tested_and_call_nothing_clear_on_shuffled_labels() {
    let by_folds = |seed: u64, folds: u64| CompareConfig {
        folds,
        seeds: 2,
        ..asked(
            &["optimizer.lr=0.001,0.01"],
            &["split=random", &format!("seed={seed}")],
        )
    };
    let mut clear = 0;
    for seed in 0..60 {
        let report = compared(dataset(seed, true), &by_folds(seed, 4));
        assert_eq!((report.rows.len(), report.folds), (5, 4));
        assert_eq!(report.runs, [24, 24]);
        // A row without another of its class beside it asks nothing.
        assert!((200..=210).contains(&report.queries), "{}", report.queries);
        clear += usize::from(
            report
                .rows
                .iter()
                .any(|row| row.standing == Standing::Clear),
        );
    }
    println!("clear in {clear} of 60");
    assert!(clear <= 3, "{clear} of 60");
    // Many more rows tell what the validation side alone leaves open.
    let asked = |folds| CompareConfig {
        folds,
        seeds: 2,
        ..asked(
            &["optimizer.lr=0.01,1e-9"],
            &["split=random", "steps=60", "hidden_layers=[2]"],
        )
    };
    let width = |folds| {
        let report = compared(dataset(0, false), &asked(folds));
        let last = report
            .rows
            .iter()
            .find(|row| row.name == "optimizer.lr=1e-9");
        let behind = last.and_then(|row| row.behind).expect("was judged");
        assert!(report.test.is_some(), "the leader was tested");
        behind.high - behind.low
    };
    let (one, folds) = (width(0), width(4));
    println!("intervals: {one:.3} on the validation side, {folds:.3} by folds");
    assert!(folds < 0.9 * one);
    let refused = Contest::new(&dataset(0, false), &asked(1)).expect_err("one is none");
    assert!(refused.to_string().contains("folds is 1"), "{refused}");
}

#[test]
fn a_race_drops_what_is_clearly_worse_ends_once_one_is_left_and_keeps_equal_rows() {
    let by_folds = |grid: &str, sets: &[&str], race| CompareConfig {
        folds: 5,
        seeds: 2,
        race,
        ..asked(
            &[grid],
            &[&["split=random", "test_fraction=0.2"], sets].concat(),
        )
    };
    let run = |asked: &CompareConfig, shuffled, seed| {
        let mut comparison = begun(dataset(seed, shuffled), asked);
        let mut said = Vec::new();
        loop {
            let progress = pollster::block_on(comparison.next(u64::MAX)).expect("runs");
            if let CompareProgress::Fold { scored, excluded } = progress {
                said.push((scored, excluded));
            } else if progress == CompareProgress::Finished {
                return (comparison.report(), said);
            }
        }
    };
    // One learns, two cannot.
    let planted = by_folds(
        "optimizer.lr=0.01,1e-9,2e-9",
        &["steps=150", "hidden_layers=[2]"],
        true,
    );
    let (report, said) = run(&planted, false, 0);
    println!("{}", report.basis());
    println!("{}", report.verdict);
    let excluded: Vec<&String> = said.iter().flat_map(|(_, names)| names).collect();
    let row = |name: &str| {
        report
            .rows
            .iter()
            .find(|row| row.name == name)
            .expect("is there")
    };
    for name in ["optimizer.lr=1e-9", "optimizer.lr=2e-9"] {
        assert!(
            excluded.iter().any(|excluded| *excluded == name),
            "{said:?}"
        );
        let row = row(name);
        assert_eq!(row.standing, Standing::Clear);
        assert!(row.worse_than.is_some() && row.behind.expect("was judged").is_clear());
        assert!(row.queries < report.queries || report.folds_scored == 1);
    }
    assert!(report.finished && report.test.is_some());
    assert!(
        report.runs[0] < 5 * 2 * 4 && report.runs[0] == report.runs[1],
        "{:?}",
        report.runs
    );
    // Without the race all are trained to the end, and who leads is the same.
    let (whole, _) = run(
        &CompareConfig {
            race: false,
            ..planted
        },
        false,
        0,
    );
    assert_eq!(whole.runs, [40, 40]);
    assert_eq!(whole.rows[0].name, report.rows[0].name);
    assert!(
        whole
            .rows
            .iter()
            .all(|row| row.worse_than.is_none() && row.queries == whole.queries)
    );
    // Where labels mean nothing, nothing is excluded.
    let mut dropped = 0;
    for seed in 0..40 {
        let seeded = format!("seed={seed}");
        let asked = by_folds("optimizer.lr=0.001,0.01", &[&seeded, "steps=10"], true);
        let (_, said) = run(&asked, true, seed);
        dropped += usize::from(said.iter().any(|(_, names)| !names.is_empty()));
    }
    println!("excluded in {dropped} of 40");
    assert!(dropped <= 2, "{dropped} of 40");
    let refused = Contest::new(
        &dataset(0, false),
        &CompareConfig {
            folds: 0,
            ..by_folds("steps=10,20", &[], true)
        },
    );
    let refused = refused.expect_err("there are no folds");
    assert!(refused.to_string().contains("ask for folds"), "{refused}");
}

#[test]
fn where_no_head_leads_the_heads_are_judged_among_themselves() {
    let asked = CompareConfig {
        folds: 4,
        ..asked(
            &["optimizer.lr=0.01,1e-9"],
            &["split=random", "hidden_layers=[2]"],
        )
    };
    let report = compared(dataset(0, false), &asked);
    let heads: Vec<_> = report
        .rows
        .iter()
        .filter(|row| row.kind == RowKind::Head)
        .collect();
    println!("{}", report.verdict);
    assert_ne!(report.rows[0].kind, RowKind::Head, "a map leads");
    assert!(heads[0].behind_head.is_none());
    for head in &heads[1..] {
        let behind = head.behind_head.expect("was judged");
        let scores = [heads[0], head].map(|row| row.precision_at_1.expect("was scored"));
        assert!((behind.difference - (scores[0] - scores[1])).abs() < 1e-12);
        assert!(behind.low < behind.difference && behind.difference < behind.high);
    }
    let last = heads.last().expect("there are heads");
    assert_eq!(last.name, "optimizer.lr=1e-9");
    assert!(last.behind_head.expect("was judged").is_clear());
    let first = format!("Of the heads {} is first", heads[0].name);
    assert!(report.verdict.contains(&first), "{}", report.verdict);
    let rows = report.rows.iter().filter(|row| row.kind != RowKind::Head);
    assert!(rows.into_iter().all(|row| row.behind_head.is_none()));
    let led = compared(
        dataset(0, false),
        &self::asked(&["optimizer.lr=0.01,1e-9"], &["steps=200"]),
    );
    let judged = led.rows.iter().any(|row| row.behind_head.is_some());
    assert_eq!(judged, led.rows[0].kind != RowKind::Head);
}

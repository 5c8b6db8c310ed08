//! `early_stop`: the run ends where a plain count of its validations says, its head is the one of the best of them, bit for bit, and a
//! checkpoint anywhere on the way changes nothing.

use std::rc::Rc;

use crate::common::open;
use nearfar::{
    CompareConfig, Contest, Dataset, Engine, EngineKind, MemoryReport, Metrics, Origin, Purpose,
    Rate, Room, Run, RunReport, TrainConfig, Trainer,
};

/// Runs in which the validation score rises first and falls then, at a learning rate that is too high to stay.
const SMALL: [&str; 11] = [
    "steps=80",
    "evaluate_every=4",
    "batch_size=12",
    "memory_size=60",
    "hidden_layers=[12]",
    "embedding_size=6",
    "optimizer.lr=0.1",
    "evaluate_queries=60",
    "evaluate_rows=100",
    "test_queries=120",
    "early_stop.patience=2",
];

/// A head alone, with proxies, and with a boundary.
const CASES: [(&str, &[&str]); 4] = [
    ("early_stop.metric=mean_average_precision_at_r", &[]),
    (
        "early_stop.metric=precision_at_1",
        &["loss.name=normalized-softmax"],
    ),
    (
        "early_stop.metric=mean_reciprocal_rank",
        &[
            "loss.name=margin",
            "loss.learn_beta=true",
            "miner.name=none",
        ],
    ),
    (
        "early_stop.metric=r_precision",
        &[
            "loss.name=soft-triple",
            "optimizer=sgd",
            "optimizer.lr=0.5",
            "optimizer.momentum=0.9",
        ],
    ),
];

fn dataset() -> Rc<Dataset> {
    Rc::new(Dataset::sample("digits", 0).expect("is there"))
}

fn with(sets: &[&str]) -> TrainConfig {
    let all = SMALL.iter().chain(sets).map(|set| (*set).to_owned());
    let (config, problems) = TrainConfig::default().with_sets(&all.collect::<Vec<_>>());
    assert!(problems.is_empty(), "{problems:?}");
    config
}

fn case(number: usize) -> TrainConfig {
    let (metric, sets) = CASES[number];
    with(&[&[metric], sets].concat())
}

fn start(engine: Engine, dataset: &Rc<Dataset>, config: &TrainConfig) -> Run {
    pollster::block_on(Run::new(engine, Rc::clone(dataset), config.clone())).expect("fits")
}

fn finish(run: &mut Run) {
    while !run.is_finished() {
        pollster::block_on(run.next(u64::MAX)).expect("goes on");
    }
}

/// Weights, proxies and boundary, as bits.
fn learned(run: &mut Run) -> (Vec<u32>, Vec<u32>, Option<u64>) {
    let bits =
        |values: &[f32]| -> Vec<u32> { values.iter().map(|value| value.to_bits()).collect() };
    pollster::block_on(async {
        let layers = run.trainer().weights().await.expect("is read");
        let weights = layers
            .iter()
            .flat_map(|layer| [bits(&layer.weight), bits(&layer.bias)]);
        let proxies = run.trainer().proxies().await.expect("is read");
        let boundary = run.trainer().boundary().await.expect("is read");
        (
            weights.flatten().collect(),
            bits(&proxies),
            boundary.map(f64::to_bits),
        )
    })
}

/// The report without what differs from one process to the next.
fn report(run: &Run) -> RunReport {
    let mut report = run.report();
    (report.elapsed_ms, report.memory) = (0.0, MemoryReport::default());
    report
}

/// A metric by its name in reports.
fn score(metric: &str, metrics: &Metrics) -> f64 {
    let all = serde_json::to_value(metrics).expect("plain data");
    all[metric].as_f64().expect("is a score")
}

/// Step of the best validation and step of the end, counted as Keras' `EarlyStopping(restore_best_weights=True)` counts epochs: `wait`
/// goes up with each that is not better than the best.
fn counted(report: &RunReport) -> (u64, u64) {
    let stop = report.config.early_stop;
    let metric = serde_json::to_value(stop.metric).expect("plain data");
    let metric = metric.as_str().expect("a name");
    let (mut best, mut best_step, mut wait) = (f64::NEG_INFINITY, 0, 0);
    for evaluation in &report.evaluations {
        let now = score(metric, &evaluation.validation.expect("has rows"));
        wait += 1;
        if now > best {
            (best, best_step, wait) = (now, evaluation.step, 0);
        }
        if stop.patience > 0 && wait >= stop.patience {
            return (best_step, evaluation.step);
        }
    }
    (best_step, report.config.steps)
}

#[test]
fn the_head_of_a_run_that_stops_early_is_that_of_a_run_that_ends_at_its_best_step() {
    let dataset = dataset();
    let (mut early, mut earlier) = (0, 0);
    for kind in [EngineKind::Cpu, EngineKind::Gpu] {
        for number in 0..CASES.len() {
            let config = case(number);
            let mut run = start(open(kind, 256 << 20), &dataset, &config);
            finish(&mut run);
            let found = report(&run);
            let best = found.best.expect("is kept");
            let name = format!("{kind:?} {number}: {best:?}");
            // All steps were looked at, or those up to the stop and none after.
            let whole = config.with_set("early_stop.patience=0").expect("sets");
            let mut whole = start(open(kind, 256 << 20), &dataset, &whole);
            finish(&mut whole);
            let mut counts = report(&whole);
            assert_eq!(counts.steps, config.steps);
            let of_all = counts.best.expect("is kept");
            assert_eq!(counted(&counts).0, of_all.step, "{name}");
            counts.config = config.clone();
            let (best_step, last) = counted(&counts);
            assert_eq!((best.step, found.steps), (best_step, last), "{name}");
            let stopped = (last < config.steps).then_some(last);
            assert_eq!(best.stopped_at, stopped, "{name}");
            early += usize::from(stopped.is_some());
            earlier += usize::from(best_step < last);
            assert_eq!(found.kept_step, (best_step < last).then_some(best_step));
            // A run of as many steps ends with the same head.
            let plain = TrainConfig {
                steps: best_step,
                ..config.with_set("early_stop=none").expect("sets")
            };
            let mut plain = start(open(kind, 256 << 20), &dataset, &plain);
            finish(&mut plain);
            let expected = report(&plain);
            assert_eq!(expected.kept_step, None, "{name}: choose another case");
            assert!(learned(&mut run) == learned(&mut plain), "{name}");
            let (found, expected) = (
                found.r#final.expect("over"),
                expected.r#final.expect("over"),
            );
            assert_eq!(found, expected, "{name}");
        }
    }
    assert!(early >= 4 && earlier >= 4, "{early} {earlier}");
}

#[test]
fn a_checkpoint_on_the_way_to_an_early_stop_changes_no_bit() {
    let dataset = dataset();
    for (number, kind) in [
        (1, EngineKind::Cpu),
        (2, EngineKind::Cpu),
        (0, EngineKind::Gpu),
    ] {
        let config = case(number);
        let mut straight = start(open(kind, 256 << 20), &dataset, &config);
        finish(&mut straight);
        let best = straight.best().expect("is kept");
        let (expected, learnt) = (report(&straight), learned(&mut straight));
        // After each slice of work, the last of them after the end.
        let mut run = start(open(kind, 256 << 20), &dataset, &config);
        let (mut saved, mut was_over) = (0, false);
        while !was_over {
            was_over = run.is_finished();
            let origin = Origin::default();
            let bytes = pollster::block_on(run.checkpoint(&origin)).expect("is saved");
            let is_due = was_over || run.step() + 1 >= best.step && run.step().is_multiple_of(4);
            if is_due {
                let checkpoint = nearfar::Checkpoint::read(&bytes).expect("reads");
                let engine = open(kind, 256 << 20);
                let again = Run::resume(engine, Rc::clone(&dataset), &checkpoint);
                let mut again = pollster::block_on(again).expect("goes on");
                finish(&mut again);
                let step = run.step();
                assert_eq!(report(&again), expected, "{number}: cut at step {step}");
                assert!(learned(&mut again) == learnt, "{number}: cut at {step}");
                saved += 1;
            }
            if !was_over {
                pollster::block_on(run.next(4)).expect("goes on");
            }
        }
        assert!(saved > 4, "{saved}");
    }
}

#[test]
fn the_test_side_decides_nothing() {
    let data = dataset();
    let config = case(0);
    let mut run = start(open(EngineKind::Cpu, 256 << 20), &data, &config);
    finish(&mut run);
    let test = run.trainer().sides().test.clone();
    let (dim, mut values) = (data.features.dim(), Vec::new());
    let rows: Vec<u32> = (0..data.rows() as u32).collect();
    pollster::block_on(data.features.read(&rows, &mut values)).expect("reads");
    for row in &test {
        values[*row as usize * dim..][..dim]
            .iter_mut()
            .for_each(|value| *value = 16.0 - *value);
    }
    let names = data
        .labels
        .iter()
        .map(|label| data.class_names[*label as usize].clone());
    let other = Dataset::new(nearfar::Labelled {
        name: data.name.clone(),
        values,
        dim,
        labels: names.collect(),
        ..nearfar::Labelled::default()
    });
    let other = Rc::new(other.expect("is data"));
    let mut again = start(open(EngineKind::Cpu, 256 << 20), &other, &config);
    finish(&mut again);
    let (found, expected) = (report(&again), report(&run));
    assert_eq!(found.best, expected.best);
    assert!(learned(&mut again) == learned(&mut run));
    assert_ne!(
        found.r#final.expect("over").test,
        expected.r#final.expect("over").test
    );
}

#[test]
fn the_report_says_why_a_run_stopped_and_more_steps_are_refused() {
    let dataset = dataset();
    let mut run = start(open(EngineKind::Cpu, 256 << 20), &dataset, &case(0));
    finish(&mut run);
    let best = run.best().expect("is kept");
    let (step, last) = (best.step, best.stopped_at.expect("it stopped early"));
    let verdict = run.verdict().expect("is over");
    let said = format!(
        "The run stopped early, at step {last} of 80: 2 validations in a row had no better MAP@R than the "
    );
    assert!(verdict.contains(&said), "{verdict}");
    assert!(
        verdict.contains(&format!("of step {step}, whose head this is.")),
        "{verdict}"
    );
    for steps in [80, 600] {
        let refused = run
            .train_to(steps)
            .expect_err("changes nothing")
            .to_string();
        assert!(
            refused.starts_with(&format!(
                "steps is {steps}: early_stop ended the run at step {last}, after 2 "
            )),
            "{refused}"
        );
    }
    let json = serde_json::to_value(run.report()).expect("plain data");
    assert_eq!(json["best"]["stopped_at"], last);
    assert_eq!(json["best"]["metric"], "mean_average_precision_at_r");
    // Without early_stop the report is as it was.
    let plain = with(&["early_stop=none", "steps=8"]);
    let mut plain = start(open(EngineKind::Cpu, 256 << 20), &dataset, &plain);
    finish(&mut plain);
    let json = serde_json::to_value(plain.report()).expect("plain data");
    assert!(json.get("best").is_none());
}

#[test]
fn what_is_kept_is_planned_and_the_default_plan_has_none_of_it() {
    let dataset = dataset();
    let room = Room {
        free_bytes: 256 << 20,
        budget_bytes: 256 << 20,
        max_buffer_bytes: 1 << 30,
    };
    let plan = |config: &TrainConfig| {
        let forecast = Trainer::plan(&room, &dataset, config, &Rate::default());
        forecast.expect("fits").memory
    };
    for (number, kept) in [(0, 0), (1, 10 * 8 * 4), (2, 16)] {
        let on = case(number);
        let off = on.with_set("early_stop=none").expect("sets");
        let [on_plan, off_plan] = [&on, &off].map(plan);
        assert_eq!(on_plan.total_bytes() - off_plan.total_bytes(), kept);
        let purposes = [&on_plan, &off_plan].map(|plan| {
            let held = plan
                .buffers()
                .iter()
                .filter(|buffer| buffer.purpose == Purpose::Weights);
            held.map(|buffer| buffer.bytes).sum::<u64>()
        });
        assert_eq!(purposes[0] - purposes[1], kept);
        let run = start(open(EngineKind::Cpu, 256 << 20), &dataset, &on);
        assert_eq!(run.memory().live_bytes, on_plan.total_bytes());
    }
}

#[test]
fn early_stop_is_set_by_its_parts_by_its_name_and_not_at_all() {
    let default = TrainConfig::default();
    let set = |sets: &[&str]| {
        let set = |config: TrainConfig, set: &&str| config.with_set(set).expect("sets");
        sets.iter().fold(default.clone(), set)
    };
    let of = |config: &TrainConfig| {
        let metric = config.to_value()["early_stop"]["metric"].clone();
        let metric = metric.as_str().expect("a name").to_owned();
        (metric, config.early_stop.patience)
    };
    let usual = "mean_average_precision_at_r";
    for (sets, expected) in [
        (&[][..], ("none", 5)),
        (&["early_stop.patience=8"], (usual, 8)),
        (&["early_stop.patience=0"], (usual, 0)),
        (&["early_stop.metric=precision_at_1"], ("precision_at_1", 5)),
        (&["early_stop=r_precision"], ("r_precision", 5)),
        (
            &["early_stop.patience=2", "early_stop.metric=r_precision"],
            ("r_precision", 2),
        ),
        (
            &["early_stop.metric=r_precision", "early_stop.patience=2"],
            ("r_precision", 2),
        ),
        (&["early_stop.patience=2", "early_stop=none"], ("none", 5)),
        (
            &["early_stop.patience=2", "early_stop.metric=none"],
            ("none", 5),
        ),
    ] {
        let config = set(sets);
        let expected = (expected.0.to_owned(), expected.1);
        assert_eq!(of(&config), expected, "{sets:?}");
        // Written out, and as differences either way.
        let json = serde_json::to_string(&config).expect("plain data");
        assert_eq!(default.with_json(&json).expect("reads"), config);
        let on = set(&["early_stop.patience=9"]);
        for from in [&default, &on] {
            let sets = config.differences(from);
            let again = sets.iter().fold(from.clone(), |config, (key, value)| {
                config.with_set(&format!("{key}={value}")).expect("sets")
            });
            assert_eq!(again, config, "{sets:?}");
        }
    }
    for (json, expected) in [
        ("{\"early_stop\": {\"patience\": 3}}", (usual, 3)),
        ("{\"early_stop\": \"none\"}", ("none", 5)),
        (
            "{\"early_stop\": {\"metric\": \"precision_at_1\"}}",
            ("precision_at_1", 5),
        ),
    ] {
        let (metric, patience) = of(&default.with_json(json).expect("reads"));
        assert_eq!((&metric[..], patience), expected, "{json}");
    }
    for (assignment, said) in [
        (
            "early_stop.patience=few",
            "early_stop.patience is \"few\": it must be a whole number, 0 or more",
        ),
        (
            "early_stop.metric=loss",
            "early_stop.metric is \"loss\": it must be one of `none`, `precision_at_1`, ",
        ),
        (
            "early_stop=loss",
            "early_stop.metric is \"loss\": it must be one of `none`, ",
        ),
        (
            "early_stop.metrics=none",
            "there is no setting `early_stop.metrics`: there are `early_stop.metric`, `early_stop.patience`",
        ),
        (
            "early_stop=5",
            "early_stop is 5: it must be a group of settings, such as {\"metric\":\"none\",\"patience\":5}",
        ),
    ] {
        let refused = default
            .with_set(assignment)
            .expect_err("refused")
            .to_string();
        assert!(refused.starts_with(said), "{refused}");
    }
    let far = set(&["early_stop.patience=1000001"])
        .check()
        .expect_err("is far");
    assert_eq!(
        far.to_string(),
        "early_stop.patience is 1000001: it must be between 0 and 1000000"
    );
}

#[test]
fn early_stop_is_refused_where_nothing_can_be_compared() {
    let dataset = dataset();
    let none = case(0).with_set("validation_fraction=0").expect("sets");
    let engine = open(EngineKind::Cpu, 256 << 20);
    let refused = pollster::block_on(Run::new(engine, Rc::clone(&dataset), none));
    let refused = refused.expect_err("there are no rows").to_string();
    assert!(
        refused.starts_with("early_stop compares scores of validation rows, and there are none: "),
        "{refused}"
    );
    let asked = CompareConfig {
        grids: vec!["early_stop.patience=1,2".to_owned()],
        ..CompareConfig::default()
    };
    let refused = Contest::new(&dataset, &asked)
        .expect_err("changes nothing")
        .to_string();
    assert!(
        refused.starts_with("early_stop changes nothing in a comparison"),
        "{refused}"
    );
}

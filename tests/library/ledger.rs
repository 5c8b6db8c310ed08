//! The ledger against the real buffers: the plan, the driver's own account, and nothing at the end.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::common::{Rng, engines, open, rng};
use nearfar::{
    Dataset, Engine, EngineKind, Error, KnnIndex, KnnSpec, MemoryPlan, Purpose, Rate, RowSource,
    Run, SelfTest, TrainConfig, Trainer, self_test,
};
use rand::RngExt as _;

fn digits(sets: &[&str]) -> (Rc<Dataset>, TrainConfig) {
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let config = sets.iter().fold(dataset.default_config(), |config, set| {
        config.with_set(set).expect("sets")
    });
    (Rc::new(dataset), config)
}

/// The driver's buffers by label, without the small ones that wgpu keeps for itself.
fn driver(engine: &Engine, ledger: &BTreeMap<String, u64>) -> Option<BTreeMap<String, u64>> {
    let mut sums = BTreeMap::new();
    for (label, bytes) in engine.driver_allocations()? {
        if ledger.contains_key(&label) || label.contains('.') {
            *sums.entry(label).or_insert(0) += bytes;
        }
    }
    Some(sums)
}

fn assert_driver_agrees(engine: &Engine) {
    let ledger = engine.ledger().by_label();
    assert_eq!(ledger.values().sum::<u64>(), engine.ledger().live_bytes());
    assert_eq!(
        engine.ledger().by_purpose().values().sum::<u64>(),
        engine.ledger().live_bytes()
    );
    if engine.info().engine == "cpu" {
        return;
    }
    let driver = driver(engine, &ledger).expect("this driver keeps an account");
    assert_eq!(
        driver.keys().collect::<Vec<_>>(),
        ledger.keys().collect::<Vec<_>>()
    );
    for (label, bytes) in &ledger {
        // Drivers round a buffer up to their alignment.
        assert!(
            (*bytes..=bytes + 256).contains(&driver[label]),
            "{label}: {bytes}, {}",
            driver[label]
        );
    }
}

#[test]
fn a_run_holds_exactly_its_plan_at_every_step_and_nothing_after() {
    let drawn = ["miner.name=distance-weighted", "memory_start_step=20"];
    let pairs = [&drawn[..], &["loss.name=margin"]].concat();
    for (engine, sets) in [&[][..], &drawn, &pairs]
        .into_iter()
        .flat_map(|sets| engines().map(|engine| (engine, sets)))
    {
        let fixed = engine.ledger().live_bytes();
        let ledger = engine.ledger().clone();
        let (dataset, config) = digits(&[&["steps=45", "memory_size=512"], sets].concat());
        let plan = Trainer::plan(&engine.room(), &dataset, &config, &Rate::default())
            .expect("fits")
            .memory;
        pollster::block_on(async {
            let mut run = Run::new(engine, dataset, config).await.expect("fits");
            while !run.is_finished() {
                assert_eq!(ledger.live_bytes(), fixed + plan.total_bytes());
                assert_eq!(ledger.returning_bytes(), 0);
                assert_driver_agrees(run.trainer().engine());
                run.next(7).await.expect("goes on");
            }
            assert_eq!(ledger.peak_bytes(), fixed + plan.total_bytes());
            for report in run.report().history {
                assert_eq!(report.memory_bytes, ledger.live_bytes());
            }
        });
        assert_eq!((ledger.live_bytes(), ledger.returning_bytes()), (0, 0));
    }
}

#[test]
fn a_memory_in_half_precision_takes_half_the_bytes_of_its_rows() {
    for engine in engines() {
        let held = |precision: &str, memory: &str, embedding: &str| {
            let precision = format!("memory_precision={precision}");
            let sets = [memory, embedding, &precision, "steps=3", "batch_size=32"];
            let (dataset, config) = digits(&sets);
            let plan = Trainer::plan(&engine.room(), &dataset, &config, &Rate::default());
            let planned = plan.expect("fits").memory;
            let ledger = engine.ledger().clone();
            pollster::block_on(async {
                let mut run = Run::new(engine.clone(), dataset, config)
                    .await
                    .expect("fits");
                run.next(3).await.expect("goes on");
                let bank = ledger.by_purpose()[&Purpose::MemoryBank];
                assert_eq!(bank, planned.by_purpose()[&Purpose::MemoryBank]);
                bank
            })
        };
        // A label and an id beside each row; rows are padded to whole vec4s in both precisions.
        for (rows, embedding, floats) in [(65_536, 64, 64), (1024, 33, 36), (500, 2, 4)] {
            let [memory, embedding] = [
                format!("memory_size={rows}"),
                format!("embedding_size={embedding}"),
            ];
            assert_eq!(held("f32", &memory, &embedding), rows * (4 * floats + 8));
            assert_eq!(held("f16", &memory, &embedding), rows * (2 * floats + 8));
        }
        // Nothing is halved where there is no memory.
        let none =
            ["f32", "f16"].map(|precision| held(precision, "memory_size=0", "embedding_size=6"));
        assert_eq!(none, [32 * (4 * 8 + 8); 2]);
    }
}

#[test]
fn activations_in_half_precision_take_half_the_bytes() {
    for engine in engines() {
        let kept = |label: &str| {
            ["train.layer", "train.linear"]
                .iter()
                .any(|own| label.starts_with(own))
        };
        let held = |precision: &str, layers: &[&str]| {
            let precision = format!("activation_precision={precision}");
            let own = [&precision, "steps=3", "batch_size=32"];
            let (dataset, config) = digits(&[&own[..], layers].concat());
            let plan = Trainer::plan(&engine.room(), &dataset, &config, &Rate::default());
            let planned = plan.expect("fits").memory;
            let planned = planned.buffers().iter().filter(|buffer| kept(buffer.label));
            let planned: u64 = planned.map(|buffer| buffer.bytes).sum();
            pollster::block_on(async {
                let run = Run::new(engine.clone(), dataset, config).await;
                let mut run = run.expect("fits");
                run.next(3).await.expect("goes on");
                let labels = engine.ledger().by_label().into_iter();
                let live = labels
                    .filter(|(label, _)| kept(label))
                    .map(|(_, bytes)| bytes);
                assert_eq!(live.sum::<u64>(), planned);
            });
            planned
        };
        for (layers, floats) in [
            (&["hidden_layers=[]"][..], 0),
            (&["hidden_layers=[33]"], 36),
            (&["hidden_layers=[200,120]"], 320),
            (&["hidden_layers=[33]", "layers.activation=gelu"], 2 * 36),
            (&["hidden_layers=[20,9]", "layers.norm=batch-norm"], 2 * 32),
        ] {
            // Rows are padded to whole vec4s in both precisions.
            assert_eq!(held("f32", layers), 32 * 4 * floats, "{layers:?}");
            assert_eq!(held("f16", layers), 32 * 2 * floats, "{layers:?}");
        }
    }
}

/// Random settings of small runs; many of them do not go together.
fn by_chance(rng: &mut Rng) -> Vec<String> {
    let losses = [
        "triplet-margin",
        "contrastive",
        "multi-similarity",
        "nt-xent",
        "margin",
        "circle",
        "lifted-structure",
        "nca",
        "sup-con",
        "proxy-anchor",
        "proxy-nca",
        "normalized-softmax",
        "soft-triple",
        "arc-face",
        "generalized-lifted-structure",
    ];
    let miners = [
        "none",
        "triplet-margin",
        "batch-hard",
        "pair-margin",
        "multi-similarity",
        "distance-weighted",
        "batch-easy-hard",
        "facenet-semihard",
    ];
    let samplers = [
        "shuffled",
        "m-per-class",
        "class-balanced",
        "m-per-class-epoch",
    ];
    let mut one = |of: &[&str]| of[rng.random_range(0..of.len())].to_owned();
    let mut sets = vec![
        "steps=3".to_owned(),
        "evaluate_rows=60".to_owned(),
        "evaluate_queries=30".to_owned(),
        "test_queries=40".to_owned(),
        format!("loss.name={}", one(&losses)),
        format!("miner.name={}", one(&miners)),
        format!("sampler={}", one(&samplers)),
    ];
    for (key, values) in [
        ("batch_size", &["8", "12", "32", "60"][..]),
        ("memory_size", &["0", "60", "64", "500"]),
        ("memory_start_step", &["0", "2"]),
        ("memory_precision", &["f32", "f16"]),
        ("feature_precision", &["f32", "f16"]),
        ("activation_precision", &["f32", "f16"]),
        (
            "hidden_layers",
            &["[]", "[5]", "[16,9]", "[64]", "[9,8,7,6,9,8]"],
        ),
        ("embedding_size", &["2", "6", "33"]),
        ("distance", &["cosine", "l2"]),
        ("dropout", &["0", "0.3"]),
        ("layers.activation", &["relu", "gelu"]),
        ("layers.norm", &["none", "layer-norm", "batch-norm"]),
        ("evaluate_every", &["1", "2", "3"]),
        ("validation_fraction", &["0", "0.25"]),
        ("center_gradient", &["true", "false"]),
        ("standardize", &["true", "false", "auto"]),
        ("optimizer.name", &["adam", "adamw", "sgd"]),
        ("schedule.name", &["constant", "one-cycle", "step"]),
        ("clip_grad_norm", &["0", "1"]),
        ("layers.skip", &["true", "false"]),
        ("matryoshka.dims", &["[]", "[2]", "[6,4]", "[33,8,3]"]),
    ] {
        sets.push(format!("{key}={}", one(values)));
    }
    sets
}

#[test]
fn two_hundred_runs_by_chance_take_what_was_planned_to_the_byte() {
    let mut rng = rng(11);
    let (mut held, mut on_gpu) = (0, 0);
    while held < 200 {
        let sets = by_chance(&mut rng);
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let dataset = Rc::new(Dataset::sample("digits", 0).expect("is there"));
        let config = sets
            .iter()
            .try_fold(TrainConfig::default(), |config, set| config.with_set(set));
        let Ok(config) = config else { continue };
        // One in twenty on a GPU, which takes longer to open than such a run.
        let kind = match held % 20 {
            0 => EngineKind::Gpu,
            _ => EngineKind::Cpu,
        };
        let engine = open(kind, 64 << 20);
        let (fixed, ledger) = (engine.ledger().live_bytes(), engine.ledger().clone());
        let plan = match Trainer::plan(&engine.room(), &dataset, &config, &Rate::default()) {
            Ok(plan) => plan.memory,
            Err(Error::Config(_) | Error::Data(_)) => continue,
            Err(error) => panic!("{sets:?}: {error}"),
        };
        pollster::block_on(async {
            let mut run = Run::new(engine, dataset, config)
                .await
                .expect("was planned");
            while !run.is_finished() {
                match run.next(2).await {
                    Err(Error::NotFinite { .. }) => break,
                    next => drop(next.unwrap_or_else(|error| panic!("{sets:?}: {error}"))),
                }
            }
        });
        assert_eq!(ledger.peak_bytes(), fixed + plan.total_bytes(), "{sets:?}");
        assert_eq!(
            (ledger.live_bytes(), ledger.returning_bytes()),
            (0, 0),
            "{sets:?}"
        );
        held += 1;
        on_gpu += usize::from(kind == EngineKind::Gpu);
    }
    assert!(on_gpu >= 10);
}

#[test]
fn the_plan_has_as_many_moments_as_the_optimizer_keeps() {
    let engine = open(EngineKind::Cpu, 256 << 20);
    let of = |sets: &[&str]| {
        let (dataset, config) = digits(sets);
        let plan = Trainer::plan(&engine.room(), &dataset, &config, &Rate::default());
        let planned = plan.expect("fits").memory.by_purpose();
        planned.get(&Purpose::Optimizer).copied().unwrap_or(0)
    };
    let adam = of(&[]);
    // Digits have 64 columns: 256 hidden outputs and an embedding of 64, each with a bias, and two moments of 4 bytes.
    assert_eq!(adam, 2 * 4 * (64 * 256 + 256 + 256 * 64 + 64));
    assert_eq!(of(&["optimizer=adamw"]), adam);
    assert_eq!(of(&["optimizer=sgd"]), 0);
    assert_eq!(of(&["optimizer=sgd", "optimizer.momentum=0.9"]), adam / 2);
    // One cycle gives SGD a momentum, unless it is told not to.
    let cycle = ["optimizer=sgd", "schedule=one-cycle"];
    assert_eq!(of(&cycle), adam / 2);
    let fixed = [&cycle[..], &["schedule.cycle_momentum=false"]].concat();
    assert_eq!(of(&fixed), 0);
    // The factor, and a sum for every 256 numbers; buffers end at a multiple of 16 bytes.
    let clipped = of(&["optimizer=sgd", "clip_grad_norm=1"]);
    assert_eq!(
        clipped,
        (4 * (1 + (adam / 8).div_ceil(256))).next_multiple_of(16)
    );
}

#[test]
fn a_search_holds_exactly_its_plan_and_the_driver_agrees() {
    let rows = |count: usize| RowSource::Memory {
        values: (0..count * 12).map(|i| (i * 31 % 17) as f32).collect(),
        dim: 12,
    };
    let (references, queries) = (rows(3000), rows(40));
    for engine in engines() {
        let fixed = engine.ledger().live_bytes();
        let spec = KnnSpec {
            queries: 40,
            references: 3000,
            dim: 12,
            k: 7,
            own: false,
        };
        let plan = spec.plan(&engine.room(), &Rate::default()).expect("fits");
        pollster::block_on(async {
            let index = KnnIndex::new(&engine, &references, Some(&queries), 7).await;
            let mut index = index.expect("fits");
            for _ in 0..20 {
                index
                    .search(Some(&queries), |_, _| {})
                    .await
                    .expect("searches");
                assert_eq!(
                    engine.ledger().live_bytes(),
                    fixed + plan.memory.total_bytes()
                );
                assert_driver_agrees(&engine);
            }
        });
        let peak = fixed + plan.memory.total_bytes();
        assert_eq!(engine.ledger().peak_bytes(), peak);
    }
}

#[test]
fn what_the_driver_holds_beside_the_ledger_stays_the_same_over_a_thousand_steps() {
    let (dataset, config) = digits(&["steps=1000", "memory_size=64", "hidden_layers=[8]"]);
    let engine = open(EngineKind::Gpu, 64 << 20);
    let beside = |engine: &Engine| -> u64 {
        let ledger = engine.ledger().by_label();
        let all = engine.driver_allocations().expect("keeps an account");
        let others = all.iter().filter(|(label, _)| !ledger.contains_key(label));
        others.map(|(_, bytes)| bytes).sum()
    };
    pollster::block_on(async {
        let mut trainer = Trainer::new(engine, dataset, config).await.expect("fits");
        let mut first = None;
        while trainer.step() < 1000 {
            trainer
                .advance(1000 - trainer.step())
                .await
                .expect("goes on");
            trainer.engine().settle().await.expect("settles");
            let now = beside(trainer.engine());
            assert_eq!(*first.get_or_insert(now), now, "at step {}", trainer.step());
        }
    });
}

#[test]
fn dropped_buffers_count_until_the_device_has_let_go() {
    for engine in engines() {
        let fixed = engine.ledger().live_bytes();
        let plan = MemoryPlan::default().with::<f32>(Purpose::Ranks, "test.ranks", 1 << 18);
        pollster::block_on(async {
            let mut workspace = engine.workspace("test", &plan, "").await.expect("fits");
            assert_driver_agrees(&engine);
            drop(workspace.take::<f32>("test.ranks"));
            let held = engine.ledger().returning_bytes();
            assert_eq!(
                held,
                if engine.info().engine == "gpu" {
                    1 << 20
                } else {
                    0
                }
            );
            engine.settle().await.expect("settles");
            assert_eq!(engine.ledger().returning_bytes(), 0);
            assert_eq!(engine.ledger().live_bytes(), fixed);
            assert_driver_agrees(&engine);
        });
    }
}

#[test]
fn what_does_not_fit_is_refused_with_numbers_and_takes_nothing() {
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let engine = open(kind, 4 << 20);
        let ledger = engine.ledger().clone();
        let before = ledger.live_bytes();
        let (dataset, config) = digits(&["memory_size=200000"]);
        let error = pollster::block_on(Trainer::new(engine, dataset, config)).expect_err("refused");
        let text = error.to_string();
        assert!(
            text.starts_with("\"training\" needs ") && text.contains("of the 4 MiB budget is free"),
            "{text}"
        );
        assert_eq!(error.exit_code(), 2);
        assert_eq!(ledger.peak_bytes(), before);
    }
}

#[test]
fn the_budget_that_a_refusal_names_is_the_least_that_does() {
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        for sets in [
            &["memory_size=200000"][..],
            &["hidden_layers=[4096]", "batch_size=512"],
            &["evaluate_queries=0", "embedding_size=512"],
        ] {
            let trainer = |budget_bytes: u64| {
                let (dataset, config) = digits(sets);
                pollster::block_on(Trainer::new(open(kind, budget_bytes), dataset, config))
            };
            let text = trainer(3 << 20).expect_err("refused").to_string();
            let (_, advice) = text.split_once(": raise the budget to ").expect("advice");
            let (mebibytes, rest) = advice.split_once(" MiB").expect("a unit");
            let or = ", or lower memory_size, batch_size or the widths";
            let fits = rest.strip_prefix(or).expect("what to lower");
            assert!(
                fits.is_empty() || fits.starts_with("; it fits with "),
                "{text}"
            );
            let mebibytes: u64 = mebibytes.parse().expect("a number");
            assert!(
                trainer(mebibytes << 20).is_ok(),
                "{kind:?}, {sets:?}: {text}"
            );
            let less = trainer((mebibytes - 1) << 20);
            assert!(less.is_err(), "{kind:?}, {sets:?}: {text} is not the least");
        }
    }
}

#[test]
fn a_self_test_is_short_gives_its_memory_back_and_needs_none() {
    for engine in engines() {
        let before = engine.ledger().live_bytes();
        let tested = pollster::block_on(self_test(&engine)).expect("runs");
        assert_eq!(engine.ledger().live_bytes(), before, "it is given back");
        assert_eq!(engine.ledger().returning_bytes(), 0, "already");
        let SelfTest { gflops, elapsed_ms } = tested.expect("fits");
        // Tests run in parallel: a second, although 200 ms are promised.
        assert!(elapsed_ms < 1000.0, "{elapsed_ms} ms");
        // Every machine is within this range; a wrong unit is outside.
        assert!((0.01..1e6).contains(&gflops), "{gflops} GFLOP/s");
    }
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let small = open(kind, 4 << 20);
        let tested = pollster::block_on(self_test(&small)).expect("runs");
        assert_eq!(tested, None, "it does not fit");
    }
}

#[test]
fn a_forecast_is_within_a_few_times_of_what_a_run_takes() {
    for engine in engines() {
        let (dataset, config) = digits(&["steps=60"]);
        pollster::block_on(async {
            let before = engine.ledger().live_bytes();
            let (engine, rate) = Trainer::measure_rate(engine).await.expect("is timed");
            assert_eq!(engine.ledger().live_bytes(), before, "it is given back");
            let forecast = Trainer::plan(&engine.room(), &dataset, &config, &rate);
            let predicted_ms = forecast.expect("fits").predicted_ms;
            let mut run = Run::new(engine, dataset, config).await.expect("fits");
            while !run.is_finished() {
                run.next(u64::MAX).await.expect("goes on");
            }
            let elapsed_ms = run.elapsed_ms();
            // Tests run in parallel: this is no measurement, but detects a wrong unit.
            assert!(
                predicted_ms < 20.0 * elapsed_ms && elapsed_ms < 20.0 * predicted_ms,
                "{predicted_ms} ms predicted, {elapsed_ms} ms taken"
            );
        });
    }
}

#[test]
fn a_buffer_past_the_devices_limit_is_refused_with_the_limit() {
    let engine = open(EngineKind::Gpu, 1 << 40);
    let elements = engine.info().max_buffer_bytes / 4 + 1;
    let plan = MemoryPlan::default().with::<f32>(Purpose::Dataset, "test.rows", elements);
    let refused = pollster::block_on(engine.workspace("test", &plan, "use fewer rows"));
    let error = refused.expect_err("refused");
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(
        error.to_string().contains("this device binds at most"),
        "{error}"
    );
}

#[test]
fn a_budget_below_the_fixed_buffers_of_a_gpu_is_refused() {
    let choice = nearfar::EngineChoice {
        kind: Some(EngineKind::Gpu),
        adapter: None,
        ..nearfar::EngineChoice::default()
    };
    let error = pollster::block_on(Engine::open(&choice, 1 << 20)).expect_err("refused");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[test]
fn the_largest_settings_are_refused_with_numbers_that_did_not_wrap() {
    let engine = open(EngineKind::Cpu, 256 << 20);
    for (sets, least) in [
        (
            &["memory_size=16777216", "embedding_size=256"][..],
            1u64 << 34,
        ),
        (&["hidden_layers=[65536,65536]"], 4 << 34),
        (&["memory_size=16777216", "embedding_size=65536"], 1 << 42),
    ] {
        let (dataset, config) = digits(sets);
        let error = Trainer::plan(&engine.room(), &dataset, &config, &Rate::default())
            .expect_err("refused");
        let Error::Refused { over, .. } = error else {
            panic!("{sets:?}: {error}");
        };
        assert!(over.needs_bytes > least, "{sets:?}: {over}");
    }
}

#[test]
fn a_software_adapter_that_is_not_taken_takes_nothing() {
    let devices = pollster::block_on(Engine::devices());
    let any = nearfar::EngineChoice::default();
    let engine = pollster::block_on(Engine::open(&any, 64 << 20)).expect("opens");
    if devices[0].software {
        assert_eq!(engine.info().engine, "cpu");
        let small = pollster::block_on(Engine::open(&any, 1 << 20));
        assert_eq!(small.expect("opens").info().engine, "cpu");
    }
    if engine.info().engine == "cpu" {
        assert_eq!(engine.ledger().peak_bytes(), 0);
    }
}

#[test]
fn a_lost_device_is_a_message() {
    let engine = open(EngineKind::Gpu, 64 << 20);
    let (dataset, config) = digits(&["memory_size=512"]);
    pollster::block_on(async {
        let mut trainer = Trainer::new(engine, dataset, config).await.expect("fits");
        trainer.advance(3).await.expect("steps");
        trainer.engine().lose_device(0);
        let error = trainer.advance(3).await.expect_err("the device is gone");
        assert!(matches!(error, Error::Device(_)), "{error}");
        assert!(error.to_string().contains("device was lost"), "{error}");
    });
}

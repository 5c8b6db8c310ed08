//! A batch whose activations do not fit the budget goes through the head in chunks: the gradient is that of the whole batch, to the
//! bit, in less memory.

use std::rc::Rc;

use crate::common::open;
use nearfar::{
    Checkpoint, Dataset, Engine, EngineKind, Error, LayerWeights, Origin, Rate, Room, Run,
    TrainConfig, Trainer,
};

const MIB: u64 = 1 << 20;
const ENGINES: [EngineKind; 2] = [EngineKind::Gpu, EngineKind::Cpu];

/// Three segments of rows, through two hidden layers.
const LARGE: [&str; 4] = [
    "batch_size=600",
    "memory_size=600",
    "hidden_layers=[200,120]",
    "embedding_size=12",
];

/// A loss of each kind, with and without a memory, and what a hidden layer and the memory may have.
const CASES: [(&str, &[&str]); 15] = [
    ("sizes with a memory", &["matryoshka.dims=[12,6,3]"]),
    (
        "a skip",
        &["layers.skip=true", "layers.norm=layer-norm", "dropout=0.1"],
    ),
    ("triplets with a memory", &[]),
    ("a memory in half precision", &["memory_precision=f16"]),
    ("features in half precision", &["feature_precision=f16"]),
    (
        "activations in half precision",
        &["activation_precision=f16", "dropout=0.1"],
    ),
    (
        "linear outputs in half precision",
        &[
            "activation_precision=f16",
            "layers.norm=layer-norm",
            "layers.activation=gelu",
            "memory_precision=f16",
        ],
    ),
    ("triplets of the batch alone", &["memory_size=0"]),
    ("a memory that begins later", &["memory_start_step=1"]),
    (
        "pairs",
        &["loss.name=multi-similarity", "miner.name=multi-similarity"],
    ),
    (
        "proxies as anchors",
        &["loss.name=proxy-anchor", "center_gradient=false"],
    ),
    ("proxies of a softmax", &["loss.name=normalized-softmax"]),
    ("dropout", &["dropout=0.3", "memory_size=0"]),
    ("GELU", &["layers.activation=gelu", "dropout=0.1"]),
    (
        "layer norm",
        &["layers.norm=layer-norm", "layers.activation=gelu"],
    ),
];

fn digits(sets: &[&str]) -> (Rc<Dataset>, TrainConfig) {
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let sets = LARGE.iter().chain(sets);
    let config = sets.fold(dataset.default_config(), |config, set| {
        config.with_set(set).expect("sets")
    });
    (Rc::new(dataset), config)
}

/// Room with so many bytes, of which the engine itself takes none.
fn room(kind: EngineKind, free_bytes: u64) -> Room {
    Room {
        free_bytes,
        budget_bytes: free_bytes,
        ..open(kind, 64 * MIB).room()
    }
}

/// Engine with so many bytes beside those that it takes itself.
fn engine(kind: EngineKind, free_bytes: u64) -> Engine {
    open(
        kind,
        free_bytes + open(kind, 64 * MIB).ledger().live_bytes(),
    )
}

/// Rows of the chunks of a plan that fits these bytes; `None` of whole batches.
fn planned(
    room: Room,
    free_bytes: u64,
    dataset: &Dataset,
    config: &TrainConfig,
) -> Result<Option<u64>, Error> {
    let room = Room {
        free_bytes,
        budget_bytes: free_bytes,
        ..room
    };
    let planned = Trainer::plan(&room, dataset, config, &Rate::default());
    planned.map(|forecast| forecast.batch_chunk.map(|chunk| chunk.rows))
}

/// The fewest bytes of a plan that fits and is `enough`.
fn least(
    room: Room,
    dataset: &Dataset,
    config: &TrainConfig,
    enough: impl Fn(Option<u64>) -> bool,
) -> u64 {
    let (mut low, mut high) = (0, 256 * MIB);
    while low + 16 < high {
        let middle = low.midpoint(high) / 16 * 16;
        match planned(room, middle, dataset, config) {
            Ok(chunk) if enough(chunk) => high = middle,
            _ => low = middle,
        }
    }
    high
}

/// State after some steps.
#[derive(Debug, PartialEq)]
struct Trained {
    losses: Vec<f64>,
    gradients: Vec<LayerWeights>,
    proxy_gradients: Vec<f32>,
    weights: Vec<LayerWeights>,
}

fn train(
    kind: EngineKind,
    free_bytes: u64,
    dataset: &Rc<Dataset>,
    config: &TrainConfig,
    steps: u64,
) -> Trained {
    pollster::block_on(async {
        let engine = engine(kind, free_bytes);
        let mut trainer = Trainer::new(engine, Rc::clone(dataset), config.clone())
            .await
            .expect("fits");
        let mut losses = Vec::new();
        while trainer.step() < steps {
            let reports = trainer
                .advance(steps - trainer.step())
                .await
                .expect("steps");
            losses.extend(reports.iter().map(|report| report.loss));
        }
        let ledger = trainer.engine().ledger();
        assert!(ledger.peak_bytes() <= ledger.budget_bytes());
        Trained {
            losses,
            gradients: trainer.gradients().await.expect("reads"),
            proxy_gradients: trainer.proxy_gradients().await.expect("reads"),
            weights: trainer.weights().await.expect("reads"),
        }
    })
}

#[test]
fn the_gradient_of_a_batch_in_chunks_is_that_of_the_whole_batch_to_the_bit() {
    for (kind, (name, sets)) in ENGINES
        .into_iter()
        .flat_map(|kind| CASES.map(|case| (kind, case)))
    {
        let (dataset, config) = digits(sets);
        let room = room(kind, 256 * MIB);
        let whole = least(room, &dataset, &config, |chunk| chunk.is_none());
        let smallest = least(room, &dataset, &config, |_| true);
        let expected = train(kind, 256 * MIB, &dataset, &config, 2);
        assert!(expected.losses.iter().all(|loss| *loss > 0.0), "{name}");
        let mut seen = Vec::new();
        // The features stay on the engine with the first of these budgets, and are read chunk by chunk with the last.
        let mut budgets = vec![whole - 16, smallest];
        if kind == EngineKind::Cpu {
            budgets.insert(1, smallest.midpoint(whole));
        }
        for free_bytes in budgets {
            let chunk = planned(room, free_bytes, &dataset, &config);
            seen.push(chunk.expect("fits"));
            let found = train(kind, free_bytes, &dataset, &config, 2);
            assert!(found == expected, "{name}, {kind:?}, {free_bytes} bytes");
        }
        assert_eq!(seen.last(), Some(&Some(256)), "{name}");
        assert!(seen.iter().all(Option::is_some), "{name}: {seen:?}");
    }
}

/// Fails if a value is farther from the expected one than 1e-5 of the largest of all.
fn assert_near(what: &str, found: &[LayerWeights], expected: &[LayerWeights]) {
    for (found, expected) in found.iter().zip(expected) {
        let (found, expected) = (&found.weight, &expected.weight);
        let largest = expected
            .iter()
            .fold(0f32, |most, value| most.max(value.abs()));
        let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        let off = off.fold(0f32, f32::max);
        assert!(off <= 1e-5 * largest, "{what}: {off} of {largest}");
    }
}

#[test]
fn rows_of_a_batch_that_are_compared_with_each_other_need_not_all_be_compared_at_once() {
    let multi_similarity = ["loss.name=multi-similarity", "miner.name=multi-similarity"];
    for (kind, sets) in ENGINES.into_iter().flat_map(|kind| {
        [
            &multi_similarity[..],
            &["loss.name=nt-xent", "miner.name=none"],
            &["miner.name=batch-hard"],
            &["loss.swap=true"],
        ]
        .map(|sets| (kind, sets))
    }) {
        let alone = [
            "batch_size=900",
            "memory_size=0",
            "hidden_layers=[24]",
            "test_fraction=0.1",
            "validation_fraction=0.1",
        ];
        let (dataset, config) = digits(&[&alone[..], sets].concat());
        let room = room(kind, 256 * MIB);
        let bytes_at_once = |free_bytes: u64| {
            let room = Room {
                free_bytes,
                budget_bytes: free_bytes,
                ..room
            };
            let plan = Trainer::plan(&room, &dataset, &config, &Rate::default()).expect("fits");
            let buffers = plan.memory.buffers().iter();
            let values = buffers.filter(|buffer| buffer.label == "rows.similarities");
            values.map(|buffer| buffer.bytes).sum::<u64>()
        };
        let smallest = least(room, &dataset, &config, |_| true);
        assert_eq!(bytes_at_once(256 * MIB), 4 * 900 * 900, "{sets:?}");
        assert!(bytes_at_once(smallest) < 4 * 900 * 900, "{sets:?}");
        let whole = train(kind, 256 * MIB, &dataset, &config, 1);
        let found = train(kind, smallest, &dataset, &config, 1);
        let (loss, expected) = (found.losses[0], whole.losses[0]);
        assert!(
            expected > 0.0 && (loss - expected).abs() <= 1e-5 * expected,
            "{sets:?}: {loss}, {expected}"
        );
        assert_near(&format!("{sets:?}"), &found.gradients, &whole.gradients);
    }
}

#[test]
fn a_batch_of_4096_rows_through_2048_outputs_trains_in_64_mib() {
    let sample = Rc::new(Dataset::sample("many-classes", 0).expect("is there"));
    let sets = [
        "batch_size=4096",
        "memory_size=4096",
        "hidden_layers=[2048]",
    ];
    for (kind, more) in [
        (EngineKind::Gpu, &[][..]),
        (EngineKind::Cpu, &[]),
        (EngineKind::Cpu, &["memory_size=0"]),
        (
            EngineKind::Cpu,
            &["memory_size=0", "loss.name=nt-xent", "miner.name=none"],
        ),
        (EngineKind::Cpu, &["loss.name=multi-similarity"]),
        (EngineKind::Cpu, &["loss.name=proxy-anchor"]),
    ] {
        let sets = sets.iter().chain(more);
        let config = sets.fold(sample.default_config(), |config, set| {
            config.with_set(set).expect("sets")
        });
        let engine = open(kind, 64 * MIB);
        let forecast = Trainer::plan(&engine.room(), &sample, &config, &Rate::default());
        let chunk = forecast.expect("fits").batch_chunk.expect("in chunks");
        assert!(chunk.rows < 4096 && chunk.twice == 4096 - chunk.rows);
        pollster::block_on(async {
            let mut trainer = Trainer::new(engine, Rc::clone(&sample), config)
                .await
                .expect("fits");
            let reports = trainer.advance(1).await.expect("steps");
            assert!(reports[0].loss > 0.0, "{more:?}");
            let ledger = trainer.engine().ledger();
            assert!(ledger.peak_bytes() <= 64 * MIB);
        });
    }
}

#[test]
fn a_batch_that_no_chunk_makes_fit_is_refused_with_a_budget_that_will_do() {
    let (dataset, config) = digits(&[]);
    let room = room(EngineKind::Cpu, 256 * MIB);
    let smallest = least(room, &dataset, &config, |_| true);
    let refused = planned(room, smallest - 16, &dataset, &config).expect_err("does not fit");
    let Error::Refused { over, how, .. } = refused else {
        panic!("{refused}");
    };
    assert!(over.needs_bytes > over.free_bytes);
    let enough = smallest.div_ceil(MIB);
    assert!(
        how.starts_with(&format!("raise the budget to {enough} MiB")),
        "{how}"
    );
}

#[test]
fn batch_norm_takes_whole_batches_and_a_refusal_says_so_with_the_budget_that_will_do() {
    let (dataset, config) = digits(&["layers.norm=batch-norm"]);
    let (_, chunked) = digits(&["layers.norm=layer-norm"]);
    let room = room(EngineKind::Cpu, 256 * MIB);
    let smallest = least(room, &dataset, &config, |_| true);
    assert_eq!(
        planned(room, smallest, &dataset, &config).expect("fits"),
        None
    );
    assert!(least(room, &dataset, &chunked, |_| true) < smallest);
    let refused = planned(room, smallest - 16, &dataset, &config).expect_err("does not fit");
    let Error::Refused { how, fits, .. } = &refused else {
        panic!("{refused}");
    };
    let enough = smallest.div_ceil(MIB);
    assert!(
        how.starts_with(&format!("raise the budget to {enough} MiB"))
            && how.contains("layers.norm=layer-norm")
            && fits.iter().any(|(name, _)| *name == "batch_size"),
        "{refused}"
    );
}

/// Weights at the end of a run, and its curve.
fn finish(mut run: Run) -> (Vec<LayerWeights>, Vec<f64>) {
    pollster::block_on(async {
        while !run.is_finished() {
            run.next(u64::MAX).await.expect("goes on");
        }
        let weights = run.trainer().weights().await.expect("reads");
        let history = run.report().history;
        (weights, history.iter().map(|report| report.loss).collect())
    })
}

#[test]
fn a_run_in_chunks_goes_on_from_a_checkpoint_with_any_budget() {
    let (dataset, config) = digits(&["steps=5", "evaluate_every=5", "dropout=0.2"]);
    let room = room(EngineKind::Cpu, 256 * MIB);
    let small = least(room, &dataset, &config, |_| true);
    let start = |free_bytes| {
        let engine = engine(EngineKind::Cpu, free_bytes);
        pollster::block_on(Run::new(engine, Rc::clone(&dataset), config.clone())).expect("fits")
    };
    let expected = finish(start(small));
    assert_eq!(expected, finish(start(256 * MIB)));
    let mut run = start(small);
    while run.step() < 2 {
        pollster::block_on(run.next(1)).expect("goes on");
    }
    let saved = pollster::block_on(run.checkpoint(&Origin::default())).expect("is saved");
    for free_bytes in [small, 256 * MIB] {
        let checkpoint = Checkpoint::read(&saved).expect("is one");
        let engine = engine(EngineKind::Cpu, free_bytes);
        let resumed = Run::resume(engine, Rc::clone(&dataset), &checkpoint);
        let resumed = pollster::block_on(resumed).expect("goes on");
        assert_eq!(resumed.step(), 2);
        assert_eq!(finish(resumed), expected, "{free_bytes} bytes");
    }
}

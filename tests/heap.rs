//! Heap memory of the CPU engine in this process: its plan, the result, and little else; and no growth from step to step.
#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be installed with it"
)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nearfar::{
    Dataset, Engine, EngineKind, EvaluationSpec, KnnIndex, KnnSpec, Labelled, Rate, Room,
    RowSource, Rows, Run, TrainConfig, Trainer, evaluate,
};

struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size() as u64, Relaxed) + layout.size() as u64;
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allowance beside a plan and a result, in bytes.
const BESIDE: u64 = 8 << 20;

/// Peak of the bytes in use during the work, beyond those in use before.
fn peak_of(work: impl FnOnce()) -> u64 {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed) - before
}

/// One test at a time: the counter is that of the whole process.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn searches_and_evaluations_take_their_plan_and_little_else() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (count, dim, k) = (20_000, 64, 100);
    let rows = RowSource::Memory {
        values: common::exact_unit_rows(&mut common::rng(1), count),
        dim,
    };
    let queries = RowSource::Memory {
        values: common::exact_unit_rows(&mut common::rng(2), 500),
        dim,
    };
    let labels: Vec<String> = (0..count).map(|row| (row % 50).to_string()).collect();
    let query_labels = labels[..500].to_vec();
    for budget in [1 << 20, 4 << 20, 64 << 20] {
        let engine = common::open(EngineKind::Cpu, budget);
        let spec = KnnSpec {
            queries: 500,
            references: count,
            dim,
            k,
            own: false,
        };
        let plan = spec.plan(&engine.room(), &Rate::default()).expect("fits");
        let result = 500 * k as u64 * 8;
        let taken = peak_of(|| {
            pollster::block_on(async {
                let index = KnnIndex::new(&engine, &rows, Some(&queries), k).await;
                let mut index = index.expect("fits");
                index
                    .search(Some(&queries), |_, _| {})
                    .await
                    .expect("searches");
            });
        });
        let planned = plan.memory.total_bytes();
        assert!(
            taken <= planned + result + BESIDE,
            "{budget}: {taken}, planned {planned}"
        );
        assert!(taken >= planned, "{budget}: the allocator counts");

        let spec = EvaluationSpec::of_names(&labels, dim, 500);
        let plan = spec.plan(&engine.room(), &Rate::default()).expect("fits");
        let (known, asking) = (
            Rows {
                rows: &rows,
                labels: &labels,
            },
            Rows {
                rows: &queries,
                labels: &query_labels,
            },
        );
        let taken = peak_of(|| {
            pollster::block_on(evaluate(&engine, asking, Some(known), &[1], |_, _| {}))
                .expect("evaluates");
        });
        let planned = plan.memory.total_bytes();
        assert!(
            taken <= planned + BESIDE,
            "{budget}: {taken}, planned {planned}"
        );
    }
}

#[test]
fn a_map_and_its_layouts_take_what_the_plan_says_of_the_host() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // More rows of a side than are compared one by one.
    for (count, dim, embedding, aside) in [
        (12_000, 16, 8, 0),
        (12_000, 200, 64, 0),
        (12_000, 200, 64, 5_000),
        (40_000, 8, 120, 0),
    ] {
        let mut rows = Labelled {
            name: "random".to_owned(),
            values: common::random_rows(&mut common::rng(1), count, dim),
            dim,
            labels: (0..count).map(|row| (row % 50).to_string()).collect(),
            ..Labelled::default()
        };
        rows.aside.values = common::random_rows(&mut common::rng(2), aside, dim);
        rows.aside.rows = (0..aside as u32).collect();
        let dataset = Rc::new(Dataset::new(rows).expect("several classes"));
        // What the engine takes of the budget for a while is the host's, too, on the CPU.
        let beside = 4 * (count / 2 * embedding) as u64;
        let embedding = format!("embedding_size={embedding}");
        let sets = [
            "steps=1",
            "test_fraction=0.5",
            "hidden_layers=[8]",
            &embedding,
        ];
        let config = sets.iter().fold(dataset.default_config(), |config, set| {
            config.with_set(set).expect("sets")
        });
        let engine = common::open(EngineKind::Cpu, 256 << 20);
        let planned = Run::plan_map(&dataset, &config).expect("suits the data");
        pollster::block_on(async {
            let run = Run::new(engine, Rc::clone(&dataset), config).await;
            let mut run = run.expect("fits");
            while !run.is_finished() {
                run.next(u64::MAX).await.expect("goes on");
            }
            let taken = peak_of(|| {
                pollster::block_on(async {
                    let map = run.map().await.expect("is drawn");
                    assert_eq!(map.rows.len(), count / 2);
                    let layouts = run.umap().await.expect("begins");
                    assert!(!layouts[0].is_done());
                });
            });
            println!("{count} x {dim}: {taken} of {planned}");
            assert!(taken <= planned + beside, "{taken}, planned {planned}");
            assert!(taken * 2 >= planned, "{taken}, planned {planned}");
        });
    }
}

/// A run keeps a history, which is thinned; its trainer keeps nothing of a step that is done.
#[test]
fn training_holds_no_byte_more_after_a_thousand_steps() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    const STEPS: u64 = 1000;
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let sets = ["steps=1200", "memory_size=64", "hidden_layers=[8]"];
    let config = sets.iter().fold(dataset.default_config(), |config, set| {
        config.with_set(set).expect("sets")
    });
    let engine = common::open(EngineKind::Cpu, 64 << 20);
    pollster::block_on(async {
        let trainer = Trainer::new(engine, Rc::new(dataset), config).await;
        let mut trainer = trainer.expect("fits");
        // The first steps may bring up threads.
        let mut held = Vec::with_capacity(2);
        for end in [200, 200 + STEPS] {
            while trainer.step() < end {
                let steps = trainer.advance(end - trainer.step()).await;
                drop(steps.expect("goes on"));
            }
            held.push(LIVE.load(Relaxed));
        }
        let grew = held[1].saturating_sub(held[0]);
        println!("{grew} bytes more after {STEPS} steps");
        assert!(grew < STEPS, "{grew} bytes more after {STEPS} steps");
    });
}

/// A run of each path of a step: settings, and its steps on the CPU. A batch in chunks takes longer.
const PATHS: [(&str, &[&str], u64); 8] = [
    ("triplets", &["memory_size=0"], 10_000),
    ("triplets, a memory", &["memory_size=16"], 10_000),
    (
        "triplets by rows, a memory that begins later",
        &[
            "miner.name=batch-hard",
            "memory_size=16",
            "memory_start_step=50",
        ],
        10_000,
    ),
    (
        "triplets that are drawn",
        &["miner.name=distance-weighted", "memory_size=16"],
        10_000,
    ),
    (
        "pairs",
        &[
            "loss.name=multi-similarity",
            "miner.name=multi-similarity",
            "memory_size=0",
        ],
        10_000,
    ),
    (
        "pairs, a memory",
        &["loss.name=contrastive", "miner.name=none", "memory_size=16"],
        10_000,
    ),
    ("proxies", &["loss.name=proxy-anchor"], 10_000),
    (
        CHUNKED,
        &["batch_size=600", "memory_size=600", "hidden_layers=[120]"],
        300,
    ),
];

const CHUNKED: &str = "a batch in chunks";

/// An engine with the largest budget, 8 MiB at most, in which the batch goes through the head at once, or else in chunks.
fn with_budget(kind: EngineKind, dataset: &Dataset, config: &TrainConfig, chunked: bool) -> Engine {
    let most = 8 << 20;
    let room = common::open(kind, most).room();
    let is_cut = |less: &u64| {
        let room = Room {
            free_bytes: room.free_bytes - less,
            budget_bytes: room.budget_bytes - less,
            ..room
        };
        let plan = Trainer::plan(&room, dataset, config, &Rate::default());
        plan.is_ok_and(|plan| plan.batch_chunk.is_some() == chunked)
    };
    let less = (0..96).map(|less| less << 16).find(is_cut);
    common::open(kind, most - less.expect("there is one"))
}

/// On a software GPU a step takes a hundred times as long: fewer are taken there.
#[test]
fn a_run_of_ten_thousand_steps_creates_no_buffer_and_holds_the_same_bytes() {
    const FIRST: u64 = 100;
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    for kind in [EngineKind::Cpu, EngineKind::Gpu] {
        for (path, sets, on_cpu) in PATHS {
            let dataset = Dataset::sample("digits", 0).expect("is there");
            let small = [
                "steps=10000",
                "batch_size=8",
                "hidden_layers=[4]",
                "embedding_size=4",
            ];
            let sets = small.iter().chain(sets);
            let config = sets.fold(dataset.default_config(), |config, set| {
                config.with_set(set).expect("sets")
            });
            let engine = with_budget(kind, &dataset, &config, path == CHUNKED);
            let steps = match kind {
                EngineKind::Cpu => on_cpu,
                EngineKind::Gpu => FIRST + 50,
            };
            pollster::block_on(async {
                let ledger = engine.ledger().clone();
                let trainer = Trainer::new(engine, Rc::new(dataset), config).await;
                let mut trainer = trainer.expect("fits");
                let mut before = None;
                for end in (FIRST..=steps).step_by(50) {
                    while trainer.step() < end {
                        let reports = trainer.advance(end - trainer.step()).await;
                        for report in reports.expect("goes on") {
                            assert_eq!(report.memory_bytes, ledger.live_bytes(), "{path}");
                        }
                    }
                    let of_driver = trainer.engine().driver_allocations();
                    let held = [
                        ledger.live_bytes(),
                        ledger.returning_bytes(),
                        ledger.peak_bytes(),
                        ledger.reservations(),
                        of_driver.map_or(0, |buffers| buffers.len() as u64),
                    ];
                    let heap = LIVE.load(Relaxed);
                    let (first, heap_before) = *before.get_or_insert((held, heap));
                    assert_eq!(held, first, "{path} on {kind:?}, step {end}");
                    if kind == EngineKind::Cpu {
                        let grew = heap.saturating_sub(heap_before);
                        // Less than a byte a step: threads hand work over in blocks of 2 KiB that come and go.
                        assert!(grew < 10_000, "{path}: {grew} bytes more at step {end}");
                    }
                }
                assert_eq!(trainer.step(), steps, "{path}");
            });
        }
    }
}

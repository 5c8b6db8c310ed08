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
    Dataset, EngineKind, EvaluationSpec, KnnIndex, KnnSpec, Rate, RowSource, Rows, Trainer,
    evaluate,
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

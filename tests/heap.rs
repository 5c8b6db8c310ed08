//! What the CPU engine really takes of this process's memory: its plan, the result, and little else.
#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be installed with it"
)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nearfar::{EngineKind, EvaluationSpec, KnnIndex, KnnSpec, Rate, RowSource, Rows, evaluate};

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

/// What may come on top of a plan and a result.
const BESIDE: u64 = 8 << 20;

/// Bytes that the work took at most beyond those in use before.
fn peak_of(work: impl FnOnce()) -> u64 {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed) - before
}

// One test: another in the same process would be counted too.
#[test]
fn searches_and_evaluations_take_their_plan_and_little_else() {
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

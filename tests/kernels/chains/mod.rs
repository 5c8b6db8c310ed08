//! No invocation of any kernel takes more than 1,024 steps after each other on hardware: 64 anchors, 65,536 references of 128
//! components and fewer, 100 classes. Counted on the dispatches that the wrappers record, which nothing runs.

mod steps;
mod value;
mod work;

use std::collections::BTreeMap;

use nearfar::kernels::ranks::Block;
use nearfar::kernels::stored::Precision;
use nearfar::kernels::{self, Dispatch, Kernel, knn};
use nearfar::{Commands, Engine, TileShape};

use super::common::gpu_in;
use steps::{Dispatched, longest};
use value::Value;
use work::Work;

/// The most steps of an invocation.
const MOST_STEPS: u64 = 1024;

/// A kernel that no hardware takes.
const SOFTWARE_ALONE: &str = "knn.keep_serial";

const STRIDE: usize = 128;

/// Shape of the data.
#[derive(Clone, Copy, Debug)]
struct Data {
    rows: usize,
    references: usize,
    /// Of each row.
    positives: usize,
}

/// 64 anchors with memories, and with themselves; the last that fits one segment.
const SHAPES: [Data; 5] = [
    of_classes(65_536, 100),
    of_classes(4_096, 100),
    of_classes(1_024, 100),
    of_classes(256, 10),
    of_classes(64, 2),
];

const fn of_classes(references: usize, classes: usize) -> Data {
    Data {
        rows: 64,
        references,
        positives: references / classes,
    }
}

impl Data {
    fn block(&self) -> Block {
        Block {
            first_row: 0,
            rows: self.rows,
            batch: 0,
            first_reference: 0,
            references: self.references,
            stride: STRIDE,
        }
    }

    /// What the data lets a kernel read, as far as loops depend on it.
    fn known(&self, kernel: &str, name: &str) -> Option<Value> {
        let numbers = |numbers: &[usize]| {
            let numbers = numbers.iter().map(|n| Value::U(*n as u32));
            Some(Value::Many(numbers.collect()))
        };
        let number = |n: usize| Some(Value::U(n as u32));
        let (positives, class) = (self.positives, self.positives + 1);
        match (kernel.split('.').next().unwrap_or_default(), name) {
            ("knn", "count" | "counts") => number(knn::VISIT),
            // As many as are asked for, and as many again.
            ("knn", "found") => number(64),
            ("draw", "members") => number(class),
            ("draw", "listed") | ("triplet_loss", "list") => numbers(&[class, class]),
            // anchor, offset, label, first, members, own
            ("triplets", "rows") => numbers(&[0, 0, 0, 0, class, 0]),
            (_, "batch") => numbers(&[0, 0, 0, positives]),
            (_, "counts") => numbers(&[positives, self.references - class]),
            _ => None,
        }
    }
}

/// A piece of the work.
type Piece = fn(&mut Work<'_>);

const PIECES: [Piece; 9] = [
    |work| work.head(),
    |work| work.triplets(Precision::F32),
    |work| work.triplets(Precision::F16),
    |work| work.losses(Precision::F32),
    |work| work.losses(Precision::F16),
    |work| work.triplet_losses(),
    |work| work.swaps(Precision::F32),
    |work| work.row_losses(),
    |work| work.lists(),
];

/// Loops as the swaps above do, and takes long to step through: for the largest data alone.
const SWAPS_IN_HALVES: Piece = |work| work.swaps(Precision::F16);

/// The kernels of some work and the most steps of an invocation of each. Of windows that follow each other the first two and the last
/// count.
fn steps_of(engine: &Engine, data: Data, piece: Piece) -> Vec<(&'static Kernel, u64)> {
    let mut work = Work {
        engine,
        data,
        commands: engine.commands(),
    };
    piece(&mut work);
    let Commands::Gpu(commands) = work.commands else {
        panic!("a GPU was opened");
    };
    let recorded: Vec<_> = commands.recorded().collect();
    let runs = recorded.chunk_by(|(a, _), (b, _)| std::ptr::eq(a.kernel, b.kernel));
    let of_run = |run: &[(&Dispatch, &[u8])]| {
        let kernel = run[0].0.kernel;
        let module = naga::front::wgsl::parse_str(&kernel.source.concat()).expect("is WGSL");
        let known = |name: &str| data.known(kernel.name, name);
        let ends = { run.iter() }.take(2).chain(run.last());
        let steps = ends.map(|(dispatch, params)| {
            let dispatched = Dispatched {
                entry: kernel.entry,
                workgroup_size: dispatch.workgroup_size,
                grid: dispatch.grid,
                params,
            };
            longest(&module, &dispatched, &known).unwrap_or(u64::MAX)
        });
        (kernel, steps.max().unwrap_or(0))
    };
    runs.map(of_run).collect()
}

#[test]
fn no_invocation_takes_more_than_1024_steps_on_hardware() {
    let engine = gpu_in(TileShape::Tile, 64 << 20);
    let mut found: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    let all = { SHAPES.into_iter() }.flat_map(|data| PIECES.map(|piece| (data, piece)));
    for (data, piece) in all.chain([(SHAPES[0], SWAPS_IN_HALVES)]) {
        for (kernel, steps) in steps_of(&engine, data, piece) {
            let most = found.entry(kernel.name).or_default();
            *most = (*most).max((steps, data.references));
        }
    }
    for (name, (steps, references)) in &found {
        println!("{name:40} {steps:6} {references:6} references");
    }
    let long: Vec<_> = { found.iter() }
        .filter(|(_, (steps, _))| *steps > MOST_STEPS)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
    for kernel in kernels::ALL {
        let counted = found.contains_key(kernel.name);
        assert_eq!(counted, kernel.name != SOFTWARE_ALONE, "{}", kernel.name);
    }
}

/// The most steps of an invocation in a workgroup of 256 that runs these lines; `count` is 5,000, and `known` holds 300.
fn planted(lines: &str) -> Option<u64> {
    let source = format!(
        "override WORKGROUP_SIZE: u32;
        struct Params {{ count: u32 }}
        @group(0) @binding(0) var<uniform> params: Params;
        @group(0) @binding(1) var<storage, read> known: array<vec2u>;
        @group(0) @binding(2) var<storage, read_write> sum: array<u32>;
        fn add(first: u32, end: u32) {{ for (var i = first; i < end; i++) {{ sum[i] += i; }} }}
        @compute @workgroup_size(WORKGROUP_SIZE)
        fn main(@builtin(local_invocation_index) lane: u32) {{ {lines} }}"
    );
    let module = naga::front::wgsl::parse_str(&source).expect("is WGSL");
    let dispatched = Dispatched {
        entry: "main",
        workgroup_size: 256,
        grid: [1, 1],
        params: &5000u32.to_le_bytes(),
    };
    let known = |name: &str| {
        let numbers = || Value::Many(vec![Value::U(300), Value::Unknown]);
        (name == "known").then(numbers)
    };
    longest(&module, &dispatched, &known)
}

#[test]
fn steps_that_are_planted_are_counted() {
    assert_eq!(planted("sum[lane] = 1u;"), Some(0));
    assert_eq!(planted("add(0u, params.count);"), Some(5000));
    assert_eq!(
        planted("for (var i = lane; i < params.count; i += WORKGROUP_SIZE) { sum[i] = i; }"),
        Some(20)
    );
    // A round of an outer loop is the steps of its inner one.
    let segments =
        "for (var s = 0u; s < params.count; s += 256u) { add(s, min(s + 256u, params.count)); }";
    assert_eq!(planted(segments), Some(5000));
    assert_eq!(planted("add(0u, known[lane].x); add(0u, 9u);"), Some(309));
    // What is not known: the longer way, and no way out.
    assert_eq!(
        planted("if sum[0] > 1u { add(0u, 7u); } else { add(0u, 8u); }"),
        Some(8)
    );
    assert_eq!(
        planted("for (var i = 0u; i < 9u; i++) { if sum[i] > 1u { break; } sum[i] = i; }"),
        Some(9)
    );
    assert_eq!(planted("add(0u, min(known[0].y, 40u));"), Some(40));
    assert_eq!(planted("add(0u, known[0].y);"), None);
    // A search by halves.
    let search = "var low = 0u; var high = 1024u;
        while low < high {
          let middle = (low + high) / 2u;
          if sum[middle] > 1u { low = middle + 1u; } else { high = middle; }
        }";
    assert_eq!(planted(search), Some(11));
}

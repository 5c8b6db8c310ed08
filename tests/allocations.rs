//! Failed allocations, one or all from it on, at each place that allocates: an error with numbers, no panic, no abort, no leak, and
//! the same result the next time. On the host the allocator fails, on a device its driver.
#![allow(
    unsafe_code,
    reason = "an allocator that refuses can only be installed with it"
)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::open;
use nearfar::{
    Checkpoint, Dataset, EngineKind, Error, KnnIndex, NamedFile, Origin, Piece, Result, Results,
    RowSource, RowsOf, Run, Taken, TrainConfig,
};

/// Fails only allocations that may fail: others would end the process, which the command line reports.
struct Refusing;

/// Requests that may be refused, so far.
static ASKED: AtomicU64 = AtomicU64::new(0);
/// Number of the allocation that fails.
static REFUSED: AtomicU64 = AtomicU64::new(u64::MAX);
/// All later allocations fail, too.
static FOR_GOOD: AtomicBool = AtomicBool::new(false);

fn is_refused() -> bool {
    if !nearfar::may_fail() {
        return false;
    }
    let (asked, refused) = (
        ASKED.fetch_add(1, Ordering::Relaxed),
        REFUSED.load(Ordering::Relaxed),
    );
    asked == refused || asked > refused && FOR_GOOD.load(Ordering::Relaxed)
}

// SAFETY: everything is handed on to the system's allocator as it came, or refused, which every caller must expect.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if is_refused() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// One test at a time: the allocator is that of the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// A piece of work, and its results as bytes.
type Work<'a> = (&'a str, &'a dyn Fn() -> Result<Vec<u8>>);

/// Fails each allocation of a piece of work, once and with all later ones; `refuse` arms the failure, or disarms it, and returns
/// the number of allocations since. Returns the number of failures that were seen.
fn refuse_everywhere((what, work): Work<'_>, refuse: &dyn Fn(Option<u64>, bool) -> u64) -> u64 {
    refuse(None, false);
    let expected = work().expect("there is memory");
    let asked = refuse(None, false);
    assert!(asked > 0, "{what} asks for none");
    let mut refusals = 0;
    for for_good in [false, true] {
        for place in 0..asked {
            refuse(Some(place), for_good);
            let done = work();
            refuse(None, false);
            match done {
                // Work that succeeds without the memory has the right result.
                Ok(bytes) => assert!(bytes == expected, "{what}, {place}: another result"),
                Err(Error::NoMemory { .. } | Error::Device(_)) => refusals += 1,
                Err(error) => panic!("{what}, {place}: {error}"),
            }
        }
        assert!(
            work().expect("there is memory again") == expected,
            "{what}: another result afterwards"
        );
    }
    refusals
}

fn digits() -> (Rc<Dataset>, TrainConfig) {
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let sets = [
        "steps=6",
        "evaluate_every=3",
        "batch_size=12",
        "memory_size=60",
        "hidden_layers=[8]",
        "embedding_size=6",
        "evaluate_queries=40",
        "evaluate_rows=80",
        "test_queries=60",
    ];
    let config = sets.iter().fold(TrainConfig::default(), |config, set| {
        config.with_set(set).expect("sets")
    });
    (Rc::new(dataset), config)
}

async fn finish(run: &mut Run) -> Result<Vec<u8>> {
    while !run.is_finished() {
        run.next(2).await?;
    }
    let layers = run.trainer().weights().await?;
    let values = layers
        .iter()
        .flat_map(|layer| layer.weight.iter().chain(&layer.bias));
    let mut bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
    let mut report = run.report();
    report.elapsed_ms = 0.0;
    report.memory = nearfar::MemoryReport::default();
    bytes.extend(serde_json::to_vec(&report).expect("plain data"));
    Ok(bytes)
}

#[test]
fn the_host_may_refuse_memory_anywhere() {
    let _turn = TURN.lock().expect("nobody fails while holding it");
    let refuse = |place: Option<u64>, for_good: bool| {
        REFUSED.store(u64::MAX, Ordering::Relaxed);
        FOR_GOOD.store(for_good, Ordering::Relaxed);
        let asked = ASKED.swap(0, Ordering::Relaxed);
        REFUSED.store(place.unwrap_or(u64::MAX), Ordering::Relaxed);
        asked
    };
    let (dataset, config) = digits();
    let engine = || open(EngineKind::Cpu, 64 << 20);
    let train = || {
        pollster::block_on(async {
            finish(&mut Run::new(engine(), Rc::clone(&dataset), config.clone()).await?).await
        })
    };
    let stopped = {
        let run = pollster::block_on(async {
            let mut run = Run::new(engine(), Rc::clone(&dataset), config.clone()).await?;
            while run.step() < 3 {
                run.next(3).await?;
            }
            Ok::<_, Error>(run)
        });
        run.expect("there is memory")
    };
    let origin = Origin::default();
    let save = || pollster::block_on(stopped.checkpoint(&origin));
    let saved = save().expect("there is memory");
    let resume = || {
        pollster::block_on(async {
            let checkpoint = Checkpoint::read(&saved)?;
            let mut run = Run::resume(engine(), Rc::clone(&dataset), &checkpoint).await?;
            finish(&mut run).await
        })
    };
    let rows = |count: usize| RowSource::Memory {
        values: (0..count * 12).map(|i| (i * 31 % 17) as f32).collect(),
        dim: 12,
    };
    let (references, queries) = (rows(3000), rows(40));
    let search = || {
        pollster::block_on(async {
            let engine = engine();
            let mut index = KnnIndex::new(&engine, &references, Some(&queries), 7).await?;
            let found = index.search(Some(&queries), |_, _| {}).await?;
            Ok(found.ids.iter().flat_map(|id| id.to_le_bytes()).collect())
        })
    };
    let packed = nearfar::archive(&[nearfar::TakenFile {
        path: nearfar::CHECKPOINT.to_owned(),
        bytes: saved.clone(),
    }]);
    let packed = packed.expect("is made");
    let unpack = || {
        nearfar::saved_run(NamedFile {
            name: "a.zip".to_owned(),
            bytes: packed.clone(),
        })
    };
    let take_home = || {
        pollster::block_on(async {
            let checkpoint = Checkpoint::read(&saved)?;
            let mut run = Run::resume(engine(), Rc::clone(&dataset), &checkpoint).await?;
            finish(&mut run).await?;
            let mut taken = Taken::of(&mut run).await?;
            taken.embed(&mut run, RowsOf::Test).await?;
            let results = Results::new(taken)?;
            let files = Piece::Onnx.files(&results)?;
            let rows = Piece::Npy.files(&results)?;
            Ok([&files[0].bytes[..], &rows[0].bytes].concat())
        })
    };
    let mut seen = 0;
    for work in [
        ("training", &train as &dyn Fn() -> Result<Vec<u8>>),
        ("going on", &resume),
        ("searching", &search),
        ("unpacking", &unpack),
        ("taking home", &take_home),
    ] {
        let refusals = refuse_everywhere(work, &refuse);
        println!("{}: {refusals} refusals", work.0);
        seen += refusals;
    }
    seen += refuse_everywhere(("saving", &save), &refuse);
    println!("{seen} refusals in all");
    assert!(seen >= 300, "{seen} refusals");
}

#[test]
fn a_device_may_refuse_memory_anywhere() {
    let _turn = TURN.lock().expect("nobody fails while holding it");
    let (dataset, config) = digits();
    let gpu = || open(EngineKind::Gpu, 64 << 20);
    let train = |place: Option<u64>, for_good: bool| {
        let engine = gpu();
        engine.refuse_memory(place, for_good);
        pollster::block_on(async {
            finish(&mut Run::new(engine, Rc::clone(&dataset), config.clone()).await?).await
        })
    };
    let rows = |count: usize| RowSource::Memory {
        values: (0..count * 12).map(|i| (i * 31 % 17) as f32).collect(),
        dim: 12,
    };
    let (references, queries) = (rows(3000), rows(40));
    // One device for all searches: a failed allocation leaves it intact.
    let engine = gpu();
    let fixed = engine.ledger().live_bytes();
    let search = |place: Option<u64>, for_good: bool| {
        engine.refuse_memory(place, for_good);
        let found = pollster::block_on(async {
            let mut index = KnnIndex::new(&engine, &references, Some(&queries), 7).await?;
            let found = index.search(Some(&queries), |_, _| {}).await?;
            Ok(found.ids.iter().flat_map(|id| id.to_le_bytes()).collect())
        });
        engine.refuse_memory(None, false);
        pollster::block_on(engine.settle()).expect("the device is there");
        assert_eq!(engine.ledger().live_bytes(), fixed, "nothing is kept back");
        found
    };
    for (what, work) in [
        (
            "training",
            &train as &dyn Fn(Option<u64>, bool) -> Result<Vec<u8>>,
        ),
        ("searching", &search),
    ] {
        let expected = work(None, false).expect("there is memory");
        let (mut refusals, mut without) = (0, 0);
        for place in 0..8 {
            for for_good in [false, true] {
                match work(Some(place), for_good) {
                    Err(Error::Device(why)) => {
                        assert!(
                            why.contains("could not provide the memory"),
                            "{what}: {why}"
                        );
                        refusals += 1;
                    }
                    Err(error) => panic!("{what}, {place}: {error}"),
                    Ok(bytes) => {
                        assert!(bytes == expected, "{what}, {place}: another result");
                        without += 1;
                    }
                }
            }
        }
        // The last places are past its last allocation.
        assert!(
            refusals >= 2 && without >= 2,
            "{what}: {refusals} refused, {without} not"
        );
        assert!(
            work(None, false).expect("there is memory again") == expected,
            "{what}"
        );
    }
}

/// Address space of this process, in bytes.
#[cfg(target_os = "linux")]
fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmSize:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        << 10
}

/// Limits the address space of this process to `bytes`; `None` removes the limit.
#[cfg(target_os = "linux")]
fn limit_address_space(bytes: Option<u64>) {
    let soft = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    let status = std::process::Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string()])
        .arg(format!("--as={soft}:"))
        .status();
    assert!(status.expect("util-linux is there").success());
}

/// Set in the child process that runs with limited memory.
#[cfg(target_os = "linux")]
const LIMITED: &str = "NEARFAR_LIMITED";

// A software GPU takes its memory from the address space of the process: under a limit on that, the driver reports that there is
// none left. The limit holds for a whole process, so the test runs in a child process.
#[cfg(target_os = "linux")]
#[test]
fn a_driver_that_has_no_more_memory_is_heard() {
    if std::env::var_os(LIMITED).is_some() {
        return run_out_of_memory();
    }
    let program = std::env::current_exe().expect("this program");
    let name = "a_driver_that_has_no_more_memory_is_heard";
    let ran = std::process::Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(LIMITED, "1")
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
}

#[cfg(target_os = "linux")]
fn run_out_of_memory() {
    let (dataset, config) = digits();
    let engine = open(EngineKind::Gpu, 4 << 30);
    if !engine.info().software {
        // The memory of a card is its own.
        return;
    }
    let bank = config
        .with_set("memory_size=1000000")
        .and_then(|config| config.with_set("embedding_size=32"))
        .expect("sets");
    limit_address_space(Some(address_space() + (96 << 20)));
    let refused = pollster::block_on(Run::new(engine, Rc::clone(&dataset), bank));
    limit_address_space(None);
    match refused {
        Err(Error::Device(why)) => assert!(
            why.contains("could not provide the memory that the budget allows"),
            "{why}"
        ),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("122 MiB of memory bank were found in 96"),
    }
    let engine = open(EngineKind::Gpu, 64 << 20);
    pollster::block_on(async {
        let mut run = Run::new(engine, dataset, config).await?;
        finish(&mut run).await
    })
    .expect("there is memory again");
}

//! Numbers of waits for a GPU, and of submits: in some browsers a wait costs 100 ms, whatever it is for.

use std::rc::Rc;

use crate::common::{engines, gpu_in, open, random_rows, rng};
use nearfar::{
    CompareConfig, CompareProgress, Comparison, Contest, Dataset, Distance, Engine, EngineKind,
    KnnIndex, ListingSpec, Loss, Miner, Origin, Progress, RowSource, Rows, Run, Side, TileShape,
    Trainer, Wanted, checksum, evaluate, mine,
};

/// A trainer on the digits, with a small memory.
async fn trainer(engine: Engine) -> Trainer {
    let dataset = Rc::new(Dataset::sample("digits", 0).expect("is there"));
    let config = dataset.default_config();
    let config = config.with_set("memory_size=256").expect("sets");
    Trainer::new(engine, dataset, config).await.expect("fits")
}

/// Waits and submits so far.
fn counts(engine: &Engine) -> [u64; 2] {
    [engine.waits(), engine.submits()]
}

#[test]
fn steps_that_are_taken_together_come_back_with_a_wait_or_two() {
    pollster::block_on(async {
        let mut trainer = trainer(open(EngineKind::Gpu, 256 << 20)).await;
        let mut most = 0;
        for _ in 0..8 {
            let before = counts(trainer.engine());
            most = most.max(trainer.advance(u64::MAX).await.expect("steps").len());
            let [waits, submits] = counts(trainer.engine());
            // A second one only if the pace was not known and the work took longer than three slices.
            assert!(waits - before[0] <= 2, "{} waits", waits - before[0]);
            assert!(submits - before[1] <= 8, "{} submits", submits - before[1]);
        }
        assert!(most > 1, "steps are taken together");
    });
}

#[test]
fn both_sides_are_scored_and_a_map_is_placed_in_one_wait() {
    pollster::block_on(async {
        let mut trainer = trainer(fast_gpu()).await;
        let rows = trainer.sides().of(Side::Validation).to_vec();
        // The first takes one more wait if the pace is not known.
        trainer.evaluate().await.expect("scores");
        let before = counts(trainer.engine());
        let (together, placed) = trainer.evaluate_and_embed(&rows).await.expect("scores");
        let [waits, submits] = counts(trainer.engine());
        assert_eq!(waits - before[0], 1);
        assert!(submits - before[1] <= 4, "{} submits", submits - before[1]);
        assert_eq!(together, trainer.evaluate().await.expect("scores"));
        assert_eq!(placed, trainer.embed(&rows).await.expect("embeds"));
    });
}

#[test]
fn a_small_search_is_one_submit_and_one_wait() {
    let rows = |count: usize| RowSource::Memory {
        values: (0..count * 12).map(|i| (i * 31 % 17) as f32).collect(),
        dim: 12,
    };
    let engine = open(EngineKind::Gpu, 256 << 20);
    pollster::block_on(async {
        for (references, queries) in [(rows(3000), Some(rows(40))), (rows(300), None)] {
            let index = KnnIndex::new(&engine, &references, queries.as_ref(), 7).await;
            let mut index = index.expect("fits");
            let before = counts(&engine);
            let found = index.search(queries.as_ref(), |_, _| {}).await;
            let [waits, submits] = counts(&engine);
            assert_eq!(found.expect("searches").k, 7);
            assert_eq!([waits - before[0], submits - before[1]], [1, 1]);
        }
    });
}

#[test]
fn nobody_waits_for_nothing() {
    for engine in engines() {
        let before = engine.waits();
        pollster::block_on(async {
            engine.settle().await.expect("settles");
            engine.settle().await.expect("settles");
        });
        assert_eq!(engine.waits(), before);
    }
}

/// Random rows in memory.
fn rows(seed: u64, count: usize, dim: usize) -> RowSource {
    RowSource::Memory {
        values: random_rows(&mut rng(seed), count, dim),
        dim,
    }
}

/// A GPU that is assumed to do 10 TFLOP/s. Work is cut into slices of 50 ms, so that counts depend on its speed: here a software
/// adapter gets the slices of hardware, much longer than by its own speed.
fn fast_gpu() -> Engine {
    let engine = open(EngineKind::Gpu, 256 << 20);
    engine.hold_pace(1e10);
    engine
}

/// The same with work cut into workgroups as on hardware.
fn gpu_as_on_hardware() -> Engine {
    let engine = gpu_in(TileShape::Tile, 256 << 20);
    engine.hold_pace(1e10);
    engine
}

#[test]
fn a_search_takes_a_handful_of_dispatches_and_a_submit_a_mebibyte() {
    let (references, queries) = (rows(1, 100_000, 128), rows(2, 1000, 128));
    let one = rows(3, 1, 128);
    let engine = fast_gpu();
    pollster::block_on(async {
        let mut index = KnnIndex::new(&engine, &references, Some(&queries), 10)
            .await
            .expect("fits");
        let before = engine.submits();
        // Brings the references in.
        index.search(Some(&one), |_, _| {}).await.expect("searches");
        let dispatches = engine.dispatches();
        index
            .search(Some(&queries), |_, _| {})
            .await
            .expect("searches");
        let (submits, dispatches) = (engine.submits() - before, engine.dispatches() - dispatches);
        println!("{submits} submits, {dispatches} dispatches");
        assert!(submits <= 120, "{submits} submits");
        assert!(dispatches <= 8, "{dispatches} dispatches");
    });
}

#[test]
fn a_few_queries_among_many_references_are_one_pass() {
    let references = rows(7, 100_000, 128);
    let engine = gpu_as_on_hardware();
    for count in [1, 8] {
        let queries = rows(8, count, 128);
        pollster::block_on(async {
            let index = KnnIndex::new(&engine, &references, Some(&queries), 10).await;
            let mut index = index.expect("fits");
            let mut found = Vec::new();
            // The first search brings the references in.
            for _ in 0..2 {
                let (before, dispatches) = (counts(&engine), engine.dispatches());
                let nearest = index.search(Some(&queries), |_, _| {}).await;
                let [waits, submits] = counts(&engine);
                let dispatches = engine.dispatches() - dispatches;
                found.push((nearest.expect("searches"), dispatches));
                if found.len() == 2 {
                    println!("{count} queries: {dispatches} dispatches");
                    assert_eq!([waits - before[0], submits - before[1]], [1, 1]);
                    // Brings the queries in, and clears what they keep; one pass over all references; the best of that.
                    assert_eq!(dispatches, 4);
                }
            }
            assert_eq!(found[0].0, found[1].0);
        });
    }
}

#[test]
fn blocks_of_queries_are_searched_while_nobody_waits() {
    // Five blocks of 4,096 queries at most.
    let (references, queries) = (rows(9, 300, 12), rows(10, 17_000, 12));
    let engine = fast_gpu();
    pollster::block_on(async {
        let index = KnnIndex::new(&engine, &references, Some(&queries), 7).await;
        let mut index = index.expect("fits");
        let (before, mut heard) = (engine.waits(), Vec::new());
        let found = index
            .search(Some(&queries), |done, _| heard.push(done))
            .await;
        let waits = engine.waits() - before;
        println!("{waits} waits");
        assert_eq!(found.expect("searches").ids.len(), 7 * 17_000);
        assert_eq!(heard, [4096, 8192, 12_288, 16_384, 17_000]);
        assert!(waits <= 2, "{waits} waits");
    });
}

#[test]
fn an_evaluation_takes_three_submits_for_a_thousand_queries() {
    let known = rows(4, 4000, 16);
    for classes in [10, 100] {
        let labels: Vec<String> = (0..4000).map(|i| (i % classes).to_string()).collect();
        let engine = fast_gpu();
        let own = Rows {
            rows: &known,
            labels: &labels,
        };
        let before = counts(&engine);
        pollster::block_on(evaluate(&engine, own, None, &[], |_, _| {})).expect("scores");
        let [waits, submits] = counts(&engine);
        let [waits, submits] = [waits - before[0], submits - before[1]];
        println!("{classes} classes: {submits} submits, {waits} waits");
        assert!(submits <= 3 * 4, "{classes} classes: {submits} submits");
    }
}

#[test]
fn mining_and_listing_are_cut_by_what_the_engine_can_do_from_the_start() {
    let (anchors, known) = (rows(5, 64, 16), rows(6, 5000, 16));
    let labels = |count: usize| (0..count).map(|i| (i % 50).to_string()).collect::<Vec<_>>();
    let (anchor_labels, known_labels) = (labels(64), labels(5000));
    let side = |rows, labels| Rows { rows, labels };
    let miner = Miner::default();
    // Submits of a mining, of the list of every triplet and of the list of those that are mined.
    let submits = |operations_per_ms: f64| {
        let engine = open(EngineKind::Gpu, 256 << 20);
        engine.hold_pace(operations_per_ms);
        let own = side(&anchors, &anchor_labels);
        let others = Some(side(&known, &known_labels));
        pollster::block_on(async {
            let started = engine.submits();
            let (wanted, distance) = (Wanted::Counts, Distance::Cosine);
            let mined = mine(&engine, own, others, &miner, distance, wanted, |_, _| {}).await;
            let mined_submits = engine.submits() - started;
            let mut counts = vec![mined.expect("mines").mining.valid];
            let mut all = vec![mined_submits];
            for miner in [Miner::None, Miner::default()] {
                let started = engine.submits();
                let window = ListingSpec::WINDOW_BYTES;
                let listed = checksum(&engine, own, others, &miner, distance, window).await;
                counts.push(listed.expect("lists").0);
                all.push(engine.submits() - started);
            }
            (all, counts)
        })
    };
    let ((slow, slow_counts), (fast, fast_counts)) = (submits(1e5), submits(1e10));
    println!("submits: {slow:?} on a slow GPU, {fast:?} on a fast one");
    assert_eq!(slow_counts, fast_counts);
    for (slow, fast) in slow.iter().zip(&fast) {
        assert!(
            fast < slow,
            "{fast} submits, {slow} where the engine is slow"
        );
    }
}

#[test]
fn a_step_of_the_default_recipe_takes_eight_dispatches_and_many_share_a_submit() {
    let of_a_step = |sets: &[&str]| {
        let dataset = Rc::new(Dataset::sample("mirrored", 0).expect("is there"));
        let config = sets.iter().fold(dataset.default_config(), |config, set| {
            config.with_set(set).expect("sets")
        });
        let engine = gpu_as_on_hardware();
        pollster::block_on(async {
            let trainer = Trainer::new(engine.clone(), dataset, config).await;
            let mut trainer = trainer.expect("fits");
            let before = (engine.dispatches(), engine.submits());
            let steps = trainer.advance(u64::MAX).await.expect("steps").len() as u64;
            let (dispatches, submits) = (engine.dispatches(), engine.submits());
            assert!(steps >= 16, "{sets:?}: {steps} steps");
            assert!(submits - before.1 <= steps / 8, "{sets:?}");
            let dispatches = dispatches - before.0;
            assert!(dispatches.is_multiple_of(steps), "{sets:?}");
            dispatches / steps
        })
    };
    let recipe = [
        "batch_size=64",
        "hidden_layers=[256]",
        "embedding_size=64",
        "memory_size=1024",
        "loss.name=triplet-margin",
        "miner.type_of_triplets=semihard",
    ];
    assert_eq!(of_a_step(&recipe), of_a_step(&[]), "the default recipe");
    for (sets, most) in [
        (&recipe[..], 8),
        (&["center_gradient=true"], 8),
        (&["memory_size=0"], 8),
        (&["hidden_layers=[]"], 7),
        (&["hidden_layers=[256,256]"], 10),
    ] {
        let dispatches = of_a_step(sets);
        println!("{sets:?}: {dispatches} dispatches");
        assert!(dispatches <= most, "{sets:?}: {dispatches} dispatches");
    }
}

#[test]
fn the_default_demo_is_waited_for_forty_times_at_most() {
    pollster::block_on(async {
        let dataset = Rc::new(Dataset::sample("mirrored", 0).expect("is there"));
        let config = dataset.default_config();
        let engine = fast_gpu();
        let run = Run::new(engine.clone(), dataset, config).await;
        let mut run = run.expect("fits").watched();
        while !run.is_finished() {
            match run.next(u64::MAX).await.expect("goes on") {
                Progress::Steps(_) => {}
                Progress::Evaluated(_) | Progress::Finished => {
                    drop(run.map().await.expect("is placed"));
                }
            }
        }
        let [waits, submits] = counts(&engine);
        println!("{waits} waits, {submits} submits");
        assert!(waits <= 40, "{waits} waits");
        run.checkpoint(&Origin::default()).await.expect("is saved");
        assert_eq!(engine.waits() - waits, 1, "all its arrays come together");
    });
}

#[test]
fn a_comparison_of_many_runs_is_waited_for_a_few_times_a_run() {
    pollster::block_on(async {
        let asked = CompareConfig {
            sets: vec!["steps=80".to_owned()],
            ..CompareConfig::default()
        };
        let config = asked.of_data().expect("is there");
        let dataset = Dataset::sample("mirrored", config.data_seed()).expect("is there");
        let contest = Contest::new(&dataset, &asked).expect("holds");
        let engine = fast_gpu();
        let comparison = Comparison::new(engine.clone(), Rc::new(dataset), contest);
        let mut comparison = comparison.expect("fits");
        while comparison.next(u64::MAX).await.expect("goes on") != CompareProgress::Finished {}
        let [waits, submits] = counts(&engine);
        println!("{waits} waits, {submits} submits");
        let [runs, all] = comparison.report().runs;
        assert!(runs == all && runs >= 12, "{runs} runs of {all}");
        // 95 were counted.
        assert!(waits <= 160, "{waits} waits");
    });
}

#[test]
fn work_compiles_what_it_needs_before_it_starts_and_no_more() {
    let data = |rows: usize| RowSource::Memory {
        values: random_rows(&mut rng(1), rows, 16),
        dim: 16,
    };
    pollster::block_on(async {
        let engine = open(EngineKind::Gpu, 64 << 20);
        let (references, queries) = (data(3000), data(200));
        let mut index = KnnIndex::new(&engine, &references, Some(&queries), 5)
            .await
            .expect("fits");
        let before = engine.compiled().len();
        index.search(Some(&queries), |_, _| {}).await.expect("runs");
        let few = before <= 15 && engine.compiled().len() == before;
        assert!(few, "{before}, then {:?}", engine.compiled());
        for sets in [
            &[][..],
            &["hidden_layers=[]"],
            &["loss=contrastive", "miner=pair-margin"],
            &["loss=margin", "miner=distance-weighted"],
            &["loss=multi-similarity", "miner=multi-similarity"],
            &["loss=arc-face"],
            &["loss=soft-triple"],
            &["loss=nt-xent", "miner=none", "memory_size=0"],
            &["miner=batch-hard"],
            &["miner=facenet-semihard"],
            &[
                "loss=proxy-anchor",
                "miner=multi-similarity",
                "miner_weights=true",
            ],
            &["dropout=0.5", "center_gradient=true"],
        ] {
            let dataset = Rc::new(Dataset::sample("mirrored", 0).expect("is there"));
            let mut config = dataset.default_config();
            for set in sets {
                config = config.with_set(set).expect("sets");
            }
            let engine = open(EngineKind::Gpu, 256 << 20);
            let mut trainer = Trainer::new(engine, dataset, config).await.expect("fits");
            let before = trainer.engine().compiled();
            while trainer.step() < 3 {
                trainer.advance(3).await.expect("steps");
            }
            trainer.evaluate().await.expect("scores");
            let mut late = trainer.engine().compiled();
            late.retain(|name| !before.contains(name));
            assert!(late.is_empty(), "{sets:?}: {late:?}");
            let most = if sets.is_empty() { 35 } else { 55 };
            assert!(before.len() <= most, "{sets:?}: {} kernels", before.len());
        }
    });
}

/// Rows of so many classes, in turn.
fn in_classes(count: usize, classes: usize) -> Vec<String> {
    (0..count).map(|i| (i % classes).to_string()).collect()
}

/// Fails if there were more than 12 submits or 4 waits since then.
fn assert_few(engine: &Engine, [waits, submits]: [u64; 2]) {
    let now = counts(engine);
    let (waits, submits) = (now[0] - waits, now[1] - submits);
    println!("{submits} submits, {waits} waits");
    assert!(
        submits <= 12 && waits <= 4,
        "{submits} submits, {waits} waits"
    );
}

#[test]
fn a_loss_with_many_references_sends_them_in_a_few_submits_and_waits_four_times() {
    let (anchors, known) = (rows(5, 2, 128), rows(6, 65_536, 128));
    let (anchor_labels, known_labels) = (in_classes(2, 64), in_classes(65_536, 64));
    let engine = fast_gpu();
    let own = Rows {
        rows: &anchors,
        labels: &anchor_labels,
    };
    let others = Rows {
        rows: &known,
        labels: &known_labels,
    };
    for loss in ["triplet-margin", "multi-similarity"] {
        let loss: Loss =
            serde_json::from_str(&format!("{{\"name\": \"{loss}\"}}")).expect("a loss");
        let before = counts(&engine);
        let mined = pollster::block_on(mine(
            &engine,
            own,
            Some(others),
            &Miner::None,
            Distance::Cosine,
            Wanted::Gradient(&loss),
            |_, _| {},
        ));
        mined.expect("mines");
        assert_few(&engine, before);
    }
}

#[test]
fn an_evaluation_with_many_references_waits_four_times() {
    let (asking, known) = (rows(5, 32, 128), rows(6, 20_000, 128));
    let (asking_labels, known_labels) = (in_classes(32, 64), in_classes(20_000, 64));
    let engine = fast_gpu();
    let before = counts(&engine);
    let scored = pollster::block_on(evaluate(
        &engine,
        Rows {
            rows: &asking,
            labels: &asking_labels,
        },
        Some(Rows {
            rows: &known,
            labels: &known_labels,
        }),
        &[],
        |_, _| {},
    ));
    scored.expect("scores");
    assert_few(&engine, before);
}

#[test]
fn a_list_of_every_triplet_comes_in_windows_that_nobody_waits_for() {
    let known = rows(6, 6000, 4);
    let labels = in_classes(6000, 10);
    let side = Rows {
        rows: &known,
        labels: &labels,
    };
    let anchors = rows(7, 4, 4);
    let anchor_labels = in_classes(4, 10);
    let engine = fast_gpu();
    let before = counts(&engine);
    let listed = pollster::block_on(checksum(
        &engine,
        Rows {
            rows: &anchors,
            labels: &anchor_labels,
        },
        Some(side),
        &Miner::None,
        Distance::Cosine,
        ListingSpec::WINDOW_BYTES,
    ));
    let (triplets, _) = listed.expect("lists");
    assert_eq!(triplets, 4 * 600 * 5400);
    assert_few(&engine, before);
}

//! Tile shapes of a GPU: no result depends on the shape.

use std::rc::Rc;

use crate::common::{engines, random_rows, rng};
use nearfar::{
    Dataset, Distance, Engine, EngineChoice, EngineKind, KnnIndex, ListingSpec, Loss, Miner,
    RowSource, Rows, TileShape, Trainer, Wanted, checksum, evaluate, mine, tune,
};

fn rows(seed: u64, count: usize, dim: usize) -> RowSource {
    RowSource::Memory {
        values: random_rows(&mut rng(seed), count, dim),
        dim,
    }
}

/// Bits of floats, to compare.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Results of a search, an evaluation, a mining with its gradient, a list and a training with this shape, as bits.
async fn results(shape: TileShape) -> Vec<Vec<u32>> {
    let choice = EngineChoice {
        kind: Some(EngineKind::Gpu),
        shape: Some(shape),
        ..EngineChoice::default()
    };
    let open = async || Engine::open(&choice, 256 << 20).await.expect("opens");
    let engine = open().await;
    assert_eq!(engine.info().shape, Some(shape));
    let (known, asking) = (rows(1, 1500, 20), rows(2, 130, 20));
    let mut all = Vec::new();
    let few = rows(3, 5, 20);
    let index = KnnIndex::new(&engine, &known, Some(&few), 7).await;
    let found = index
        .expect("fits")
        .search(Some(&few), |_, _| {})
        .await
        .expect("searches");
    all.extend([found.ids, bits(&found.similarities)]);
    let timed = engine.start_timer();
    for queries in [Some(&asking), None] {
        let index = KnnIndex::new(&engine, &known, queries, 7).await;
        let found = index.expect("fits").search(queries, |_, _| {}).await;
        let found = found.expect("searches");
        all.extend([found.ids, bits(&found.similarities)]);
    }
    // If the GPU has timestamps, they show that this shape was used, and no other.
    if timed {
        let kernels = engine
            .stop_timer()
            .await
            .expect("reads")
            .expect("timed")
            .kernels;
        let ran = |shape: TileShape| kernels.iter().any(|k| k.kernel == format!("knn.{shape}"));
        for one in TileShape::ALL {
            assert_eq!(ran(one), one == shape, "{one} where {shape} was asked for");
        }
    }
    let labels =
        |count: usize| -> Vec<String> { (0..count).map(|i| (i % 9).to_string()).collect() };
    let (known_labels, asking_labels) = (labels(1500), labels(130));
    let references = Rows {
        rows: &known,
        labels: &known_labels,
    };
    let own = Rows {
        rows: &asking,
        labels: &asking_labels,
    };
    let scored = evaluate(&engine, own, Some(references), &[], |_, _| {}).await;
    let metrics = scored.expect("scores").metrics;
    let metrics = serde_json::to_string(&metrics).expect("plain data");
    all.push(metrics.bytes().map(u32::from).collect());
    let (miner, distance, loss) = (Miner::default(), Distance::Cosine, Loss::default());
    let wanted = Wanted::Gradient(&loss);
    let mined = mine(
        &engine,
        own,
        Some(references),
        &miner,
        distance,
        wanted,
        |_, _| {},
    )
    .await;
    let mined = mined.expect("mines");
    all.push(vec![
        (mined.loss as f32).to_bits(),
        mined.mining.mined as u32,
    ]);
    all.push(bits(&mined.gradient));
    let window = ListingSpec::WINDOW_BYTES;
    let listed = checksum(&engine, own, Some(references), &miner, distance, window).await;
    let (count, sum) = listed.expect("lists");
    all.push(vec![count as u32, sum]);

    let dataset = Rc::new(Dataset::sample("digits", 0).expect("is there"));
    for loss in ["triplet-margin", "multi-similarity"] {
        let mut config = dataset.default_config();
        for setting in ["memory_size=256", &format!("loss={loss}")] {
            config = config.with_set(setting).expect("sets");
        }
        let trainer = Trainer::new(open().await, Rc::clone(&dataset), config).await;
        let mut trainer = trainer.expect("fits");
        while trainer.step() < 12 {
            let left = 12 - trainer.step();
            for report in trainer.advance(left).await.expect("steps") {
                let said = format!("{:?}", (report.loss, report.mining));
                all.push(said.bytes().map(u32::from).collect());
            }
        }
        for layer in trainer.weights().await.expect("reads") {
            all.push(bits(&layer.weight));
        }
    }
    all
}

#[test]
fn every_shape_gives_the_same_bits() {
    let of = |shape| pollster::block_on(results(shape));
    let [first, others @ ..] = TileShape::ALL;
    let expected = of(first);
    assert!(expected.iter().all(|part| !part.is_empty()));
    for shape in others {
        assert!(
            of(shape) == expected,
            "{shape} gives other bits than {first}"
        );
    }
}

#[test]
fn a_tuning_times_every_shape_and_gives_its_memory_back() {
    for engine in engines() {
        let before = engine.ledger().live_bytes();
        let tuned = pollster::block_on(tune(&engine)).expect("runs");
        assert_eq!(engine.ledger().live_bytes(), before);
        assert_eq!(engine.ledger().returning_bytes(), 0);
        assert_eq!(tuned.is_some(), engine.info().engine == "gpu");
        let Some(tuned) = tuned else { continue };
        assert_eq!(tuned.times_ms.len(), TileShape::ALL.len());
        let of = |shape| tuned.times_ms.iter().find(|(timed, _)| *timed == shape);
        let fastest = of(tuned.shape).expect("was timed").1;
        for shape in TileShape::ALL {
            let time = of(shape).expect("was timed").1;
            assert!(0.0 < fastest && fastest <= time, "{tuned:?}");
        }
        let engine = engine.with_tuned_shape(tuned.shape);
        assert_eq!(engine.info().tuned, Some(tuned.shape));
    }
}

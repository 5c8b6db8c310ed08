//! How often a GPU is waited for, and how often it is sent work: in some browsers a wait costs 100 ms, whatever it did.

mod common;

use std::rc::Rc;

use common::{engines, open};
use nearfar::{Dataset, Engine, EngineKind, KnnIndex, RowSource, Side, Trainer};

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
            // A second one only where the pace was not known and the work came out longer than three slices.
            assert!(waits - before[0] <= 2, "{} waits", waits - before[0]);
            assert!(submits - before[1] <= 8, "{} submits", submits - before[1]);
        }
        assert!(most > 1, "steps are taken together");
    });
}

#[test]
fn the_hardest_triplets_that_come_with_the_reports_are_those_that_are_asked_for_later() {
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        pollster::block_on(async {
            let mut asking = trainer(open(kind, 256 << 20)).await;
            let mut picking = trainer(open(kind, 256 << 20)).await;
            picking.pick_hardest();
            for steps in [1, 3, 18] {
                let mut asked = None;
                let mut picked = None;
                while asking.step() < steps {
                    let left = steps - asking.step();
                    asking.advance(left).await.expect("steps");
                    asked = asking.hardest(5).await.expect("reads");
                }
                while picking.step() < steps {
                    let left = steps - picking.step();
                    picking.advance(left).await.expect("steps");
                    let before = picking.engine().waits();
                    picked = picking.hardest(5).await.expect("is there");
                    assert_eq!(picking.engine().waits(), before, "it came before");
                }
                assert!(asked.is_some());
                assert_eq!(asked, picked, "{kind:?}, step {steps}");
            }
        });
    }
}

#[test]
fn both_sides_are_scored_and_a_map_is_placed_in_one_wait() {
    pollster::block_on(async {
        let mut trainer = trainer(open(EngineKind::Gpu, 256 << 20)).await;
        let rows = trainer.sides().of(Side::Validation).to_vec();
        // The first takes a wait more where the pace is not known.
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

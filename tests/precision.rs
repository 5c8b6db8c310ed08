//! Searches that compare in f16 first: every byte is that of the f32 search, and only what is certain is taken over.

mod common;

use common::{Rng, engines, exact_unit_rows, random_rows, rng, tied_unit_rows};
use nearfar::{
    Certified, CertifiedIndex, Engine, EngineChoice, EngineKind, KnnIndex, KnnSpec, Neighbors,
    Rate, RowSource, TileShape,
};
use rand::RngExt as _;

const DIM: usize = 64;

fn source(values: Vec<f32>, dim: usize) -> RowSource {
    RowSource::Memory { values, dim }
}

/// The f32 search.
fn plain(
    engine: &Engine,
    references: &RowSource,
    queries: Option<&RowSource>,
    k: usize,
) -> Neighbors {
    pollster::block_on(async {
        let mut index = KnnIndex::new(engine, references, queries, k).await?;
        index.search(queries, |_, _| {}).await
    })
    .expect("searches")
}

fn certified(
    engine: &Engine,
    references: &RowSource,
    queries: Option<&RowSource>,
    k: usize,
) -> nearfar::Result<(Neighbors, Certified)> {
    pollster::block_on(async {
        let mut index = CertifiedIndex::new(engine, references, queries, k).await?;
        let mut heard = Vec::new();
        let found = index
            .search(queries, |done, all| heard.push((done, all)))
            .await?;
        let rows = queries.unwrap_or(references).rows() as u64;
        assert!(heard.is_sorted(), "{heard:?}");
        assert_eq!(heard.last(), Some(&(rows, rows)));
        Ok(found)
    })
}

/// Whether every id and every bit of every similarity is the same.
fn same_bytes(a: &Neighbors, b: &Neighbors) -> bool {
    let bits = |found: &Neighbors| -> Vec<u32> {
        found.similarities.iter().map(|s| s.to_bits()).collect()
    };
    a.k == b.k && a.ids == b.ids && bits(a) == bits(b)
}

/// Rows around so many centres, each number off by `spread` of a unit row's at most.
fn clusters(rng: &mut Rng, rows: usize, centres: usize, spread: f32) -> Vec<f32> {
    let centres = random_rows(rng, centres, DIM);
    let all = centres.len() / DIM;
    let rows = (0..rows).flat_map(|row| {
        let centre = centres[row % all * DIM..][..DIM].to_vec();
        let near = centre
            .into_iter()
            .map(|value| value + spread * rng.random_range(-1.0..1.0));
        near.collect::<Vec<_>>()
    });
    rows.collect()
}

#[test]
fn searches_give_every_byte_of_the_f32_search() {
    let engines = engines();
    let mut rng = rng(1);
    // Queries, those that were certain, and searches of which some were and some were not.
    let (mut queries, mut certain, mut mixed) = (0, 0, 0);
    for case in 0..80 {
        let m = match case % 20 {
            0 => rng.random_range(1000..2500),
            1..5 => rng.random_range(100..300),
            _ => rng.random_range(1..90),
        };
        let own = case % 3 == 0 && m > 1;
        let most = m - usize::from(own);
        let k = match case % 4 {
            0 => most.min(490),
            1 => 1,
            _ => rng.random_range(1..=most.min(40)),
        };
        let mut rows = |count: usize| match case % 8 {
            0 => exact_unit_rows(&mut rng, 1).repeat(count),
            1 => exact_unit_rows(&mut rng, count),
            2 => tied_unit_rows(&mut rng, count),
            3 => clusters(&mut rng, count, 5, 1e-4),
            4 => clusters(&mut rng, count, 3, 0.01),
            5 => clusters(&mut rng, count, 7, 0.1),
            _ => random_rows(&mut rng, count, DIM),
        };
        let (mut references, asking) = (rows(m), rows(1 + case % 19));
        if case % 7 == 0 {
            let at = case % m;
            references[at * DIM..][..DIM].fill(0.0);
            // And one that stands twice.
            references.copy_within(0..DIM, (m - 1) * DIM);
        }
        let (references, asking) = (source(references, DIM), source(asking, DIM));
        let asking = (!own).then_some(&asking);
        for engine in &engines {
            let expected = plain(engine, &references, asking, k);
            let (found, of) = certified(engine, &references, asking, k).expect("searches");
            assert!(
                same_bytes(&found, &expected),
                "case {case}: {m} references, k {k}, on {}",
                engine.info().engine
            );
            assert_eq!(of.queries, (found.ids.len() / k) as u64);
            assert!(of.certified <= of.queries);
            // All others are candidates: nothing is left to be uncertain of.
            if most <= k + 22 {
                assert_eq!(
                    (of.certified, of.went_on_in_f32),
                    (of.queries, false),
                    "case {case}"
                );
            }
            queries += of.queries;
            certain += of.certified;
            mixed += u64::from(of.certified > 0 && of.certified < of.queries);
        }
    }
    println!("{certain} of {queries} queries were certain, {mixed} searches mixed");
    assert!(certain > 0 && certain < queries && mixed > 4);
}

#[test]
fn the_only_reference_that_is_no_candidate_may_be_the_nearest() {
    // To f16 all references are one: candidates are those with the smallest ids. The query points to where the later ones are
    // nearer, by more than f32 rounds.
    let (k, others) = (5, 28);
    let row = |i: usize| {
        let mut row = vec![0.125; DIM];
        row[0] += 1e-6 * i as f32;
        row
    };
    let references = source((0..others).flat_map(row).collect(), DIM);
    let mut query = vec![0.0; DIM];
    query[0] = 1.0;
    let queries = source(query, DIM);
    for engine in engines() {
        let (found, of) = certified(&engine, &references, Some(&queries), k).expect("searches");
        assert_eq!(found.ids, [27, 26, 25, 24, 23]);
        assert_eq!((of.certified, of.queries), (0, 1));
        assert!(same_bytes(
            &found,
            &plain(&engine, &references, Some(&queries), k)
        ));
        // With one more candidate there is none left.
        let (found, of) = certified(&engine, &references, Some(&queries), k + 1).expect("searches");
        assert_eq!(found.ids, [27, 26, 25, 24, 23, 22]);
        assert_eq!((of.certified, of.queries), (1, 1));
    }
}

/// Rows of many kinds: some queries are certain and some are not.
fn mixed(rng: &mut Rng, rows: usize) -> Vec<f32> {
    let mut values = random_rows(rng, rows / 3, DIM);
    values.extend(clusters(rng, rows / 3, 3, 1e-4));
    values.extend(clusters(rng, rows - rows / 3 * 2, 9, 0.02));
    values
}

#[test]
fn a_budget_changes_no_byte_and_the_peak_is_the_plan() {
    let mut rng = rng(3);
    let references = source(mixed(&mut rng, 3000), DIM);
    let queries = source(mixed(&mut rng, 700), DIM);
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let fixed = common::open(kind, 256 << 20).ledger().live_bytes();
        let expected = plain(
            &common::open(kind, 256 << 20),
            &references,
            Some(&queries),
            20,
        );
        let spec = KnnSpec {
            queries: 700,
            references: 3000,
            dim: DIM,
            k: 20,
            own: false,
        };
        let (mut blocks, mut of_all) = (Vec::new(), Vec::new());
        // 1.1 MiB of references, and room for 20, 200 and all queries.
        for free in [1_340_000, 3_000_000, 64 << 20] {
            let engine = common::open(kind, fixed + free);
            let forecast = spec
                .plan_certified(&engine.room(), &Rate::default())
                .expect("fits");
            assert!(forecast.resident);
            blocks.push(forecast.block_queries);
            let (found, of) =
                certified(&engine, &references, Some(&queries), 20).expect("searches");
            assert!(same_bytes(&found, &expected), "{free} bytes on {kind:?}");
            of_all.push(of);
            assert_eq!(
                engine.ledger().peak_bytes(),
                fixed + forecast.memory.total_bytes(),
                "{free} bytes free"
            );
            pollster::block_on(engine.settle()).expect("settles");
            assert_eq!(engine.ledger().live_bytes(), fixed, "all is given back");
        }
        println!("{kind:?}: {blocks:?} queries at once, {:?}", of_all[0]);
        assert!(
            blocks[0] < 50 && blocks[1] < 700 && blocks[2] == 700,
            "{blocks:?}"
        );
        // What is certain depends on no budget either.
        assert!(of_all.iter().all(|of| *of == of_all[0]), "{of_all:?}");
        assert!(0 < of_all[0].certified && of_all[0].certified < 700);
    }
}

#[test]
fn every_shape_gives_the_same_bytes_and_an_index_can_be_searched_again() {
    let mut rng = rng(4);
    let references = source(mixed(&mut rng, 2100), DIM);
    let queries = source(mixed(&mut rng, 300), DIM);
    let mut first = None;
    for shape in TileShape::ALL {
        let choice = EngineChoice {
            kind: Some(EngineKind::Gpu),
            shape: Some(shape),
            ..EngineChoice::default()
        };
        let engine = pollster::block_on(Engine::open(&choice, 256 << 20)).expect("opens");
        let timed = engine.start_timer();
        let index = CertifiedIndex::new(&engine, &references, Some(&queries), 9);
        let mut index = pollster::block_on(index).expect("fits");
        for _ in 0..2 {
            let found = pollster::block_on(index.search(Some(&queries), |_, _| {}));
            let found = found.expect("searches");
            let expected = first.get_or_insert_with(|| found.clone());
            assert!(
                same_bytes(&found.0, &expected.0) && found.1 == expected.1,
                "{shape}"
            );
        }
        // Where the GPU has timestamps they tell that this shape was at work, and no other.
        if timed {
            let time = pollster::block_on(engine.stop_timer()).expect("reads");
            let kernels = time.expect("timed").kernels;
            for one in TileShape::ALL {
                let name = format!("packed.{one}");
                let ran = kernels.iter().any(|kernel| kernel.kernel == name);
                assert_eq!(ran, one == shape, "{one} where {shape} was asked for");
            }
        }
        assert!(same_bytes(
            &first.as_ref().expect("was found").0,
            &plain(&engine, &references, Some(&queries), 9)
        ));
    }
}

#[test]
fn what_cannot_be_asked_is_said_in_a_sentence() {
    let rows = source(random_rows(&mut rng(8), 600, DIM), DIM);
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let engine = common::open(kind, 256 << 20);
        let say = |engine: &Engine, k| {
            let refused = certified(engine, &rows, None, k).expect_err("refused");
            assert_eq!(refused.exit_code(), 2);
            refused.to_string()
        };
        assert_eq!(
            say(&engine, 491),
            "k is 491: certified f16 finds 490 neighbours at most; search in f32"
        );
        assert_eq!(
            say(&engine, 600),
            "k is 600: there are 599 references other than the query, so 1 to 599 can be asked for"
        );
        let fixed = engine.ledger().live_bytes();
        // The references in f32, and not in f16 beside them. The plain search takes what there is.
        let small = common::open(kind, fixed + 220_000);
        let said = say(&small, 10);
        assert!(
            said.starts_with("\"knn\" needs") && said.contains("all references twice"),
            "{said}"
        );
        plain(&small, &rows, None, 10);
        // The budget that is named does.
        let named = said.split("raise the budget to ").nth(1).expect("names it");
        println!("{said}");
        assert!(named.starts_with(|c: char| c.is_ascii_digit()), "{named}");
    }
}

#[test]
fn spread_rows_are_certain_and_collapsed_ones_are_not() {
    for engine in engines() {
        for (spread, parts, went_on_in_f32) in [
            // As random as rows can be: none is near any other.
            (1e3, 1.0..=1.0, false),
            (0.1, 0.9..=1.0, false),
            // Classes that are one point, nearly.
            (1e-4, 0.0..=0.0, true),
        ] {
            let rows = source(clusters(&mut rng(2), 2000, 10, spread), DIM);
            let (found, of) = certified(&engine, &rows, None, 10).expect("searches");
            println!("{}: {spread}: {of:?}", engine.info().engine);
            assert!(parts.contains(&of.part()), "{spread}: {of:?}");
            assert_eq!(of.went_on_in_f32, went_on_in_f32, "{spread}: {of:?}");
            assert!(same_bytes(&found, &plain(&engine, &rows, None, 10)));
        }
    }
}

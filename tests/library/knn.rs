//! Exact nearest neighbours at any size: against nested loops in f64, within a plan that the ledger's peak equals.

use crate::common::{engines, exact_unit_rows, random_rows, rng, tied_unit_rows, to_f64};
use nearfar::{
    Engine, EngineKind, Error, EvaluationSpec, KnnIndex, KnnSpec, Neighbors, Rate, Room, RowSource,
    reference,
};
use rand::RngExt as _;

fn source(values: &[f32], dim: usize) -> RowSource {
    RowSource::Memory {
        values: values.to_vec(),
        dim,
    }
}

fn search(
    engine: &Engine,
    references: &RowSource,
    queries: Option<&RowSource>,
    k: usize,
) -> nearfar::Result<Neighbors> {
    pollster::block_on(async {
        let mut index = KnnIndex::new(engine, references, queries, k).await?;
        index.search(queries, |_, _| {}).await
    })
}

/// Differences of two lists of neighbours: in ids and order, except within clusters that f32 cannot tell apart if similarities are
/// not exact; and in similarities by more than `tolerance`.
fn difference(
    actual: &Neighbors,
    expected: &[Vec<(u32, f64)>],
    exact: bool,
    tolerance: f64,
) -> Option<String> {
    let k = actual.k;
    if actual.ids.len() != expected.len() * k || actual.similarities.len() != actual.ids.len() {
        return Some("another number of neighbours".to_owned());
    }
    for (query, expected) in expected.iter().enumerate() {
        let ids = &actual.ids[query * k..][..k];
        let similarities = &actual.similarities[query * k..][..k];
        for (place, (id, s)) in ids.iter().zip(similarities).enumerate() {
            let (expected_id, expected_s) = expected[place];
            if (f64::from(*s) - expected_s).abs() > tolerance {
                return Some(format!(
                    "query {query}, place {place}: {s}, expected {expected_s}"
                ));
            }
            if ids[..place].contains(id) {
                return Some(format!("query {query}: {id} stands twice"));
            }
            let near = |other: f64| (other - expected_s).abs() <= tolerance;
            let same = if exact {
                *id == expected_id
            } else {
                expected.iter().any(|(other, s)| other == id && near(*s))
            };
            if !same {
                return Some(format!(
                    "query {query}, place {place}: {id}, expected {expected_id}"
                ));
            }
        }
    }
    None
}

/// 4 units in the last place of a similarity near 1.
const FOUR_ULPS: f64 = 4.0 * 6e-8;

#[test]
fn two_hundred_searches_on_data_full_of_ties_equal_a_full_sort() {
    let engines = engines();
    let mut rng = rng(1);
    for case in 0..200 {
        // Most sizes are small; some straddle the tiles, the visits and the windows of k.
        let m = match case % 25 {
            0 => rng.random_range(1000..1100),
            1..4 => rng.random_range(100..300),
            _ => rng.random_range(1..60),
        };
        let n = rng.random_range(1..20);
        let own = case % 3 == 0 && m > 1;
        let most = m - usize::from(own);
        let k = match case % 4 {
            0 => most,
            1 => 1,
            _ => rng.random_range(1..=most),
        };
        let dim = 64;
        let mut references = match case % 5 {
            0 => exact_unit_rows(&mut rng, 1).repeat(m),
            1 => exact_unit_rows(&mut rng, m),
            _ => tied_unit_rows(&mut rng, m),
        };
        if case % 7 == 0 {
            let zero = rng.random_range(0..m);
            references[zero * dim..][..dim].fill(0.0);
        }
        let queries = if own {
            references.clone()
        } else {
            tied_unit_rows(&mut rng, n)
        };
        let n = queries.len() / dim;
        let ids: Vec<u32> = (0..n as u32)
            .map(|id| if own { id } else { u32::MAX })
            .collect();
        let expected = reference::neighbours(&to_f64(&queries), &ids, &to_f64(&references), dim, k);
        let (references, queries) = (source(&references, dim), source(&queries, dim));
        for engine in &engines {
            let queries = (!own).then_some(&queries);
            let actual = search(engine, &references, queries, k).expect("searches");
            let wrong = difference(&actual, &expected, true, 0.0);
            assert_eq!(
                wrong,
                None,
                "case {case}: {n} x {m}, k {k}, on {}",
                engine.info().engine
            );
        }
    }
}

/// 5,000 references are searched in 5 visits: the first reads one in five. If those are far and all others near, the second visit
/// has more candidates than fit.
#[test]
fn references_whose_order_defeats_the_sampling_are_searched_again_and_all_found() {
    let (m, k, dim) = (5000, 10, 64);
    let far = exact_unit_rows(&mut rng(30), 1);
    let near: Vec<f32> = far.iter().map(|value| -value).collect();
    let near_ties = tied_unit_rows(&mut rng(31), m);
    let row = |i: usize| match i % 5 {
        0 => &far[..],
        1 => &near,
        _ => &near_ties[i * dim..][..dim],
    };
    let references: Vec<f32> = (0..m).flat_map(|i| row(i).to_vec()).collect();
    // Too many queries for a search in one pass.
    let near = near.repeat(9);
    let ids = [u32::MAX; 9];
    let expected = reference::neighbours(&to_f64(&near), &ids, &to_f64(&references), dim, k);
    let (references, queries) = (source(&references, dim), source(&near, dim));
    for engine in engines() {
        let before = engine.dispatches();
        let actual = search(&engine, &references, Some(&queries), k).expect("searches");
        assert_eq!(difference(&actual, &expected, true, 0.0), None);
        // Its rows, two failed searches, five visits.
        if engine.info().engine == "gpu" {
            assert!(engine.dispatches() - before >= 2 + 5 + 11);
        }
    }
}

#[test]
fn random_rows_are_exact_but_for_clusters_that_f32_cannot_tell_apart() {
    for (dim, m, k) in [(3, 500, 40), (65, 1500, 10), (128, 700, 700)] {
        let mut rng = rng(dim as u64);
        let dense = |padded: Vec<f32>| -> Vec<f32> {
            let stride = nearfar::kernels::stride(dim);
            padded
                .chunks(stride)
                .flat_map(|row| row[..dim].to_vec())
                .collect()
        };
        let references = dense(random_rows(&mut rng, m, dim));
        let queries = dense(random_rows(&mut rng, 21, dim));
        let unit = |rows: &[f32]| reference::normalize(&to_f64(rows), dim);
        let ids = [u32::MAX; 21];
        let expected = reference::neighbours(&unit(&queries), &ids, &unit(&references), dim, m);
        let (references, queries) = (source(&references, dim), source(&queries, dim));
        for engine in engines() {
            let actual = search(&engine, &references, Some(&queries), k).expect("searches");
            let wrong = difference(&actual, &expected, false, FOUR_ULPS);
            assert_eq!(wrong, None, "{dim} dimensions on {}", engine.info().engine);
        }
    }
}

#[test]
fn the_comparison_rejects_twenty_planted_faults() {
    let (m, k) = (200, 12);
    let references = tied_unit_rows(&mut rng(3), m);
    let queries = exact_unit_rows(&mut rng(4), 20);
    let ids = [u32::MAX; 20];
    let expected = reference::neighbours(&to_f64(&queries), &ids, &to_f64(&references), 64, k);
    let right = Neighbors {
        k,
        ids: expected.iter().flatten().map(|(id, _)| *id).collect(),
        similarities: expected.iter().flatten().map(|(_, s)| *s as f32).collect(),
    };
    assert_eq!(difference(&right, &expected, true, 0.0), None);
    for fault in 0..20 {
        let mut wrong = right.clone();
        let at = fault * k + fault % (k - 1);
        match fault % 5 {
            // Two neighbours swapped.
            0 => wrong.ids.swap(at, at + 1),
            // One left out, and the next in its place, as after the loss of a candidate.
            1 => {
                wrong.ids.copy_within(at + 1..(fault + 1) * k, at);
                wrong.ids[(fault + 1) * k - 1] = (0..)
                    .find(|id| !right.ids[fault * k..][..k].contains(id))
                    .expect("more");
            }
            // One twice.
            2 => wrong.ids[at + 1] = wrong.ids[at],
            // A similarity that is off by one unit in the last place.
            3 => wrong.similarities[at] = wrong.similarities[at].next_up(),
            // The neighbours of another query.
            _ => {
                let other = (fault + 1) % 20;
                wrong.ids.copy_within(other * k..(other + 1) * k, fault * k);
            }
        }
        assert!(
            difference(&wrong, &expected, true, 0.0).is_some(),
            "fault {fault}"
        );
    }
}

/// Searches with each number of MiB beside the fixed buffers of an engine, and compares: no byte may differ, the peak is the
/// plan's, and `resident` lists the budgets in which all references fit.
fn budgets_change_no_byte(
    references: &RowSource,
    queries: &RowSource,
    k: usize,
    mib: &[u64],
    resident: &[bool],
) {
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let fixed = crate::common::open(kind, 256 << 20).ledger().live_bytes();
        let mut results = Vec::new();
        let mut ways = Vec::new();
        for free in mib.iter().map(|mib| mib << 20) {
            let engine = crate::common::open(kind, fixed + free);
            let spec = KnnSpec {
                queries: queries.rows(),
                references: references.rows(),
                dim: references.dim(),
                k,
                own: false,
            };
            let forecast = spec.plan(&engine.room(), &Rate::default()).expect("fits");
            ways.push(forecast.resident);
            results.push(search(&engine, references, Some(queries), k).expect("searches"));
            assert_eq!(
                engine.ledger().peak_bytes(),
                fixed + forecast.memory.total_bytes(),
                "{free} bytes free"
            );
            pollster::block_on(engine.settle()).expect("settles");
            assert_eq!(engine.ledger().live_bytes(), fixed, "all is given back");
        }
        assert_eq!(ways, resident, "streamed and resident");
        for other in &results[1..] {
            assert!(*other == results[0], "the same bytes on {kind:?}");
        }
    }
}

#[test]
fn a_budget_changes_no_byte_and_the_peak_is_the_plan() {
    let references = source(&tied_unit_rows(&mut rng(5), 5000), 64);
    let queries = source(&exact_unit_rows(&mut rng(6), 300), 64);
    let resident = [false, false, true, true];
    budgets_change_no_byte(&references, &queries, 600, &[1, 4, 16, 64], &resident);
}

#[test]
fn sixteen_mib_give_the_bytes_of_larger_budgets_for_references_that_do_not_fit_them() {
    // 19.5 MiB of references.
    let references = source(&random_rows(&mut rng(9), 20_000, 256), 256);
    let queries = source(&random_rows(&mut rng(10), 40, 256), 256);
    budgets_change_no_byte(
        &references,
        &queries,
        10,
        &[16, 64, 256],
        &[false, true, true],
    );
}

#[test]
fn a_hundred_thousand_plans_stay_within_their_room_and_more_room_refuses_nothing_less() {
    let mut rng = rng(7);
    let mut size = |most: u32| -> usize { 1 << rng.random_range(0..=most) };
    let mut fitted = 0;
    for case in 0..100_000u64 {
        let room = |bytes: u64| Room {
            free_bytes: bytes,
            budget_bytes: bytes,
            max_buffer_bytes: 1 << (20 + case % 15),
        };
        let free = (size(40) + size(24)) as u64;
        let knn = KnnSpec {
            queries: size(33) + size(8) - 1,
            references: size(33) + size(8) - 1,
            dim: size(17) + size(5) - 1,
            k: size(20),
            own: case % 2 == 0,
        };
        let evaluation = EvaluationSpec {
            references: knn.references,
            dim: knn.dim,
            queries: knn.queries,
            positives: size(30).min(knn.references),
        };
        let plans = |room: &Room| {
            [
                knn.plan(room, &Rate::default()),
                evaluation.plan(room, &Rate::default()),
            ]
        };
        for (plan, more) in plans(&room(free))
            .into_iter()
            .zip(plans(&room(2 * free + 12_345)))
        {
            match plan {
                Ok(forecast) => {
                    fitted += 1;
                    assert!(forecast.memory.total_bytes() <= free, "{knn:?} in {free}");
                    assert!(
                        more.is_ok(),
                        "{knn:?}: refused with more than {free}: {more:?}"
                    );
                    let largest = room(free).max_buffer_bytes;
                    assert!(
                        forecast
                            .memory
                            .buffers()
                            .iter()
                            .all(|buffer| buffer.bytes <= largest)
                    );
                    assert!(forecast.predicted_ms.is_finite());
                }
                Err(
                    Error::Refused { .. }
                    | Error::TooLarge { .. }
                    | Error::Config(_)
                    | Error::Data(_),
                ) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(fitted > 50_000, "{fitted} of 300,000 fit");
}

#[test]
fn a_million_references_that_do_not_fit_the_budget_are_searched_exactly() {
    const ROWS: usize = 1_000_000;
    const DIM: usize = 128;
    const QUERIES: usize = 16;
    const K: usize = 10;
    let mut rng = rng(17);
    let values: Vec<f32> = (0..ROWS * DIM)
        .map(|_| rng.random_range(-1.0f32..1.0))
        .collect();
    let queries = RowSource::Memory {
        values: values[..QUERIES * DIM]
            .iter()
            .map(|value| value + 0.25)
            .collect(),
        dim: DIM,
    };
    // f64, and no code of ours.
    let RowSource::Memory { values: asked, .. } = &queries else {
        unreachable!("it was made so")
    };
    let similarity = |query: &[f32], row: &[f32]| {
        let (mut dot, mut long, mut far) = (0.0, 0.0, 0.0);
        for (a, b) in query.iter().zip(row) {
            let (a, b) = (f64::from(*a), f64::from(*b));
            (dot, long, far) = (dot + a * b, long + a * a, far + b * b);
        }
        dot / (long * far).sqrt()
    };
    let expected: Vec<Vec<f64>> = asked
        .chunks(DIM)
        .map(|query| {
            let mut all: Vec<f64> = values
                .chunks(DIM)
                .map(|row| similarity(query, row))
                .collect();
            all.sort_by(|a, b| b.total_cmp(a));
            all.truncate(K);
            all
        })
        .collect();
    let references = RowSource::Memory { values, dim: DIM };
    for engine in engines() {
        let budget = engine.ledger().budget_bytes();
        assert!(budget == 256 << 20 && budget < (4 * ROWS * DIM) as u64);
        let found = pollster::block_on(async {
            let mut index = KnnIndex::new(&engine, &references, Some(&queries), K).await?;
            index.search(Some(&queries), |_, _| {}).await
        });
        let found = found.expect("fits");
        assert!(engine.ledger().peak_bytes() <= budget);
        let RowSource::Memory { values, .. } = &references else {
            unreachable!("it was made so")
        };
        for (query, (ids, expected)) in found.ids.chunks(K).zip(&expected).enumerate() {
            for (id, best) in ids.iter().zip(expected) {
                let row = &values[*id as usize * DIM..][..DIM];
                let own = similarity(&asked[query * DIM..][..DIM], row);
                assert!((own - best).abs() < 3e-7, "{query}: {own}, {best}");
            }
        }
    }
}

#[test]
fn what_cannot_be_asked_is_said_in_a_sentence() {
    let rows = source(&exact_unit_rows(&mut rng(8), 5), 64);
    let other = source(&[1.0, 0.0, 0.0], 3);
    for engine in engines() {
        let say = |queries: Option<&RowSource>, k| {
            search(&engine, &rows, queries, k)
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            say(None, 5),
            "k is 5: there are 4 references other than the query, so 1 to 4 can be asked for"
        );
        assert_eq!(
            say(Some(&rows), 0),
            "k is 0: there are 5 references, so 1 to 5 can be asked for"
        );
        assert_eq!(
            say(Some(&other), 1),
            "references have 64 dimensions, queries 3: they must be as many"
        );
    }
}

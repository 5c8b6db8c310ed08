//! Rows compared by cosine, inner product and distance, rows that another program holds, copies in a memory, and scores in shares: on
//! both engines, against nested loops in f64.

use crate::common::{engines, random_rows, rng};
use nearfar::{
    Asked, Distance, Engine, HeldRows, KnnIndex, Loss, Metric, Miner, NtXentLoss, NumberedRows,
    Result, RowSource, Scoring, Wanted, evaluate_numbered, mine_numbered, rank_queries,
    total_of_ranked,
};

const DIM: usize = 9;
const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::L2];

/// Rows of a program around the library: those of a vector.
#[derive(Debug)]
struct Held(Vec<f32>);

impl HeldRows for Held {
    fn rows(&self) -> usize {
        self.0.len() / DIM
    }

    fn dim(&self) -> usize {
        DIM
    }

    fn read(&self, rows: &[u32], values: &mut Vec<f32>) -> Result<()> {
        for row in rows {
            values.extend(&self.0[*row as usize * DIM..][..DIM]);
        }
        Ok(())
    }
}

fn held(values: &[f32]) -> RowSource {
    RowSource::Held(Box::new(Held(values.to_vec())))
}

/// Rows of different lengths, far from the origin.
fn rows(count: usize, seed: u64) -> Vec<f32> {
    let padded = random_rows(&mut rng(seed), count, DIM);
    let random = padded.chunks(padded.len() / count);
    let row = |(at, row): (usize, &[f32])| {
        let length = (1 + at % 3) as f32;
        row[..DIM]
            .iter()
            .map(|value| 1.0 + value * length)
            .collect::<Vec<_>>()
    };
    random.enumerate().flat_map(row).collect()
}

/// Value of two rows in f64, larger for nearer.
fn value(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    match metric {
        Metric::Cosine => dot(a, b) / (dot(a, a) * dot(b, b)).sqrt(),
        Metric::Dot => dot(a, b),
        Metric::L2 => -(dot(a, a) + dot(b, b) - 2.0 * dot(a, b)).max(0.0).sqrt(),
    }
}

/// References of each query, nearest first, without those of `places`.
fn ranked(
    metric: Metric,
    queries: &[f32],
    references: &[f32],
    places: Option<&[u32]>,
) -> Vec<Vec<(u32, f64)>> {
    let of_a_query = |(query, row): (usize, &[f32])| {
        let all = (0u32..).zip(references.chunks(DIM));
        let mut all: Vec<(u32, f64)> = all
            .filter(|(id, _)| places.is_none_or(|places| places[query] != *id))
            .map(|(id, other)| (id, value(metric, row, other)))
            .collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all
    };
    queries.chunks(DIM).enumerate().map(of_a_query).collect()
}

#[test]
fn neighbours_by_every_metric_are_those_of_a_sort() {
    let (references, apart) = (rows(600, 1), rows(70, 2));
    let places: Vec<u32> = (0..40).map(|query| query * 11).collect();
    let chosen: Vec<f32> = places
        .iter()
        .flat_map(|place| references[*place as usize * DIM..][..DIM].to_vec())
        .collect();
    let cases = [(&apart, None), (&chosen, Some(&places[..]))];
    for engine in engines() {
        for metric in METRICS {
            for (queries, places) in cases {
                let (known, asking) = (held(&references), held(queries));
                let found = pollster::block_on(async {
                    let index = KnnIndex::by(&engine, &known, Some(&asking), 6, metric).await?;
                    let mut index = match places {
                        Some(places) => index.with_places(places)?,
                        None => index,
                    };
                    index.search(Some(&asking), |_, _| {}).await
                });
                let found = found.expect("searches");
                let expected = ranked(metric, queries, &references, places);
                for (query, expected) in expected.iter().enumerate() {
                    for (place, (id, by)) in expected[..6].iter().enumerate() {
                        let at = query * 6 + place;
                        assert_eq!(found.ids[at], *id, "{metric:?}, query {query}");
                        let near = (f64::from(found.similarities[at]) - by).abs();
                        assert!(near < 2e-5, "{metric:?}: off by {near}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_is_at_no_distance_from_its_copy_and_rows_of_their_own_leave_themselves_out() {
    let mut references = rows(300, 3);
    let copy = references[..DIM].to_vec();
    references.extend(copy);
    let known = held(&references);
    for engine in engines() {
        for metric in METRICS {
            let found = pollster::block_on(async {
                let mut index = KnnIndex::by(&engine, &known, None, 2, metric).await?;
                index.search(None, |_, _| {}).await
            });
            let found = found.expect("searches");
            let expected = ranked(
                metric,
                &references,
                &references,
                Some(&(0..301).collect::<Vec<_>>()),
            );
            for (query, expected) in expected.iter().enumerate() {
                assert_eq!(
                    found.ids[2 * query],
                    expected[0].0,
                    "{metric:?}, query {query}"
                );
            }
            if metric == Metric::L2 {
                assert_eq!((found.ids[0], found.similarities[0]), (300, 0.0));
            }
        }
    }
}

fn score(
    engine: &Engine,
    rows: &[f32],
    labels: &[u32],
    scoring: &Scoring<'_>,
) -> nearfar::Retrieval {
    let rows = held(rows);
    let own = NumberedRows {
        rows: &rows,
        labels,
    };
    let found = evaluate_numbered(engine, own, None, scoring, |_, _| {});
    pollster::block_on(found).expect("is scored")
}

#[test]
fn scores_by_every_metric_are_those_of_a_sort_and_shares_add_up_to_the_bit() {
    let (values, labels): (_, Vec<u32>) =
        (rows(240, 4), (0..240).map(|row| row * row % 7).collect());
    let at = [1, 5];
    for engine in engines() {
        for metric in METRICS {
            let scoring = Scoring {
                metric,
                at: &at,
                ..Scoring::default()
            };
            let whole = score(&engine, &values, &labels, &scoring);
            let own: Vec<u32> = (0..240).collect();
            let lists = ranked(metric, &values, &values, Some(&own));
            let right = |(query, list): (usize, &Vec<(u32, f64)>)| {
                labels[list[0].0 as usize] == labels[query]
            };
            let first = lists.iter().enumerate().filter(|pair| right(*pair)).count();
            assert_eq!(
                whole.metrics.precision_at_1,
                first as f64 / 240.0,
                "{metric:?}"
            );
            // Two shares of the queries, the second one first.
            let known = held(&values);
            let references = NumberedRows {
                rows: &known,
                labels: &labels,
            };
            let (mut lines, mut lone) = (Vec::new(), 0);
            for places in [own[100..].to_vec(), own[..100].to_vec()] {
                let chosen: Vec<f32> = places
                    .iter()
                    .flat_map(|place| values[*place as usize * DIM..][..DIM].to_vec())
                    .collect();
                let classes: Vec<u32> =
                    places.iter().map(|place| labels[*place as usize]).collect();
                let rows = held(&chosen);
                let queries = NumberedRows {
                    rows: &rows,
                    labels: &classes,
                };
                let scoring = Scoring {
                    places: Some(&places),
                    ..scoring
                };
                let part = rank_queries(&engine, queries, references, &scoring, |_, _| {});
                let mut part = pollster::block_on(part).expect("is ranked");
                for line in part.lines.chunks_mut(7 + at.len()) {
                    line[0] = f64::from(places[line[0] as usize]);
                }
                lines.extend(part.lines);
                lone += part.lone;
            }
            let total = total_of_ranked(&at, &lines, lone).expect("some have a positive");
            assert_eq!(total, whole, "{metric:?}");
        }
    }
}

#[test]
fn a_query_that_is_not_at_its_place_is_refused() {
    let values = rows(20, 5);
    let labels: Vec<u32> = (0..20).map(|row| row % 2).collect();
    let known = held(&values);
    let references = NumberedRows {
        rows: &known,
        labels: &labels,
    };
    let places: Vec<u32> = (1..21).collect();
    let scoring = Scoring {
        places: Some(&places),
        ..Scoring::default()
    };
    for engine in engines() {
        let found = evaluate_numbered(&engine, references, Some(references), &scoring, |_, _| {});
        let error = pollster::block_on(found)
            .expect_err("is refused")
            .to_string();
        assert!(error.contains("not at their places"), "{error}");
    }
}

#[test]
fn a_copy_in_a_memory_is_no_positive_of_its_row() {
    let values = rows(48, 6);
    let labels: Vec<u32> = (0..48).map(|row| row % 5).collect();
    let copies: Vec<u32> = (0..48).collect();
    let known = held(&values);
    let own = NumberedRows {
        rows: &known,
        labels: &labels,
    };
    let loss = Loss::NtXent(NtXentLoss { temperature: 0.2 });
    for engine in engines() {
        for miner in [Miner::None, Miner::default()] {
            let mined = |references, copies| {
                let asked = Asked {
                    copies,
                    ..Asked::of(Distance::Cosine, Wanted::Loss(&loss))
                };
                let mined = mine_numbered(
                    &engine,
                    own,
                    references,
                    &miner,
                    &asked,
                    |_| Ok(()),
                    |_, _| {},
                );
                pollster::block_on(mined).expect("is mined")
            };
            let (alone, left_out, kept) = (
                mined(None, None),
                mined(Some(own), Some(&copies[..])),
                mined(Some(own), None),
            );
            assert_eq!(alone.mining, left_out.mining);
            assert!((alone.loss - left_out.loss).abs() < 1e-6);
            assert_ne!(alone.mining.valid, kept.mining.valid);
        }
    }
}

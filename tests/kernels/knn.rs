use nearfar::kernels::knn::{
    self, FEW_QUERIES, Inputs, MOST_KEPT, NOTHING, QueryBound, Scratch, Search, VISIT, is_lost,
    visits_together,
};
use nearfar::kernels::tile::Shape;
use nearfar::{Engine, reference};

use super::common::{
    engines, exact_unit_rows, output, random_rows, read, rng, tied_unit_rows, to_f64, vector,
};

/// Number of visits in one dispatch.
#[derive(Clone, Copy)]
enum Look {
    One,
    Growing,
    All,
}

/// References in chunks of at most `chunk`.
struct Cut {
    chunk: usize,
    look: Look,
    shape: Shape,
}

/// `[similarity's bits, id]` of the `k` nearest references of every query.
fn nearest(
    engine: &Engine,
    cut: &Cut,
    queries: &[f32],
    asked: &[QueryBound],
    references: &[f32],
    stride: usize,
    k: usize,
) -> Vec<[u32; 2]> {
    let rows = asked.len();
    let mut scratch = Scratch {
        kept: output(engine, rows * k),
        survivors: output(engine, rows * VISIT),
        counts: output(engine, rows),
    };
    let (device_queries, asked) = (vector(engine, queries, 0), vector(engine, asked, 0));
    let mut first_id = 0;
    for (i, chunk) in references.chunks(cut.chunk * stride).enumerate() {
        let references = vector(engine, chunk, 0);
        let inputs = Inputs {
            queries: &device_queries,
            references: &references,
            asked: &asked,
        };
        let whole = Search {
            first_row: 0,
            rows,
            references: chunk.len() / stride,
            first_id,
            stride,
            k,
        };
        if i == 0 {
            let mut commands = engine.commands();
            knn::clear(&mut commands, &whole, inputs, &mut scratch);
            engine.submit(commands);
        }
        // The rows in two parts, each in its own submits.
        let half = rows / 2;
        for (first_row, rows) in [(0, half), (half, rows - half)] {
            let search = Search {
                first_row,
                rows,
                ..whole
            };
            let (all, mut done) = (search.visits(), 0);
            while done < all {
                let together = match cut.look {
                    Look::One => 1,
                    Look::Growing => visits_together(&search, cut.shape, done),
                    Look::All => all,
                };
                let visits = done..all.min(done + together);
                done = visits.end;
                let mut commands = engine.commands();
                knn::search(
                    &mut commands,
                    &search,
                    visits,
                    cut.shape,
                    inputs,
                    &mut scratch,
                );
                engine.submit(commands);
            }
        }
        first_id += (chunk.len() / stride) as u32;
    }
    read(engine, &scratch.kept, rows * k)
}

fn pairs(neighbours: &[Vec<(u32, f64)>], k: usize) -> Vec<[u32; 2]> {
    let padded = neighbours.iter().flat_map(|row| {
        let entries = row.iter().map(|(id, s)| [(*s as f32).to_bits(), *id]);
        entries
            .chain(std::iter::repeat(NOTHING))
            .take(k)
            .collect::<Vec<_>>()
    });
    padded.collect()
}

const CUTS: [Cut; 6] = [
    Cut {
        chunk: 100_000,
        look: Look::Growing,
        shape: Shape::Strip,
    },
    Cut {
        chunk: 100_000,
        look: Look::One,
        shape: Shape::Tile,
    },
    Cut {
        chunk: 5000,
        look: Look::Growing,
        shape: Shape::Tile,
    },
    Cut {
        chunk: 130,
        look: Look::One,
        shape: Shape::Strip,
    },
    Cut {
        chunk: 100_000,
        look: Look::One,
        shape: Shape::Quads,
    },
    Cut {
        chunk: 5000,
        look: Look::Growing,
        shape: Shape::Quads,
    },
];

/// With one accumulator a sum, the similarities are off by more than 1e-6 here.
#[test]
fn long_rows_that_are_much_alike_round_little() {
    let (n, m, stride) = (20, 300, 2048);
    let mut rng = rng(23);
    let centre = to_f64(&random_rows(&mut rng, 1, stride));
    let mut around = |count: usize| -> Vec<f32> {
        let rows = to_f64(&random_rows(&mut rng, count, stride));
        let near = rows.chunks(stride).flat_map(|row| {
            let near = row.iter().zip(&centre).map(|(value, c)| 0.1 * value + c);
            reference::normalize(&near.collect::<Vec<_>>(), stride)
        });
        near.map(|value| value as f32).collect()
    };
    let (queries, references) = (around(n), around(m));
    let (exact_queries, exact_references) = (to_f64(&queries), to_f64(&references));
    let asked = vec![QueryBound::first(u32::MAX); n];
    for engine in engines() {
        for cut in &CUTS {
            let found = nearest(&engine, cut, &queries, &asked, &references, stride, m);
            for (i, [similarity, id]) in found.into_iter().enumerate() {
                let query = &exact_queries[i / m * stride..][..stride];
                let exact =
                    reference::dot(query, &exact_references[id as usize * stride..][..stride]);
                let error = (f64::from(f32::from_bits(similarity)) - exact).abs();
                assert!(error < 6e-7, "query {}, reference {id}: {error:e}", i / m);
            }
        }
    }
}

#[test]
fn the_nearest_are_those_of_a_full_sort_on_data_full_of_ties() {
    for (seed, (n, m, k)) in [
        (1, 1, 1),
        (3, 2, 5),
        (8, 127, 127),
        (9, 128, 10),
        (129, 129, 1),
        (130, 1023, 20),
        (17, 1025, MOST_KEPT),
        (40, 3077, 33),
    ]
    .into_iter()
    .enumerate()
    {
        let mut rng = rng(seed as u64);
        let references = tied_unit_rows(&mut rng, m);
        let queries = tied_unit_rows(&mut rng, n);
        // Half of the queries are references themselves, and so leave one out.
        let own = |i: usize| {
            if i.is_multiple_of(2) && i < m {
                i as u32
            } else {
                u32::MAX
            }
        };
        let ids: Vec<u32> = (0..n).map(own).collect();
        let asked: Vec<QueryBound> = ids.iter().map(|id| QueryBound::first(*id)).collect();
        let expected = reference::neighbours(&to_f64(&queries), &ids, &to_f64(&references), 64, k);
        for engine in engines() {
            for cut in CUTS {
                let actual = nearest(&engine, &cut, &queries, &asked, &references, 64, k);
                assert_eq!(
                    actual,
                    pairs(&expected, k),
                    "{n} x {m}, k {k}, on {}",
                    engine.info().engine
                );
            }
        }
    }
}

#[test]
fn what_comes_after_is_strictly_farther() {
    let mut rng = rng(50);
    let (references, queries) = (tied_unit_rows(&mut rng, 700), tied_unit_rows(&mut rng, 9));
    let ids = [u32::MAX; 9];
    let all = reference::neighbours(&to_f64(&queries), &ids, &to_f64(&references), 64, 700);
    for engine in engines() {
        for cut in CUTS {
            let mut asked = [QueryBound::first(u32::MAX); 9];
            let mut found = vec![Vec::new(); 9];
            for _ in 0..4 {
                let kept = nearest(&engine, &cut, &queries, &asked, &references, 64, 200);
                for ((asked, found), kept) in asked.iter_mut().zip(&mut found).zip(kept.chunks(200))
                {
                    *asked = QueryBound::after(u32::MAX, kept[199]);
                    found.extend(kept.to_vec());
                }
            }
            let found: Vec<_> = found.into_iter().flatten().collect();
            assert_eq!(found, pairs(&all, 800));
        }
    }
}

#[test]
fn every_shape_and_every_cut_gives_the_same_bytes() {
    for columns in [1, 5, 64, 130] {
        let mut rng = rng(columns as u64);
        let stride = nearfar::kernels::stride(columns);
        let mut unit = |rows| {
            let rows = random_rows(&mut rng, rows, columns);
            let unit = reference::normalize(&to_f64(&rows), stride);
            unit.iter().map(|value| *value as f32).collect::<Vec<_>>()
        };
        let (references, queries) = (unit(2100), unit(140));
        let asked = [QueryBound::first(u32::MAX); 140];
        for engine in engines() {
            let [first, rest @ ..] =
                CUTS.map(|cut| nearest(&engine, &cut, &queries, &asked, &references, stride, 12));
            for other in rest {
                assert_eq!(
                    other,
                    first,
                    "{columns} columns on {}",
                    engine.info().engine
                );
            }
            let exact = reference::neighbours(
                &to_f64(&queries),
                &[u32::MAX; 140],
                &to_f64(&references),
                stride,
                12,
            );
            for (kept, exact) in first.chunks(12).zip(&exact) {
                for ([s, _], (_, t)) in kept.iter().zip(exact) {
                    let off = (f64::from(f32::from_bits(*s)) - t).abs();
                    assert!(off < 1e-6, "{columns} columns: off by {off}");
                }
            }
        }
    }
}

#[test]
fn the_worst_order_of_references_loses_none() {
    // Every reference is nearer than all before it: all survive wherever the order of visits follows theirs.
    let angle = |i: usize| (1.5 - i as f32 * 1.4 / 5000.0).sin_cos();
    let references: Vec<f32> = (0..5000)
        .flat_map(|i| {
            let (sin, cos) = angle(i);
            [cos, sin, 0.0, 0.0]
        })
        .collect();
    let queries = [1.0, 0.0, 0.0, 0.0];
    for engine in engines() {
        for cut in CUTS {
            let kept = nearest(
                &engine,
                &cut,
                &queries,
                &[QueryBound::first(4999)],
                &references,
                4,
                300,
            );
            let ids: Vec<u32> = kept.iter().map(|[_, id]| *id).collect();
            assert_eq!(ids, (4699..4999).rev().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_look_with_more_survivors_than_have_room_says_so_of_those_queries_alone() {
    // 1,100 references of the first queries' own, of which one visit at most is full.
    let references = [[1.0, 0.0, 0.0, 0.0]; 1100].concat();
    const HALF: usize = FEW_QUERIES + 1;
    let queries = [
        [[1.0f32, 0.0, 0.0, 0.0]; HALF].concat(),
        [[0.0, 1.0, 0.0, 0.0]; HALF].concat(),
    ];
    // The others have found nearer references.
    let asked = [
        [QueryBound::first(u32::MAX); HALF],
        [QueryBound::after(u32::MAX, [(-1.0f32).to_bits(), 0]); HALF],
    ];
    let (queries, asked) = (queries.concat(), asked.concat());
    for k in [1, 9, 40] {
        for shape in Shape::ALL {
            for look in [Look::One, Look::Growing, Look::All] {
                let cut = Cut {
                    chunk: 2000,
                    look,
                    shape,
                };
                let engine = super::common::open(nearfar::EngineKind::Gpu, 256 << 20);
                let kept = nearest(&engine, &cut, &queries, &asked, &references, 4, k);
                let (first, others) = kept.split_at(HALF * k);
                let lost = first.chunks(k).all(|kept| is_lost(kept, k));
                assert_eq!(lost, matches!(look, Look::All), "k {k}");
                assert_eq!(is_lost(first, k), lost, "k {k}");
                assert_eq!(others, vec![NOTHING; HALF * k]);
            }
        }
    }
}

#[test]
fn few_queries_find_the_same_bytes_as_many() {
    let mut rng = rng(70);
    for (m, stride, k) in [
        (1, 4, 1),
        (1023, 64, 32),
        (1025, 20, 32),
        (5000, 132, 10),
        (3077, 64, 31),
    ] {
        // Many ties if rows are 64 long.
        let unit = |rng: &mut _, rows| match stride {
            64 => tied_unit_rows(rng, rows),
            _ => {
                let unit = reference::normalize(&to_f64(&random_rows(rng, rows, stride)), stride);
                unit.iter().map(|value| *value as f32).collect()
            }
        };
        let (references, queries) = (unit(&mut rng, m), unit(&mut rng, 34));
        let asked: Vec<QueryBound> = (0..34).map(QueryBound::first).collect();
        let engine = super::common::open(nearfar::EngineKind::Gpu, 256 << 20);
        for cut in &CUTS {
            // Halves of 17 queries.
            let many = nearest(&engine, cut, &queries, &asked, &references, stride, k);
            for at_once in [1, 2, 5, 16] {
                let few = queries.chunks(at_once * stride).zip(asked.chunks(at_once));
                let few: Vec<_> = few
                    .flat_map(|(queries, asked)| {
                        nearest(&engine, cut, queries, asked, &references, stride, k)
                    })
                    .collect();
                assert!(few == many, "{m} references, {at_once} queries at once");
            }
        }
    }
}

#[test]
fn visits_are_prime_or_one_and_no_larger_than_what_survives_has_room_for() {
    let search = |references| Search {
        first_row: 0,
        rows: 1,
        references,
        first_id: 0,
        stride: 4,
        k: 1,
    };
    let visits = |references| search(references).visits();
    assert_eq!(
        [0, 1, 1024, 1025, 3073, 100_000].map(visits),
        [1, 1, 1, 2, 5, 101]
    );
    // Of 100,000 references: 1, 24 and the other 76 visits together.
    let together = |rows, k, done, shape| {
        visits_together(
            &Search {
                rows,
                k,
                ..search(1)
            },
            shape,
            done,
        )
    };
    for (rows, shape) in [(FEW_QUERIES + 1, Shape::Tile), (1, Shape::Strip)] {
        assert_eq!(together(rows, 10, 0, shape), 1);
        assert_eq!(together(rows, 10, 1, shape), 24);
        assert!(together(rows, 10, 25, shape) >= 76);
        assert_eq!(together(rows, MOST_KEPT, 1, shape), 1);
    }
    // Few queries: all of them together.
    for rows in [1, FEW_QUERIES] {
        assert_eq!(together(rows, 10, 0, Shape::Tile), 102);
        assert_eq!(together(rows, MOST_KEPT, 0, Shape::Tile), 1);
    }
}

#[test]
fn rows_of_zeros_and_rows_that_are_all_equal_tie_by_id() {
    let mut references = exact_unit_rows(&mut rng(60), 1);
    references = references.repeat(300);
    references.extend([0.0; 64 * 300]);
    let queries = [&references[..64], &[0.0; 64]].concat();
    let ids = [7, 450];
    let asked = ids.map(QueryBound::first);
    let expected = reference::neighbours(&to_f64(&queries), &ids, &to_f64(&references), 64, 400);
    for engine in engines() {
        for cut in CUTS {
            let actual = nearest(&engine, &cut, &queries, &asked, &references, 64, 400);
            assert_eq!(actual, pairs(&expected, 400));
        }
    }
}

use nearfar::kernels::knn::{self, Asked, NOTHING, Scratch, Search, VISIT};
use nearfar::kernels::packed::{self, Packed, Rescored, visits_together};
use nearfar::kernels::tile::Shape;
use nearfar::{Certificate, Engine, EngineKind, cpu, reference};

use super::common::{
    engines, exact_unit_rows, norm, open, output, random_rows, read, rng, tied_unit_rows, to_f64,
    vector,
};

/// Rows packed on an engine, in two parts.
fn packed(engine: &Engine, rows: &[f32], stride: usize) -> Packed {
    let count = rows.len() / stride;
    let mut packed = Packed {
        halves: output(engine, rows.len() / 2),
        measured: vector(engine, &[0u32; 2], 0),
    };
    let rows = vector(engine, rows, 0);
    let half = count / 2;
    for (first, count) in [(0, half), (half, count - half)] {
        let mut commands = engine.commands();
        packed::pack(&mut commands, first, count, stride, &rows, &mut packed);
        engine.submit(commands);
    }
    packed
}

/// What stands in packed rows.
fn opened(engine: &Engine, packed: &Packed, count: usize) -> Vec<f32> {
    let halves: Vec<u32> = read(engine, &packed.halves, count / 2);
    let mut opened = vec![0.0; count];
    cpu::packed::open(&halves, &mut opened);
    opened
}

fn certificate(engine: &Engine, packed: &Packed, stride: usize) -> Certificate {
    let measured = read(engine, &packed.measured, 2);
    Certificate::new([measured[0], measured[1]], stride)
}

fn unit(rows: &[f32], stride: usize) -> Vec<f32> {
    let unit = reference::normalize(&to_f64(rows), stride);
    unit.into_iter().map(|value| value as f32).collect()
}

/// Whether a query lost candidates.
fn is_lost(judged: [u32; 2]) -> bool {
    f32::from_bits(judged[0]) == 3.0
}

/// All that a search in two steps gives.
struct Steps {
    k: usize,
    /// `[queries, all]`.
    candidates: Vec<[u32; 2]>,
    found: Vec<[u32; 2]>,
    judged: Vec<[u32; 2]>,
    certificate: Certificate,
    /// What the f32 search finds.
    expected: Vec<[u32; 2]>,
}

/// How many visits are looked at together.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    One,
    Growing,
    All,
}

/// What is searched, and for whom.
#[derive(Clone, Copy)]
struct Sought<'a> {
    queries: &'a [f32],
    asked: &'a [Asked],
    references: &'a [f32],
    stride: usize,
}

/// Finds `k` among `all` candidates.
fn search(
    engine: &Engine,
    (shape, look): (Shape, Look),
    sought: Sought<'_>,
    k: usize,
    all: usize,
) -> Steps {
    let Sought {
        queries,
        asked,
        references,
        stride,
    } = sought;
    let rows = asked.len();
    let packed = packed(engine, references, stride);
    let mut scratch = Scratch {
        kept: output(engine, rows * all),
        survivors: output(engine, rows * VISIT),
        counts: output(engine, rows),
    };
    let mut rescored = Rescored {
        found: output(engine, rows * k),
        judged: output(engine, rows),
    };
    let whole = Search {
        first_row: 0,
        rows,
        references: references.len() / stride,
        first_id: 0,
        stride,
        k: all,
    };
    let (queries, references) = (vector(engine, queries, 0), vector(engine, references, 0));
    let asked = vector(engine, asked, 0);
    let exact = knn::Inputs {
        queries: &queries,
        references: &references,
        asked: &asked,
    };
    let mut commands = engine.commands();
    knn::clear(&mut commands, &whole, exact, &mut scratch);
    engine.submit(commands);
    // The rows in two parts, each in its own submits.
    let half = rows / 2;
    for (first_row, rows) in [(0, half), (half, rows - half)] {
        let part = Search {
            first_row,
            rows,
            ..whole
        };
        let (visits, mut done) = (part.visits(), 0);
        while done < visits && rows > 0 {
            let together = match look {
                Look::One => 1,
                Look::Growing => visits_together(&part, done),
                Look::All => visits,
            };
            let some = done..visits.min(done + together);
            done = some.end;
            let inputs = packed::Inputs {
                queries: &queries,
                packed: &packed,
                asked: &asked,
            };
            let mut commands = engine.commands();
            packed::search(&mut commands, &part, some, shape, inputs, &mut scratch);
            engine.submit(commands);
        }
    }
    let candidates = read(engine, &scratch.kept, rows * all);
    let mut commands = engine.commands();
    packed::rescore(
        &mut commands,
        &whole,
        k,
        shape,
        exact,
        &mut scratch,
        &mut rescored,
    );
    engine.submit(commands);
    // The f32 search, one visit at a time: none is lost.
    let plain = Search { k, ..whole };
    let mut kept = Scratch {
        kept: output(engine, rows * k),
        ..scratch
    };
    let mut commands = engine.commands();
    knn::clear(&mut commands, &plain, exact, &mut kept);
    for visit in 0..plain.visits() {
        let visits = visit..visit + 1;
        knn::search(&mut commands, &plain, visits, shape, exact, &mut kept);
    }
    engine.submit(commands);
    Steps {
        k,
        candidates,
        found: read(engine, &rescored.found, rows * k),
        judged: read(engine, &rescored.judged, rows),
        certificate: certificate(engine, &packed, stride),
        expected: read(engine, &kept.kept, rows * k),
    }
}

/// The ways to look on an engine.
fn ways(engine: &Engine) -> Vec<(Shape, Look)> {
    match engine.info().engine.as_str() {
        "cpu" => vec![(Shape::Strip, Look::One), (Shape::Strip, Look::All)],
        _ => vec![
            (Shape::Strip, Look::Growing),
            (Shape::Strip, Look::One),
            (Shape::Tile, Look::Growing),
            (Shape::Tile, Look::One),
        ],
    }
}

#[test]
fn what_is_packed_is_near_and_the_largest_error_is_measured() {
    for (seed, (rows, columns)) in [(1, 1), (3, 5), (9, 64), (130, 128), (7, 261), (5, 2050)]
        .into_iter()
        .enumerate()
    {
        let mut rng = rng(seed as u64);
        let stride = nearfar::kernels::stride(columns);
        let mut values = unit(&random_rows(&mut rng, rows, columns), stride);
        // What is least in f16 and less, in f32 and less, and nothing.
        let small = [2f32.powi(-29), -(2f32.powi(-30)), 1e-20, 1e-40, 0.0];
        for (value, small) in values[4..].iter_mut().step_by(7).zip(small) {
            *value = small;
        }
        for engine in engines() {
            let packed = packed(&engine, &values, stride);
            let opened = opened(&engine, &packed, values.len());
            for (value, opened) in values.iter().zip(&opened) {
                let off = (value - opened).abs();
                // One unit of the last of 11 digits: adapters may round either way.
                let most = match value.abs() < 2f32.powi(-29) {
                    true => value.abs(),
                    false => value.abs() * 2f32.powi(-10),
                };
                assert!(off <= most, "{value:e} became {opened:e}");
            }
            let errors = values.chunks(stride).zip(opened.chunks(stride));
            let errors = errors.map(|(row, opened)| {
                let error = to_f64(row).into_iter().zip(to_f64(opened));
                let error: Vec<f64> = error.map(|(value, opened)| value - opened).collect();
                norm(&error)
            });
            let error = errors.fold(0.0, f64::max);
            let length = { values.chunks(stride) }
                .map(|row| norm(&to_f64(row)))
                .fold(0.0, f64::max);
            let found = certificate(&engine, &packed, stride);
            // Adapters may take what is below 2^-126 for zero.
            let tiny = 1e-17;
            for (found, expected) in [(found.error, error), (found.length, length)] {
                assert!(
                    found >= expected && found <= 1.0001 * expected + tiny,
                    "{rows} x {columns} on {}: {found:e}, expected {expected:e}",
                    engine.info().engine
                );
            }
        }
    }
}

#[test]
fn the_largest_error_is_that_of_any_row_in_any_place() {
    let (count, stride) = (67, 8);
    let exact = [0.5f32; 8].map(|value| value * value).repeat(count);
    for engine in engines() {
        assert!(certificate(&engine, &packed(&engine, &exact, stride), stride).error < 1e-17);
        for row in [0, 1, 32, 33, 34, 66] {
            let mut values = exact.clone();
            // Between two that f16 holds, which are 2^-12 apart.
            let off = 2f64.powi(-14);
            values[row * stride + row % stride] += off as f32;
            let error = certificate(&engine, &packed(&engine, &values, stride), stride).error;
            // To the nearest, or the other way.
            let either = [off, 3.0 * off].map(|off| (0.999 * off..1.001 * off).contains(&error));
            assert!(either.contains(&true), "row {row}: {error:e}");
        }
    }
}

#[test]
fn candidates_are_those_of_a_full_sort_where_f16_is_exact() {
    for (seed, (n, m, all)) in [
        (1, 1, 1),
        (3, 2, 5),
        (8, 127, 127),
        (9, 128, 32),
        (130, 1023, 33),
        (17, 1025, 512),
        (70, 3077, 45),
    ]
    .into_iter()
    .enumerate()
    {
        let mut rng = rng(seed as u64);
        let (references, queries) = (tied_unit_rows(&mut rng, m), tied_unit_rows(&mut rng, n));
        let ids: Vec<u32> = (0..n as u32).collect();
        let asked: Vec<Asked> = ids.iter().map(|id| Asked::first(*id)).collect();
        let full = reference::neighbours(&to_f64(&queries), &ids, &to_f64(&references), 64, all);
        let expected: Vec<[u32; 2]> = { full.iter() }
            .flat_map(|row| {
                let entries = row.iter().map(|(id, s)| [(*s as f32).to_bits(), *id]);
                let free = std::iter::repeat(NOTHING);
                entries.chain(free).take(all).collect::<Vec<_>>()
            })
            .collect();
        let k = all.div_ceil(2);
        for engine in engines() {
            for (shape, look) in ways(&engine) {
                let steps = search(
                    &engine,
                    (shape, look),
                    Sought {
                        queries: &queries,
                        asked: &asked,
                        references: &references,
                        stride: 64,
                    },
                    k,
                    all,
                );
                let what = format!("{n} x {m}, {all}, {shape} on {}", engine.info().engine);
                assert!(steps.candidates == expected, "{what}");
                let nearest: Vec<_> = { expected.chunks(all) }
                    .flat_map(|row| row[..k].to_vec())
                    .collect();
                assert!(steps.found == nearest, "{what}");
                assert!(steps.expected == nearest, "{what}");
                for (judged, row) in steps.judged.iter().zip(expected.chunks(all)) {
                    let length = f32::from_bits(judged[1]);
                    assert!(judged[0] == row[all - 1][0] && (1.0..1.000_001).contains(&length));
                    assert!(!is_lost(*judged));
                }
            }
        }
    }
}

#[test]
fn candidates_that_are_scored_again_have_the_bits_of_the_f32_search() {
    for columns in [1, 5, 64, 130, 500] {
        let mut rng = rng(columns as u64);
        let stride = nearfar::kernels::stride(columns);
        let references = unit(&random_rows(&mut rng, 400, columns), stride);
        let queries = unit(&random_rows(&mut rng, 70, columns), stride);
        let asked: Vec<Asked> = (0..70).map(Asked::first).collect();
        for engine in engines() {
            let mut first = None;
            for (shape, look) in ways(&engine) {
                // All that there are, so that the nearest are among them.
                let steps = search(
                    &engine,
                    (shape, look),
                    Sought {
                        queries: &queries,
                        asked: &asked,
                        references: &references,
                        stride,
                    },
                    390,
                    399,
                );
                let what = format!("{columns} columns, {shape} on {}", engine.info().engine);
                assert!(steps.found == steps.expected, "{what}");
                let bits = (steps.candidates, steps.judged);
                assert!(first.get_or_insert(bits.clone()) == &bits, "{what}");
            }
        }
    }
}

/// The similarities of all queries to all references by both searches, by id: rounded and f32.
fn similarities(steps: &Steps, count: usize) -> Vec<(f32, f32)> {
    let rounded = steps.candidates.chunks(count);
    let pairs = rounded.zip(steps.found.chunks(count)).flat_map(|(a, b)| {
        let mut both = vec![(0.0, 0.0); count];
        for ([rounded, id], [s, other]) in a.iter().zip(b) {
            both[*id as usize].0 = f32::from_bits(*rounded);
            both[*other as usize].1 = f32::from_bits(*s);
        }
        both
    });
    pairs.collect()
}

/// References that all have the same error, since each has the numbers of the first in other places, and queries that point
/// where the error does: none is worse. And queries that are as likely as any.
#[test]
fn no_pair_is_farther_apart_than_epsilon_and_a_smaller_one_would_not_do() {
    for stride in [4, 32, 128, 260] {
        let mut rng = rng(stride as u64);
        let count = 64;
        let one = unit(&random_rows(&mut rng, 1, stride), stride);
        let references: Vec<f32> = (0..count)
            .flat_map(|i| {
                let mut row = one.clone();
                row.rotate_left(i * 7 % stride);
                if i % 2 == 1 {
                    row.reverse();
                }
                row
            })
            .collect();
        for engine in engines() {
            let packed = packed(&engine, &references, stride);
            let opened = opened(&engine, &packed, references.len());
            let error: Vec<f32> = { references.iter().zip(&opened) }
                .map(|(value, opened)| value - opened)
                .collect();
            let mut queries = unit(&error, stride);
            queries.extend(unit(&random_rows(&mut rng, count, stride), stride));
            let asked = vec![Asked::first(u32::MAX); 2 * count];
            let (shape, look) = ways(&engine)[0];
            let steps = search(
                &engine,
                (shape, look),
                Sought {
                    queries: &queries,
                    asked: &asked,
                    references: &references,
                    stride,
                },
                count,
                count,
            );
            let pairs = similarities(&steps, count);
            // The f64 values lie between: each of the two is near its own.
            let exact_queries = to_f64(&queries);
            for (i, (rounded, s)) in pairs.iter().enumerate() {
                let (query, id) = (i / count, i % count);
                let query = &exact_queries[query * stride..][..stride];
                let of =
                    |rows: &[f32]| reference::dot(query, &to_f64(&rows[id * stride..][..stride]));
                for (s, exact) in [(rounded, of(&opened)), (s, of(&references))] {
                    let sum = (f64::from(*s) - exact).abs();
                    assert!(sum <= 1.001 * steps.certificate.gamma, "{sum:e}");
                }
            }
            let above = |certificate: &Certificate| {
                let pairs = pairs.iter().enumerate();
                pairs
                    .filter(|(i, (rounded, s))| {
                        let squares = f32::from_bits(steps.judged[i / count][1]);
                        let apart = (f64::from(*rounded) - f64::from(*s)).abs();
                        apart > certificate.epsilon(squares)
                    })
                    .count()
            };
            let right = steps.certificate;
            assert_eq!(above(&right), 0, "{stride} on {}", engine.info().engine);
            let mut wrong = [right; 4];
            wrong[0].error /= 2.0;
            wrong[1].error = 0.0;
            wrong[2].gamma = 0.0;
            (wrong[3].error, wrong[3].gamma) = (0.0, 0.0);
            for (fault, wrong) in wrong.iter().enumerate() {
                // Four products are summed with next to no error.
                if stride == 4 && fault == 2 {
                    continue;
                }
                assert!(above(wrong) > 0, "{stride}: fault {fault} is not found");
            }
        }
    }
}

/// How many queries a decision takes over, and whether all of those have the bytes of the f32 search.
fn decided(
    steps: &Steps,
    found: &[[u32; 2]],
    holds: impl Fn(&Certificate, f32, f32, f32) -> bool,
) -> (usize, bool) {
    let k = steps.k;
    let (mut certain, mut same) = (0, true);
    for (query, judged) in steps.judged.iter().enumerate() {
        let own = query * k..(query + 1) * k;
        let [farthest, squares] = judged.map(f32::from_bits);
        let kth = f32::from_bits(found[own.end - 1][0]);
        if holds(&steps.certificate, farthest, squares, kth) {
            certain += 1;
            same &= found[own.clone()] == steps.expected[own];
        }
    }
    (certain, same)
}

#[test]
fn what_is_certain_is_right_and_planted_faults_make_it_wrong() {
    let (n, m, stride, k) = (80, 1500, 64, 10);
    let holds = Certificate::holds;
    // Rows that f16 cannot tell apart at all: candidates are those with the smallest ids.
    let mut rng = rng(5);
    let centre = random_rows(&mut rng, 1, stride);
    let noise = random_rows(&mut rng, m, stride);
    let collapsed: Vec<f32> = { noise.iter().zip(centre.iter().cycle()) }
        .map(|(noise, centre)| centre + 1e-5 * noise)
        .collect();
    let (collapsed, spread) = (
        unit(&collapsed, stride),
        unit(&random_rows(&mut rng, m, stride), stride),
    );
    let queries = unit(&random_rows(&mut rng, n, stride), stride);
    let asked = vec![Asked::first(u32::MAX); n];
    for engine in engines() {
        let (shape, look) = ways(&engine)[0];
        let run = |references: &[f32], all| {
            search(
                &engine,
                (shape, look),
                Sought {
                    queries: &queries,
                    asked: &asked,
                    references,
                    stride,
                },
                k,
                all,
            )
        };
        let name = engine.info().engine.as_str();
        let (near, far) = (run(&collapsed, 32), run(&spread, 32));
        assert_eq!(decided(&near, &near.found, holds), (0, true), "{name}");
        let (certain, same) = decided(&far, &far.found, holds);
        println!("{name}: {certain} of {n} are certain");
        assert!(same && certain > n * 9 / 10, "{name}: {certain}");

        // An epsilon of zero takes over what is wrong.
        let without = |_: &Certificate, farthest: f32, _: f32, kth: f32| farthest < kth;
        let (certain, same) = decided(&near, &near.found, without);
        assert!(certain > 0 && !same, "{name}: {certain}");
        // So does anything.
        let anything = |_: &Certificate, _: f32, _: f32, _: f32| true;
        assert!(!decided(&near, &near.found, anything).1, "{name}");
        // Candidates that are not scored again have other similarities.
        let old: Vec<[u32; 2]> = { far.candidates.chunks(32) }
            .flat_map(|row| row[..k].to_vec())
            .collect();
        let (certain, same) = decided(&far, &old, holds);
        assert!(certain > 0 && !same, "{name}: {certain}");
        // Without spare candidates next to nothing is certain.
        let bare = run(&spread, k);
        let (certain, same) = decided(&bare, &bare.found, holds);
        assert!(same && certain < n / 10, "{name}: {certain}");
    }
}

#[test]
fn a_query_that_lost_candidates_is_not_certain() {
    // 1,100 references of the first queries' own, of which one visit at most is full.
    let references = [[1.0, 0.0, 0.0, 0.0]; 1100].concat();
    let queries = [
        [[1.0f32, 0.0, 0.0, 0.0]; 9].concat(),
        [[0.0, 1.0, 0.0, 0.0]; 9].concat(),
    ];
    // The others have found what is nearer.
    let asked = [
        [Asked::first(u32::MAX); 9],
        [Asked::after(u32::MAX, [(-1.0f32).to_bits(), 0]); 9],
    ];
    let engine = open(EngineKind::Gpu, 256 << 20);
    for shape in Shape::ALL {
        for look in [Look::Growing, Look::One, Look::All] {
            let (queries, asked) = (queries.concat(), asked.concat());
            let steps = search(
                &engine,
                (shape, look),
                Sought {
                    queries: &queries,
                    asked: &asked,
                    references: &references,
                    stride: 4,
                },
                5,
                40,
            );
            for (query, judged) in steps.judged.iter().enumerate() {
                let lost = look == Look::All && query < 9;
                assert_eq!(is_lost(*judged), lost, "query {query}");
            }
            // However little it takes to be certain.
            let mut certificate = steps.certificate;
            (certificate.error, certificate.gamma) = (0.0, 0.0);
            let [farthest, squares] = steps.judged[0].map(f32::from_bits);
            assert!(!certificate.holds(farthest, squares, 1.0));
            let nothing = steps.judged[9].map(f32::from_bits);
            assert_eq!(nothing[0], -2.0);
        }
    }
}

#[test]
fn rows_of_zeros_and_rows_that_are_all_equal_tie_by_id() {
    let mut references = exact_unit_rows(&mut rng(60), 1).repeat(200);
    references.extend([0.0; 64 * 200]);
    let queries = [&references[..64], &[0.0; 64]].concat();
    let ids = [7, 250];
    let asked = ids.map(Asked::first);
    let expected = reference::neighbours(&to_f64(&queries), &ids, &to_f64(&references), 64, 50);
    let expected: Vec<[u32; 2]> = { expected.iter().flatten() }
        .map(|(id, s)| [(*s as f32).to_bits(), *id])
        .collect();
    for engine in engines() {
        for (shape, look) in ways(&engine) {
            let steps = search(
                &engine,
                (shape, look),
                Sought {
                    queries: &queries,
                    asked: &asked,
                    references: &references,
                    stride: 64,
                },
                50,
                72,
            );
            assert_eq!(steps.found, expected);
            // None can tell which of those that tie come first but by their ids, and those of others are not looked at.
            let certain = decided(&steps, &steps.found, Certificate::holds);
            assert_eq!(certain, (0, true));
        }
    }
}

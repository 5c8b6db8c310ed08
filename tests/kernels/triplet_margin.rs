use nearfar::kernels::pair_counts::{PAIRS, read_pairs};
use nearfar::kernels::ranks::{Block, Inputs, Row, Scratch};
use nearfar::kernels::stored::Precision;
use nearfar::kernels::triplet_margin::{
    Kind, MINE, Rule, TERMS, Total, mine, part_stride, share_with_references,
};
use nearfar::{Commands, DeviceVec, Distance, Engine, EngineKind, TileShape, reference};

use super::common::{
    assert_close, engines, gpu_in, labels, open, output, random_rows, read, rng, stored,
    tied_unit_rows, to_f64, vector,
};

const KINDS: [Kind; 5] = [
    Kind::All,
    Kind::Easy,
    Kind::Semihard,
    Kind::Hard,
    Kind::Unmined,
];

const DISTANCES: [Distance; 2] = [Distance::Cosine, Distance::L2];

const TOTALS: [Total; 5] = [
    Total::Valid,
    Total::Within,
    Total::Hard,
    Total::Mined,
    Total::Active,
];

struct Case {
    anchors: Vec<f32>,
    anchor_tags: Vec<[u32; 2]>,
    references: Vec<f32>,
    tags: Vec<[u32; 2]>,
    stride: usize,
    /// Precision of the references, whose values are exact in it.
    precision: Precision,
    /// Positives that a row is said to have at least: with many of them no workgroup does all of a row.
    most: usize,
}

struct Outcome {
    totals: [u64; 5],
    pairs: [Vec<u64>; 2],
    gradient: Vec<f32>,
    /// Terms of the rows' sums, beside `<gradient, anchor>`.
    terms: Vec<f32>,
    /// Similarity and number of active negatives of each positive of the last block's rows, the farthest first.
    positives: Vec<Vec<(f32, u32)>>,
}

/// Mines the case in blocks of `block_rows` anchors; ids are slots plus a multiple of the capacity, as in a ring.
fn run(engine: &Engine, case: &Case, rule: &Rule, block_rows: usize, share: bool) -> Outcome {
    run_onto(0, engine, case, rule, block_rows, share)
}

/// Like [`run`], with every total and every count of pairs at `before` to start with.
fn run_onto(
    before: u64,
    engine: &Engine,
    case: &Case,
    rule: &Rule,
    block_rows: usize,
    share: bool,
) -> Outcome {
    let share = share.then_some(block_rows);
    run_between(before, engine, case, rule, block_rows, share, |_, _| ())
}

/// Runs as [`run_onto`] does, and calls `between` with the thresholds before the gradient is shared in parts of this many rows.
fn run_between(
    before: u64,
    engine: &Engine,
    case: &Case,
    rule: &Rule,
    block_rows: usize,
    share: Option<usize>,
    between: impl Fn(&mut Scratch, usize),
) -> Outcome {
    let Case { stride, .. } = *case;
    let (rows, references) = (case.anchor_tags.len(), case.tags.len());
    let mut batch = Vec::new();
    for tags in case.anchor_tags.chunks(block_rows) {
        let mut offset = 0;
        for [label, id] in tags {
            let positives = case
                .tags
                .iter()
                .filter(|tag| tag[0] == *label && tag[1] != *id)
                .count() as u32;
            batch.push(Row {
                label: *label,
                id: *id,
                offset,
                positives,
            });
            offset += positives + 1;
        }
    }
    let most: u32 = batch
        .chunks(block_rows)
        .map(|b| b.iter().map(|row| row.positives + 1).sum())
        .max()
        .unwrap_or(0);
    let positives = batch.iter().map(|row| row.positives).max().unwrap_or(0);
    let mut scratch = Scratch {
        thresholds: output(engine, most as usize + 1),
        gap_counts: output(engine, most as usize + 1),
    };
    let mut parts = output(
        engine,
        references.div_ceil(256) * block_rows * part_stride(stride),
    );
    let mut gradient = output(engine, rows * stride);
    let mut words = vec![0u32; 32 + TERMS + rows + PAIRS];
    for total in TOTALS {
        words[32 + total as usize] = before as u32;
        words[33 + total as usize] = (before >> 32) as u32;
    }
    for count in words[32 + TERMS + rows..].chunks_exact_mut(2) {
        count.copy_from_slice(&[before as u32, (before >> 32) as u32]);
    }
    let mut report = vector(engine, &words, 0);
    let anchors = vector(engine, &case.anchors, 0);
    let device_references = stored(engine, &case.references, case.precision);
    let rows_of_batch = batch;
    let batch = vector(engine, &rows_of_batch, 0);
    let tags = vector(engine, &case.tags, 0);
    let inputs = Inputs {
        anchors: &anchors,
        references: device_references.read(),
        batch: &batch,
        tags: &tags,
    };
    let mut commands = engine.commands();
    let blocks = (0..rows).step_by(block_rows).map(|first| Block {
        first_row: first,
        rows: block_rows.min(rows - first),
        batch: first,
        first_reference: 0,
        references,
        stride,
    });
    // As in training: every block's own rows first, since the shares of the references add to them.
    for block in blocks.clone() {
        mine(
            &mut commands,
            &block,
            case.most.max(positives as usize),
            rule,
            references,
            inputs,
            &mut scratch,
            &mut parts,
            &mut gradient,
            32,
            Some(TERMS + rows),
            &mut report,
        );
    }
    engine.submit(commands);
    between(&mut scratch, most as usize);
    let mut commands = engine.commands();
    for first in (0..rows).step_by(share.unwrap_or(rows)) {
        let Some(at_once) = share else { break };
        let block = Block {
            first_row: first,
            rows: at_once.min(rows - first),
            batch: first,
            first_reference: 0,
            references,
            stride,
        };
        share_with_references(
            &mut commands,
            &block,
            rule,
            inputs,
            &scratch,
            &mut parts,
            &mut gradient,
        );
    }
    engine.submit(commands);
    let report = read(engine, &report, 32 + TERMS + rows + PAIRS);
    let report = &report[32..];
    let (thresholds, gap_counts) = (
        read(engine, &scratch.thresholds, most as usize),
        read(engine, &scratch.gap_counts, most as usize),
    );
    let of_row = |row: &Row| {
        let own = row.offset as usize..(row.offset + row.positives) as usize;
        let thresholds = thresholds[own.clone()].iter();
        let both = thresholds.zip(&gap_counts[own]);
        both.map(|([bits, _], count)| (f32::from_bits(*bits), *count))
            .collect()
    };
    let last = (rows - 1) / block_rows * block_rows;
    Outcome {
        positives: rows_of_batch[last..].iter().map(of_row).collect(),
        totals: TOTALS.map(|total| total.read(report)),
        pairs: read_pairs(&report[TERMS + rows..]),
        gradient: read(engine, &gradient, rows * stride),
        terms: report[TERMS..TERMS + rows]
            .iter()
            .map(|t| f32::from_bits(*t))
            .collect(),
    }
}

/// Compares with a loop over every triplet; similarities must be exact in f32.
fn compare(engine: &Engine, case: &Case, rule: &Rule, block_rows: usize, share: bool) {
    let expected = reference::triplet_margin(
        &to_f64(&case.anchors),
        &case.anchor_tags,
        &to_f64(&case.references),
        &case.tags,
        case.stride,
        rule,
    );
    let actual = run(engine, case, rule, block_rows, share);
    let within = expected.semihard + expected.hard;
    assert_eq!(
        actual.totals,
        [
            expected.valid,
            within,
            expected.hard,
            expected.mined,
            expected.active
        ],
        "{rule:?} on {}",
        engine.info().engine
    );
    assert_eq!(actual.pairs, pairs(case), "{}", engine.info().engine);
    let mut gradient = expected.anchor_gradient;
    if share {
        gradient
            .iter_mut()
            .zip(&expected.reference_gradient)
            .for_each(|(g, r)| *g += r);
    }
    let active = expected.active.max(1) as f32;
    let scaled: Vec<f32> = actual.gradient.iter().map(|g| g / active).collect();
    assert_close("gradient", &scaled, &gradient, 1e-5);
    let along = actual.gradient.iter().zip(&case.anchors);
    let along: f64 = along.map(|(g, u)| f64::from(*g) * f64::from(*u)).sum();
    let beside: f64 = actual.terms.iter().map(|t| f64::from(*t)).sum();
    if expected.active > 0 {
        let mean = (f64::from(rule.scale(share)) * along + beside) / expected.active as f64;
        let loss = [(mean + f64::from(rule.loss_margin)) as f32];
        assert_close("loss", &loss, &[expected.loss], 1e-5);
    }
}

/// Histogram of every pair by similarity, from a loop over pairs: `[positives, negatives]` of each of 64 bins over [-1, 1].
fn pairs(case: &Case) -> [Vec<u64>; 2] {
    let (anchors, references) = (to_f64(&case.anchors), to_f64(&case.references));
    reference::pairs(
        &anchors,
        &case.anchor_tags,
        &references,
        &case.tags,
        case.stride,
        64,
    )
}

/// A memory of `m` rows of which the last `rows` are the batch itself.
fn memory_case(seed: u64, rows: usize, m: usize, classes: u32) -> Case {
    let mut rng = rng(seed);
    let references = tied_unit_rows(&mut rng, m);
    let tags: Vec<[u32; 2]> = labels(&mut rng, m, classes)
        .into_iter()
        .zip(5 * m as u32..)
        .map(|(label, id)| [label, id])
        .collect();
    Case {
        anchors: references[(m - rows) * 64..].to_vec(),
        anchor_tags: tags[m - rows..].to_vec(),
        references,
        tags,
        stride: 64,
        precision: Precision::F32,
        most: 0,
    }
}

#[test]
fn counts_and_gradients_equal_the_loops_on_data_full_of_ties() {
    for engine in engines() {
        for (seed, (rows, m, classes)) in [
            (1, 1, 1),
            (2, 3, 2),
            (7, 40, 3),
            (8, 255, 4),
            (9, 256, 40),
            (20, 257, 2),
            (33, 600, 5),
        ]
        .into_iter()
        .enumerate()
        {
            let case = memory_case(seed as u64, rows, m, classes);
            for kind in KINDS {
                // Similarities are multiples of 1/32: margins on one, and between two.
                for (miner_margin, loss_margin) in
                    [(0.25, 0.25), (0.125, 0.3), (0.0, 0.0625), (-0.0625, 0.25)]
                {
                    // Distances are roots of multiples of 1/16: of two that differ by just a margin, both are exact.
                    for distance in DISTANCES {
                        let rule = Rule {
                            distance,
                            kind,
                            miner_margin,
                            loss_margin,
                        };
                        compare(&engine, &case, &rule, rows, false);
                    }
                }
            }
        }
    }
}

#[test]
fn counts_and_gradients_equal_the_loops_on_references_in_half_precision() {
    let sizes = [(1, 1, 1), (9, 256, 40), (20, 257, 2), (8, 4200, 4)];
    for engine in engines() {
        for (seed, (rows, m, classes)) in sizes.into_iter().enumerate() {
            // Multiples of 1/8, which half precision holds.
            let case = Case {
                precision: Precision::F16,
                ..memory_case(seed as u64, rows, m, classes)
            };
            for distance in DISTANCES {
                let rule = Rule {
                    distance,
                    kind: Kind::Semihard,
                    miner_margin: 0.25,
                    loss_margin: 0.25,
                };
                compare(&engine, &case, &rule, rows, false);
            }
        }
    }
}

/// Rows whose numbers have no bits to spare, with these labels: sums of theirs depend on the order of their terms.
fn random_case(seed: u64, rows: usize, m: usize, classes: u32, dim: usize) -> Case {
    let mut case = memory_case(seed, rows, m, classes);
    let values = to_f64(&random_rows(&mut rng(seed), m, dim));
    let unit = reference::normalize(&values, dim);
    case.references = unit.iter().map(|v| *v as f32).collect();
    case.anchors = case.references[(m - rows) * dim..].to_vec();
    case.stride = dim;
    case
}

#[test]
fn a_workgroup_that_does_all_of_a_row_changes_no_byte() {
    let bits = |values: &[f32]| -> Vec<u32> { values.iter().map(|v| v.to_bits()).collect() };
    let engine = gpu_in(TileShape::Tile, 256 << 20);
    let sizes = [
        (1, 1, 1, 4),
        (5, 255, 3, 64),
        (7, 256, 40, 64),
        (9, 257, 3, 128),
        (12, 3000, 300, 20),
        (33, 1024, 12, 64),
        (64, 1024, 100, 128),
    ];
    for (seed, (rows, m, classes, dim)) in sizes.into_iter().enumerate() {
        let mut case = random_case(200 + seed as u64, rows, m, classes, dim);
        let rules = KINDS.into_iter().zip(DISTANCES.into_iter().cycle());
        for (kind, distance) in rules {
            let rule = Rule {
                distance,
                kind,
                miner_margin: 0.2,
                loss_margin: 0.15,
            };
            for precision in [Precision::F32, Precision::F16] {
                case.precision = precision;
                let [alone, apart] = [0, 1 << 16].map(|most| {
                    case.most = most;
                    let before = engine.dispatches();
                    let found = run(&engine, &case, &rule, rows, false);
                    let [gradient, terms] = [&found.gradient, &found.terms].map(|v| bits(v));
                    let counts = (found.totals, found.pairs, found.positives);
                    (engine.dispatches() - before, (counts, gradient, terms))
                });
                let on = format!("{rule:?}, {rows} x {m} x {dim}, {precision:?}");
                assert!(
                    alone.0 == 1 && apart.0 > 1,
                    "{on}: {}, {}",
                    alone.0,
                    apart.0
                );
                assert!(alone.1 == apart.1, "{on}");
            }
        }
    }
}

#[test]
fn blocks_of_rows_change_no_byte() {
    let case = memory_case(50, 40, 300, 6);
    let rule = Rule {
        distance: Distance::Cosine,
        kind: Kind::All,
        miner_margin: 0.2,
        loss_margin: 0.2,
    };
    for engine in engines() {
        let whole = run(&engine, &case, &rule, 40, false);
        for block_rows in [1, 7, 8, 16, 39] {
            let blocks = run(&engine, &case, &rule, block_rows, false);
            assert_eq!(blocks.totals, whole.totals);
            assert_eq!(blocks.pairs, whole.pairs);
            assert_eq!(blocks.gradient, whole.gradient);
        }
    }
}

/// Totals, gradient, and the positives of each anchor with their active negatives.
type BySimilarity = ([u64; 5], Vec<f64>, Vec<Vec<(f32, u32)>>);

/// Results of a loop over all triplets, computed from the numbers of positives and negatives at each similarity: for cases with too
/// many triplets for the loop.
fn by_similarity(case: &Case, rule: &Rule) -> BySimilarity {
    let dim = case.stride;
    let (anchors, references) = (to_f64(&case.anchors), to_f64(&case.references));
    let value = |s: f64| match rule.distance {
        Distance::Cosine => s,
        Distance::L2 => -(2.0 - 2.0 * s).max(0.0).sqrt(),
    };
    let slope = |s: f64| match rule.distance {
        Distance::L2 if s < 1.0 => 1.0 / (2.0 - 2.0 * s).sqrt(),
        Distance::L2 => 0.0,
        Distance::Cosine => 1.0,
    };
    let (miner_margin, loss_margin) = (f64::from(rule.miner_margin), f64::from(rule.loss_margin));
    let (mut totals, mut gradient, mut positives) = ([0; 5], Vec::new(), Vec::new());
    for (anchor, [label, id]) in anchors.chunks(dim).zip(&case.anchor_tags) {
        let s: Vec<f64> = references
            .chunks(dim)
            .map(|reference| anchor.iter().zip(reference).map(|(a, b)| a * b).sum())
            .collect();
        // Similarities are multiples of 1/32.
        let place = |s: f64| (32.0 * s) as usize + 32;
        let mut counts = [[0u64; 65]; 2];
        for (s, [other, other_id]) in s.iter().zip(&case.tags) {
            if other != label {
                counts[1][place(*s)] += 1;
            } else if other_id != id {
                counts[0][place(*s)] += 1;
            }
        }
        let mut weights = [[0u64; 65]; 2];
        for p in 0..65 {
            for n in 0..65 {
                let triplets = counts[0][p] * counts[1][n];
                let [v_ap, v_an] = [p, n].map(|place| value(place as f64 / 32.0 - 1.0));
                let tm = v_ap - v_an;
                let within = tm <= miner_margin;
                let hard = within && tm <= 0.0;
                let mined = match rule.kind {
                    Kind::All => within,
                    Kind::Easy => !within,
                    Kind::Semihard => within && !hard,
                    Kind::Hard => hard,
                    Kind::Unmined => true,
                };
                let active = mined && tm < loss_margin;
                for (total, counts) in totals.iter_mut().zip([true, within, hard, mined, active]) {
                    *total += triplets * u64::from(counts);
                }
                weights[0][p] += counts[1][n] * u64::from(active);
                weights[1][n] += counts[0][p] * u64::from(active);
            }
        }
        let mut own = vec![0.0; dim];
        let mut ordered = Vec::new();
        for ((s, [other, other_id]), reference) in
            s.iter().zip(&case.tags).zip(references.chunks(dim))
        {
            let weight = match other == label {
                true if other_id == id => continue,
                true => {
                    ordered.push((*s as f32, weights[0][place(*s)] as u32));
                    -(weights[0][place(*s)] as f64)
                }
                false => weights[1][place(*s)] as f64,
            };
            for (sum, component) in own.iter_mut().zip(reference) {
                *sum += weight * slope(*s) * component;
            }
        }
        ordered.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        positives.push(ordered);
        gradient.extend(own);
    }
    (totals, gradient, positives)
}

#[test]
fn a_hundred_thousand_positives_of_a_row_are_each_counted() {
    let mut case = memory_case(55, 3, 100_100, 1);
    for (place, [label, _]) in case.tags.iter_mut().enumerate() {
        *label = u32::from(place % 1001 != 1);
    }
    case.anchor_tags = case.tags[100_097..].to_vec();
    for (kind, distance) in [
        (Kind::Semihard, Distance::Cosine),
        (Kind::Unmined, Distance::L2),
    ] {
        let rule = Rule {
            distance,
            kind,
            miner_margin: 0.25,
            loss_margin: 0.25,
        };
        let (totals, gradient, positives) = by_similarity(&case, &rule);
        assert!(positives[0].len() == 99_999 && totals[4] > 0);
        for engine in engines() {
            let actual = run(&engine, &case, &rule, 3, false);
            let on = format!("{rule:?} on {}", engine.info().engine);
            assert_eq!(actual.totals, totals, "{on}");
            for (actual, expected) in actual.positives.iter().zip(&positives) {
                assert_eq!(actual.len(), expected.len());
                let differ = actual.iter().zip(expected).position(|(a, e)| a != e);
                assert_eq!(differ, None, "{on}: of the sorted positives");
            }
            let scale = totals[4] as f32;
            let scaled: Vec<f32> = actual.gradient.iter().map(|g| g / scale).collect();
            let expected: Vec<f64> = gradient.iter().map(|g| g / f64::from(scale)).collect();
            assert_close("gradient", &scaled, &expected, 1e-6);
        }
    }
}

#[test]
fn a_row_stored_twice_is_a_positive_of_its_copy() {
    let mut case = memory_case(60, 6, 30, 3);
    // The first anchor's row also stands in slot 2, stored earlier: another id, so a positive at similarity 1.
    let slot = case.tags.len() - 6;
    let row = case.references[slot * 64..][..64].to_vec();
    case.references[2 * 64..3 * 64].copy_from_slice(&row);
    case.tags[2][0] = case.tags[slot][0];
    for engine in engines() {
        for kind in KINDS {
            let rule = Rule {
                distance: Distance::Cosine,
                kind,
                miner_margin: 0.25,
                loss_margin: 0.25,
            };
            compare(&engine, &case, &rule, 6, false);
        }
    }
}

#[test]
fn in_batch_references_get_their_share_of_the_gradient() {
    for engine in engines() {
        for (seed, rows) in [2, 8, 9, 60, 256, 300].into_iter().enumerate() {
            let case = memory_case(70 + seed as u64, rows, rows, 4);
            for kind in KINDS {
                for distance in DISTANCES {
                    let rule = Rule {
                        distance,
                        kind,
                        miner_margin: 0.25,
                        loss_margin: 0.2,
                    };
                    compare(&engine, &case, &rule, rows, true);
                }
            }
        }
    }
}

#[test]
fn the_share_finds_a_positive_whose_similarity_comes_out_a_bit_higher_the_second_time() {
    for engine in engines() {
        let case = memory_case(78, 40, 40, 4);
        let rule = Rule {
            distance: Distance::Cosine,
            kind: Kind::All,
            miner_margin: 0.25,
            loss_margin: 0.2,
        };
        let expected = run(&engine, &case, &rule, 40, true).gradient;
        // The recomputed value is then slightly above the stored one.
        let lower = |scratch: &mut Scratch, places: usize| {
            let mut thresholds = read(&engine, &scratch.thresholds, places);
            for [bits, _] in &mut thresholds {
                let s = f32::from_bits(*bits);
                *bits = if s == 0.0 {
                    -1e-9f32
                } else {
                    s - s.abs() * 1e-7
                }
                .to_bits();
            }
            pollster::block_on(engine.upload(&mut scratch.thresholds, 0, &thresholds))
                .expect("uploads");
        };
        let actual = run_between(0, &engine, &case, &rule, 40, Some(40), lower).gradient;
        let expected: Vec<f64> = expected.iter().map(|g| f64::from(*g)).collect();
        assert_close("gradient", &actual, &expected, 1e-5);
    }
}

#[test]
fn the_share_of_rows_in_parts_is_the_same_in_every_byte() {
    let case = memory_case(79, 300, 300, 4);
    let rule = Rule {
        distance: Distance::L2,
        kind: Kind::Semihard,
        miner_margin: 0.25,
        loss_margin: 0.2,
    };
    for engine in engines() {
        let shared =
            |at_once| run_between(0, &engine, &case, &rule, 300, Some(at_once), |_, _| ()).gradient;
        assert_eq!(shared(256), shared(300));
    }
}

#[test]
fn the_gradient_is_the_slope_of_the_loss_on_random_rows() {
    // Away from ties: |tm - margin| of every triplet is checked to be above 1e-4, where f32 and f64 agree on each.
    let (rows, m, dim) = (10, 60, 24);
    let mut random = rng(80);
    let references: Vec<f32> =
        reference::normalize(&to_f64(&random_rows(&mut random, m, dim)), dim)
            .iter()
            .map(|v| *v as f32)
            .collect();
    let tags: Vec<[u32; 2]> = labels(&mut random, m, 4)
        .into_iter()
        .zip(0..)
        .map(|(label, id)| [label, id])
        .collect();
    let case = Case {
        anchors: references[..rows * dim].to_vec(),
        anchor_tags: tags[..rows].to_vec(),
        references,
        tags,
        stride: dim,
        precision: Precision::F32,
        most: 0,
    };
    for engine in engines() {
        for distance in DISTANCES {
            let rule = Rule {
                distance,
                kind: Kind::Semihard,
                miner_margin: 0.2,
                loss_margin: 0.15,
            };
            compare(&engine, &case, &rule, rows, false);
        }
    }
}

#[test]
fn totals_carry_past_32_bits() {
    let case = memory_case(90, 16, 600, 2);
    let rule = Rule {
        distance: Distance::Cosine,
        kind: Kind::Unmined,
        miner_margin: 0.2,
        loss_margin: 3.0,
    };
    for engine in engines() {
        let counted = run(&engine, &case, &rule, 16, false);
        let before = (7 << 32) - 5;
        let carried = run_onto(before, &engine, &case, &rule, 16, false);
        assert_eq!(carried.totals, counted.totals.map(|total| before + total));
        assert!(carried.totals[0] > 7 << 32);
        for (carried, counted) in carried.pairs.iter().zip(&counted.pairs) {
            let expected: Vec<u64> = counted.iter().map(|count| before + count).collect();
            assert_eq!(*carried, expected);
            assert!(carried.iter().any(|count| *count > 7 << 32));
        }
    }
}

#[test]
fn a_workgroup_counts_past_32_bits() {
    // Eight rows share 2^21 thresholds, and each of them meets 256 negatives: 2^32 triplets, a low word of zero.
    let (rows, references, positives) = (8, 256, 1usize << 21);
    let engine = open(EngineKind::Gpu, 256 << 20);
    let anchors = vector(&engine, &[1.0f32, 0.0, 0.0, 0.0].repeat(rows), 0);
    let reference_rows = vector(&engine, &[0.0f32, 1.0, 0.0, 0.0].repeat(references), 0);
    let row = Row {
        label: 1,
        id: 0,
        offset: 0,
        positives: positives as u32,
    };
    let batch = vector(&engine, &vec![row; rows], 0);
    let tags = vector(&engine, &vec![[2u32, 5]; references], 0);
    let thresholds = vector(&engine, &vec![[0.5f32.to_bits(), 7]; positives], 0);
    let gap_counts = vector(&engine, &vec![0u32; positives + rows + 1], 0);
    let parts = output::<f32>(&engine, rows * part_stride(4));
    let report = vector(&engine, &[0u32; TERMS], 0);
    fn bound<T: bytemuck::Pod>(vector: &DeviceVec<T>) -> nearfar::gpu::Binding<'_> {
        let DeviceVec::Gpu(vector) = vector else {
            panic!("a GPU was opened");
        };
        vector.binding()
    }
    let (first_row, batch_first, report_first, segments) = (0, 0, 0, 1);
    let not_counted = u32::MAX;
    let (first_reference, from_id, to_id) = (0, 0, u32::MAX);
    let stride = 1;
    let params = [
        stride,
        first_row,
        rows as u32,
        batch_first,
        references as u32,
        first_reference,
        from_id,
        to_id,
        segments,
        references as u32,
        report_first,
        not_counted,
        Kind::Unmined as u32,
        1f32.to_bits(),
        3f32.to_bits(),
        Distance::Cosine as u32,
    ];
    let Commands::Gpu(mut commands) = engine.commands() else {
        panic!("a GPU was opened");
    };
    let buffers = [
        bound(&anchors),
        bound(&reference_rows),
        bound(&batch),
        bound(&tags),
        bound(&thresholds),
        bound(&gap_counts),
        bound(&parts),
        bound(&report),
    ];
    commands.dispatch(&MINE, &params, &buffers, 1);
    engine.submit(Commands::Gpu(commands));
    let words = read(&engine, &report, TERMS);
    let totals = TOTALS.map(|total| total.read(&words));
    assert_eq!(totals, [1 << 32, 1 << 32, 0, 1 << 32, 1 << 32]);
    let beyond = &words[Total::Active as usize + 2..];
    assert!(beyond.iter().all(|word| *word == 0), "no pair is counted");
    // Active triplets are seen although the low word of their count is zero.
    let pull = (positives * references) as f32;
    assert_eq!(
        read(&engine, &parts, rows * part_stride(4)),
        [0.0, pull, 0.0, 0.0, pull, pull, pull, pull].repeat(rows)
    );
}

use half::f16;
use nearfar::kernels::normalize::{Bank, Slots, store};
use nearfar::kernels::pair_gradient::{WINDOW, anchor_gradient};
use nearfar::kernels::ranks::{Block, Row, SEGMENT};
use nearfar::kernels::select::{Kept, Selection};
use nearfar::kernels::similarities::{similarities, width};
use nearfar::kernels::stored::{Precision, Stored, StoredRows, pack, unpack};
use nearfar::kernels::tile::Shape;
use nearfar::kernels::triplet_loss::{Weighing, triplet_loss};
use nearfar::kernels::triplet_margin::{Kind, Rule, TERMS};
use nearfar::{Distance, Engine, TileShape, reference};
use rand::RngExt as _;

use super::common::{engines, gpu_in, output, random_rows, read, rng, stored, to_f64, vector};
use super::select::Case;

/// Values next to every other half of a sweep, and on it, from 2^-26 to 1: ties, values that lie just beside, halves themselves.
pub(super) fn sweep() -> Vec<f32> {
    let mut values = vec![0.0, 1.0, 2f32.powi(-24), 2f32.powi(-25), 2f32.powi(-14)];
    for exponent in 0..26 {
        for mantissa in [0, 1, 2, 3, 510, 511, 512, 1021, 1022, 1023] {
            let half = 2f32.powi(-exponent - 1) * (1.0 + mantissa as f32 / 1024.0);
            // Half a unit more: of halves below 2^-14 that is 2^-25.
            let tie = half + 2f32.powi((-exponent - 12).max(-25));
            let beside =
                |value: f32, by: i32| f32::from_bits(value.to_bits().wrapping_add_signed(by));
            values.extend([half, tie, beside(tie, -1), beside(tie, 1)]);
        }
    }
    values
}

/// The bits of a unit row's halves, two in a word, by the `half` crate.
pub(super) fn halves(values: &[f32]) -> Vec<u32> {
    let half = |value: f32| u32::from(f16::from_f32(value).to_bits());
    let pairs = values.chunks_exact(2);
    pairs.map(|two| half(two[0]) | half(two[1]) << 16).collect()
}

/// Unit rows as the engine makes them, and the words that it stores of them.
fn stored_by(engine: &Engine, rows: &[f32], stride: usize) -> (Vec<f32>, Vec<u32>) {
    let count = rows.len() / stride;
    let mut bank = Bank {
        rows: StoredRows::F16(output(engine, rows.len() / 2)),
        tags: output(engine, count),
    };
    let mut unit = vector(engine, rows, 0);
    let slots = Slots {
        cursor: 0,
        capacity: count,
        first_id: 0,
    };
    let mut commands = engine.commands();
    store(
        &mut commands,
        0..count,
        stride,
        &vector(engine, &vec![Row::default(); count], 0),
        0,
        slots,
        &mut unit,
        &mut output(engine, count),
        &mut bank,
        &mut vector(engine, &[0u32], 0),
    );
    engine.submit(commands);
    let StoredRows::F16(words) = &bank.rows else {
        unreachable!("it was made so")
    };
    let words = read(engine, words, rows.len() / 2);
    (read(engine, &unit, rows.len()), words)
}

#[test]
fn stored_halves_are_the_nearest_and_of_two_the_even_ones() {
    let sweep = sweep();
    // Beside a component that brings the row to length 1 exactly, in one of five tries, components stay what they are.
    let mut rows = Vec::new();
    for value in &sweep {
        let other = (1.0 - f64::from(*value).powi(2)).sqrt() as f32;
        for by in -2..=2 {
            let other = f32::from_bits(other.to_bits().saturating_add_signed(by));
            for sign in [1.0, -1.0] {
                rows.extend([sign * value, other, -0.0 * sign, 0.0]);
            }
        }
    }
    for engine in engines() {
        let (unit, words) = stored_by(&engine, &rows, 4);
        let expected = halves(&unit);
        let wrong = { words.iter().zip(&expected) }.position(|(a, b)| a != b);
        assert_eq!(wrong, None, "on {}", engine.info().engine);
        let came: std::collections::BTreeSet<u32> =
            unit.iter().map(|v| v.abs().to_bits()).collect();
        let kept = sweep.iter().filter(|value| came.contains(&value.to_bits()));
        let kept = kept.count();
        assert!(kept * 10 > sweep.len() * 9, "{kept} of {}", sweep.len());
        assert!(
            words.iter().any(|word| word & 0xffff == 0x8000),
            "minus zero"
        );
        assert!(
            words.iter().any(|word| word & 0xffff == 1),
            "the least half"
        );
    }
    // What no unit row has, by the host.
    let mut large: Vec<f32> = [2048.0f32, 2049.0, 2051.0, 65504.0, 65519.9, 65520.0, 1e9].to_vec();
    large.extend([f32::INFINITY, 1e-40, f32::MIN_POSITIVE, 6e-8, 3e-8]);
    large.extend(large.clone().iter().map(|value| -value));
    large.extend(
        (0..200_000)
            .map(|i| f32::from_bits(i * 21_407))
            .filter(|v| !v.is_nan()),
    );
    large.truncate(large.len() / 2 * 2);
    let mut words = vec![0; large.len() / 2];
    pack(&large, &mut words);
    assert_eq!(words, halves(&large));
    let mut nan = [0];
    pack(&[f32::NAN, -f32::NAN], &mut nan);
    assert!(
        f16::from_bits(nan[0] as u16).is_nan() && f16::from_bits((nan[0] >> 16) as u16).is_nan()
    );
}

#[test]
fn the_error_of_stored_rows_is_that_of_rounding() {
    for engine in engines() {
        for columns in [3, 64, 129] {
            let rows = random_rows(&mut rng(11), 3000 / columns + 1, columns);
            let stride = nearfar::kernels::stride(columns);
            let (_, words) = stored_by(&engine, &rows, stride);
            let mut found = vec![0.0; rows.len()];
            unpack(&words, &mut found);
            let exact = reference::normalize(&to_f64(&rows), stride);
            let squares = |values: &[f64]| -> f64 {
                let off = values.iter().zip(&exact);
                off.map(|(value, exact)| (value - exact).powi(2)).sum()
            };
            let rounded: Vec<f64> = exact.iter().map(|v| f16::from_f64(*v).to_f64()).collect();
            let (found, expected) = (squares(&to_f64(&found)).sqrt(), squares(&rounded).sqrt());
            assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
        }
    }
}

#[test]
fn every_finite_half_is_read_exactly() {
    let bits = (0..=u16::MAX).map(f16::from_bits);
    let all: Vec<f32> = bits
        .map(|half| if half.is_finite() { half.to_f32() } else { 0.0 })
        .collect();
    let (rows, mut anchors) = (all.len() / 4, vec![0.0; 16]);
    for i in 0..4 {
        anchors[5 * i] = 1.0;
    }
    let block = Block {
        first_row: 0,
        rows: 4,
        batch: 0,
        first_reference: 0,
        references: rows,
        stride: 4,
    };
    for engine in engines() {
        let (anchors, known) = (
            vector(&engine, &anchors, 0),
            stored(&engine, &all, Precision::F16),
        );
        for shape in Shape::ALL {
            let found = of(&engine, &block, shape, &anchors, known.read());
            for (place, s) in found.iter().enumerate() {
                let (component, reference) = (place / rows, place % rows);
                assert_eq!(*s, all[4 * reference + component]);
            }
        }
    }
    let mut floats = vec![0.0; all.len()];
    unpack(&halves(&all), &mut floats);
    assert!(
        floats
            .iter()
            .zip(&all)
            .all(|(a, b)| a.to_bits() == b.to_bits())
    );
}

/// Similarities of the block.
fn of(
    engine: &Engine,
    block: &Block,
    shape: Shape,
    anchors: &nearfar::DeviceVec<f32>,
    references: Stored<'_>,
) -> Vec<f32> {
    let count = block.rows * width(block.references);
    let mut s = output(engine, count);
    let mut commands = engine.commands();
    let distance = Distance::Cosine;
    similarities(
        &mut commands,
        block,
        shape,
        distance,
        anchors,
        references,
        &mut s,
    );
    engine.submit(commands);
    read(engine, &s, count)
}

/// Rows whose components half precision holds.
pub(super) fn rounded_rows(seed: u64, rows: usize, columns: usize) -> Vec<f32> {
    let rows = random_rows(&mut rng(seed), rows, columns);
    rows.iter()
        .map(|v| f16::from_f32(v / 8.0).to_f32())
        .collect()
}

/// Fails unless both precisions give the same bits.
pub(super) fn compare<T: bytemuck::Pod>(
    what: &str,
    engine: &Engine,
    rows: &[f32],
    with: impl Fn(Stored<'_>) -> Vec<T>,
) {
    let [floats, halves] = [Precision::F32, Precision::F16].map(|precision| {
        let rows = stored(engine, rows, precision);
        with(rows.read())
    });
    let [floats, halves]: [&[u8]; 2] =
        [bytemuck::cast_slice(&floats), bytemuck::cast_slice(&halves)];
    assert!(floats == halves, "{what} on {}", engine.info().engine);
}

#[test]
fn kernels_give_the_bits_that_they_give_of_the_same_rows_as_floats() {
    let [gpu, cpu] = engines();
    for engine in [gpu, gpu_in(TileShape::Tile, 256 << 20), cpu] {
        for (rows, m, columns) in [(1, 1, 2), (7, 40, 37), (33, 300, 64), (3, WINDOW + 300, 12)] {
            let stride = nearfar::kernels::stride(columns);
            let block = Block {
                first_row: 1,
                rows,
                batch: 0,
                first_reference: 0,
                references: m,
                stride,
            };
            let own = random_rows(&mut rng(2), rows + 1, columns);
            let anchors = vector(&engine, &own, 0);
            let known = rounded_rows(3, m, columns);
            for shape in Shape::ALL {
                compare("similarities", &engine, &known, |stored| {
                    of(&engine, &block, shape, &anchors, stored)
                });
            }
            let mut weights = random_rows(&mut rng(4), rows, width(m));
            weights
                .iter_mut()
                .step_by(3)
                .for_each(|weight| *weight = 0.0);
            let weights = vector(&engine, &weights, 0);
            compare("gradients", &engine, &known, |stored| {
                let mut gradient = vector(&engine, &own, 0);
                let mut commands = engine.commands();
                anchor_gradient(&mut commands, &block, true, stored, &weights, &mut gradient);
                engine.submit(commands);
                read(&engine, &gradient, own.len())
            });
        }
    }
}

#[test]
fn swapped_triplets_cost_what_they_cost_of_the_same_rows_as_floats() {
    let weighing = Weighing {
        rule: Rule {
            distance: Distance::Cosine,
            kind: Kind::All,
            miner_margin: 0.2,
            loss_margin: 0.2,
        },
        swap: true,
        one_negative: false,
        smooth: false,
    };
    for engine in engines() {
        let mut case = Case::memory(5, 6, 300, 4);
        let mut rng = rng(6);
        for value in &mut case.references {
            *value = f16::from_f32(*value * rng.random_range(0.5..1.5)).to_f32();
        }
        let block = case.block();
        let cells = block.rows * width(block.references);
        compare("triplets", &engine, &case.references, |references| {
            let mut selected = case.selected(&engine, &Selection::all(Distance::Cosine));
            let mut terms = output(&engine, block.rows * block.references.div_ceil(SEGMENT));
            let kept: &mut Kept = &mut selected.kept;
            let mut commands = engine.commands();
            let report = &mut selected.report;
            triplet_loss(
                &mut commands,
                &block,
                &weighing,
                references,
                kept,
                &mut terms,
                3,
                report,
            );
            engine.submit(commands);
            let mut found = read(&engine, &kept.weights, cells);
            assert!(found.iter().any(|weight| *weight != 0.0), "some cost");
            let report = read(&engine, &selected.report, 3 + TERMS + block.rows);
            found.extend(report.iter().map(|word| f32::from_bits(*word)));
            found
        });
    }
}

#[test]
fn chunks_of_a_batch_are_stored_as_the_whole_batch_is() {
    let (count, stride, chunk) = (10, 8, 4);
    let rows = random_rows(&mut rng(7), count, stride);
    let batch: Vec<Row> = (0..count as u32)
        .map(|label| Row {
            label,
            ..Row::default()
        })
        .collect();
    let slots = Slots {
        cursor: 9,
        capacity: 12,
        first_id: 50,
    };
    for engine in engines() {
        let batch = vector(&engine, &batch, 0);
        let [whole, parts] = [count, chunk].map(|at_once| {
            let mut bank = Bank {
                rows: StoredRows::F16(vector(&engine, &[7u32; 48], 0)),
                tags: vector(&engine, &[[7u32; 2]; 12], 0),
            };
            let (mut unit, mut norms) = (
                output::<f32>(&engine, count * stride),
                output(&engine, count),
            );
            let mut status = vector(&engine, &[0u32], 0);
            // The first rows last, as in training.
            for first in (0..count).step_by(at_once).rev() {
                let own = first..count.min(first + at_once);
                let part = &rows[first * stride..own.end * stride];
                let mut commands = engine.commands();
                commands.upload(&mut unit, 0, part);
                let (unit, norms, bank) = (&mut unit, &mut norms, &mut bank);
                store(
                    &mut commands,
                    own,
                    stride,
                    &batch,
                    0,
                    slots,
                    unit,
                    norms,
                    bank,
                    &mut status,
                );
                engine.submit(commands);
            }
            let StoredRows::F16(words) = &bank.rows else {
                unreachable!("it was made so")
            };
            let unit: Vec<u32> = read(&engine, &unit, count * stride)
                .iter()
                .map(|v| v.to_bits())
                .collect();
            let norms: Vec<u32> = read(&engine, &norms, count)
                .iter()
                .map(|v| f32::to_bits(*v))
                .collect();
            (
                unit,
                norms,
                read(&engine, words, 48),
                read(&engine, &bank.tags, 12),
            )
        });
        assert_eq!(whole, parts, "on {}", engine.info().engine);
        assert_eq!(whole.3[9], [0, 50]);
        assert_eq!(
            whole.3[7..9],
            [[7, 7]; 2],
            "slots that nothing went into stay"
        );
    }
}

use nearfar::kernels::stored::Precision;
use nearfar::kernels::stride;
use nearfar::kernels::truncate::{Truncation, truncate, truncate_stored, widen};
use nearfar::reference;

use super::common::{
    assert_close, engines, output, random_rows, read, rng, stored, to_f64, vector,
};

/// Numbers of whole and of truncated rows, around the vec4 and the 64 invocations of a workgroup.
const SIZES: [(usize, usize); 7] = [
    (2, 2),
    (8, 3),
    (9, 8),
    (64, 64),
    (66, 33),
    (257, 256),
    (1000, 260),
];

const ROWS: usize = 9;

fn truncation((whole, dim): (usize, usize)) -> Truncation {
    Truncation {
        rows: ROWS,
        whole,
        dim,
    }
}

/// The first numbers of rows, each at length 1, with their lengths before.
fn expected(rows: &[f32], sizes: &Truncation) -> (Vec<f64>, Vec<f64>) {
    let narrow = stride(sizes.dim);
    let cut = rows.chunks_exact(stride(sizes.whole)).flat_map(|row| {
        let mut row = to_f64(&row[..sizes.dim]);
        row.resize(narrow, 0.0);
        row
    });
    let cut: Vec<f64> = cut.collect();
    let norms = cut
        .chunks_exact(narrow)
        .map(|row| reference::dot(row, row).sqrt());
    (reference::normalize(&cut, narrow), norms.collect())
}

#[test]
fn first_numbers_come_out_unit_and_a_zero_row_stays_zero() {
    for engine in engines() {
        for sizes in SIZES.map(truncation) {
            let mut rows = random_rows(&mut rng(3), ROWS, sizes.whole);
            let (wide, narrow) = (stride(sizes.whole), stride(sizes.dim));
            rows[4 * wide..][..sizes.dim].fill(0.0);
            let (mut cut, mut norms) = (output(&engine, ROWS * narrow), output(&engine, ROWS));
            let mut commands = engine.commands();
            let unit = vector(&engine, &rows, 0);
            truncate(&mut commands, &sizes, &unit, &mut cut, &mut norms);
            engine.submit(commands);
            let (unit, lengths) = expected(&rows, &sizes);
            assert_close("unit", &read(&engine, &cut, unit.len()), &unit, 1e-6);
            assert_close("norms", &read(&engine, &norms, ROWS), &lengths, 1e-5);
        }
    }
}

#[test]
fn stored_rows_are_truncated_in_their_precision_and_no_length_is_written() {
    for engine in engines() {
        for sizes in SIZES.map(truncation) {
            // Multiples of 1/1024 below 1, which half precision holds.
            let rows = random_rows(&mut rng(4), ROWS, sizes.whole);
            let rows: Vec<f32> = rows.iter().map(|v| (v * 1024.0).round() / 1024.0).collect();
            let (unit, _) = expected(&rows, &sizes);
            for (precision, tolerance) in [(Precision::F32, 1e-6), (Precision::F16, 5e-4)] {
                let zeros = vec![0.0; unit.len()];
                let mut cut = stored(&engine, &zeros, precision);
                let mut norms = vector(&engine, &[7.0f32; ROWS], 0);
                let mut commands = engine.commands();
                let known = stored(&engine, &rows, precision);
                truncate_stored(&mut commands, &sizes, known.read(), &mut cut, &mut norms);
                engine.submit(commands);
                let found = match &cut {
                    nearfar::kernels::stored::StoredRows::F32(rows) => {
                        read(&engine, rows, unit.len())
                    }
                    nearfar::kernels::stored::StoredRows::F16(words) => {
                        let words = read(&engine, words, unit.len() / 2);
                        let mut values = vec![0.0; unit.len()];
                        nearfar::kernels::stored::unpack(&words, &mut values);
                        values
                    }
                };
                assert_close("stored", &found, &unit, tolerance);
                assert_eq!(read(&engine, &norms, ROWS), [7.0; ROWS]);
            }
        }
    }
}

#[test]
fn gradients_go_to_the_first_numbers_and_are_added_if_asked() {
    for engine in engines() {
        for sizes in SIZES.map(truncation) {
            let (wide, narrow) = (stride(sizes.whole), stride(sizes.dim));
            let gradient = random_rows(&mut rng(5), ROWS, sizes.dim);
            let before = random_rows(&mut rng(6), ROWS, sizes.whole);
            for onto in [false, true] {
                let mut whole = vector(&engine, &before, 0);
                let mut commands = engine.commands();
                let given = vector(&engine, &gradient, 0);
                widen(&mut commands, &sizes, &given, 0.25, onto, &mut whole);
                engine.submit(commands);
                let mut expected = vec![0.0; ROWS * wide];
                for (i, value) in expected.iter_mut().enumerate() {
                    let (row, column) = (i / wide, i % wide);
                    if onto {
                        *value += f64::from(before[i]);
                    }
                    if column < narrow {
                        *value += 0.25 * f64::from(gradient[row * narrow + column]);
                    }
                }
                assert_close(
                    "whole",
                    &read(&engine, &whole, expected.len()),
                    &expected,
                    1e-6,
                );
            }
        }
    }
}

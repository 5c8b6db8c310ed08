use nearfar::kernels::dropout::{Dropout, drop};

use super::common::{engines, read, vector};

const ROWS: usize = 96;
const STRIDE: usize = 1024;

/// Mask of `ROWS` x `STRIDE` ones after dropout; checks that engines agree, and that kept values are scaled.
fn kept(dropout: Dropout) -> Vec<bool> {
    let masks = engines().into_iter().map(|engine| {
        let mut values = vector(&engine, &vec![1f32; ROWS * STRIDE], 4);
        let mut commands = engine.commands();
        drop(&mut commands, &dropout, 0..ROWS, STRIDE, &mut values);
        engine.submit(commands);
        let values = read(&engine, &values, ROWS * STRIDE);
        let scale = 1.0 / (1.0 - dropout.rate);
        assert!(values.iter().all(|v| [0.0, scale].contains(v)));
        values.iter().map(|v| *v > 0.0).collect::<Vec<_>>()
    });
    let masks: Vec<_> = masks.collect();
    assert!(masks.windows(2).all(|pair| pair[0] == pair[1]));
    masks.into_iter().next().expect("there is an engine")
}

/// Part of the places at which both masks agree.
fn agreement(a: &[bool], b: &[bool]) -> f64 {
    a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / a.len() as f64
}

/// Fails if `part` is more than five standard errors off.
fn assert_part(what: &str, part: f64, expected: f64, places: usize) {
    let error = (expected * (1.0 - expected) / places as f64).sqrt();
    assert!(
        (part - expected).abs() < 5.0 * error,
        "{what}: {part}, expected {expected}"
    );
}

#[test]
fn each_output_is_dropped_with_the_same_chance_whatever_else_is_dropped() {
    let places = ROWS * STRIDE;
    for rate in [0.1f32, 0.5, 0.95] {
        let of = |key| kept(Dropout { rate, key });
        let mask = of([1, 2]);
        let part =
            |mask: &[bool]| mask.iter().filter(|kept| **kept).count() as f64 / mask.len() as f64;
        let keep = f64::from(1.0 - rate);
        assert_part("all", part(&mask), keep, places);
        for row in mask.chunks_exact(STRIDE) {
            assert_part("a row", part(row), keep, STRIDE);
        }
        let both = keep * keep + (1.0 - keep) * (1.0 - keep);
        // Neighbours in a row and in a column, and the same place in another step, layer or seed.
        for apart in [1, 2, 3, 4, 64, STRIDE] {
            let count = places - apart;
            assert_part(
                "neighbours",
                agreement(&mask[apart..], &mask[..count]),
                both,
                count,
            );
        }
        for key in [[1, 3], [2, 2], [2, 1], [0x8000_0001, 2]] {
            assert_part("keys", agreement(&mask, &of(key)), both, places);
        }
        assert_eq!(mask, of([1, 2]));
    }
}

#[test]
fn a_row_has_its_mask_whichever_rows_come_with_it() {
    let dropout = Dropout {
        rate: 0.3,
        key: [1, 2],
    };
    let whole = kept(dropout);
    for engine in engines() {
        for rows in [0..5, 5..ROWS, 95..ROWS] {
            let count = rows.len() * STRIDE;
            let mut values = vector(&engine, &vec![1f32; count], 4);
            let mut commands = engine.commands();
            drop(&mut commands, &dropout, rows.clone(), STRIDE, &mut values);
            engine.submit(commands);
            let mask: Vec<bool> = read(&engine, &values, count)
                .iter()
                .map(|value| *value > 0.0)
                .collect();
            assert_eq!(mask, whole[rows.start * STRIDE..][..count], "{rows:?}");
        }
    }
}

#[test]
fn nothing_is_dropped_at_rate_0() {
    let rate = 0.0;
    assert!(kept(Dropout { rate, key: [1, 2] }).iter().all(|kept| *kept));
}

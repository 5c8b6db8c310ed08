//! Scores of vectors that are cut and stored in fewer bits are those of NumPy, and the advised size holds on other rows.

use nearfar::{EngineKind, RowSource, Rows, VectorFormat, VectorSizes, vector_sizes};
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use crate::common::{engines, open};

fn measured(
    engine: &nearfar::Engine,
    values: Vec<f32>,
    dim: usize,
    labels: &[String],
) -> VectorSizes {
    let rows = RowSource::Memory { values, dim };
    let rows = Rows {
        rows: &rows,
        labels,
    };
    pollster::block_on(vector_sizes(engine, rows, 0, 0, |_, _| {})).expect("measures")
}

#[test]
fn scores_of_every_size_are_those_of_numpy() {
    let golden: Value =
        serde_json::from_str(include_str!("../golden/vector_sizes.json")).expect("JSON");
    let numbers = |name: &str| golden[name].as_array().expect("a list").iter();
    let rows: Vec<f32> = numbers("rows")
        .map(|v| v.as_f64().expect("a number") as f32)
        .collect();
    let labels: Vec<String> = numbers("labels").map(Value::to_string).collect();
    for engine in engines() {
        let found = measured(&engine, rows.clone(), 40, &labels);
        assert_eq!(found.sizes.len(), numbers("sizes").len());
        for (size, expected) in found.sizes.iter().zip(numbers("sizes")) {
            let name = serde_json::json!(size.format);
            assert_eq!(
                (&expected["dim"], &expected["format"]),
                (&size.dim.into(), &name)
            );
            for (score, of) in [
                (size.precision_at_1, "precision_at_1"),
                (
                    size.mean_average_precision_at_r,
                    "mean_average_precision_at_r",
                ),
            ] {
                let expected = expected[of].as_f64().expect("a number");
                assert!(
                    (score - expected).abs() < 1e-6,
                    "{of} of {} {name}: {score}, NumPy {expected}",
                    size.dim
                );
            }
        }
    }
}

/// Rows of ten classes in 32 numbers, the first of which tell most.
fn drawn(seed: u64, rows: usize) -> (Vec<f32>, Vec<String>) {
    let mut centres = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let uniform =
        |rng: &mut rand_pcg::Pcg64Mcg| (0..4).map(|_| rng.random_range(-1.0..1.0)).sum::<f32>();
    let centres: Vec<f32> = (0..10 * 32)
        .map(|at| uniform(&mut centres) * 2.0 / (1.0 + (at % 32) as f32 / 4.0))
        .collect();
    let mut values = Vec::new();
    for row in 0..rows {
        let centre = &centres[row % 10 * 32..][..32];
        values.extend(centre.iter().map(|c| c + uniform(&mut rng)));
    }
    (
        values,
        (0..rows).map(|row| (row % 10).to_string()).collect(),
    )
}

#[test]
fn the_advised_size_loses_less_than_a_standard_error_on_other_rows_in_19_of_20_draws() {
    let engine = open(EngineKind::Cpu, 64 << 20);
    let mut kept = 0;
    for draw in 0..20 {
        let (values, labels) = drawn(100 + draw, 600);
        let advised = measured(&engine, values, 32, &labels).advised;
        let (values, labels) = drawn(1000 + draw, 600);
        let fresh = measured(&engine, values, 32, &labels);
        let size = fresh.sizes[advised];
        assert!(advised > 0, "half precision at least is free");
        let lost = [
            size.lost_precision_at_1[0],
            size.lost_mean_average_precision_at_r[0],
        ];
        kept +=
            u32::from(lost[0] <= fresh.standard_errors[0] && lost[1] <= fresh.standard_errors[1]);
    }
    assert!(kept >= 19, "{kept} of 20");
}

#[test]
fn the_sizes_are_halves_down_to_eight_numbers_and_their_bytes_are_counted() {
    let of = |dim| {
        let tried = VectorSizes::tried(dim);
        assert!(
            tried
                .chunks(4)
                .all(|four| four.iter().map(|(_, format)| *format).eq(VectorFormat::ALL))
        );
        tried
            .iter()
            .step_by(4)
            .map(|(dim, _)| *dim)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of(64), of(20), of(3)),
        (vec![64, 32, 16, 8], vec![20, 10], vec![3])
    );
    let engine = open(EngineKind::Cpu, 64 << 20);
    let (values, labels) = drawn(5, 100);
    let bytes: Vec<u64> = measured(&engine, values, 32, &labels)
        .sizes
        .iter()
        .map(|size| size.bytes)
        .collect();
    assert_eq!(bytes, [128, 64, 32, 4, 64, 32, 16, 2, 32, 16, 8, 1]);
}

use nearfar::kernels::pair_gradient::{WINDOW, anchor_gradient, reference_gradient};
use nearfar::kernels::ranks::Block;
use nearfar::kernels::similarities::width;

use super::common::{assert_close, engines, gpu_in, random_rows, read, rng, to_f64, vector};
use nearfar::TileShape;

/// Floats of a row.
const STRIDE: usize = 12;

#[test]
fn both_products_are_those_of_the_loops() {
    // (first row, rows, references): around a segment, and past a window.
    let cases = [
        (0, 1, 1),
        (2, 7, 40),
        (0, 300, 255),
        (1, 3, 257),
        (0, 2, WINDOW + 300),
    ];
    let [gpu, cpu] = engines();
    for engine in [gpu, gpu_in(TileShape::Tile, 256 << 20), cpu] {
        for (seed, (first_row, rows, m)) in cases.into_iter().enumerate() {
            let mut rng = rng(seed as u64);
            let (anchors, references) = (
                random_rows(&mut rng, first_row + rows, STRIDE),
                random_rows(&mut rng, m, STRIDE),
            );
            let width = width(m);
            let mut weights = random_rows(&mut rng, rows, width);
            // Padding at the end of a row pulls nothing, and neither does a weight of zero.
            for (i, weight) in weights.iter_mut().enumerate() {
                if i % width >= m {
                    *weight = 1e9;
                } else if i % 3 == 0 {
                    *weight = 0.0;
                }
            }
            let before = random_rows(&mut rng, m.max(first_row + rows), STRIDE);
            let block = Block {
                first_row,
                rows,
                batch: 0,
                first_reference: 0,
                references: m,
                stride: STRIDE,
            };
            let (on_anchors, on_references, on_weights) = (
                vector(&engine, &anchors, 0),
                vector(&engine, &references, 0),
                vector(&engine, &weights, 0),
            );
            let weight = |row: usize, r: usize| f64::from(weights[row * width + r]);
            for onto in [false, true] {
                let mut gradient = vector(&engine, &before, 0);
                let mut commands = engine.commands();
                anchor_gradient(
                    &mut commands,
                    &block,
                    onto,
                    (&on_references).into(),
                    &on_weights,
                    &mut gradient,
                );
                engine.submit(commands);
                let mut expected = to_f64(&before);
                for row in 0..rows {
                    for k in 0..STRIDE {
                        let sum: f64 = (0..m)
                            .map(|r| weight(row, r) * f64::from(references[r * STRIDE + k]))
                            .sum();
                        let value = &mut expected[(first_row + row) * STRIDE + k];
                        *value = sum + if onto { *value } else { 0.0 };
                    }
                }
                let found = read(&engine, &gradient, before.len());
                // 16,684 products below 1 in segments, each rounded to 6e-8.
                assert_close("anchors", &found, &expected, 1e-4);
            }
            for onto in [false, true] {
                let mut gradient = vector(&engine, &before, 0);
                let mut commands = engine.commands();
                reference_gradient(
                    &mut commands,
                    &block,
                    onto,
                    &on_anchors,
                    &on_weights,
                    &mut gradient,
                );
                engine.submit(commands);
                let mut expected = to_f64(&before);
                for r in 0..m {
                    for k in 0..STRIDE {
                        let value = &mut expected[r * STRIDE + k];
                        let there = if onto { *value } else { 0.0 };
                        let sum = (0..rows)
                            .map(|row| {
                                weight(row, r) * f64::from(anchors[(first_row + row) * STRIDE + k])
                            })
                            .sum::<f64>();
                        *value = there + sum;
                    }
                }
                let found = read(&engine, &gradient, before.len());
                assert_close("references", &found, &expected, 1e-5);
            }
        }
    }
}

#[test]
fn segments_summed_at_once_give_the_bits_of_one_after_the_other() {
    let (rows, m) = (3, WINDOW + 1000);
    let mut rng = rng(9);
    let references = random_rows(&mut rng, m, STRIDE);
    let weights = random_rows(&mut rng, rows, width(m));
    let block = Block {
        first_row: 0,
        rows,
        batch: 0,
        first_reference: 0,
        references: m,
        stride: STRIDE,
    };
    let [strip, tile] = [TileShape::Strip, TileShape::Tile].map(|shape| {
        let engine = gpu_in(shape, 256 << 20);
        let (references, weights) = (
            vector(&engine, &references, 0),
            vector(&engine, &weights, 0),
        );
        let mut gradient = vector(&engine, &vec![0.0f32; rows * STRIDE], 0);
        let mut commands = engine.commands();
        anchor_gradient(
            &mut commands,
            &block,
            false,
            (&references).into(),
            &weights,
            &mut gradient,
        );
        engine.submit(commands);
        let compiled = engine.compiled();
        let apart = compiled.contains(&"pair_gradient.anchors_apart");
        assert_eq!(apart, shape == TileShape::Tile, "{compiled:?}");
        read(&engine, &gradient, rows * STRIDE)
            .iter()
            .map(|value| value.to_bits())
            .collect::<Vec<_>>()
    });
    assert_eq!(strip, tile);
}

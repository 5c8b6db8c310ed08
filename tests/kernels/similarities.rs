use nearfar::kernels::ranks::Block;
use nearfar::kernels::similarities::{NONE, similarities, width};
use nearfar::kernels::stride;
use nearfar::kernels::tile::Shape;
use nearfar::{Distance, reference};

use super::common::{
    assert_close, engines, exact_unit_rows, output, random_rows, read, rng, to_f64, vector,
};

/// The similarities of the rows from `first_row` on, on every engine and in every shape.
fn everywhere(
    distance: Distance,
    first_row: usize,
    anchors: &[f32],
    references: &[f32],
    stride: usize,
) -> Vec<Vec<f32>> {
    let block = Block {
        first_row,
        rows: anchors.len() / stride - first_row,
        batch: 0,
        first_reference: 0,
        references: references.len() / stride,
        stride,
    };
    let count = block.rows * width(block.references);
    let mut found = Vec::new();
    for engine in engines() {
        let (anchors, references) = (vector(&engine, anchors, 0), vector(&engine, references, 0));
        for shape in Shape::ALL {
            let mut s = output(&engine, count + 4);
            let mut commands = engine.commands();
            similarities(
                &mut commands,
                &block,
                shape,
                distance,
                &anchors,
                (&references).into(),
                &mut s,
            );
            engine.submit(commands);
            let mut s = read(&engine, &s, count + 4);
            assert_eq!(s.split_off(count), vec![f32::from_bits(0xa5a5_a5a5); 4]);
            found.push(s);
        }
    }
    found
}

fn expected(first_row: usize, anchors: &[f32], references: &[f32], stride: usize) -> Vec<f64> {
    let (anchors, references) = (to_f64(anchors), to_f64(references));
    let fill = width(references.len() / stride) - references.len() / stride;
    let row = |anchor| {
        let all = references.chunks(stride).map(|r| reference::dot(anchor, r));
        all.chain(vec![f64::from(NONE); fill]).collect::<Vec<_>>()
    };
    anchors
        .chunks(stride)
        .skip(first_row)
        .flat_map(row)
        .collect()
}

#[test]
fn similarities_are_exact_where_products_are_and_rows_end_in_none() {
    for (seed, (rows, m)) in [(1, 1), (9, 3), (33, 129), (130, 1029)]
        .into_iter()
        .enumerate()
    {
        let mut rng = rng(seed as u64);
        let (anchors, references) = (
            exact_unit_rows(&mut rng, rows + 2),
            exact_unit_rows(&mut rng, m),
        );
        for s in everywhere(Distance::Cosine, 2, &anchors, &references, 64) {
            assert!(
                to_f64(&s) == expected(2, &anchors, &references, 64),
                "{rows} x {m}"
            );
        }
    }
}

#[test]
fn both_shapes_give_equal_bits_near_the_true_value() {
    let mut rng = rng(9);
    let (anchors, references) = (
        random_rows(&mut rng, 70, 37),
        random_rows(&mut rng, 301, 37),
    );
    let stride = stride(37);
    let found = everywhere(Distance::Cosine, 0, &anchors, &references, stride);
    let expected = expected(0, &anchors, &references, stride);
    for s in &found {
        // 37 products below 1, each rounded to 6e-8, and as many sums.
        assert_close("similarity", s, &expected, 1e-5);
    }
    assert!(found[0] == found[1], "strip and tile");
}

#[test]
fn a_similarity_counts_for_minus_the_distance() {
    let mut rng = rng(10);
    let (anchors, references) = (exact_unit_rows(&mut rng, 9), exact_unit_rows(&mut rng, 30));
    let none = f64::from(NONE);
    let expected: Vec<f64> = expected(0, &anchors, &references, 64)
        .into_iter()
        .map(|s| {
            if s == none {
                none
            } else {
                -(2.0 - 2.0 * s).sqrt()
            }
        })
        .collect();
    for s in everywhere(Distance::L2, 0, &anchors, &references, 64) {
        assert_close("value", &s, &expected, 1e-6);
    }
}

use nearfar::kernels::pair_counts::{PAIRS, count_pairs, read_pairs};
use nearfar::kernels::ranks::Inputs;
use nearfar::kernels::similarities::{similarities, width};
use nearfar::kernels::tile::Shape;
use nearfar::{Distance, Engine, reference};

use super::common::{engines, output, read, to_f64, vector};
use super::select::Case;

/// Counts of a case's rows, added to counts that start at `low`.
fn counted(engine: &Engine, case: &Case, distance: Distance, low: u32) -> [Vec<u64>; 2] {
    const FIRST: usize = 5;
    let block = case.block();
    let anchors = vector(engine, &case.anchors, 0);
    let references = vector(engine, &case.references, 0);
    let (batch, tags) = (
        vector(engine, &case.rows(), 0),
        vector(engine, &case.tags, 0),
    );
    let mut values = output(engine, block.rows * width(block.references));
    let before: Vec<u32> = (0..FIRST + PAIRS)
        .map(|word| low * u32::from((word + FIRST).is_multiple_of(2)))
        .collect();
    let mut report = vector(engine, &before, 4);
    let mut commands = engine.commands();
    let shape = Shape::of(engine.info(), block.rows);
    similarities(
        &mut commands,
        &block,
        shape,
        distance,
        &anchors,
        (&references).into(),
        &mut values,
    );
    let inputs = Inputs {
        anchors: &anchors,
        references: (&references).into(),
        batch: &batch,
        tags: &tags,
    };
    count_pairs(
        &mut commands,
        &block,
        distance,
        inputs,
        &values,
        FIRST,
        &mut report,
    );
    engine.submit(commands);
    let report = read(engine, &report, FIRST + PAIRS);
    assert_eq!(report[..FIRST], before[..FIRST]);
    read_pairs(&report[FIRST..])
}

fn total(counts: &[Vec<u64>; 2]) -> [u64; 2] {
    [0, 1].map(|side| counts[side].iter().sum())
}

#[test]
fn distances_are_counted_as_similarities() {
    let mut case = Case::memory(4, 8, 500, 5);
    // No similarity lies on a bound.
    for row in case.references.chunks_exact_mut(64) {
        row[63] = 0.1;
        let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
        row.iter_mut().for_each(|v| *v /= length);
    }
    case.anchors = case.references[(500 - 8) * 64..].to_vec();
    for engine in engines() {
        let [by_cosine, by_distance] =
            [Distance::Cosine, Distance::L2].map(|distance| counted(&engine, &case, distance, 0));
        assert_eq!(by_cosine, by_distance);
    }
}

#[test]
fn every_pair_but_a_row_and_its_copy_is_counted_by_its_similarity() {
    for case in [
        Case::memory(1, 5, 40, 3),
        Case::memory(2, 70, 1000, 12),
        Case::apart(3, 9, 30, 4),
    ] {
        let (anchors, references) = (to_f64(&case.anchors), to_f64(&case.references));
        let tags = (&case.anchor_tags, &case.tags);
        let expected = reference::pairs(&anchors, tags.0, &references, tags.1, 64, 64);
        for engine in engines() {
            let of = |distance, before| counted(&engine, &case, distance, before);
            assert_eq!(of(Distance::Cosine, 0), expected);
            assert_eq!(total(&of(Distance::L2, 0)), total(&expected));
            // A low word that is full carries into the high one.
            let carried = expected.clone().map(|counts| {
                let add = |count: u64| u64::from(u32::MAX) + count;
                counts.into_iter().map(add).collect::<Vec<_>>()
            });
            assert_eq!(of(Distance::Cosine, u32::MAX), carried);
        }
    }
}

use nearfar::kernels::ranks::{
    Block, Inputs, LabelBits, NO_ID, Row, Scratch, clear, find, gaps, order, pack,
};
use nearfar::kernels::tile::Shape;
use nearfar::{Engine, reference};
use rand::RngExt as _;

use super::common::{
    self, engines, exact_unit_rows, labels, output, random_rows, read, rng, tied_unit_rows, to_f64,
    vector,
};

/// Ranks of the positives of every query, nearest first, computed from the gaps as the metrics do.
fn ranks_from_gaps(
    engine: &Engine,
    shape: Shape,
    queries: &[f32],
    rows: &[Row],
    references: &[f32],
    tags: &[[u32; 2]],
    stride: usize,
) -> Vec<Vec<u64>> {
    let places = rows.iter().map(|row| row.positives as usize + 1).sum();
    let mut scratch = Scratch {
        thresholds: output(engine, places),
        gap_counts: output(engine, places),
    };
    let (queries, references) = (vector(engine, queries, 0), vector(engine, references, 0));
    let (batch, device_tags) = (vector(engine, rows, 0), vector(engine, tags, 0));
    let inputs = Inputs {
        anchors: &queries,
        references: (&references).into(),
        batch: &batch,
        tags: &device_tags,
    };
    let block = Block {
        first_row: 0,
        rows: rows.len(),
        batch: 0,
        first_reference: 0,
        references: tags.len(),
        stride,
    };
    let mut commands = engine.commands();
    clear(&mut commands, &block, inputs, &mut scratch);
    let labels = LabelBits::CLASSES;
    find(
        &mut commands,
        &block,
        0..NO_ID,
        labels,
        inputs,
        &mut scratch,
    );
    let most = rows.iter().map(|row| row.positives as usize).max();
    let most = most.unwrap_or(0);
    order(&mut commands, &block, most, inputs, &mut scratch);
    gaps(&mut commands, &block, shape, inputs, &mut scratch);
    engine.submit(commands);
    let gap_counts = read(engine, &scratch.gap_counts, places);
    let mut commands = engine.commands();
    pack(&mut commands, places, &mut scratch);
    engine.submit(commands);
    let packed = read(engine, &scratch.thresholds, places.div_ceil(4));
    let halves = packed
        .into_iter()
        .flatten()
        .flat_map(|word| [word & 0xffff, word >> 16]);
    assert_eq!(halves.take(places).collect::<Vec<_>>(), gap_counts);
    let ranks = |row: &Row| {
        let gap_counts = &gap_counts[row.offset as usize..][..=row.positives as usize];
        let mut above = 0;
        let mut ranks = Vec::new();
        for (j, gap) in (1..).zip((1..gap_counts.len()).rev()) {
            above += u64::from(gap_counts[gap]);
            ranks.push(j + above);
        }
        ranks
    };
    rows.iter().map(ranks).collect()
}

/// Rows of queries that are references, with the number of positives from their labels.
fn rows_of(query_tags: &[[u32; 2]], tags: &[[u32; 2]]) -> Vec<Row> {
    let mut offset = 0;
    let row = |[label, id]: &[u32; 2]| {
        let positives = tags
            .iter()
            .filter(|tag| tag[0] == *label && tag[1] != *id)
            .count() as u32;
        let row = Row {
            label: *label,
            id: *id,
            offset,
            positives,
        };
        offset += positives + 1;
        row
    };
    query_tags.iter().map(row).collect()
}

fn compare(
    queries: &[f32],
    query_tags: &[[u32; 2]],
    references: &[f32],
    tags: &[[u32; 2]],
    stride: usize,
) {
    let expected = reference::ranks(
        &to_f64(queries),
        query_tags,
        &to_f64(references),
        tags,
        stride,
    );
    for engine in engines() {
        let rows = rows_of(query_tags, tags);
        for shape in Shape::ALL {
            let actual = ranks_from_gaps(&engine, shape, queries, &rows, references, tags, stride);
            assert_eq!(actual, expected, "on {}, {shape:?}", engine.info().engine);
        }
    }
}

#[test]
fn ranks_equal_a_full_sort_on_data_full_of_ties() {
    for (seed, (m, classes)) in [
        (1, 1),
        (2, 1),
        (9, 3),
        (255, 4),
        (256, 30),
        (257, 2),
        (700, 2),
        (900, 300),
    ]
    .into_iter()
    .enumerate()
    {
        let mut rng = rng(seed as u64);
        let references = tied_unit_rows(&mut rng, m);
        let label = labels(&mut rng, m, classes);
        // Ids in no order: ties go to the smaller id, not to the earlier place.
        let tags: Vec<[u32; 2]> = label
            .iter()
            .enumerate()
            .map(|(i, label)| [*label, (i * 7919 % m.max(2)) as u32])
            .collect();
        let queries = m.min(37);
        compare(
            &references[..queries * 64],
            &tags[..queries],
            &references,
            &tags,
            64,
        );
    }
}

#[test]
fn ranks_equal_a_full_sort_where_similarities_are_exact() {
    let mut rng = rng(20);
    let references = exact_unit_rows(&mut rng, 1000);
    let queries = exact_unit_rows(&mut rng, 41);
    let tags: Vec<[u32; 2]> = labels(&mut rng, 1000, 12)
        .into_iter()
        .zip(0..)
        .map(|(label, id)| [label, id])
        .collect();
    let query_tags: Vec<[u32; 2]> = labels(&mut rng, 41, 13)
        .into_iter()
        .map(|label| [label, NO_ID])
        .collect();
    compare(&queries, &query_tags, &references, &tags, 64);
}

#[test]
fn more_positives_than_a_workgroup_are_sorted_too() {
    // Also more than one workgroup sorts, 4,096, and more than one of its invocations could go round for.
    for positives in [256, 257, 511, 512, 513, 1200, 4096, 4097, 8193, 140_000] {
        let mut rng = rng(positives as u64);
        let references = tied_unit_rows(&mut rng, positives + 40);
        let tags: Vec<[u32; 2]> = (0..positives as u32 + 40)
            .map(|id| [u32::from(id % 31 == 7), id])
            .collect();
        let queries = if positives < 10_000 { 5 } else { 1 };
        let (anchors, own) = (&references[..queries * 64], &tags[..queries]);
        compare(anchors, own, &references, &tags, 64);
    }
}

#[test]
fn a_positive_and_a_negative_with_the_same_row_tie_exactly() {
    // Random floats, where only one and the same function makes equal rows equally similar.
    for columns in [5, 9, 31, 64, 130] {
        let mut rng = rng(columns as u64);
        let stride = nearfar::kernels::stride(columns);
        let distinct = reference::normalize(&to_f64(&random_rows(&mut rng, 40, columns)), stride);
        let distinct: Vec<f32> = distinct.iter().map(|value| *value as f32).collect();
        let references: Vec<f32> = (0..400)
            .flat_map(|i| &distinct[i % 40 * stride..][..stride])
            .copied()
            .collect();
        let tags: Vec<[u32; 2]> = (0..400).map(|id| [rng.random_range(0..4), id]).collect();
        for engine in engines() {
            let rows = rows_of(&tags[..40], &tags);
            let actual = ranks_from_gaps(
                &engine,
                Shape::Tile,
                &references[..40 * stride],
                &rows,
                &references,
                &tags,
                stride,
            );
            // The ten copies of a query are nearest of all, in the order of their ids: a full sort of f64 similarities
            // may break ties between different rows otherwise, so only the copies' own ranks are compared.
            for (query, ranks) in actual.iter().enumerate() {
                let copies: Vec<usize> = (query % 40..400)
                    .step_by(40)
                    .filter(|id| *id != query)
                    .collect();
                let expected: Vec<u64> = (1..)
                    .zip(&copies)
                    .filter(|(_, id)| tags[**id][0] == tags[query][0])
                    .map(|(rank, _)| rank)
                    .collect();
                assert_eq!(
                    ranks[..expected.len()],
                    expected,
                    "query {query} on {}",
                    engine.info().engine
                );
            }
        }
    }
}

#[test]
fn rows_of_a_later_block_are_found_by_their_offsets() {
    let mut rng = common::rng(30);
    let references = tied_unit_rows(&mut rng, 50);
    let tags: Vec<[u32; 2]> = labels(&mut rng, 50, 5)
        .into_iter()
        .zip(0..)
        .map(|(label, id)| [label, id])
        .collect();
    let all = rows_of(&tags, &tags);
    let mut second = all[20..].to_vec();
    let base = second[0].offset;
    second.iter_mut().for_each(|row| row.offset -= base);
    let mut batch = all.clone();
    batch.truncate(20);
    batch.extend(&second);
    let expected = reference::ranks(&to_f64(&references), &tags, &to_f64(&references), &tags, 64);
    for engine in engines() {
        let actual = ranks_from_gaps(
            &engine,
            Shape::Strip,
            &references[20 * 64..],
            &second,
            &references,
            &tags,
            64,
        );
        assert_eq!(actual, expected[20..]);
    }
}

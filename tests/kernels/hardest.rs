use nearfar::kernels::hardest::{CHUNK, Hardest, pick, places};
use nearfar::kernels::ranks::{Block, Inputs, NO_ID, Row};
use nearfar::{Engine, EngineKind, reference};

use super::common::{
    engines, exact_unit_rows, labels, open, output, read, rng, tied_unit_rows, to_f64, vector,
};

/// Picks of the engine for the rows from `first_row` on, in chunks; checks that the rest of the buffer is untouched.
fn picked(
    engine: &Engine,
    anchors: &[f32],
    rows: &[Row],
    references: &[f32],
    tags: &[[u32; 2]],
    stride: usize,
) -> Vec<Hardest> {
    let first_row = anchors.len() / stride - rows.len();
    // Other rows come before those of the block.
    let batch: Vec<Row> = [Row::default(); 3].iter().chain(rows).copied().collect();
    let block = Block {
        first_row,
        rows: rows.len(),
        batch: 3,
        first_reference: 0,
        references: tags.len(),
        stride,
    };
    let count = places(rows.len(), tags.len()) as usize;
    let mut found = output::<Hardest>(engine, count + 2);
    let (anchors, references) = (vector(engine, anchors, 0), vector(engine, references, 0));
    let (batch, tags) = (vector(engine, &batch, 0), vector(engine, tags, 0));
    let inputs = Inputs {
        anchors: &anchors,
        references: (&references).into(),
        batch: &batch,
        tags: &tags,
    };
    let mut commands = engine.commands();
    pick(&mut commands, &block, inputs, &mut found);
    engine.submit(commands);
    let mut found = read(engine, &found, count + 2);
    let poison = Hardest {
        positive: [0xa5a5_a5a5; 2],
        negative: [0xa5a5_a5a5; 2],
    };
    assert_eq!(found.split_off(count), [poison; 2]);
    found
}

/// Similarity and id; `None` for an empty place.
fn read_out([bits, id]: [u32; 2]) -> Option<(f64, u32)> {
    (id != NO_ID).then_some((f64::from(f32::from_bits(bits)), id))
}

fn rows_of(tags: &[[u32; 2]]) -> Vec<Row> {
    let row = |[label, id]: &[u32; 2]| Row {
        label: *label,
        id: *id,
        ..Row::default()
    };
    tags.iter().map(row).collect()
}

#[test]
fn the_hardest_equal_the_loops_on_data_full_of_ties() {
    for engine in engines() {
        for (seed, (rows, m, classes)) in [
            (1, 1, 1),
            (2, 3, 2),
            (5, 255, 3),
            (33, 256, 40),
            (40, 257, 4),
            (32, 1029, 700),
        ]
        .into_iter()
        .enumerate()
        {
            let mut rng = rng(seed as u64);
            for references in [tied_unit_rows(&mut rng, m), exact_unit_rows(&mut rng, m)] {
                // Ids descend, so that the first of equals is not the smallest of them.
                let tags: Vec<[u32; 2]> = labels(&mut rng, m, classes)
                    .into_iter()
                    .zip((0..m as u32).rev())
                    .map(|(label, id)| [label, 7 * id])
                    .collect();
                let rows = rows.min(m);
                let (anchors, own) = (&references[(m - rows) * 64..], &tags[m - rows..]);
                let before = [&references[..64], anchors].concat();
                let found = picked(&engine, &before, &rows_of(own), &references, &tags, 64);
                let expected =
                    reference::hardest(&to_f64(anchors), own, &to_f64(&references), &tags, 64);
                let found: Vec<_> = found
                    .iter()
                    .map(|found| [read_out(found.positive), read_out(found.negative)])
                    .collect();
                assert_eq!(found, expected, "{rows} x {m} on {}", engine.info().engine);
            }
        }
    }
}

#[test]
fn every_chunk_of_many_references_is_looked_at() {
    // All alike but one far positive and one near negative in each chunk.
    let m = 2 * CHUNK + 300;
    let mut references = [0.5f32, 0.5, 0.5, 0.5].repeat(m);
    let mut tags: Vec<[u32; 2]> = (0..m as u32).map(|id| [id % 2, id]).collect();
    let mut put = |place: usize, label: u32, row: [f32; 4]| {
        references[4 * place..][..4].copy_from_slice(&row);
        tags[place][0] = label;
    };
    let [far, near] = [[-0.5f32; 4], [1.0, 1.0, 1.0, 0.0]];
    for (place, chunk) in [(77, 0), (CHUNK + 5, 1), (2 * CHUNK + 299, 2)] {
        put(place, 1, far);
        put(place - chunk - 1, 0, near);
    }
    let anchors = [[0.5f32, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0, 0.0]].concat();
    let rows = rows_of(&[[1, m as u32], [1, m as u32 + 1]]);
    // In 128 MiB a binding of a software GPU still holds the references.
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let engine = open(kind, 256 << 20);
        let found = picked(&engine, &anchors, &rows, &references, &tags, 4);
        let ids: Vec<_> = found
            .iter()
            .map(|found| [found.positive[1], found.negative[1]])
            .collect();
        let [second, third] = [CHUNK as u32, 2 * CHUNK as u32];
        let expected = [
            [77, 76],
            [second + 5, second + 3],
            [third + 299, third + 296],
        ];
        assert_eq!(ids, expected.map(|ids| [ids; 2]).concat());
        let all = found.chunks(2).fold([Hardest::NONE; 2], |all, chunk| {
            [all[0].harder(chunk[0]), all[1].harder(chunk[1])]
        });
        assert_eq!(
            all.map(|found| [found.positive[1], found.negative[1]]),
            [[77, 76]; 2]
        );
    }
}

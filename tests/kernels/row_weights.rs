use nearfar::kernels::row_weights::{find, scale};
use nearfar::kernels::select::{Keep, Selection, Side};
use nearfar::kernels::similarities::width;
use nearfar::{Distance, Engine};

use super::common::{engines, output, read, vector};
use super::select::Case;

/// Weights of a case's anchors; `mined` gives the number of mined triplets of each pair, if the miner has triplets.
fn weights(
    engine: &Engine,
    case: &Case,
    selection: &Selection,
    own: bool,
    times: Option<&[u32]>,
) -> Vec<f32> {
    let block = case.block();
    let selected = case.selected(engine, selection);
    let times = times.map(|times| vector(engine, times, 0));
    // Rows of a batch before this block's are left as they are.
    let mut found = vector(engine, &vec![7u32; 2 + block.rows], 0);
    let mut weights = output(engine, 2 + block.rows);
    let mut commands = engine.commands();
    let times = times.as_ref();
    find(
        &mut commands,
        &block,
        own,
        &selected.kept,
        times,
        2,
        &mut found,
    );
    scale(&mut commands, 2 + block.rows, &found, &mut weights);
    engine.submit(commands);
    read(engine, &weights, 2 + block.rows)
}

#[test]
fn a_row_weighs_as_often_as_it_is_found_over_the_most() {
    let hard = Side {
        keep: Keep::Hard,
        ..Side::ALL
    };
    let all = Selection::all(Distance::Cosine);
    let hardest = Selection {
        positives: hard,
        negatives: hard,
        ..all
    };
    // All rows are a batch of their own, or a few of them the last of a memory.
    let batch = |seed: u64, rows: usize, classes: u32| Case::memory(seed, rows, rows, classes);
    let cases = [
        (batch(1, 9, 3), true),
        (batch(2, 300, 40), true),
        (batch(3, 5, 9), true),
        (Case::memory(4, 6, 700, 5), false),
    ];
    for engine in engines() {
        for (case, own) in &cases {
            let block = case.block();
            let width = width(block.references);
            for selection in [&all, &hardest] {
                let kept = case.expected(selection);
                for mined in [false, true] {
                    let times: Vec<u32> = (0..block.rows * width)
                        .map(|at| (at * 7 % 5) as u32)
                        .collect();
                    let mut found = vec![7u64; 2];
                    found.resize(2 + block.rows, 0);
                    for (row, [positives, negatives]) in kept.iter().enumerate() {
                        let times = |place: &usize| match mined {
                            true => u64::from(times[row * width + place]),
                            false => 1,
                        };
                        found[2 + row] += positives.iter().map(times).sum::<u64>();
                        if !mined {
                            found[2 + row] += negatives.len() as u64;
                        }
                        if *own {
                            for place in positives.iter().chain(negatives) {
                                found[2 + place] += times(place);
                            }
                        }
                    }
                    let most = *found.iter().max().expect("has rows");
                    let times = mined.then_some(&times[..]);
                    let weights = weights(&engine, case, selection, *own, times);
                    for (weight, found) in weights.iter().zip(&found) {
                        let expected = *found as f64 / most as f64;
                        assert!(
                            (f64::from(*weight) - expected).abs() < 1e-6,
                            "{weight}, expected {expected} on {}",
                            engine.info().engine
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_which_none_is_found_weigh_one_each() {
    for engine in engines() {
        let mut weights = output(&engine, 300);
        let found = vector(&engine, &[0u32; 300], 0);
        let mut commands = engine.commands();
        scale(&mut commands, 300, &found, &mut weights);
        engine.submit(commands);
        assert_eq!(read(&engine, &weights, 300), vec![1.0f32; 300]);
    }
}

//! Mining: counts, loss and gradient of every triplet, and lists of those that are valid or mined. Semi-hard, margin 0.2.

use std::cell::Cell;

use super::side::Side;
use super::sweep::MiningOutput;
use super::{Line, Measured, RULE, Shape, check, rows};
use crate::base::error::Result;
use crate::cpu::Distance;
use crate::engine::Engine;
use crate::kernels::triplet_margin::{Kind, Rule};
use crate::mining::listing::{ListingSpec, checksum, list};
use crate::mining::{Mined, Wanted, mine};
use crate::reference;
use crate::rules::losses::Loss;
use crate::rules::miners::{Miner, MiningCounts};
use crate::rules::pml::pml_paths;

/// The most anchors and references of the check against the f64 reference.
const CHECKED: [usize; 2] = [20, 300];

/// Times the mining that is asked for, of random rows of `classes` classes.
pub(super) async fn measure(
    engine: &Engine,
    shape: &Shape,
    asked: MiningOutput,
    classes: usize,
) -> Result<Line> {
    let exact = |stream, count| Side::signs(stream, count, shape.dim, classes);
    verify(
        engine,
        asked,
        &exact(rows::QUERIES, shape.queries.min(CHECKED[0])),
        &exact(rows::REFERENCES, shape.references.min(CHECKED[1])),
    )
    .await?;
    let anchors = Side::uniform(rows::QUERIES, shape.queries, shape.dim, classes);
    let known = Side::uniform(rows::REFERENCES, shape.references, shape.dim, classes);
    engine.settle().await?;
    engine.ledger().restart_peak();
    let counts = Cell::new(MiningCounts::default());
    let listed = Cell::new(0);
    let measured = Measured::of(engine, async || {
        match asked {
            MiningOutput::Counts | MiningOutput::Loss => {
                counts.set(mined(engine, asked, &anchors, &known).await?.mining);
            }
            MiningOutput::Valid | MiningOutput::Mined => {
                let (rows, references) = (anchors.rows(), Some(known.rows()));
                let window = ListingSpec::WINDOW_BYTES;
                let (count, sum) = checksum(
                    engine,
                    rows,
                    references,
                    &miner(asked),
                    Distance::Cosine,
                    window,
                )
                .await?;
                std::hint::black_box(sum);
                listed.set(count);
            }
        }
        Ok(())
    })
    .await?;
    let valid = valid_of(&anchors, &known);
    let count = match asked {
        MiningOutput::Counts | MiningOutput::Loss => counts.get().valid,
        MiningOutput::Valid | MiningOutput::Mined => listed.get(),
    };
    if matches!(
        asked,
        MiningOutput::Counts | MiningOutput::Loss | MiningOutput::Valid
    ) {
        check(engine, "the number of valid triplets", count == valid)?;
    }
    let per_second = count as f64 / measured.median_seconds();
    let (anchors, references) = (shape.queries as u64, shape.references as u64);
    Ok(Line {
        pml_bytes: Some(pml_paths(anchors, references, valid)),
        rate: format!("{:.2e} of {count} triplets/s", per_second),
        ..Line::new(shape.to_string(), &measured)
    })
}

fn miner(asked: MiningOutput) -> Miner {
    match asked {
        MiningOutput::Valid => Miner::None,
        _ => Miner::default(),
    }
}

async fn mined(
    engine: &Engine,
    asked: MiningOutput,
    anchors: &Side,
    known: &Side,
) -> Result<Mined> {
    let loss = Loss::default();
    let wanted = match asked {
        MiningOutput::Loss => Wanted::Gradient(&loss),
        _ => Wanted::Counts,
    };
    let (rows, references) = (anchors.rows(), Some(known.rows()));
    let distance = Distance::Cosine;
    mine(
        engine,
        rows,
        references,
        &miner(asked),
        distance,
        wanted,
        |_, _| {},
    )
    .await
}

/// Number of valid triplets, from the classes alone.
fn valid_of(anchors: &Side, known: &Side) -> u64 {
    let all = known.tags.len() as u64;
    let count = |class: u32| known.tags.iter().filter(|tag| tag[0] == class).count() as u64;
    let mut same = std::collections::HashMap::new();
    let of = anchors.tags.iter().map(|[class, _]| {
        let same = *same.entry(*class).or_insert_with(|| count(*class));
        same * (all - same)
    });
    of.sum()
}

/// Compares the results of a few rows with the f64 reference.
async fn verify(engine: &Engine, asked: MiningOutput, anchors: &Side, known: &Side) -> Result<()> {
    let (rows, references, dim) = (anchors.exact(), known.exact(), known.rows.dim());
    let (tags, known_tags) = (&anchors.tags, &known.tags);
    if matches!(asked, MiningOutput::Counts | MiningOutput::Loss) {
        let actual = mined(engine, asked, anchors, known).await?;
        let expected = reference::triplet_margin(&rows, tags, &references, known_tags, dim, &RULE);
        let counts = [
            actual.mining.valid,
            actual.mining.semihard,
            actual.mining.mined,
        ];
        let right = [expected.valid, expected.semihard, expected.mined];
        check(engine, "mining", counts == right)?;
        let off = (actual.loss - expected.loss).abs();
        return check(
            engine,
            "the loss",
            asked == MiningOutput::Counts || off < 1e-5,
        );
    }
    let kind = match asked {
        MiningOutput::Valid => Kind::Unmined,
        _ => RULE.kind,
    };
    let expected = reference::triplets(
        &rows,
        tags,
        &references,
        known_tags,
        dim,
        &Rule { kind, ..RULE },
    );
    let mut actual = Vec::new();
    let window = ListingSpec::WINDOW_BYTES;
    let (rows, references) = (anchors.rows(), Some(known.rows()));
    list(
        engine,
        rows,
        references,
        &miner(asked),
        Distance::Cosine,
        window,
        |window| {
            actual.extend_from_slice(window);
            Ok(())
        },
    )
    .await?;
    check(engine, "the list", actual == expected)
}

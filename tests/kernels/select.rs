use nearfar::kernels::ranks::{Block, Inputs, NO_ID, Row};
use nearfar::kernels::select::{Counted, Keep, Kept, Selection, Side, select};
use nearfar::kernels::similarities::{NONE, similarities, width};
use nearfar::kernels::tile::Shape;
use nearfar::kernels::triplet_margin::{TERMS, Total};
use nearfar::{Distance, Engine, reference};

use super::common::{engines, labels, output, read, rng, tied_unit_rows, to_f64, vector};

pub(crate) const DISTANCES: [Distance; 2] = [Distance::Cosine, Distance::L2];

/// Anchors and references, each with `[label, id]`.
pub(crate) struct Case {
    pub(crate) anchors: Vec<f32>,
    pub(crate) anchor_tags: Vec<[u32; 2]>,
    pub(crate) references: Vec<f32>,
    pub(crate) tags: Vec<[u32; 2]>,
}

impl Case {
    /// A memory of `m` rows with many ties; its last `rows` are the batch itself.
    pub(crate) fn memory(seed: u64, rows: usize, m: usize, classes: u32) -> Self {
        let mut rng = rng(seed);
        let references = tied_unit_rows(&mut rng, m);
        let tags: Vec<[u32; 2]> = labels(&mut rng, m, classes)
            .into_iter()
            .zip(5 * m as u32..)
            .map(|(label, id)| [label, id])
            .collect();
        Self {
            anchors: references[(m - rows) * 64..].to_vec(),
            anchor_tags: tags[m - rows..].to_vec(),
            references,
            tags,
        }
    }

    /// Anchors apart from the references.
    pub(crate) fn apart(seed: u64, rows: usize, m: usize, classes: u32) -> Self {
        let mut case = Self::memory(seed, rows, rows + m, classes);
        case.references.truncate(m * 64);
        case.tags.truncate(m);
        for tag in &mut case.anchor_tags {
            tag[1] = NO_ID;
        }
        case
    }

    /// Rows as the kernels take them; a poisoned row comes before the block's.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |[label, id]: &[u32; 2]| Row {
            label: *label,
            id: *id,
            offset: 0xa5a5,
            positives: self
                .tags
                .iter()
                .filter(|tag| tag[0] == *label && tag[1] != *id)
                .count() as u32,
        };
        let poison = Row {
            label: 0xa5a5,
            ..Row::default()
        };
        std::iter::once(poison)
            .chain(self.anchor_tags.iter().map(row))
            .collect()
    }

    pub(crate) fn block(&self) -> Block {
        Block {
            first_row: 0,
            rows: self.anchor_tags.len(),
            batch: 1,
            first_reference: 0,
            references: self.tags.len(),
            stride: 64,
        }
    }

    /// Similarities, or distances, of an anchor to every reference, in f64.
    pub(crate) fn values(&self, anchor: usize, distance: Distance) -> Vec<f64> {
        let anchor = to_f64(&self.anchors[anchor * 64..][..64]);
        let references = to_f64(&self.references);
        let similarity = |r: &[f64]| reference::dot(&anchor, r);
        let similarities = references.chunks(64).map(similarity);
        similarities
            .map(|s| reference::value(distance, s))
            .collect()
    }

    /// Kept positives and negatives of each anchor, by the reference.
    pub(crate) fn expected(&self, selection: &Selection) -> Vec<[Vec<usize>; 2]> {
        let tags = self.anchor_tags.iter().enumerate();
        tags.map(|(anchor, tag)| {
            let values = self.values(anchor, selection.distance);
            reference::select(selection, &values, &self.tags, *tag)
        })
        .collect()
    }

    /// Buffers on the engine after selection, with the kept pairs of every row and the report so far.
    pub(crate) fn selected(&self, engine: &Engine, selection: &Selection) -> Selected {
        let block = self.block();
        let cells = block.rows * width(block.references);
        let mut report = vec![0xa5a5_a5a5; 3];
        report.extend(vec![0; TERMS + block.rows]);
        let mut selected = Selected {
            anchors: vector(engine, &self.anchors, 0),
            references: vector(engine, &self.references, 0),
            batch: vector(engine, &self.rows(), 0),
            tags: vector(engine, &self.tags, 0),
            kept: Kept {
                values: output(engine, cells),
                places: output(engine, cells),
                counts: output(engine, block.rows),
                weights: output(engine, cells + 4),
            },
            report: vector(engine, &report, 0),
        };
        let mut commands = engine.commands();
        similarities(
            &mut commands,
            &block,
            Shape::Strip,
            selection.distance,
            &selected.anchors,
            (&selected.references).into(),
            &mut selected.kept.values,
        );
        let inputs = Inputs {
            anchors: &selected.anchors,
            references: (&selected.references).into(),
            batch: &selected.batch,
            tags: &selected.tags,
        };
        select(
            &mut commands,
            &block,
            selection,
            inputs,
            &mut selected.kept,
            Counted::Triplets,
            3,
            &mut selected.report,
        );
        engine.submit(commands);
        selected
    }
}

pub(crate) struct Selected {
    pub(crate) anchors: nearfar::DeviceVec<f32>,
    pub(crate) references: nearfar::DeviceVec<f32>,
    pub(crate) batch: nearfar::DeviceVec<Row>,
    pub(crate) tags: nearfar::DeviceVec<[u32; 2]>,
    pub(crate) kept: Kept,
    pub(crate) report: nearfar::DeviceVec<u32>,
}

fn side(keep: Keep, low: f64, high: f64, distance: Distance) -> Side {
    Side {
        keep,
        range: distance.range([low, high]),
    }
}

/// Every selection rule, with ranges and epsilons at values of the data: multiples of 1/32.
pub(crate) fn selections(distance: Distance) -> Vec<Selection> {
    let mut all = Vec::new();
    let kinds = [Keep::All, Keep::Hard, Keep::Semihard, Keep::Easy];
    // A similarity of 0.875 is a distance of 0.5.
    let bounds = match distance {
        Distance::Cosine => [(-4.0, 4.0), (0.625, 0.875), (0.875, 0.875)],
        Distance::L2 => [(-4.0, 4.0), (0.25, 0.5), (0.5, 0.5)],
    };
    for positive in kinds {
        for negative in kinds {
            let pair = [positive, negative];
            if pair == [Keep::Semihard; 2]
                || pair.contains(&Keep::All) && pair.contains(&Keep::Semihard)
            {
                continue;
            }
            for (low, high) in bounds {
                for (n_low, n_high) in bounds {
                    all.push(Selection {
                        positives: side(positive, low, high, distance),
                        negatives: side(negative, n_low, n_high, distance),
                        ..Selection::all(distance)
                    });
                }
            }
        }
    }
    for epsilon in [0.0, 0.0625, 0.1, -0.0625] {
        all.push(Selection {
            positives: side(Keep::Close, -4.0, 4.0, distance),
            negatives: side(Keep::Close, -4.0, 4.0, distance),
            epsilon,
            ..Selection::all(distance)
        });
    }
    // Pairs that a miner keeps by one distance for a loss by the other.
    let other = match distance {
        Distance::Cosine => Distance::L2,
        Distance::L2 => Distance::Cosine,
    };
    let turned = all[all.len() - 4..].to_vec();
    all.extend(turned.into_iter().map(|selection| Selection {
        shown: other,
        ..selection
    }));
    all
}

fn compare(engine: &Engine, case: &Case, selection: &Selection) {
    let on = &engine.info().engine;
    let selected = case.selected(engine, selection);
    let (rows, m) = (case.anchor_tags.len(), case.tags.len());
    let width = width(m);
    let values = read(engine, &selected.kept.values, rows * width);
    let places = read(engine, &selected.kept.places, rows * width);
    let counts = read(engine, &selected.kept.counts, rows);
    let weights = read(engine, &selected.kept.weights, rows * width + 4);
    let poison = f32::from_bits(0xa5a5_a5a5);
    assert_eq!(weights[..rows * width], vec![0.0; rows * width]);
    assert_eq!(weights[rows * width..], [poison; 4]);
    let expected = case.expected(selection);
    for (row, [positives, negatives]) in expected.iter().enumerate() {
        let values = &values[row * width..][..width];
        let places = &places[row * width..][..width];
        let what = format!("row {row} of {rows} x {m} on {on}, {selection:?}");
        assert_eq!(
            counts[row],
            [positives.len() as u32, negatives.len() as u32],
            "{what}"
        );
        let list = |places: &[u32]| places.iter().map(|p| *p as usize).collect::<Vec<_>>();
        assert_eq!(list(&places[..positives.len()]), *positives, "{what}");
        let mut from_the_back = list(&places[width - negatives.len()..]);
        from_the_back.reverse();
        assert_eq!(from_the_back, *negatives, "{what}");
        let all = case.values(row, selection.shown);
        let turned = selection.shown != selection.distance;
        for (place, value) in values.iter().enumerate() {
            let kept = positives.contains(&place) || negatives.contains(&place);
            let expected = if kept { all[place] as f32 } else { NONE };
            let off = (*value - expected).abs();
            // A value that is converted from one distance to the other is rounded once more.
            assert!(
                off <= if turned { 1e-6 } else { 0.0 },
                "{what}, place {place}: {value} {expected}"
            );
        }
    }
    let report = read(engine, &selected.report, 3 + TERMS + rows);
    let valid: usize = case
        .anchor_tags
        .iter()
        .map(|[label, id]| {
            let same = case.tags.iter().filter(|tag| tag[0] == *label);
            let positives = same.clone().filter(|tag| tag[1] != *id).count();
            positives * (m - same.count())
        })
        .sum();
    assert_eq!(
        Total::Valid.read(&report[3..]),
        valid as u64,
        "{selection:?}"
    );
    assert_eq!(report[..3], [0xa5a5_a5a5; 3]);
}

#[test]
fn what_is_kept_equals_the_lists_on_data_full_of_ties() {
    for engine in engines() {
        for (seed, (rows, m, classes)) in [(1, 1, 1), (2, 3, 2), (7, 40, 3), (9, 257, 5)]
            .into_iter()
            .enumerate()
        {
            for distance in DISTANCES {
                for selection in selections(distance) {
                    let seed = seed as u64;
                    compare(&engine, &Case::memory(seed, rows, m, classes), &selection);
                    compare(&engine, &Case::apart(seed, rows, m, classes), &selection);
                }
            }
        }
    }
}

#[test]
fn rows_longer_than_a_workgroup_are_kept_in_order() {
    for engine in engines() {
        for (seed, (rows, m, classes)) in [(2, 1029, 2), (3, 4000, 40), (1, 300, 1), (2, 300, 300)]
            .into_iter()
            .enumerate()
        {
            let case = Case::memory(20 + seed as u64, rows, m, classes);
            for selection in selections(Distance::Cosine).iter().step_by(7) {
                compare(&engine, &case, selection);
            }
        }
    }
}

#[test]
fn a_row_stored_twice_is_a_positive_of_its_copy_and_never_of_itself() {
    let mut case = Case::memory(60, 6, 30, 3);
    // The first anchor's row also stands in slot 2, stored earlier: another id, so its easiest positive.
    let slot = case.tags.len() - 6;
    let row = case.references[slot * 64..][..64].to_vec();
    case.references[2 * 64..3 * 64].copy_from_slice(&row);
    case.tags[2][0] = case.tags[slot][0];
    let easy = Selection {
        positives: Side {
            keep: Keep::Easy,
            ..Side::ALL
        },
        ..Selection::all(Distance::Cosine)
    };
    assert!(case.expected(&easy)[0][0][0] <= 2);
    for engine in engines() {
        compare(&engine, &case, &easy);
    }
}

use std::ops::Range;

use nearfar::kernels::ranks::Block;
use nearfar::kernels::similarities::{similarities, width};
use nearfar::kernels::tile::Shape;
use nearfar::kernels::triplet_margin::{Kind, Rule};
use nearfar::kernels::triplets::{
    Band, Batch, CELL, Inputs, NO_PLACE, Row, checksum, count, valid, write,
};
use nearfar::{DeviceVec, Distance, Engine, reference};

use super::common::{
    Rng, engines, exact_unit_rows, labels, output, read, rng, tied_unit_rows, to_f64, vector,
};

const POISON: u32 = 0xa5a5_a5a5;
const KINDS: [Kind; 5] = [
    Kind::All,
    Kind::Easy,
    Kind::Semihard,
    Kind::Hard,
    Kind::Unmined,
];

/// Rows of a few classes against references of theirs, or against each other.
struct Case {
    anchors: Vec<f32>,
    references: Vec<f32>,
    labels: Vec<u32>,
    known: Vec<u32>,
    own: bool,
}

impl Case {
    fn new(rng: &mut Rng, rows: usize, references: usize, classes: u32, own: bool) -> Self {
        let (known, known_labels) = (
            tied_unit_rows(rng, references),
            labels(rng, references, classes),
        );
        let (anchors, own_labels) = if own {
            (known[..rows * 64].to_vec(), known_labels[..rows].to_vec())
        } else {
            (exact_unit_rows(rng, rows), labels(rng, rows, classes))
        };
        Self {
            anchors,
            references: known,
            labels: own_labels,
            known: known_labels,
            own,
        }
    }

    fn members(&self) -> Vec<u32> {
        let mut members: Vec<u32> = (0..self.known.len() as u32).collect();
        members.sort_by_key(|place| self.known[*place as usize]);
        members
    }

    /// The rows, each with its number of positives.
    fn rows(&self) -> Vec<(Row, u32)> {
        let members = self.members();
        let row = |(anchor, label): (u32, &u32)| {
            let is_of = |place: &u32| self.known[*place as usize] == *label;
            let class: Vec<u32> = members.iter().copied().filter(is_of).collect();
            let first = members.iter().position(is_of).unwrap_or(0) as u32;
            let place = class.iter().position(|place| *place == anchor);
            let row = Row {
                anchor,
                offset: 0,
                label: *label,
                first,
                members: class.len() as u32,
                own: if self.own {
                    place.expect("is there") as u32
                } else {
                    NO_PLACE
                },
            };
            (row, class.len() as u32 - u32::from(self.own))
        };
        (0..).zip(&self.labels).map(row).collect()
    }

    fn expected(&self, kind: Kind, margin: f32) -> Vec<[u32; 3]> {
        let tags = |labels: &[u32], first: u32| -> Vec<[u32; 2]> {
            labels
                .iter()
                .copied()
                .zip(first..)
                .map(<[u32; 2]>::from)
                .collect()
        };
        let first_id = if self.own { 0 } else { 1 << 30 };
        reference::triplets(
            &to_f64(&self.anchors),
            &tags(&self.labels, first_id),
            &to_f64(&self.references),
            &tags(&self.known, 0),
            64,
            &Rule {
                distance: Distance::Cosine,
                kind,
                miner_margin: margin,
                loss_margin: 0.0,
            },
        )
    }
}

/// Triplets in a window; checks that the buffer past the window is untouched.
fn window(engine: &Engine, triplets: &DeviceVec<u32>, room: usize) -> Vec<[u32; 3]> {
    let mut words = read(engine, triplets, 3 * room + 4);
    assert_eq!(words.split_off(3 * room), [POISON; 4], "past the window");
    words.chunks(3).map(|t| [t[0], t[1], t[2]]).collect()
}

#[test]
fn every_valid_triplet_of_a_window_begins_anywhere() {
    let mut rng = rng(41);
    for (rows, references, classes, own) in [
        (9, 9, 3, true),
        (12, 70, 5, false),
        (40, 40, 1, true),
        (5, 64, 40, false),
    ] {
        let case = Case::new(&mut rng, rows, references, classes, own);
        let expected = case.expected(Kind::Unmined, 0.0);
        let (m, mut offset) = (references as u32, 0);
        let mut all = Vec::new();
        for (row, positives) in case.rows() {
            let own = positives * (m - row.members);
            if own > 0 {
                all.push(Row { offset, ..row });
                offset += own;
            }
        }
        assert_eq!(offset as usize, expected.len());
        for engine in engines() {
            let members = vector(&engine, &case.members(), 0);
            for start in [
                0,
                1,
                7,
                expected.len() / 2,
                expected.len().saturating_sub(1),
            ] {
                if start >= expected.len() {
                    continue;
                }
                // The window begins in the middle of the first row's triplets.
                let at = all.partition_point(|row| row.offset as usize <= start) - 1;
                let rows: Vec<Row> = all[at..]
                    .iter()
                    .map(|row| Row {
                        offset: row.offset.saturating_sub(start as u32),
                        ..*row
                    })
                    .collect();
                let negatives = m - rows[0].members;
                let within = start as u32 - all[at].offset;
                let begin = [within / negatives, within % negatives];
                let room = expected.len() - start;
                let rows_vector = vector(&engine, &rows, 0);
                let mut triplets = output(&engine, 3 * room + 4);
                let mut commands = engine.commands();
                let count = rows.len();
                // In two parts, as a list longer than a dispatch is.
                for numbers in [0..room / 2, room / 2..room] {
                    valid(
                        &mut commands,
                        references,
                        begin,
                        numbers,
                        count,
                        &rows_vector,
                        &members,
                        &mut triplets,
                    );
                }
                engine.submit(commands);
                assert!(
                    window(&engine, &triplets, room) == expected[start..],
                    "{rows_vector:?} from {start}"
                );
            }
        }
    }
}

/// Counts and lists a case in batches of `pairs_at_once` pairs, windows of `room` triplets and `cells_at_once` cells.
fn listed(
    engine: &Engine,
    case: &Case,
    band: Band,
    pairs_at_once: usize,
    room: u32,
    cells_at_once: usize,
) -> Vec<[u32; 3]> {
    let references = case.known.len();
    let mut pairs = 0;
    let rows = case.rows().into_iter().map(|(row, positives)| {
        let offset = pairs;
        pairs += positives;
        Row { offset, ..row }
    });
    let rows: Vec<Row> = rows.collect();
    let mut commands = engine.commands();
    let block = Block {
        first_row: 0,
        rows: rows.len(),
        batch: 0,
        first_reference: 0,
        references,
        stride: 64,
    };
    let (anchors, known) = (
        vector(engine, &case.anchors, 0),
        vector(engine, &case.references, 0),
    );
    let mut s = output(engine, rows.len() * width(references));
    similarities(
        &mut commands,
        &block,
        Shape::Strip,
        Distance::Cosine,
        &anchors,
        (&known).into(),
        &mut s,
    );
    engine.submit(commands);
    let (row_vector, members, labels) = (
        vector(engine, &rows, 0),
        vector(engine, &case.members(), 0),
        vector(engine, &case.known, 0),
    );
    let inputs = Inputs {
        rows: &row_vector,
        members: &members,
        labels: &labels,
        similarities: &s,
    };
    let of_a_pair = Batch::cells_of_a_pair(references);
    let parts = |cells: Range<usize>| {
        let last = cells.end;
        cells
            .step_by(cells_at_once)
            .map(move |first| first..last.min(first + cells_at_once))
    };
    let mut all = Vec::new();
    for first_pair in (0..pairs as usize).step_by(pairs_at_once) {
        let batch = Batch {
            rows: rows.len(),
            references,
            first_pair,
            band,
        };
        let cells = pairs_at_once.min(pairs as usize - first_pair) * of_a_pair;
        let mut counts = output(engine, cells + 1);
        let mut commands = engine.commands();
        for part in parts(0..cells) {
            count(&mut commands, &batch, part, inputs, &mut counts);
        }
        engine.submit(commands);
        let mut offsets = read(engine, &counts, cells + 1);
        assert_eq!(offsets.pop(), Some(POISON), "past the counts");
        let mut total = 0;
        for offset in &mut offsets {
            total += std::mem::replace(offset, total);
        }
        offsets.push(total);
        let offsets = vector(engine, &offsets, 0);
        for start in (0..total).step_by(room as usize) {
            let end = total.min(start + room);
            let size = (end - start) as usize;
            let mut triplets = output(engine, 3 * size + 4);
            let mut commands = engine.commands();
            // Cells that lie outside the window as well.
            for part in parts(0..cells) {
                write(
                    &mut commands,
                    &batch,
                    part,
                    start..end,
                    inputs,
                    &offsets,
                    &mut triplets,
                );
            }
            engine.submit(commands);
            all.extend(window(engine, &triplets, size));
        }
    }
    all
}

#[test]
fn what_a_band_keeps_is_listed_in_order_bounds_and_ties_included() {
    let (engines, mut rng) = (engines(), rng(42));
    for (rows, references, classes, own) in [
        (4, 4, 2, true),
        (6, 33, 3, false),
        (20, 20, 1, true),
        (7, 65, 60, false),
        (3, CELL - 1, 30, false),
        (3, CELL, 300, true),
        (3, CELL + 1, 300, false),
        (2, 2 * CELL + 77, 900, true),
    ] {
        let case = Case::new(&mut rng, rows, references, classes, own);
        for kind in KINDS {
            // Multiples of 1/32 are met exactly.
            for margin in [0.25, -0.125] {
                let band = Band::of(kind, margin);
                let expected = case.expected(kind, margin);
                let room = (expected.len() / 3 + 1).max(97) as u32;
                for engine in &engines {
                    for (pairs, room, cells) in [(1 << 20, u32::MAX, 1 << 20), (5, room, 3)] {
                        assert!(
                            listed(engine, &case, band, pairs, room, cells) == expected,
                            "{kind:?} {margin} {rows} x {references}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_checksum_knows_every_number_and_its_place() {
    let mut rng = rng(43);
    let triplets: Vec<u32> = labels(&mut rng, 3 * 20_001, u32::MAX);
    let expected = |first: u32, triplets: &[u32]| {
        let numbered = (0u32..).zip(triplets.chunks(3));
        numbered.fold(0u32, |sum, (i, t)| {
            let hash = t[0]
                .wrapping_mul(0x9e37_79b1)
                .wrapping_add(t[1].wrapping_mul(0x85eb_ca77))
                .wrapping_add(t[2].wrapping_mul(0xc2b2_ae3d));
            let place = first.wrapping_add(i).wrapping_mul(2).wrapping_add(1);
            sum.wrapping_add(hash.wrapping_mul(place))
        })
    };
    for engine in engines() {
        for first in [0, 5, (1u64 << 32) - 9000, 1 << 33] {
            let vector_of_them = vector(&engine, &triplets, 0);
            let mut total = vector(&engine, &[17u32], 3);
            let mut commands = engine.commands();
            checksum(&mut commands, first, 20_000, &vector_of_them, &mut total);
            engine.submit(commands);
            let expected = expected(first as u32, &triplets[..60_000]).wrapping_add(17);
            assert_eq!(read(&engine, &total, 2), [expected, POISON]);
        }
    }
}

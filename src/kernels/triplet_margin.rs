//! Every triplet of a batch, counted and differentiated without being stored: `TripletMarginMiner` with
//! `TripletMarginLoss`, by cosine similarity or by distance.

use super::pair_counts::BINS;
use super::ranks::{
    Block, FEW, Inputs, Params, SEGMENT, Scratch, buffers, similarity_steps, sort_thresholds,
    sorting_dispatches,
};
use super::tile::Shape;
use super::{
    Kernel, MOST_ROUNDS, MOST_STEPS, READ, READ_WRITE, index, vec4s, wgsl::wgsl, workgroups_for,
};
use crate::cpu;
pub use crate::cpu::triplet_margin::{Kind, Rule, STATUS, TERMS, Total};
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!(
    "stored_f32.wgsl",
    "ranks.wgsl",
    "tile.wgsl",
    "meeting.wgsl",
    "triplet_margin.wgsl"
);
const SOURCE_F16: &[&str] = wgsl!(
    "stored_f16.wgsl",
    "ranks.wgsl",
    "tile.wgsl",
    "meeting.wgsl",
    "triplet_margin.wgsl"
);
const ROWS_SOURCE: &[&str] = wgsl!(
    "stored_f32.wgsl",
    "ranks.wgsl",
    "tile.wgsl",
    "meeting.wgsl",
    "mine_rows.wgsl"
);
const ROWS_SOURCE_F16: &[&str] = wgsl!(
    "stored_f16.wgsl",
    "ranks.wgsl",
    "tile.wgsl",
    "meeting.wgsl",
    "mine_rows.wgsl"
);

/// Stands for the word of the report if pairs are not counted. The shader's `NOWHERE`.
const NOWHERE: u32 = u32::MAX;

/// Rows that one workgroup serves; the shader's `OWNERS`.
pub const OWNERS: usize = 8;

/// One workgroup per [`OWNERS`] rows and segment.
pub static MINE: Kernel = Kernel {
    name: "triplet_margin.mine",
    source: SOURCE,
    entry: "mine",
    bindings: &[
        READ, READ, READ, READ, READ, READ_WRITE, READ_WRITE, READ_WRITE,
    ],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 8 * 4 * SEGMENT as u32 + 40 + 8 * BINS as u32,
    any_size: true,
};

/// One workgroup a row.
pub static FINISH: Kernel = Kernel {
    name: "triplet_margin.finish",
    entry: "finish",
    bindings: &[
        READ_WRITE, READ, READ, READ, READ, READ_WRITE, READ, READ_WRITE,
    ],
    workgroup_bytes: finish_bytes(SEGMENT),
    any_size: false,
    ..MINE
};

/// Workgroup memory of so many invocations of [`FINISH`].
const fn finish_bytes(invocations: usize) -> u32 {
    (4 * invocations + 4 * invocations / 16 + 16 * invocations) as u32
}

/// [`FINISH`] with [`FEW`] invocations, for as many positives of a row and vec4s of its part.
pub static FINISH_FEW: Kernel = Kernel {
    name: "triplet_margin.finish_few",
    workgroup_size: FEW as u32,
    workgroup_bytes: finish_bytes(FEW),
    any_size: true,
    ..FINISH
};

/// One workgroup a row, with few references and positives.
pub static MINE_ROWS: Kernel = Kernel {
    name: "triplet_margin.mine_rows",
    source: ROWS_SOURCE,
    entry: "mine_rows",
    bindings: &[
        READ, READ, READ, READ, READ_WRITE, READ_WRITE, READ_WRITE, READ_WRITE,
    ],
    workgroup_size: FEW_LANES as u32,
    // Thresholds as they were found, weights of a window of 2,048 references; totals and pairs.
    workgroup_bytes: finish_bytes(FEW_LANES)
        + (4 * 8 * FEW_LANES + 4 * 2048 + 40 + 8 * BINS) as u32,
    any_size: false,
};

/// Invocations of a workgroup of [`MINE_ROWS`].
const FEW_LANES: usize = 128;

/// [`MINE_ROWS`] over rows in half precision.
pub static MINE_ROWS_F16: Kernel =
    MINE_ROWS.of_text("triplet_margin.mine_rows_f16", ROWS_SOURCE_F16);

/// [`MINE`] over rows in half precision.
pub static MINE_F16: Kernel = Kernel {
    name: "triplet_margin.mine_f16",
    source: SOURCE_F16,
    ..MINE
};

/// [`FINISH`] over rows in half precision.
pub static FINISH_F16: Kernel = Kernel {
    name: "triplet_margin.finish_f16",
    source: SOURCE_F16,
    ..FINISH
};

/// [`FINISH_FEW`] over rows in half precision.
pub static FINISH_FEW_F16: Kernel = Kernel {
    name: "triplet_margin.finish_few_f16",
    source: SOURCE_F16,
    ..FINISH_FEW
};

/// One workgroup per [`OWNERS`] references.
pub static SHARE_WITH_REFERENCES: Kernel = Kernel {
    name: "triplet_margin.share_with_references",
    entry: "share_with_references",
    bindings: &[READ, READ, READ, READ, READ, READ_WRITE, READ, READ_WRITE],
    workgroup_bytes: 8 * 4 * SEGMENT as u32,
    any_size: false,
    ..MINE
};

/// Partial sums, beside [`Scratch`]: for each segment of [`SEGMENT`] references its part of the anchor gradient, then of the
/// sum of weights, `[segments, rows of a block, part_stride]`.
pub type Parts = DeviceVec<f32>;

/// Floats of one row's part.
pub fn part_stride(stride: usize) -> usize {
    stride + 4
}

/// The most pairs of a row and a reference that [`MINE_ROWS`] serves, as each row's workgroup reads all references.
const FEW_PAIRS: usize = 1 << 17;

/// Tells if [`MINE_ROWS`] serves this block: on hardware, if no invocation has much to do. Software adapters lose by barriers that come
/// before the work.
fn is_of_few(shape: Shape, block: &Block, positives: usize) -> bool {
    let Block {
        rows, references, ..
    } = *block;
    let width = vec4s(block.stride) as usize + 1;
    shape != Shape::Strip
        && (1..=FEW_PAIRS).contains(&(rows * references))
        && width <= FEW_LANES
        && positives <= 4 * FEW_LANES
        && steps_of_row(block, width, positives) <= MOST_ROUNDS
}

/// Steps of an invocation of [`MINE_ROWS`].
fn steps_of_row(block: &Block, width: usize, positives: usize) -> usize {
    let similarity = similarity_steps(block.stride);
    let looks = block.references.div_ceil(FEW_LANES);
    let halvings = positives
        .checked_ilog2()
        .map_or(0, |last| last as usize + 2);
    let finding = looks + looks.min(positives) * similarity;
    let ordering = positives / 2 + 1;
    let meeting = looks * (similarity + 2 * halvings);
    // A component of a segment is 32 steps of eight references; then segments are added, in windows of eight.
    let segments = block.references.div_ceil(SEGMENT);
    let summing = (segments.div_ceil(FEW_LANES / width) + segments.div_ceil(8)) * 32 + segments;
    finding + ordering + meeting + summing + positives
}

/// Workgroups for every eight rows and every segment.
fn groups(block: &Block) -> u64 {
    (block.rows.div_ceil(OWNERS) * block.references.div_ceil(SEGMENT)) as u64
}

/// The most dispatches of [`mine`] and, with `share`, of [`share_with_references`].
pub fn dispatches(block: &Block, positives: usize, share: bool) -> usize {
    let shares = block.rows.div_ceil(shared_rows(block.stride));
    let finishing = finish_windows(block, positives).count();
    sorting_dispatches(block, positives) + 1 + finishing + usize::from(share) * shares
}

/// Steps that a reference of a segment takes in [`MINE`]: it meets [`OWNERS`] rows, each in three searches of 20 steps at most, and
/// has its share of the sums over the segment, four references a step.
fn meeting_steps(stride: usize) -> usize {
    similarity_steps(stride) + OWNERS * 60 + OWNERS * (stride / 4 + 1) / 4
}

/// Rows whose triplets [`SHARE_WITH_REFERENCES`] shares in one dispatch: whole segments.
fn shared_rows(stride: usize) -> usize {
    // Of a segment each invocation meets a row for OWNERS references, in three searches of 20 steps at most, and adds up
    // the components that are its own.
    let meeting = OWNERS * (similarity_steps(stride) + 60);
    let own = (OWNERS * stride / 4).div_ceil(SEGMENT);
    (MOST_STEPS / (meeting + own * SEGMENT)).max(1) * SEGMENT
}

/// Windows that the dispatches of [`FINISH`] add up, `[first_part, end_part, first_positive, end_positive]`: segments' parts, then
/// positives, whole segments of them. Both loops together go round [`MOST_ROUNDS`] times at most.
fn finish_windows(block: &Block, positives: usize) -> impl Iterator<Item = [usize; 4]> {
    let width = vec4s(block.stride) as usize + 1;
    // An invocation with several components takes each loop for each.
    let rounds = (MOST_STEPS / width.div_ceil(SEGMENT)).clamp(SEGMENT, MOST_ROUNDS / 2);
    let at_once = (SEGMENT / width).max(1);
    let (of_parts, of_positives) = (rounds, rounds / SEGMENT * SEGMENT * at_once);
    let parts = block.references.div_ceil(SEGMENT);
    // The last parts go with the first positives.
    let before = parts.div_ceil(of_parts).max(1) - 1;
    (0..before + positives.div_ceil(of_positives).max(1)).map(move |window| {
        let part = |window: usize| (window * of_parts).min(parts);
        let positive = |window: usize| window.saturating_sub(before) * of_positives;
        let end = window + 1;
        [part(window), part(end), positive(window), positive(end)]
    })
}

/// Triplet counts and anchor gradient of a block: adds the counts to the step's report, and writes `active * dL/d(anchor)`
/// to the block's rows of `gradient`.
///
/// The loss sum follows from the gradient: a row's sum over active triplets of `v_an - v_ap` is [`Rule::scale`] times
/// `<gradient, anchor>`, plus the number that is written to the row's term of the report.
///
/// `positives`: of the row that has the most. `capacity`: slots of the memory; the reference with an `id` is in slot
/// `id % capacity`. `pairs`: the first word of the step's report that counts pairs by similarity, as
/// [`super::pair_counts::read_pairs`] reads them; `None` counts no pairs. The report must be zero before the step's first block.
/// References get no gradient here: [`share_with_references`] adds it if they are the batch itself.
///
/// # Shapes
/// `gradient`: `[first_row + rows, stride]`
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn mine(
    commands: &mut Commands,
    block: &Block,
    positives: usize,
    rule: &Rule,
    capacity: usize,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
    parts: &mut Parts,
    gradient: &mut DeviceVec<f32>,
    report_first: usize,
    pairs: Option<usize>,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                report: index(report_first),
                pairs: pairs.map_or(NOWHERE, |first| index(report_first + first)),
                ..params(block, rule, capacity)
            };
            let ranking = buffers(inputs, scratch);
            let stored = inputs.references;
            if is_of_few(gpu.shape(), block, positives) {
                let [a, r, b, t, s, k] = ranking;
                let mining = [a, r, b, t, s, k, gradient.binding(), report.binding()];
                let kernel = stored.choose(&MINE_ROWS, &MINE_ROWS_F16);
                gpu.dispatch(kernel, &params, &mining, block.rows as u64);
                return;
            }
            sort_thresholds(gpu, block, positives, &params, stored, &ranking);
            let [a, r, b, t, s, k] = ranking;
            let mining = [a, r, b, t, s, k, parts.binding(), report.binding()];
            let shape = workgroups_for(gpu, SEGMENT, meeting_steps(block.stride));
            let mine = stored.choose(&MINE, &MINE_F16);
            gpu.dispatch_in(shape, mine, &params, &mining, groups(block));
            let terms = report.binding();
            let finishing = [terms, r, b, t, s, k, parts.binding(), gradient.binding()];
            let few = positives <= FEW && part_stride(block.stride) <= 4 * FEW;
            let finish = match few {
                true => stored.choose(&FINISH_FEW, &FINISH_FEW_F16),
                false => stored.choose(&FINISH, &FINISH_F16),
            };
            for window in finish_windows(block, positives) {
                let [first_part, end_part, first_positive, end_positive] = window.map(index);
                let params = Params {
                    first_part,
                    end_part,
                    first_positive,
                    end_positive,
                    ..params
                };
                gpu.dispatch(finish, &params, &finishing, block.rows as u64);
            }
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch {
                thresholds,
                gap_counts,
            } = scratch;
            let (thresholds, gap_counts) = (thresholds.slice_mut(), gap_counts.slice_mut());
            let report = &mut report.slice_mut()[report_first..];
            let gradient = &mut gradient.slice_mut()[block.first_row * block.stride..];
            let parts = parts.slice_mut();
            let inputs = inputs.slices();
            cpu::ranks::sort_thresholds(block, inputs, thresholds, gap_counts);
            cpu::triplet_margin::mine(
                block, rule, capacity, inputs, thresholds, gap_counts, parts, gradient, pairs,
                report,
            );
        }
    }
}

/// Reference gradient of a block: adds `active * dL/d(reference)`, if the references are the batch itself.
///
/// Call it after [`mine`] on the same rows, whose thresholds and gap counts it reads.
pub fn share_with_references(
    commands: &mut Commands,
    block: &Block,
    rule: &Rule,
    inputs: Inputs<'_>,
    scratch: &Scratch,
    parts: &mut Parts,
    gradient: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = [
                inputs.anchors.binding(),
                inputs.references.binding(),
                inputs.batch.binding(),
                inputs.tags.binding(),
                scratch.thresholds.binding(),
                scratch.gap_counts.binding(),
                parts.binding(),
                gradient.binding(),
            ];
            let groups = block.references.div_ceil(OWNERS) as u64;
            let at_once = shared_rows(block.stride);
            for first in (0..block.rows).step_by(at_once) {
                let rows = Block {
                    first_row: block.first_row + first,
                    rows: at_once.min(block.rows - first),
                    batch: block.batch + first,
                    ..*block
                };
                let params = params(&rows, rule, block.references);
                gpu.dispatch(&SHARE_WITH_REFERENCES, &params, &buffers, groups);
            }
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (thresholds, gap_counts) = (scratch.thresholds.slice(), scratch.gap_counts.slice());
            let gradient = gradient.slice_mut();
            cpu::triplet_margin::share_with_references(
                block,
                rule,
                inputs.slices(),
                thresholds,
                gap_counts,
                gradient,
            );
        }
    }
}

fn params(block: &Block, rule: &Rule, capacity: usize) -> Params {
    Params {
        capacity: index(capacity),
        kind: rule.kind as u32,
        miner_margin: rule.miner_margin,
        loss_margin: rule.loss_margin,
        distance: rule.distance as u32,
        ..super::ranks::params(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_each_other_and_no_loop_of_theirs_is_long() {
        for (references, positives, stride) in [
            (1, 0, 4),
            (1024, 40, 64),
            (65_536, 655, 64),
            (300_000, 16_000, 128),
            (1_100_000, 1_000_000, 2048),
        ] {
            let block = Block {
                first_row: 0,
                rows: 1,
                batch: 0,
                first_reference: 0,
                references,
                stride,
            };
            let (mut parts, mut found) = (0, 0);
            let at_once = (SEGMENT / (stride / 4 + 1)).max(1);
            for [first_part, end_part, first, end] in finish_windows(&block, positives) {
                assert_eq!([first_part, first], [parts, found]);
                assert!(end_part - first_part <= MOST_ROUNDS);
                assert!((end - first).div_ceil(at_once) <= MOST_ROUNDS);
                assert!(end.is_multiple_of(SEGMENT));
                // All parts come before the positives' second window.
                assert!(first == 0 || first_part == end_part);
                (parts, found) = (end_part, end);
            }
            assert_eq!(parts, references.div_ceil(SEGMENT));
            assert!(found >= positives);
        }
    }
}

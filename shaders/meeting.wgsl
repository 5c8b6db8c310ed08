// What the negatives of a row meet, in counts of triplets and of pairs, and what its positives come to: for the kernels of
// triplet_margin and for mine_rows. Follows ranks.wgsl and tile.wgsl.
//
//   v = value(s)           the similarity, or minus the distance
//   tm = v_ap - v_an       the miner keeps a range of tm, inclusive; the loss v_an - v_ap + margin is active where tm < margin
//   a negative is mined and active with thresholds [lo, hi): it counts hi - lo; a positive in c of them counts -c
//   weight = count * dv/ds
//
// The pass has `threshold(i)`, the i-th of the sorted thresholds.

const SEGMENT = 256u;
const TOGETHER = 16u;  // invocations whose gap counts are summed together

const ALL = 0u;
const EASY = 1u;
const SEMIHARD = 2u;
const HARD = 3u;  // any other kind: every valid triplet

const L2 = 1u;  // any other distance: cosine

// Totals of a step's report: u64s as two words, low first.
const VALID = 0u;
const WITHIN = 2u;   // semihard and hard
const HARDER = 4u;   // hard
const MINED = 6u;
const ACTIVE = 8u;
const TOTALS = 10u;
const TERMS = 16u;   // where the rows' terms of the loss begin

// Counts of pairs by similarity: u64s as two words, low first, those of positives before those of negatives.
const NOWHERE = 0xffffffffu;
const BINS = 64u;  // over [-1, 1]; the last holds 1 as well

@group(0) @binding(8) var<storage, read_write> report: array<atomic<u32>>;  // where triplets are counted

var<workgroup> tally: array<atomic<u32>, TOTALS>;                   // the workgroup's totals, 40 bytes
var<workgroup> pairs: array<atomic<u32>, 2u * BINS>;                // its pairs, 512 bytes
// Where gap counts are summed:
var<workgroup> before: array<u32, WORKGROUP_SIZE>;                  // the sum of each invocation's gap counts, 1 KiB at most
var<workgroup> before_groups: array<u32, WORKGROUP_SIZE / TOGETHER>;  // of TOGETHER invocations, 64 bytes at most
var<workgroup> sums: array<vec4f, WORKGROUP_SIZE>;                  // of each invocation's segment, 4 KiB at most

/// Thresholds of a row that form counted triplets with a negative, as ends and ranges of the sorted thresholds.
struct Meeting {
  hard: u32,    // those before have tm <= 0
  within: u32,  // those before have tm <= miner_margin
  mined: vec2u, // the miner keeps [x, y)
  low: u32,     // mined and active: [low, high)
  high: u32,
}

/// Value of a similarity: itself, or minus the distance.
fn value(s: f32) -> f32 {
  if params.distance == L2 {
    return -sqrt(max(0.0, 2.0 - 2.0 * s));
  }
  return s;
}

/// dv/ds; 0 if two rows coincide.
fn slope(s: f32) -> f32 {
  if params.distance == L2 {
    return select(0.0, 1.0 / sqrt(max(1e-12, 2.0 - 2.0 * s)), s < 1.0);
  }
  return 1.0;
}

/// tm of a negative with a threshold of the row.
fn margin_at(row: vec4u, place: u32, v_an: f32) -> f32 {
  return value(bitcast<f32>(threshold(row.z + place).x)) - v_an;
}

/// Number of the row's thresholds with tm < margin. Rounding is monotone, so they come first.
fn until(row: vec4u, v_an: f32, margin: f32) -> u32 {
  var low = 0u;
  var high = row.w;
  while low < high {
    let middle = (low + high) / 2u;
    if margin_at(row, middle, v_an) < margin {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Number of thresholds with tm <= each of two margins, in a row of one threshold at least. Every reference takes as many halvings,
/// and the reads for one margin do not wait for those of the other.
fn until_both(row: vec4u, v_an: f32, margins: vec2f) -> vec2u {
  var before = vec2u();
  for (var half = 1u << firstLeadingBit(row.w); half > 0u; half /= 2u) {
    let next = before + half;
    let last = min(next, vec2u(row.w)) - 1u;
    let tm = vec2f(margin_at(row, last.x, v_an), margin_at(row, last.y, v_an));
    before = select(before, next, (next <= vec2u(row.w)) & (tm <= margins));
  }
  return before;
}

/// Finds the thresholds that a negative meets, in a row of one threshold at least.
fn meet(row: vec4u, s_an: f32) -> Meeting {
  var m: Meeting;
  let v_an = value(s_an);
  let before = until_both(row, v_an, vec2f(params.miner_margin, 0.0));
  m.within = before.x;
  m.hard = min(before.y, m.within);
  // If both margins are equal, as they mostly are, only thresholds that lie right at the margin are not active.
  var costing = m.within;
  let last = max(m.within, 1u) - 1u;
  let is_one = params.loss_margin == params.miner_margin;
  if !is_one || (m.within > 0u && margin_at(row, last, v_an) == params.miner_margin) {
    costing = until(row, v_an, params.loss_margin);
  }
  switch params.kind {
    case ALL: { m.mined = vec2u(0u, m.within); }
    case EASY: { m.mined = vec2u(m.within, row.w); }
    case SEMIHARD: { m.mined = vec2u(m.hard, m.within); }
    case HARD: { m.mined = vec2u(0u, m.hard); }
    default: { m.mined = vec2u(0u, row.w); }
  }
  m.low = m.mined.x;
  m.high = max(m.low, min(m.mined.y, costing));
  return m;
}

/// Adds to a u64 of the tally: the one addition that wraps the low word carries.
fn count(total: u32, value: u32) {
  let old = atomicAdd(&tally[total], value);
  if old + value < old {
    atomicAdd(&tally[total + 1u], 1u);
  }
}

/// Adds a u64 of the tally to a u64 of the report.
fn add(total: u32) {
  let low = atomicLoad(&tally[total]);
  let old = atomicAdd(&report[params.report + total], low);
  let high = atomicLoad(&tally[total + 1u]) + u32(old + low < old);
  if high > 0u {
    atomicAdd(&report[params.report + total + 1u], high);
  }
}

/// Counts a pair by its similarity, unless the reference is the row itself. A power of two scales without rounding.
fn count_pair(row: vec4u, tag: vec2u, s: f32) {
  if tag.x == row.x && tag.y == row.y {
    return;
  }
  let half = i32(BINS / 2u);
  let bin = clamp(i32(floor(s * f32(half))) + half, 0, 2 * half - 1);
  atomicAdd(&pairs[select(BINS, 0u, tag.x == row.x) + u32(bin)], 1u);
}

/// Adds the workgroup's pairs of a bin to the report.
fn add_pairs(bin: u32) {
  let value = atomicLoad(&pairs[bin]);
  let old = atomicAdd(&report[params.pairs + 2u * bin], value);
  if old + value < old {
    atomicAdd(&report[params.pairs + 2u * bin + 1u], 1u);
  }
}

/// Four components of a reference; behind the last comes a one, so that weights add up as components do.
fn component(reference: u32, k: u32) -> vec4f {
  if k < params.stride {
    return floats(references[reference * params.stride + k]);
  }
  return vec4f(1.0);
}

/// Turns the row's gap counts into their prefix sum; each invocation has a run of consecutive ones. Called in uniform control flow.
fn sum_gap_counts(row: vec4u, lane: u32) {
  let share = (row.w + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
  let first = min(lane * share, row.w);
  let end = min(first + share, row.w);
  var own = 0u;
  for (var p = first; p < end; p++) {
    own += atomicLoad(&gap_counts[row.z + p]);
  }
  before[lane] = own;
  workgroupBarrier();  // every share is summed before they are added
  if lane < WORKGROUP_SIZE / TOGETHER {
    var sum = 0u;
    for (var i = 0u; i < TOGETHER; i++) {
      sum += before[lane * TOGETHER + i];
    }
    before_groups[lane] = sum;
  }
  workgroupBarrier();  // and so is every group of shares
  let group = lane / TOGETHER;
  var c = 0u;
  for (var i = 0u; i < group; i++) {
    c += before_groups[i];
  }
  for (var i = group * TOGETHER; i < lane; i++) {
    c += before[i];
  }
  for (var p = first; p < end; p++) {
    c += atomicLoad(&gap_counts[row.z + p]);
    atomicStore(&gap_counts[row.z + p], c);
  }
}

/// The part of a component of the gradient from the positives of a segment, from `start` to `end`.
fn pull_of_positives(row: vec4u, start: u32, end: u32, k: u32) -> vec4f {
  var sum = vec4f();
  for (var p = start; p < min(start + SEGMENT, end); p++) {
    let positive = threshold(row.z + p);
    let weight = -f32(atomicLoad(&gap_counts[row.z + p])) * slope(bitcast<f32>(positive.x));
    sum = fma(vec4f(weight), component(positive.y % params.capacity, k), sum);
  }
  return sum;
}

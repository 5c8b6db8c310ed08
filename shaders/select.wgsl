// Selection of the references of a row that a miner keeps: some of its positives (its label, another id), and of its negatives.
//
//   v = a row of values    larger is nearer; the extremes of a side are the first of equal ones, within its range
//   HARD, EASY, SEMIHARD   one reference of the side: an extreme, or the one just beyond the reference that the other side keeps
//   CLOSE                  positives with v - epsilon < nearest negative, negatives with v + epsilon > farthest positive
//
// keep   one workgroup a row   similarities: v of kept references, NONE elsewhere; places: kept positives from the front,
//                              kept negatives from the back; counts: number of each; weights: 0; the report's VALID
//
// Each invocation has a run of consecutive references: places ascend, whatever the workgroup's size.

override WORKGROUP_SIZE: u32;
const NONE = -3.0;  // below every value
const NOWHERE = 0xffffffffu;
const LOWEST = -3.4e38;


const L2 = 1u;  // any other distance: cosine

const ALL = 0u;
const HARD = 1u;
const SEMIHARD = 2u;
const EASY = 3u;
const CLOSE = 4u;

const VALID = 0u;    // where the u64 of what is valid stands in a step's report
const TRIPLETS = 1u;  // what is counted there; any other: nothing
const PAIRS = 2u;

struct Params {
  rows: u32,        // rows of the block
  batch: u32,       // where the block begins in `batch`
  references: u32,
  width: u32,       // floats of a row of similarities
  report: u32,      // where this step's report begins
  positives: u32,   // what is kept of them
  negatives: u32,
  epsilon: f32,
  ranges: vec4f,    // least and largest value of a positive, of a negative
  counted: u32,     // in the report
  distance: u32,    // what the values are in
  shown: u32,       // what those that are kept are in afterwards
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> batch: array<vec4u>;  // (label, id, _, positives) of each row
@group(0) @binding(2) var<storage, read> tags: array<vec2u>;   // (label, id) of each reference
@group(0) @binding(3) var<storage, read_write> similarities: array<f32>;  // [rows, width], what they count for
@group(0) @binding(4) var<storage, read_write> places: array<u32>;        // [rows, width]
@group(0) @binding(5) var<storage, read_write> counts: array<vec2u>;      // [rows]
@group(0) @binding(6) var<storage, read_write> weights: array<f32>;       // [rows, width]
@group(0) @binding(7) var<storage, read_write> report: array<atomic<u32>>;

/// Four extremes at once: the farthest and the nearest positive, the farthest and the nearest negative. Values of the farthest have
/// their sign turned, so that all four extremes are the largest.
struct Best { values: vec4f, places: vec4u }

var<workgroup> bests: array<Best, WORKGROUP_SIZE>;      // 8 KiB
var<workgroup> found: array<vec2u, 4>;                  // (value's bits, place) of each extreme, 32 bytes
var<workgroup> before: array<vec2u, WORKGROUP_SIZE>;    // what each invocation keeps of both sides, 2 KiB

/// A value of one distance in the other.
fn turned(v: f32) -> f32 {
  if params.distance == params.shown {
    return v;
  }
  return select(1.0 - v * v / 2.0, -sqrt(max(0.0, 2.0 - 2.0 * v)), params.shown == L2);
}

fn in_range(v: f32, positive: bool) -> bool {
  let range = select(params.ranges.zw, params.ranges.xy, positive);
  return range.x <= v && v <= range.y;
}

fn none() -> Best {
  return Best(vec4f(LOWEST), vec4u(NOWHERE));
}

/// The better of each extreme; of equal ones that of `a`, which stands first.
fn better(a: Best, b: Best) -> Best {
  let take = (b.places != vec4u(NOWHERE)) & ((a.places == vec4u(NOWHERE)) | (b.values > a.values));
  return Best(select(a.values, b.values, take), select(a.places, b.places, take));
}

/// A reference as a candidate for the extremes of its side.
fn candidate(i: u32, v: f32, positive: bool) -> Best {
  let place = select(vec4u(NOWHERE, NOWHERE, i, i), vec4u(i, i, NOWHERE, NOWHERE), positive);
  return Best(vec4f(-v, v, -v, v), place);
}

/// Writes the best of all invocations, in their order, to `found`. Called in uniform control flow.
fn gather(best: Best, lane: u32) {
  bests[lane] = best;
  workgroupBarrier();  // all bests are there before they are compared
  if lane < 4u {
    var value = LOWEST;
    var place = NOWHERE;
    for (var i = 0u; i < WORKGROUP_SIZE; i++) {
      let other = bests[i].places[lane];
      if other != NOWHERE && (place == NOWHERE || bests[i].values[lane] > value) {
        value = bests[i].values[lane];
        place = other;
      }
    }
    found[lane] = vec2u(bitcast<u32>(value), place);
  }
  workgroupBarrier();  // what was found is there before it is read, and the bests may go
}

fn found_value(extreme: u32) -> f32 {
  return bitcast<f32>(found[extreme].x);
}

/// Tells if at most one reference of a side is kept.
fn is_one(keep: u32) -> bool {
  return keep == HARD || keep == SEMIHARD || keep == EASY;
}

/// Adds to a u64 of the report.
fn add(total: u32, value: u32) {
  let old = atomicAdd(&report[params.report + total], value);
  if old + value < old {
    atomicAdd(&report[params.report + total + 1u], 1u);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn keep(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let r = group.x + group.y * groups.x;
  if r >= params.rows {
    return;
  }
  let row = batch[params.batch + r];
  let at = r * params.width;
  let share = (params.references + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
  let first = min(lane * share, params.references);
  let end = min(first + share, params.references);

  var best = none();
  var negatives = 0u;
  for (var i = first; i < end; i++) {
    let tag = tags[i];
    let positive = tag.x == row.x;
    let v = similarities[at + i];
    negatives += u32(!positive);
    if !(positive && tag.y == row.y) && in_range(v, positive) {
      best = better(best, candidate(i, v, positive));
    }
  }
  switch params.counted {
    case TRIPLETS: { add(VALID, negatives * row.w); }
    case PAIRS: { add(VALID, negatives + select(0u, row.w, lane == 0u)); }
    default: {}
  }
  gather(best, lane);
  let nearest_negative = found_value(3u);
  let farthest_positive = -found_value(0u);
  let positive_easy = params.positives == EASY;
  let negative_easy = params.negatives == EASY;
  var one_positive = found[select(0u, 1u, positive_easy)].y;
  var one_negative = found[select(3u, 2u, negative_easy)].y;
  if params.positives == SEMIHARD || params.negatives == SEMIHARD {
    let seeks_positive = params.positives == SEMIHARD;
    let bound = select(
      select(-found_value(0u), found_value(1u), positive_easy),
      select(found_value(3u), -found_value(2u), negative_easy),
      seeks_positive);
    best = none();
    for (var i = first; i < end; i++) {
      let tag = tags[i];
      let positive = tag.x == row.x;
      let v = similarities[at + i];
      let beyond = select((v < bound), (v > bound), seeks_positive);
      if positive == seeks_positive && beyond && !(positive && tag.y == row.y) && in_range(v, positive) {
        best = better(best, candidate(i, v, positive));
      }
    }
    workgroupBarrier();  // all have read what was found before
    gather(best, lane);
    if seeks_positive {
      one_positive = found[0].y;
    } else {
      one_negative = found[3].y;
    }
  }
  // One positive and one negative: if either is missing, the row has neither.
  if is_one(params.positives) && is_one(params.negatives) && (one_positive == NOWHERE || one_negative == NOWHERE) {
    one_positive = NOWHERE;
    one_negative = NOWHERE;
  }

  var own = vec2u();
  for (var i = first; i < end; i++) {
    let tag = tags[i];
    let positive = tag.x == row.x;
    let v = similarities[at + i];
    var kept = false;
    if !(positive && tag.y == row.y) {
      switch select(params.negatives, params.positives, positive) {
        case ALL: { kept = in_range(v, positive); }
        case CLOSE: {
          kept = select((v + params.epsilon > farthest_positive), (v - params.epsilon < nearest_negative), positive);
        }
        default: { kept = i == select(one_negative, one_positive, positive); }
      }
    }
    weights[at + i] = 0.0;
    if kept {
      similarities[at + i] = turned(v);
      own += select(vec2u(0u, 1u), vec2u(1u, 0u), positive);
    } else {
      similarities[at + i] = NONE;
    }
  }
  before[lane] = own;
  workgroupBarrier();  // all have counted before anyone writes
  var next = vec2u();
  for (var i = 0u; i < lane; i++) {
    next += before[i];
  }
  for (var i = first; i < end; i++) {
    if similarities[at + i] != NONE {
      if tags[i].x == row.x {
        places[at + next.x] = i;
        next.x += 1u;
      } else {
        next.y += 1u;
        places[at + params.width - next.y] = i;
      }
    }
  }
  if lane == WORKGROUP_SIZE - 1u {
    counts[r] = next;
  }
  for (var i = params.references + lane; i < params.width; i += WORKGROUP_SIZE) {
    similarities[at + i] = NONE;
    weights[at + i] = 0.0;
  }
}

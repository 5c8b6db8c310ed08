// Selection of the references of a row that a miner keeps: some of its positives (its label, another id), and of its negatives.
//
//   v = a row of values    larger is nearer; the extremes of a side are the first of equal ones, within its range
//   HARD, EASY, SEMIHARD   one reference of the side: an extreme, or the one just beyond the reference that the other side keeps
//   CLOSE                  positives with v - epsilon < nearest negative, negatives with v + epsilon > farthest positive
//
// keep   one workgroup a row   similarities: v of kept references, NONE elsewhere; places: kept positives from the front,
//                              kept negatives from the back; counts: number of each; weights: 0; the report's VALID
//
// Each invocation has a run of consecutive references, four of which it looks at together: places ascend, whatever the
// workgroup's size.

override WORKGROUP_SIZE: u32;
const NONE = -3.0;  // below every value
const NOWHERE = 0xffffffffu;
const LOWEST = -3.4e38;
const TOGETHER = 16u;  // invocations whose bests and counts are brought together first

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
@group(0) @binding(3) var<storage, read_write> similarities: array<vec4f>;  // [rows, width], what they count for
@group(0) @binding(4) var<storage, read_write> places: array<u32>;          // [rows, width]
@group(0) @binding(5) var<storage, read_write> counts: array<vec2u>;        // [rows]
@group(0) @binding(6) var<storage, read_write> weights: array<vec4f>;       // [rows, width]
@group(0) @binding(7) var<storage, read_write> report: array<atomic<u32>>;

/// Four extremes at once: the farthest and the nearest positive, the farthest and the nearest negative. Values of the farthest have
/// their sign turned, so that all four extremes are the largest.
struct Best { values: vec4f, places: vec4u }

var<workgroup> bests: array<Best, WORKGROUP_SIZE>;      // 8 KiB
var<workgroup> bests_of_groups: array<array<vec2u, 4>, WORKGROUP_SIZE / TOGETHER>;  // (value's bits, place) of TOGETHER each, 512 bytes
var<workgroup> found: array<vec2u, 4>;                  // (value's bits, place) of each extreme, 32 bytes
var<workgroup> before: array<vec2u, WORKGROUP_SIZE>;    // what each invocation keeps of both sides, 2 KiB
var<workgroup> before_groups: array<vec2u, WORKGROUP_SIZE / TOGETHER>;  // of TOGETHER invocations, 128 bytes

/// A value of one distance in the other.
fn turned(v: f32) -> f32 {
  if params.distance == params.shown {
    return v;
  }
  return select(1.0 - v * v / 2.0, -sqrt(max(0.0, 2.0 - 2.0 * v)), params.shown == L2);
}

fn none() -> Best {
  return Best(vec4f(LOWEST), vec4u(NOWHERE));
}

/// The better of each extreme; of equal ones that of `a`, which stands first.
fn better(a: Best, b: Best) -> Best {
  let take = (b.places != vec4u(NOWHERE)) & ((a.places == vec4u(NOWHERE)) | (b.values > a.values));
  return Best(select(a.values, b.values, take), select(a.places, b.places, take));
}

/// The better of two entries (value's bits, place); of equal ones `a`, which stands first.
fn better_entry(a: vec2u, b: vec2u) -> vec2u {
  return select(a, b, b.y != NOWHERE && (a.y == NOWHERE || bitcast<f32>(b.x) > bitcast<f32>(a.x)));
}

/// Writes the best of all invocations, in their order, to `found`. Called in uniform control flow.
fn gather(best: Best, lane: u32) {
  bests[lane] = best;
  workgroupBarrier();  // all bests are there before they are compared
  let extreme = lane % 4u;
  if lane < 4u * (WORKGROUP_SIZE / TOGETHER) {
    let first = lane / 4u * TOGETHER;
    var own = vec2u(bitcast<u32>(LOWEST), NOWHERE);
    for (var i = first; i < first + TOGETHER; i++) {
      own = better_entry(own, vec2u(bitcast<u32>(bests[i].values[extreme]), bests[i].places[extreme]));
    }
    bests_of_groups[lane / 4u][extreme] = own;
  }
  workgroupBarrier();  // and so are those of every group
  if lane < 4u {
    var own = bests_of_groups[0u][extreme];
    for (var i = 1u; i < WORKGROUP_SIZE / TOGETHER; i++) {
      own = better_entry(own, bests_of_groups[i][extreme]);
    }
    found[extreme] = own;
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

/// Four references that follow each other, and the row that looks at them.
struct Four {
  i: vec4u,
  v: vec4f,
  positive: vec4<bool>,
  other: vec4<bool>,  // there, and not the row itself
}

fn four(row: vec4u, at: u32, q: u32) -> Four {
  var f: Four;
  f.i = 4u * q + vec4u(0u, 1u, 2u, 3u);
  f.v = similarities[at + q];
  let last = params.references - 1u;
  let a = tags[min(f.i.x, last)];
  let b = tags[min(f.i.y, last)];
  let c = tags[min(f.i.z, last)];
  let d = tags[min(f.i.w, last)];
  f.positive = vec4u(a.x, b.x, c.x, d.x) == vec4u(row.x);
  let itself = f.positive & (vec4u(a.y, b.y, c.y, d.y) == vec4u(row.y));
  f.other = (f.i <= vec4u(last)) & !itself;
  return f;
}

fn in_ranges(f: Four) -> vec4<bool> {
  let low = select(vec4f(params.ranges.z), vec4f(params.ranges.x), f.positive);
  let high = select(vec4f(params.ranges.w), vec4f(params.ranges.y), f.positive);
  return (low <= f.v) & (f.v <= high);
}

/// The best so far, or one of four.
fn best_of(best: Best, f: Four, offered: vec4<bool>) -> Best {
  let first = better(offer(f.i.x, f.v.x, f.positive.x, offered.x), offer(f.i.y, f.v.y, f.positive.y, offered.y));
  let second = better(offer(f.i.z, f.v.z, f.positive.z, offered.z), offer(f.i.w, f.v.w, f.positive.w, offered.w));
  return better(best, better(first, second));
}

/// A reference as a candidate for the extremes of its side, if it is offered.
fn offer(i: u32, v: f32, positive: bool, offered: bool) -> Best {
  let place = select(vec4u(NOWHERE, NOWHERE, i, i), vec4u(i, i, NOWHERE, NOWHERE), positive);
  return Best(vec4f(-v, v, -v, v), select(vec4u(NOWHERE), place, offered));
}

/// The numbers of those that are kept of four: of positives and of negatives.
fn counted(f: Four, kept: vec4<bool>) -> vec2u {
  let positives = select(vec4u(), vec4u(1u), kept & f.positive);
  let negatives = select(vec4u(), vec4u(1u), kept & !f.positive);
  return vec2u(
    positives.x + positives.y + positives.z + positives.w,
    negatives.x + negatives.y + negatives.z + negatives.w,
  );
}

/// Numbers of what the invocations before keep. Called in uniform control flow.
fn kept_before(own: vec2u, lane: u32) -> vec2u {
  before[lane] = own;
  workgroupBarrier();  // all have counted before they are added
  if lane < WORKGROUP_SIZE / TOGETHER {
    var sum = vec2u();
    for (var i = 0u; i < TOGETHER; i++) {
      sum += before[lane * TOGETHER + i];
    }
    before_groups[lane] = sum;
  }
  workgroupBarrier();  // and so is every group of them
  let group = lane / TOGETHER;
  var all = vec2u();
  for (var i = 0u; i < group; i++) {
    all += before_groups[i];
  }
  for (var i = group * TOGETHER; i < lane; i++) {
    all += before[i];
  }
  return all;
}

/// Lists a reference if it is kept, after those that were listed before; returns the numbers of these.
fn list(r: u32, listed: vec2u, i: u32, positive: bool, kept: bool) -> vec2u {
  if !kept {
    return listed;
  }
  if positive {
    places[r * params.width + listed.x] = i;
    return listed + vec2u(1u, 0u);
  }
  places[(r + 1u) * params.width - 1u - listed.y] = i;
  return listed + vec2u(0u, 1u);
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
  let at = r * (params.width / 4u);
  let fours = params.width / 4u;
  let share = (fours + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
  let first = min(lane * share, fours);
  let end = min(first + share, fours);

  var best = none();
  var negatives = 0u;
  for (var q = first; q < end; q++) {
    let f = four(row, at, q);
    negatives += counted(f, f.other).y;
    best = best_of(best, f, f.other & in_ranges(f));
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
    for (var q = first; q < end; q++) {
      let f = four(row, at, q);
      let beyond = select((f.v < vec4f(bound)), (f.v > vec4f(bound)), vec4<bool>(seeks_positive));
      let side = f.positive == vec4<bool>(seeks_positive);
      best = best_of(best, f, f.other & side & beyond & in_ranges(f));
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
  for (var q = first; q < end; q++) {
    let f = four(row, at, q);
    var positives = f.i == vec4u(one_positive);
    switch params.positives {
      case ALL: { positives = in_ranges(f); }
      case CLOSE: { positives = f.v - params.epsilon < vec4f(nearest_negative); }
      default: {}
    }
    var others = f.i == vec4u(one_negative);
    switch params.negatives {
      case ALL: { others = in_ranges(f); }
      case CLOSE: { others = f.v + params.epsilon > vec4f(farthest_positive); }
      default: {}
    }
    let kept = f.other & select(others, positives, f.positive);
    similarities[at + q] = select(vec4f(NONE), vec4f(turned(f.v.x), turned(f.v.y), turned(f.v.z), turned(f.v.w)), kept);
    weights[at + q] = vec4f();
    own += counted(f, kept);
  }
  var next = kept_before(own, lane);
  for (var q = first; q < end; q++) {
    let f = four(row, at, q);
    let kept = f.v != vec4f(NONE);
    next = list(r, next, f.i.x, f.positive.x, kept.x);
    next = list(r, next, f.i.y, f.positive.y, kept.y);
    next = list(r, next, f.i.z, f.positive.z, kept.z);
    next = list(r, next, f.i.w, f.positive.w, kept.w);
  }
  if lane == WORKGROUP_SIZE - 1u {
    counts[r] = next;
  }
}

// Triplet loss over the positives and negatives that the miner kept, one triplet at a time.
//
//   tm = v_ap - v_an          the miner keeps a band of tm, inclusive
//   swap                      v_an := max(v_an, v_pn); each gets half of the slope if both are equal
//   x = margin - (v_ap - v_an)     loss = max(0, x), or log(1 + exp(x)) if smooth
//   weight of a reference     d loss / d similarity, summed over the row's mined triplets
//   one_negative              a positive forms a triplet with the nearest negative that is farther than it, else the farthest of all
//   drawn                     triplets are those of a list, each as often as it is listed
//
// choose    one workgroup per row and 256 kept references   weights: of a positive, the number of its one negative
// count     one workgroup a row                             times: number of triplets with a reference; weights: 0
// drawn     one workgroup per row and 256 drawn triplets    weights; terms: the losses of the triplets; totals
// slopes    one workgroup per row and 256 kept references   weights; terms: the losses of its negatives; totals
// settle    one workgroup per row and 256 kept references   weights: of a positive with one negative
// total     one invocation a row                            losses: the row's terms ascending
// swapped   one invocation per pair of references           weights [rows, width]: the slopes that swap takes from the anchors
//
// `slopes` looks at the other side from `first` on, a window at a time: weights and terms grow window by window, and so do
// choices. Sums go in segments of WORKGROUP_SIZE, one owner each, ascending; a term gets the losses of one segment of positives
// after the other: no bit depends on the windows. A number of a negative counts from 1, and is whole in f32: a row has 2^20
// references at most.

override WORKGROUP_SIZE: u32;
const BLOCK = 8u;    // vec4s of a partial sum of a similarity, as in tile.wgsl
const NONE = -3.0;   // of a value that is not kept
const HIGHEST = 3.4e38;  // above every value

const COSINE = 0u;  // any other distance: Euclidean

const ALL = 0u;
const EASY = 1u;
const SEMIHARD = 2u;
const HARD = 3u;  // any other kind: every triplet of what is kept

// Totals of a step's report: u64s as two words, low first, from WITHIN on.
const WITHIN = 2u;
const TOTALS = 4u;  // within, hard, mined, active

struct Params {
  rows: u32,        // of the block; in swapped: of the references that have their turn
  references: u32,
  width: u32,       // floats of a row of values
  stride: u32,      // vec4s of a row of references
  segments: u32,    // ceil(references / WORKGROUP_SIZE)
  first: u32,       // of the other side; in swapped: the first reference that has its turn
  end: u32,
  report: u32,      // where this step's report begins
  losses: u32,      // where the losses of the block's rows go in it
  kind: u32,        // which triplets the miner keeps
  distance: u32,
  swap: u32,
  one_negative: u32,
  smooth_loss: u32,
  list: u32,        // places of a row of the list, where triplets are drawn; else 0
  batch: u32,       // where the block begins in `batch`
  anchors: u32,     // rows of the block, in swapped
  miner_margin: f32,
  loss_margin: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> references: array<Stored>;
@group(0) @binding(1) var<storage, read> list: array<vec2u>;     // [rows, places]: how many, then (positive, negative), in drawn
@group(0) @binding(1) var<storage, read_write> times: array<atomic<u32>>;  // [rows, width], in count
@group(0) @binding(2) var<storage, read> values: array<f32>;     // [rows, width]
@group(0) @binding(3) var<storage, read> places: array<u32>;     // [rows, width]: positives from the front, negatives from the back
@group(0) @binding(3) var<storage, read> batch: array<vec4u>;    // (label, ..) of each row, in swapped
@group(0) @binding(4) var<storage, read> counts: array<vec2u>;   // [rows]: of both
@group(0) @binding(4) var<storage, read> tags: array<vec2u>;     // (label, id) of each reference, in swapped
@group(0) @binding(5) var<storage, read_write> weights: array<f32>;  // [rows, width]
@group(0) @binding(6) var<storage, read_write> terms: array<f32>;    // [rows, segments]
@group(0) @binding(7) var<storage, read_write> report: array<atomic<u32>>;

var<workgroup> partial: array<f32, WORKGROUP_SIZE>;   // 1 KiB
var<workgroup> tally: array<atomic<u32>, TOTALS>;     // the workgroup's totals, 16 bytes

/// Kinds of a triplet, and its loss and slope if it is active.
struct Triplet {
  within: bool,
  hard: bool,
  mined: bool,
  costs: bool,  // active
  loss: f32,
  slope: f32,  // d loss / d (v_an - v_ap)
  own: f32,    // how much of it falls to v_an
}

fn value_of(s: f32) -> f32 {
  if params.distance == COSINE {
    return s;
  }
  return -sqrt(max(0.0, 2.0 - 2.0 * s));
}

/// d value / d similarity, from the value; 0 if two rows coincide.
fn slope_of(v: f32) -> f32 {
  if params.distance == COSINE {
    return 1.0;
  }
  return select(0.0, -1.0 / v, (v < 0.0));
}

/// acc + <a, b>, component by component.
fn chain(a: vec4f, b: vec4f, acc: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, acc))));
}

/// Adds the products of one more vec4 of both rows; of none past their end.
fn more(p: u32, n: u32, k: u32, acc: f32) -> f32 {
  let there = k < params.stride;
  let at = select(0u, k, there);
  return chain(select(vec4f(), floats(references[p + at]), there), floats(references[n + at]), acc);
}

/// A partial sum of a similarity.
fn part_between(p: u32, n: u32, k: u32) -> f32 {
  var part = more(p, n, k, 0.0);
  part = more(p, n, k + 1u, part);
  part = more(p, n, k + 2u, part);
  part = more(p, n, k + 3u, part);
  part = more(p, n, k + 4u, part);
  part = more(p, n, k + 5u, part);
  part = more(p, n, k + 6u, part);
  return more(p, n, k + 7u, part);
}

/// The value of two references. Unrolled: a long loop for each triplet would run into the limits of drivers.
fn value_between(p_place: u32, n_place: u32) -> f32 {
  let p = p_place * params.stride;
  let n = n_place * params.stride;
  var s = 0.0;
  for (var k = 0u; k < params.stride; k += 2u * BLOCK) {
    let next = part_between(p, n, k + BLOCK);  // 0 past the end
    s = s + part_between(p, n, k) + next;
  }
  return value_of(s);
}

fn is_mined(within: bool, hard: bool) -> bool {
  switch params.kind {
    case ALL: { return within; }
    case EASY: { return !within; }
    case SEMIHARD: { return within && !hard; }
    case HARD: { return hard; }
    default: { return true; }
  }
}

/// Kinds, loss and slope of a triplet. v_pn is not read without swap.
fn weighed(v_ap: f32, v_an: f32, v_pn: f32) -> Triplet {
  var t: Triplet;
  let between = v_ap - v_an;
  t.within = between <= params.miner_margin;
  t.hard = t.within && between <= 0.0;
  t.mined = is_mined(t.within, t.hard);
  var nearest = v_an;
  t.own = 1.0;
  if params.swap != 0u {
    nearest = max(v_an, v_pn);
    t.own = select(select(0.5, 0.0, (v_an < v_pn)), 1.0, (v_an > v_pn));
  }
  let tm = v_ap - nearest;
  let x = params.loss_margin - tm;
  if params.smooth_loss != 0u {
    t.costs = t.mined;
    t.loss = max(x, 0.0) + log(1.0 + exp(-abs(x)));
    t.slope = 1.0 / (1.0 + exp(-x));
  } else {
    t.costs = t.mined && tm < params.loss_margin;
    t.loss = x;
    t.slope = 1.0;
  }
  return t;
}

/// Adds to a u64 of the report.
fn add(total: u32, value: u32) {
  let old = atomicAdd(&report[params.report + total], value);
  if old + value < old {
    atomicAdd(&report[params.report + total + 1u], 1u);
  }
}

/// Adds the losses of a workgroup's invocations, in their order, to a term. Called in uniform control flow.
fn add_losses(term: u32, loss: f32, lane: u32) {
  partial[lane] = loss;
  workgroupBarrier();  // all losses are there before they are added
  if lane == 0u {
    var sum = 0.0;
    for (var i = 0u; i < WORKGROUP_SIZE; i += 4u) {
      sum = sum + partial[i] + partial[i + 1u] + partial[i + 2u] + partial[i + 3u];
    }
    terms[term] += sum;
  }
  workgroupBarrier();  // and added before others take their place
}

/// Adds what a workgroup's invocations have seen to the report. Called in uniform control flow.
fn add_seen(seen: array<u32, TOTALS>, lane: u32) {
  var own = seen;
  for (var i = 0u; i < TOTALS; i++) {
    if own[i] > 0u {
      atomicAdd(&tally[i], own[i]);
    }
  }
  workgroupBarrier();  // the tally is complete before it is read
  if lane < TOTALS {
    let count = atomicLoad(&tally[lane]);
    if count > 0u {
      add(WITHIN + 2u * lane, count);
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn choose(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let row = g / params.segments;
  let j = g % params.segments * WORKGROUP_SIZE + lane;
  if row >= params.rows || j >= counts[row].x {
    return;
  }
  let at = row * params.width;
  let last = at + params.width - 1u;
  let own = at + places[at + j];
  let v_ap = values[own];
  var chosen = u32(weights[own]);
  var v_chosen = HIGHEST;
  if chosen > 0u {
    v_chosen = values[at + places[last - (chosen - 1u)]];
  }
  for (var o = params.first; o < min(params.end, counts[row].y); o++) {
    let v_an = values[at + places[last - o]];
    // The first of equal ones.
    if select((v_an < v_chosen), (v_chosen >= v_ap || v_an > v_chosen), (v_an < v_ap)) {
      chosen = o + 1u;
      v_chosen = v_an;
    }
  }
  weights[own] = f32(chosen);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn count(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let at = row * params.width;
  for (var i = lane; i < params.references; i += WORKGROUP_SIZE) {
    atomicStore(&times[at + i], 0u);
  }
  storageBarrier();  // all are 0 before any is counted
  for (var j = lane; j < counts[row].x; j += WORKGROUP_SIZE) {
    let own = at + places[at + j];
    let chosen = u32(weights[own]);
    weights[own] = 0.0;
    if chosen > 0u {
      atomicAdd(&times[own], 1u);
      atomicAdd(&times[at + places[at + params.width - chosen]], 1u);
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn slopes(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let row = g / params.segments;
  let segment = g % params.segments;
  if row >= params.rows {
    return;
  }
  let kept = counts[row];
  let begin = segment * WORKGROUP_SIZE;
  if begin >= kept.x + kept.y {
    return;
  }
  let term = row * params.segments + segment;
  if params.first == 0u && lane == 0u {
    terms[term] = 0.0;
  }
  let at = row * params.width;
  let last = at + params.width - 1u;
  let j = begin + lane;
  let positive = j < kept.x;
  let one_negative = params.one_negative != 0u;
  let is_there = j < kept.x + kept.y && !(one_negative && positive);
  let own = places[select(last - min(j - kept.x, params.width - 1u), at + j, positive)];
  let v_own = values[at + own];
  let end = select(0u, min(params.end, select(kept.x, kept.y, positive)), is_there);
  // Each triplet is counted once, by its negative. Some invocations have a positive, others a negative.
  let with_negatives = select(0u, kept.x, begin + WORKGROUP_SIZE > kept.x);
  let with_positives = select(0u, kept.y, begin < kept.x && !one_negative);
  var weight = weights[at + own];
  var seen: array<u32, TOTALS>;
  for (var start = params.first; start < min(params.end, max(with_negatives, with_positives)); start += WORKGROUP_SIZE) {
    var part = 0.0;
    var lost = 0.0;
    for (var o = start; o < min(start + WORKGROUP_SIZE, end); o++) {
      let other = places[select(at + o, last - o, positive)];
      let v_other = values[at + other];
      let v_ap = select(v_other, v_own, positive);
      let v_an = select(v_own, v_other, positive);
      var v_pn = 0.0;
      if params.swap != 0u {
        v_pn = value_between(select(other, own, positive), select(own, other, positive));
      }
      if one_negative && weights[at + other] != f32(j - kept.x + 1u) {
        continue;
      }
      let t = weighed(v_ap, v_an, v_pn);
      seen[0] += u32(t.within);
      seen[1] += u32(t.hard);
      seen[2] += u32(t.mined);
      seen[3] += u32(t.costs);
      part += select(0.0, t.slope * select(t.own, 1.0, positive), t.costs);
      lost += select(0.0, t.loss, t.costs);
    }
    weight += part;
    if start < with_negatives {
      add_losses(term, select(lost, 0.0, positive), lane);
    }
  }
  if is_there {
    // Complete after the last window.
    if params.end >= params.references {
      weight = select(weight, -weight, positive) * slope_of(v_own);
    }
    weights[at + own] = weight;
  }
  if positive {
    seen = array<u32, TOTALS>();
  }
  add_seen(seen, lane);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn drawn(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let row = g / params.segments;
  let segment = g % params.segments;
  if row >= params.rows {
    return;
  }
  let first = row * params.list + 1u;
  let count = list[first - 1u].x;
  if segment * WORKGROUP_SIZE >= count {
    return;
  }
  let at = row * params.width;
  let j = segment * WORKGROUP_SIZE + lane;
  var loss = 0.0;
  var seen: array<u32, TOTALS>;
  if j < count {
    let own = list[first + j];
    let v_ap = values[at + own.x];
    let v_an = values[at + own.y];
    let t = weighed(v_ap, v_an, 0.0);
    seen = array<u32, TOTALS>(u32(t.within), u32(t.hard), u32(t.mined), u32(t.costs));
    loss = select(0.0, t.loss, t.costs);
    // A reference is weighed at its first place in the list.
    var leads = vec2<bool>(true, true);
    var weight = vec2f();
    for (var i = 0u; i < count; i++) {
      let other = list[first + i];
      let same = other == own;
      if any(same) {
        let met = weighed(values[at + other.x], values[at + other.y], 0.0);
        weight += select(vec2f(), vec2f(select(0.0, met.slope, met.costs)), same);
        leads &= !same | vec2<bool>(i >= j);
      }
    }
    if leads.x {
      weights[at + own.x] = -weight.x * slope_of(v_ap);
    }
    if leads.y {
      weights[at + own.y] = weight.y * slope_of(v_an);
    }
  }
  let term = row * params.segments + segment;
  if lane == 0u {
    terms[term] = 0.0;
  }
  add_losses(term, loss, lane);
  add_seen(seen, lane);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn settle(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let row = g / params.segments;
  let j = g % params.segments * WORKGROUP_SIZE + lane;
  if row >= params.rows || j >= counts[row].x {
    return;
  }
  let at = row * params.width;
  let own = at + places[at + j];
  let chosen = u32(weights[own]);
  if chosen == 0u {
    return;
  }
  let v_ap = values[own];
  let t = weighed(v_ap, values[at + places[at + params.width - chosen]], 0.0);
  weights[own] = select(0.0, -t.slope * slope_of(v_ap), t.costs);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn total(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if row >= params.rows {
    return;
  }
  var count = counts[row].x + counts[row].y;
  if params.list > 0u {
    count = list[row * params.list].x;
  }
  let end = (count + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
  var sum = 0.0;
  for (var segment = 0u; segment < end; segment++) {
    sum += terms[row * params.segments + segment];
  }
  atomicStore(&report[params.losses + row], bitcast<u32>(sum));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn swapped(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  let row = i / params.width;
  let n = i % params.width;
  if row >= params.rows {
    return;
  }
  let p = params.first + row;
  var weight = 0.0;
  if n < params.references && tags[n].x != tags[p].x {
    let v_pn = value_between(p, n);
    for (var start = 0u; start < params.anchors; start += WORKGROUP_SIZE) {
      var part = 0.0;
      for (var a = start; a < min(start + WORKGROUP_SIZE, params.anchors); a++) {
        let v_ap = values[a * params.width + p];
        let v_an = values[a * params.width + n];
        if batch[params.batch + a].x == tags[p].x && v_ap != NONE && v_an != NONE {
          let t = weighed(v_ap, v_an, v_pn);
          part += select(0.0, t.slope * (1.0 - t.own), t.costs);
        }
      }
      weight += part;
    }
    weight *= slope_of(v_pn);
  }
  weights[i] = weight;
}

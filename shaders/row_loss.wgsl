// Losses of rows of similarities: each row is reduced to a few numbers, then dL/ds of every kept pair is computed.
//
//   v = a value of a kept pair     a similarity, or minus a distance
//   formulas                       one case each of `exponent`, `reduce` and `slope`; cpu/row_loss/form.rs has them in words
//   log                            a log-sum-exp of exponents: the largest, plus the log of the sum of exponentials below it
//
// pool     one invocation per row and class                values: each reference gets that of its class; weights: dv/ds
// count    one workgroup per row and 256 kept references   times: number of triplets of the band with a pair
// reduce   one workgroup a row                             reduced: the row's numbers; counts of pairs and of rows
// settle   one workgroup a row                             reduced: the loss of positive pairs, after both rows are reduced
// slopes   one workgroup per row and 256 kept references   weights: dL/ds; the report's term: the row's part of the loss
// learn    one invocation                                  gradient: of the boundary, which moves both margins
//
// `count` looks at the other side from `first` on, a window at a time: times grow window by window. In `reduce` each
// invocation adds up every WORKGROUP_SIZE-th pair, and their sums are added in order: the size is chosen by the references. Between `reduce` and `slopes` the rows
// of all blocks are reduced: divisors are counts of the whole batch.

override WORKGROUP_SIZE: u32;
const NUMBERS = 8u;      // of a reduced row
const LOWEST = -3.0e38;  // below every exponent
const EMPTY = -1.0e30;   // the log-sum-exp of nothing, in a row's numbers
const NONE = -3.0;       // the value of what is not kept

const CONTRASTIVE = 0u;
const MARGIN = 1u;
const MULTI_SIMILARITY = 2u;
const NT_XENT = 3u;
const SUP_CON = 4u;
const CIRCLE = 5u;
const GENERALIZED_LIFTED = 6u;
const SOFTMAX = 7u;
const ARC_FACE = 8u;
const PROXY_ANCHOR = 9u;
const LIFTED = 10u;

const MINED = 1u;    // how often a pair counts: in how many mined triplets it stands
const CROSSED = 2u;  // as often as the other side has pairs; else once

const WEIGHTS = 1u;   // given: of each row of the batch
const BOUNDARY = 2u;  // how far both margins have moved

const ALL = 0u;
const EASY = 1u;
const SEMIHARD = 2u;
const HARD = 3u;  // any other kind: every triplet

const L2 = 1u;  // any other distance: cosine

// Counts of a step's report: u64s as two words, low first.
const POSITIVES = 2u;
const NEGATIVES = 4u;
const ACTIVE_POSITIVES = 6u;
const ACTIVE_NEGATIVES = 8u;
const ROWS = 10u;

struct Params {
  rows: u32,        // of the block
  width: u32,       // floats of a row of values
  segments: u32,    // ceil(references / 256)
  reduced: u32,     // the block's first row, in `reduced`
  report: u32,      // where this step's report begins
  losses: u32,      // where the losses of the block's rows go in it
  anchors: u32,     // rows of the whole batch
  form: u32,
  times: u32,
  distance: u32,
  kind: u32,        // which triplets the miner keeps
  miner_margin: f32,
  first: u32,       // count: of the other side; settle: where the batch begins
  end: u32,
  scales: vec2f,    // of positives, of negatives; of the margin loss: what it grows by with its boundary by itself
  margins: vec2f,
  centers: u32,     // references that stand for one class, next to each other
  gamma: f32,       // of the softmax over them; 0: the largest alone
  classes: u32,     // pool: of the references
  own: u32,         // whether the references are the batch itself
  given: u32,       // what `given` holds
  onto: u32,       // in learn: whether it is added to what is there
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> values: array<f32>;     // [rows, width]
@group(0) @binding(2) var<storage, read> places: array<u32>;     // [rows, width]: positives from the front, negatives from the back
@group(0) @binding(3) var<storage, read> counts: array<vec2u>;   // [rows]: of both
@group(0) @binding(4) var<storage, read_write> times: array<u32>;        // [rows, width], in count
@group(0) @binding(4) var<storage, read> counted: array<u32>;            // the same, after it
@group(0) @binding(5) var<storage, read_write> reduced: array<f32>;      // [anchors, NUMBERS], in reduce
@group(0) @binding(5) var<storage, read> rows_reduced: array<f32>;       // the same, in slopes
@group(0) @binding(6) var<storage, read_write> report: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read> given: array<f32>;              // weights of rows, or how far the boundary has moved
@group(0) @binding(8) var<storage, read_write> weights: array<f32>;      // [rows, width]

// In settle only.
@group(0) @binding(8) var<storage, read> batch: array<vec4u>;            // (label, ..) of each row, the block's from `first` on

// In learn only.
@group(0) @binding(1) var<storage, read_write> totals: array<u32>;       // the report
@group(0) @binding(2) var<storage, read_write> gradient: array<f32>;     // [4]: of the boundary, then padding

// In pool only.
@group(0) @binding(1) var<storage, read_write> pooled: array<f32>;       // the values
@group(0) @binding(2) var<storage, read_write> shares: array<f32>;       // the weights

const FEW = 64u;       // invocations of a small workgroup
const TOGETHER = 16u;  // invocations whose numbers are brought together first, in a large workgroup

var<workgroup> floats: array<vec4f, WORKGROUP_SIZE>;  // 4 KiB at most
var<workgroup> wholes: array<vec4u, WORKGROUP_SIZE>;  // 4 KiB at most

/// A pair that is kept.
struct Pair {
  at: u32,       // in the matrices
  positive: bool,
  v: f32,
  times: f32,    // 0: it does not count
  leads: bool,   // its class is counted by it
}

/// cos(acos(v) + margin) and its slope; v - margin sin(margin) if the angle would pass a half turn.
fn widened(v: f32) -> vec2f {
  let margin = params.margins.x;
  let nearest = 1.0 - 1e-7;
  if v < -cos(margin) {
    return vec2f(v - margin * sin(margin), 1.0);
  }
  let x = clamp(v, -nearest, nearest);
  let height = sqrt(1.0 - x * x);
  let slope = select(0.0, cos(margin) + x / height * sin(margin), abs(v) <= nearest);
  return vec2f(x * cos(margin) - height * sin(margin), slope);
}

fn is_of_masks() -> bool {
  return params.form != CONTRASTIVE && params.form != MARGIN && params.form != NT_XENT && params.form != LIFTED;
}

/// The j-th pair of a row: its positives come first.
fn pair(row: u32, j: u32) -> Pair {
  let kept = counts[row];
  let at = row * params.width;
  var p: Pair;
  p.positive = j < kept.x;
  p.at = at + places[select(at + params.width - 1u - (j - kept.x), at + j, p.positive)];
  p.v = values[p.at];
  p.leads = (p.at - at) % params.centers == 0u;
  p.times = 1.0;
  if params.times == MINED {
    p.times = f32(counted[p.at]);
  } else if params.times == CROSSED {
    p.times = f32(select(kept.x, kept.y, p.positive));
  }
  if is_of_masks() {
    p.times = min(p.times, 1.0);
  }
  return p;
}

/// The boundary between positives and negatives, as a value.
fn middle() -> f32 {
  let m = params.margins;
  return 0.5 * (m.x + m.y) + select(0.0, given[0], params.given == BOUNDARY);
}

fn hinge(p: Pair) -> f32 {
  var m = params.margins;
  if params.given == BOUNDARY {
    m += given[0];
  }
  return max(0.0, select(p.v - m.y, m.x - p.v, p.positive));
}

/// The constant factor of a pair in Circle.
fn relaxed(p: Pair) -> f32 {
  return max(0.0, select(p.v, 1.0 - p.v, p.positive) + params.margins.y);
}

fn exponent(p: Pair) -> f32 {
  let m = params.margins;
  switch params.form {
    case MULTI_SIMILARITY: { return select(params.scales.y * (p.v - m.y), params.scales.x * (m.x - p.v), p.positive); }
    case NT_XENT, SUP_CON: { return params.scales.x * p.v; }
    case CIRCLE: { return params.scales.x * relaxed(p) * select(p.v - m.y, m.x - p.v, p.positive); }
    case GENERALIZED_LIFTED, LIFTED: { return select(p.v - m.y, m.x - p.v, p.positive); }
    case SOFTMAX: { return select(params.scales.y * p.v, params.scales.x * (p.v - m.x), p.positive); }
    case ARC_FACE: { return select(params.scales.y * p.v, params.scales.x * widened(p.v).x, p.positive); }
    case PROXY_ANCHOR: {
      var x = select(params.scales.y * (p.v - m.y), params.scales.x * (m.x - p.v), p.positive);
      if params.given == WEIGHTS {
        x += given[p.at % params.width] - 1.0;
      }
      return x;
    }
    default: { return 0.0; }
  }
}

/// log(exp(a) + exp(b)); LOWEST stands for no exponent.
fn log_add(a: f32, b: f32) -> f32 {
  let top = max(a, b);
  if top == LOWEST {
    return top;
  }
  return top + log(exp(a - top) + exp(b - top));
}

/// log(1 + exp(x)), above zero as far as f32 goes.
fn softplus(x: f32) -> f32 {
  let e = exp(-abs(x));
  return max(x, 0.0) + select(log(1.0 + e), e - 0.5 * e * e, e < 1e-3);
}

fn sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + exp(-x));
}

fn over(value: f32, divisor: f32) -> f32 {
  return select(0.0, value / divisor, divisor > 0.0);
}

fn is_mined(tm: f32) -> bool {
  let within = tm <= params.miner_margin;
  switch params.kind {
    case ALL: { return within; }
    case EASY: { return !within; }
    case SEMIHARD: { return within && tm > 0.0; }
    case HARD: { return within && tm <= 0.0; }
    default: { return true; }
  }
}

/// Adds to a u64 of the report.
fn add(total: u32, value: u32) {
  let old = atomicAdd(&report[params.report + total], value);
  if old + value < old {
    atomicAdd(&report[params.report + total + 1u], 1u);
  }
}

/// A u64 of the report.
fn total(first: u32) -> f32 {
  let low = f32(atomicLoad(&report[params.report + first]));
  return low + 4294967296.0 * f32(atomicLoad(&report[params.report + first + 1u]));
}

/// The largest of every invocation's values. Called in uniform control flow.
fn largest(own: vec4f, lane: u32) -> vec4f {
  bring(own, lane);
  if WORKGROUP_SIZE <= FEW {
    return largest_of(0u, WORKGROUP_SIZE);
  }
  var best = own;
  if lane < WORKGROUP_SIZE / TOGETHER {
    best = largest_of(lane * TOGETHER, TOGETHER);
  }
  bring(best, lane);
  return largest_of(0u, WORKGROUP_SIZE / TOGETHER);
}

fn largest_of(first: u32, count: u32) -> vec4f {
  var best = floats[first];
  for (var i = first; i < first + min(count, WORKGROUP_SIZE); i++) {
    best = max(best, floats[i]);
  }
  return best;
}

/// Writes every invocation's values. Called in uniform control flow.
fn bring(own: vec4f, lane: u32) {
  workgroupBarrier();  // all have read what was there before
  floats[lane] = own;
  workgroupBarrier();  // all values are there before they are read
}

/// The sum of every invocation's values, in their order; in a large workgroup of groups, in theirs. Called in uniform control flow.
fn sum(own: vec4f, lane: u32) -> vec4f {
  bring(own, lane);
  if WORKGROUP_SIZE <= FEW {
    return sum_of(0u, WORKGROUP_SIZE);
  }
  var part = own;
  if lane < WORKGROUP_SIZE / TOGETHER {
    part = sum_of(lane * TOGETHER, TOGETHER);
  }
  bring(part, lane);
  return sum_of(0u, WORKGROUP_SIZE / TOGETHER);
}

fn sum_of(first: u32, count: u32) -> vec4f {
  var all = vec4f();
  for (var i = first; i < first + min(count, WORKGROUP_SIZE); i++) {
    all += floats[i];
  }
  return all;
}

fn bring_wholes(own: vec4u, lane: u32) {
  workgroupBarrier();  // all have read what was there before
  wholes[lane] = own;
  workgroupBarrier();  // all values are there before they are read
}

/// The sum of every invocation's whole numbers. Called in uniform control flow.
fn sum_wholes(own: vec4u, lane: u32) -> vec4u {
  bring_wholes(own, lane);
  if WORKGROUP_SIZE <= FEW {
    return sum_of_wholes(0u, WORKGROUP_SIZE);
  }
  var part = own;
  if lane < WORKGROUP_SIZE / TOGETHER {
    part = sum_of_wholes(lane * TOGETHER, TOGETHER);
  }
  bring_wholes(part, lane);
  return sum_of_wholes(0u, WORKGROUP_SIZE / TOGETHER);
}

fn sum_of_wholes(first: u32, count: u32) -> vec4u {
  var all = vec4u();
  for (var i = first; i < first + min(count, WORKGROUP_SIZE); i++) {
    all += wholes[i];
  }
  return all;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn count(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let row = g / params.segments;
  if row >= params.rows {
    return;
  }
  let j = g % params.segments * WORKGROUP_SIZE + lane;
  let kept = counts[row];
  if j >= kept.x + kept.y {
    return;
  }
  let at = row * params.width;
  let last = at + params.width - 1u;
  let positive = j < kept.x;
  let own = at + places[select(last - (j - kept.x), at + j, positive)];
  let v = values[own];
  var met = 0u;
  for (var o = params.first; o < min(params.end, select(kept.x, kept.y, positive)); o++) {
    let other = values[at + places[select(at + o, last - o, positive)]];
    met += u32(is_mined(select(other - v, v - other, positive)));
  }
  times[own] = select(times[own], 0u, params.first == 0u) + met;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn pool(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  let row = i / params.classes;
  if row >= params.rows {
    return;
  }
  let first = row * params.width + i % params.classes * params.centers;
  let end = first + params.centers;
  var best = first;
  for (var c = first + 1u; c < end; c++) {
    best = select(best, c, pooled[c] > pooled[best]);
  }
  let top = pooled[best];
  var sum = 0.0;
  var weighted = 0.0;
  for (var c = first; c < end; c++) {
    var share = exp(params.gamma * (pooled[c] - top));
    if params.gamma == 0.0 {
      share = select(0.0, 1.0, c == best);
    }
    shares[c] = share;
    sum += share;
    weighted += share * pooled[c];
  }
  let mean = weighted / sum;
  for (var c = first; c < end; c++) {
    shares[c] = shares[c] / sum * (1.0 + params.gamma * (pooled[c] - mean));
    pooled[c] = mean;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn reduce(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let pairs = counts[row].x + counts[row].y;
  var own = vec4f(LOWEST);
  for (var j = lane; j < pairs; j += WORKGROUP_SIZE) {
    let p = pair(row, j);
    if p.leads && p.times > 0.0 {
      let x = exponent(p);
      own = max(own, select(vec4f(LOWEST, x, LOWEST, LOWEST), vec4f(x, LOWEST, LOWEST, LOWEST), p.positive));
    }
  }
  let top = largest(own, lane).xy;
  // Sums below the largest exponents of both sides, and of hinges; of the positives' exponents.
  var sums = vec4f();
  var exponents = vec4f();
  var met = vec4u();  // how often the positives count, the negatives; those of them above a margin
  for (var j = lane; j < pairs; j += WORKGROUP_SIZE) {
    let p = pair(row, j);
    if p.leads && p.times > 0.0 {
      let x = exponent(p);
      let h = hinge(p);
      let below = p.times * exp(x - select(top.y, top.x, p.positive));
      let lost = p.times * h;
      let count = u32(p.times);
      let above = select(0u, count, h > 0.0);
      sums += select(vec4f(0.0, below, 0.0, lost), vec4f(below, 0.0, lost, 0.0), p.positive);
      exponents.x += select(0.0, x, p.positive);
      met += select(vec4u(0u, count, 0u, above), vec4u(count, 0u, above, 0u), p.positive);
    }
  }
  sums = sum(sums, lane);
  met = sum_wholes(met, lane);
  let log_p = select(LOWEST, top.x + log(sums.x), met.x > 0u);
  let log_n = select(LOWEST, top.y + log(sums.y), met.y > 0u);
  let both = met.x > 0u && met.y > 0u;
  var costs = vec2f();
  var logs = vec2f();
  var factor = 0.0;
  var sum_of_exponents = 0.0;
  if params.form == SUP_CON {
    sum_of_exponents = sum(exponents, lane).x;
  }
  switch params.form {
    case CONTRASTIVE, MARGIN: { costs = sums.zw; }
    case MULTI_SIMILARITY: {
      logs = vec2f(log_add(0.0, log_p), log_add(0.0, log_n));
      costs.x = logs.x / params.scales.x + logs.y / params.scales.y;
    }
    case SUP_CON: {
      if met.x > 0u {
        logs.x = log_add(log_p, log_n);
        costs.x = logs.x - sum_of_exponents / f32(met.x);
        factor = select(0.0, 1.0, costs.x > 0.0);
      }
    }
    case CIRCLE: {
      if both {
        logs = vec2f(log_p, log_n);
        costs.x = softplus(log_p + log_n);
        factor = sigmoid(log_p + log_n);
      }
    }
    case GENERALIZED_LIFTED: {
      logs = select(vec2f(), vec2f(log_p, log_n), vec2<bool>(met.x > 0u, met.y > 0u));
      costs.x = max(0.0, logs.x + logs.y);
      factor = select(0.0, 1.0, costs.x > 0.0);
    }
    case SOFTMAX, ARC_FACE: {
      if both {
        logs = vec2f(log_p, log_n);
        costs.x = softplus(log_n - log_p);
        factor = sigmoid(log_n - log_p);
      }
    }
    case LIFTED: { logs.y = max(log_n, EMPTY); }
    case PROXY_ANCHOR: {
      logs = vec2f(log_add(0.0, log_p), log_add(0.0, log_n));
      costs = logs;
    }
    default: {}
  }
  if params.form == NT_XENT {
    var own = vec4f();
    if both {
      for (var j = lane; j < counts[row].x; j += WORKGROUP_SIZE) {
        let p = pair(row, j);
        if p.times > 0.0 {
          let behind = log_n - exponent(p);
          own += p.times * vec4f(softplus(behind), sigmoid(behind), 0.0, 0.0);
        }
      }
    }
    let all = sum(own, lane);
    logs.y = select(0.0, log_n, both);
    costs.x = all.x;
    factor = all.y;
  }
  if lane > 0u {
    return;
  }
  let counts_positives = params.form == SOFTMAX || params.form == ARC_FACE || params.form == PROXY_ANCHOR;
  if params.given == WEIGHTS && params.form != PROXY_ANCHOR {
    costs *= given[params.reduced + row];
    factor *= given[params.reduced + row];
  }
  let at = (params.reduced + row) * NUMBERS;
  reduced[at] = costs.x;
  reduced[at + 1u] = costs.y;
  reduced[at + 2u] = logs.x;
  reduced[at + 3u] = logs.y;
  reduced[at + 4u] = factor;
  reduced[at + 5u] = f32(met.x);
  reduced[at + 6u] = f32(met.y);
  reduced[at + 7u] = bitcast<f32>(met.y);
  var busy = met.zw;
  if params.form != CONTRASTIVE && params.form != MARGIN {
    busy = select(vec2u(), met.xy, costs.x + costs.y > 0.0);
  }
  add(POSITIVES, met.x);
  add(NEGATIVES, met.y);
  add(ACTIVE_POSITIVES, busy.x);
  add(ACTIVE_NEGATIVES, busy.y);
  add(ROWS, select(0u, 1u, select(costs.x + costs.y > 0.0, met.x > 0u, counts_positives)));
}

/// Log-sum-exp over the negatives of both rows of a positive pair, and the amount by which the pair then misses its margin.
fn lifted(v: f32, own: f32, other: f32) -> vec2f {
  var log = log_add(own, other);
  log = select(log, 0.0, log <= EMPTY);
  return vec2f(log, max(0.0, params.margins.x - v + log));
}

fn times_of(at: u32) -> f32 {
  if values[at] == NONE {
    return 0.0;
  }
  return select(1.0, f32(counted[at]), params.times == MINED);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn settle(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let at = (params.reduced + row) * NUMBERS;
  let log = reduced[at + 3u];
  var own = vec4f();  // what the pairs cost, and the weight of the row's negatives
  var above = vec4u();  // pairs above zero
  for (var j = lane; j < counts[row].x; j += WORKGROUP_SIZE) {
    let p = pair(row, j);
    if p.times > 0.0 {
      let place = p.at - row * params.width;
      var other = EMPTY;
      if params.own != 0u {
        other = reduced[place * NUMBERS + 3u];
      }
      let both = lifted(p.v, log, other);
      own += p.times * vec4f(both.y * both.y / 2.0, both.y * exp(log - both.x), 0.0, 0.0);
      above.x += select(0u, u32(p.times), both.y > 0.0);
    }
  }
  if params.own != 0u {
    let label = batch[params.first + row].x;
    for (var anchor = lane; anchor < params.rows; anchor += WORKGROUP_SIZE) {
      if anchor != row && batch[params.first + anchor].x == label {
        let there = anchor * params.width + row;
        let both = lifted(values[there], log, reduced[anchor * NUMBERS + 3u]);
        own.y += times_of(there) * both.y * exp(log - both.x);
      }
    }
  }
  let all = sum(own, lane);
  above = sum_wholes(above, lane);
  if lane > 0u {
    return;
  }
  let weight = select(0.0, all.y, log > EMPTY);
  reduced[at] = all.x;
  reduced[at + 4u] = weight;
  add(ACTIVE_POSITIVES, above.x);
  add(ACTIVE_NEGATIVES, select(0u, bitcast<u32>(reduced[at + 7u]), weight > 0.0));
  add(ROWS, select(0u, 1u, all.x > 0.0));
}

/// Divisors of the positives' and the negatives' part of the loss.
fn divisors() -> vec2f {
  switch params.form {
    case CONTRASTIVE: { return vec2f(total(ACTIVE_POSITIVES), total(ACTIVE_NEGATIVES)); }
    case MARGIN: { return vec2f(total(ACTIVE_POSITIVES) + total(ACTIVE_NEGATIVES)); }
    case NT_XENT: { return vec2f(total(POSITIVES)); }
    // PML gives no loss to a batch without a pair of one of the kinds.
    case SUP_CON: { return vec2f(select(total(ROWS), 0.0, total(NEGATIVES) == 0.0)); }
    case LIFTED: { return vec2f(select(total(POSITIVES), 0.0, total(NEGATIVES) == 0.0)); }
    case CIRCLE, SOFTMAX, ARC_FACE: { return vec2f(total(ROWS)); }
    case PROXY_ANCHOR: { return vec2f(total(ROWS), f32(params.anchors)); }
    default: { return vec2f(f32(params.anchors)); }
  }
}

/// dL/dv, before the divisors.
fn slope(p: Pair, at: u32) -> f32 {
  let sign = select(1.0, -1.0, p.positive);
  let log = rows_reduced[at + select(3u, 2u, p.positive)];
  let factor = rows_reduced[at + 4u];
  let x = exponent(p);
  switch params.form {
    // A row without a loss has no slopes: its logs may be far from its exponents.
    case SUP_CON, CIRCLE, GENERALIZED_LIFTED, SOFTMAX, ARC_FACE: {
      if factor == 0.0 {
        return 0.0;
      }
    }
    default: {}
  }
  switch params.form {
    case CONTRASTIVE, MARGIN: { return select(0.0, sign * p.times, hinge(p) > 0.0); }
    case MULTI_SIMILARITY: { return sign * exp(x - log); }
    case GENERALIZED_LIFTED: { return sign * factor * exp(x - log); }
    case NT_XENT: {
      let behind = rows_reduced[at + 3u];
      if rows_reduced[at + 6u] == 0.0 {
        return 0.0;
      }
      return p.times * params.scales.x * select(factor * exp(x - behind), -sigmoid(behind - x), p.positive);
    }
    case SUP_CON: {
      let own = select(0.0, 1.0 / rows_reduced[at + 5u], p.positive);
      return factor * params.scales.x * (exp(x - rows_reduced[at + 2u]) - own);
    }
    case CIRCLE: { return sign * factor * exp(x - log) * params.scales.x * relaxed(p); }
    case LIFTED: {
      if p.positive {
        var other = EMPTY;
        if params.own != 0u {
          other = rows_reduced[(p.at % params.width) * NUMBERS + 3u];
        }
        return -p.times * lifted(p.v, rows_reduced[at + 3u], other).y;
      }
      if factor == 0.0 {
        return 0.0;
      }
      return p.times * factor * exp(x - log);
    }
    case PROXY_ANCHOR: { return sign * exp(x - log) * select(params.scales.y, params.scales.x, p.positive); }
    default: {
      let widens = params.form == ARC_FACE && p.positive;
      let along = select(1.0, widened(p.v).y, widens) * select(params.scales.y, params.scales.x, p.positive);
      return sign * factor * exp(x - log) * along;
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
  if row >= params.rows {
    return;
  }
  let j = g % params.segments * WORKGROUP_SIZE + lane;
  let at = (params.reduced + row) * NUMBERS;
  let divided = divisors();
  if j == 0u {
    var loss = over(rows_reduced[at], divided.x) + over(rows_reduced[at + 1u], divided.y);
    if params.form == MARGIN && params.reduced + row == 0u && total(POSITIVES) > 0.0 {
      loss += params.scales.x * middle();
    }
    atomicStore(&report[params.losses + row], bitcast<u32>(loss));
  }
  if j >= counts[row].x + counts[row].y {
    return;
  }
  let p = pair(row, j);
  if p.times > 0.0 {
    // dv/ds; 0 if rows coincide.
    let along = select(1.0, select(0.0, -1.0 / p.v, p.v < 0.0), params.distance == L2);
    let share = select(1.0, weights[p.at], params.centers > 1u);
    weights[p.at] = over(slope(p, at), select(divided.y, divided.x, p.positive)) * share * along;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn learn() {
  let at = params.report;
  let positives = f32(totals[at + ACTIVE_POSITIVES]) + 4294967296.0 * f32(totals[at + ACTIVE_POSITIVES + 1u]);
  let negatives = f32(totals[at + ACTIVE_NEGATIVES]) + 4294967296.0 * f32(totals[at + ACTIVE_NEGATIVES + 1u]);
  let kept = (totals[at + POSITIVES] | totals[at + POSITIVES + 1u]) > 0u;
  var slope = params.scales.y * (over(positives - negatives, positives + negatives) + select(0.0, params.scales.x, kept));
  if params.onto != 0u {
    slope += gradient[0];
  }
  gradient[0] = slope;
}

// Triplets drawn at random: for each anchor as many as its class has references, the positive uniformly, the negative by weight.
//
//   D          = distance, the cutoff at least; from the second cutoff on weights are 0
//   log weight = (2 - dim) / 2 log(D^2) + (3 - dim) / 2 log(1 - D^2 / 4)
//   weight     = exp(log weight - the row's largest); 0 below exp(FAINT)
//   a draw     = four numbers from hash(seeds, anchor, number of the draw): the positive, a share of the references by
//                the sum of its weights, the negative in it by its weight
//
// draw    one workgroup a row   drawn: number of triplets, then (positive, negative) of each; sums: 0
// count   one workgroup a row   times: number of drawn triplets with a reference
//
// Each invocation adds up the weights of a share of consecutive references.

override WORKGROUP_SIZE: u32;
const LOWEST = -3.4e38;  // stands for the logarithm of no weight
const FAINT = -64.0;

const COSINE = 0u;  // any other distance: Euclidean

struct Params {
  rows: u32,        // rows of the block
  batch: u32,       // where the block begins in `batch`
  references: u32,
  width: u32,       // floats of a row of values
  places: u32,      // of a row of `drawn`
  anchor: u32,      // number of the block's first anchor in the batch
  distance: u32,    // what the values are in
  least: f32,       // the least square of a distance
  seeds: vec2u,
  factors: vec2f,   // of log(D^2), of log(1 - D^2 / 4)
  most: f32,        // the square of a distance from which on none is drawn
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> batch: array<vec4u>;   // (label, id, _, positives) of each row
@group(0) @binding(2) var<storage, read> tags: array<vec2u>;    // (label, id) of each reference
@group(0) @binding(3) var<storage, read> values: array<f32>;    // [rows, width]
@group(0) @binding(4) var<storage, read> places: array<u32>;    // [rows, width]: positives from the front
@group(0) @binding(5) var<storage, read> counts: array<vec2u>;  // [rows]: of positives and negatives
@group(0) @binding(6) var<storage, read_write> sums: array<f32>;     // [rows, width]: of weights, from the share's first on
@group(0) @binding(7) var<storage, read_write> drawn: array<vec2u>;  // [rows, places]

// In count only.
@group(0) @binding(1) var<storage, read> listed: array<vec2u>;  // [rows, places]
@group(0) @binding(2) var<storage, read_write> times: array<atomic<u32>>;  // [rows, width]

const TOGETHER = 16u;  // invocations whose largest weights are compared first

var<workgroup> floats: array<f32, WORKGROUP_SIZE>;  // 1 KiB
var<workgroup> tops: array<f32, WORKGROUP_SIZE / TOGETHER>;  // of TOGETHER invocations, 64 bytes
var<workgroup> members: atomic<u32>;                // references of the row's class, 4 bytes

/// The logarithm of a negative's weight, up to a constant.
fn log_weight(v: f32) -> f32 {
  let square = max(select(v * v, 2.0 - 2.0 * v, params.distance == COSINE), params.least);
  let rest = 1.0 - 0.25 * square;
  if square >= params.most || rest <= 0.0 {
    return LOWEST;
  }
  return params.factors.x * log(square) + params.factors.y * log(rest);
}

fn mixed(old: vec4u) -> vec4u {
  var v = old;
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  return v;
}

/// Four numbers of 32 bits from four: `pcg4d` of Jarzynski and Olano, "Hash functions for GPU rendering" (2020).
fn hash(v: vec4u) -> vec4u {
  let first = mixed(v * 1664525u + 1013904223u);
  return mixed(first ^ (first >> vec4u(16u)));
}

/// A number of [0, 1), from the first 24 bits.
fn unit(bits: u32) -> f32 {
  return f32(bits >> 8u) / 16777216.0;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn draw(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let r = group.x + group.y * groups.x;
  if r >= params.rows {
    return;
  }
  let at = r * params.width;
  let list = r * params.places;
  let positives = counts[r].x;
  let label = batch[params.batch + r].x;
  let share = (params.references + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
  let first = min(lane * share, params.references);
  let end = min(first + share, params.references);

  var top = LOWEST;
  var own = 0u;
  for (var i = first; i < end; i++) {
    let positive = tags[i].x == label;
    let log = select(log_weight(values[at + i]), LOWEST, positive);
    sums[at + i] = log;
    top = max(top, log);
    own += u32(positive);
  }
  atomicAdd(&members, own);
  floats[lane] = top;
  workgroupBarrier();  // all have looked before the largest is found, and members are counted
  if lane < WORKGROUP_SIZE / TOGETHER {
    for (var i = 0u; i < TOGETHER; i++) {
      top = max(top, floats[lane * TOGETHER + i]);
    }
    tops[lane] = top;
  }
  workgroupBarrier();  // the largest of each group is there, and the places of those of each may be used again
  for (var i = 0u; i < WORKGROUP_SIZE / TOGETHER; i++) {
    top = max(top, tops[i]);
  }
  var sum = 0.0;
  for (var i = first; i < end; i++) {
    let below = sums[at + i] - top;
    sum += select(0.0, exp(below), below > FAINT);
    sums[at + i] = sum;
  }
  floats[lane] = sum;
  workgroupBarrier();  // all sums are there before they are added up
  var upto = 0.0;
  for (var i = 0u; i <= lane; i++) {
    upto += floats[i];
  }
  workgroupBarrier();  // all have read the sums before they are replaced
  floats[lane] = upto;
  workgroupBarrier();  // sums up to each share are there before they are searched
  storageBarrier();    // so are those within shares
  let draws = select(0u, atomicLoad(&members), positives > 0u && top > LOWEST);
  let total = floats[WORKGROUP_SIZE - 1u];
  for (var j = lane; j < draws; j += WORKGROUP_SIZE) {
    let chance = hash(vec4u(params.seeds, params.anchor + r, j));
    let of_shares = unit(chance.y) * total;
    var low = 0u;
    var high = WORKGROUP_SIZE - 1u;
    while low < high {
      let middle = (low + high) / 2u;
      if floats[middle] <= of_shares {
        low = middle + 1u;
      } else {
        high = middle;
      }
    }
    low = min(low * share, params.references - 1u);
    high = min(low + share, params.references) - 1u;
    let of_own = unit(chance.z) * sums[at + high];
    while low < high {
      let middle = (low + high) / 2u;
      if sums[at + middle] <= of_own {
        low = middle + 1u;
      } else {
        high = middle;
      }
    }
    let positive = places[at + u32(unit(chance.x) * f32(positives))];
    drawn[list + 1u + j] = vec2u(positive, low);
  }
  if lane == 0u {
    drawn[list] = vec2u(draws, 0u);
  }
  storageBarrier();  // all have drawn before the sums go
  for (var i = first; i < end; i += 4u) {
    sums[at + i] = 0.0;
    sums[at + min(i + 1u, end - 1u)] = 0.0;
    sums[at + min(i + 2u, end - 1u)] = 0.0;
    sums[at + min(i + 3u, end - 1u)] = 0.0;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn count(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let r = group.x + group.y * groups.x;
  if r >= params.rows {
    return;
  }
  let at = r * params.width;
  let list = r * params.places;
  for (var i = lane; i < params.references; i += WORKGROUP_SIZE) {
    atomicStore(&times[at + i], 0u);
  }
  storageBarrier();  // all are 0 before any is counted
  for (var j = lane; j < listed[list].x; j += WORKGROUP_SIZE) {
    let triplet = listed[list + 1u + j];
    atomicAdd(&times[at + triplet.x], 1u);
    atomicAdd(&times[at + triplet.y], 1u);
  }
}

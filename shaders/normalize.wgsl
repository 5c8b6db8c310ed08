// Rows of unit length, and the gradient through that.
//
//   unit = row / max(|row|, 1e-12)                 a zero row stays zero
//   d row = (g - unit <g, unit>) / |row|           g = (gradient - mean) / divisor; zero if the row is zero or the divisor is 0
//                                                  mean: of the batch's gradients, if it is taken off, or 0
//   term  = scale <gradient, unit> + what is there  a row's term of the loss, in the step's report
//
// normalize   one workgroup a row   unit[first + row]
// in_place    one workgroup a row   raw[first + row]
// store       one workgroup a row   raw[before + row] from raw[row], norms[before + row], and its copy in the memory: bank,
//                                   tags[slot] = (label, id); `before` is 0, or at least the number of rows
// measure     one workgroup a row   unit[row], norms[row]
// backward    one workgroup a row   gradient[row] in place, and if scale is not 0 this row's term of the loss
//
// A row whose squared length is not finite sets the sticky word `status`.

override WORKGROUP_SIZE: u32;
const TOTALS = 16u;        // words of totals in a step's report, before the rows' terms
const ACTIVE = 8u;         // where the u64 of active triplets stands in them

struct Params {
  rows: u32,
  stride: u32,       // vec4s of a row
  first: u32,        // in normalize and in_place: where the unit rows begin; in store: where `batch` begins
  cursor: u32,       // the memory's next slot
  capacity: u32,     // the memory's slots
  first_id: u32,     // the id of the first stored row
  report: u32,       // where this step's report begins
  scale: f32,        // what <gradient, unit> counts for in a row's term of the loss; 0: no term is touched
  divisor: f32,      // of the gradient; 0: the active triplets in the report
  before: u32,       // in store: rows of the batch before these
  centered: u32,     // whether the mean of the batch's gradients is taken off each
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> unit: array<vec4f>;

// In in_place and store.
@group(0) @binding(1) var<storage, read_write> raw: array<vec4f>;

// In measure and store.
@group(0) @binding(3) var<storage, read_write> norms: array<f32>;
@group(0) @binding(4) var<storage, read_write> status: array<atomic<u32>>;

// In store only.
@group(0) @binding(2) var<storage, read> batch: array<vec4u>;  // (label, ..) of each row
@group(0) @binding(5) var<storage, read_write> bank: array<Stored>;
@group(0) @binding(6) var<storage, read_write> tags: array<vec2u>;

// In backward only.
@group(0) @binding(1) var<storage, read> unit_rows: array<vec4f>;
@group(0) @binding(2) var<storage, read> row_norms: array<f32>;
@group(0) @binding(3) var<storage, read_write> gradient: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> report: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read> mean: array<vec4f>;  // [stride], where it is taken off

var<workgroup> partial: array<f32, WORKGROUP_SIZE>;  // 256 bytes

/// acc + <a, b>, component by component.
fn chain(a: vec4f, b: vec4f, acc: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, acc))));
}

/// The sum of every invocation's `part`, eight at a time, in their order: a long sum rounds less like this.
fn sum(part: f32, lane: u32) -> f32 {
  partial[lane] = part;
  workgroupBarrier();  // all parts are there before they are added
  var total = 0.0;
  for (var start = 0u; start < WORKGROUP_SIZE; start += 8u) {
    var eight = 0.0;
    for (var i = start; i < start + 8u; i++) {
      eight += partial[i];
    }
    total += eight;
  }
  return total;
}

fn length_of(row: u32, lane: u32) -> f32 {
  var squares = 0.0;
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let v = rows[row * params.stride + k];
    squares = chain(v, v, squares);
  }
  return sqrt(sum(squares, lane));
}

/// The length of a row of `raw`, which begins at `start`.
fn length_in_place(start: u32, lane: u32) -> f32 {
  var squares = 0.0;
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let v = raw[start + k];
    squares = chain(v, v, squares);
  }
  return sqrt(sum(squares, lane));
}

fn note_length(row: u32, norm: f32) {
  norms[row] = norm;
  if (bitcast<u32>(norm) & 0x7f800000u) == 0x7f800000u {
    atomicOr(&status[0], 1u);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn normalize(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let norm = max(length_of(row, lane), 1e-12);
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    unit[(params.first + row) * params.stride + k] = rows[row * params.stride + k] / norm;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn in_place(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let start = (params.first + row) * params.stride;
  let norm = max(length_in_place(start, lane), 1e-12);
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    raw[start + k] = raw[start + k] / norm;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn store(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let norm = length_in_place(row * params.stride, lane);
  let own = params.before + row;
  let slot = (params.cursor + own) % params.capacity;
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let v = raw[row * params.stride + k] / max(norm, 1e-12);
    raw[own * params.stride + k] = v;
    bank[slot * params.stride + k] = stored(v);
  }
  if lane == 0u {
    tags[slot] = vec2u(batch[params.first + own].x, params.first_id + own);
    note_length(own, norm);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn measure(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let norm = length_of(row, lane);
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    unit[row * params.stride + k] = rows[row * params.stride + k] / max(norm, 1e-12);
  }
  if lane == 0u {
    note_length(row, norm);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn backward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let centered = params.centered != 0u;
  var part = 0.0;
  var along_mean = 0.0;
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let i = row * params.stride + k;
    part = chain(gradient[i], unit_rows[i], part);
    if centered {
      along_mean = chain(mean[k], unit_rows[i], along_mean);
    }
  }
  let along = sum(part, lane);
  var left = along;
  if centered {
    workgroupBarrier();  // all have read the first sum
    left -= sum(along_mean, lane);
  }
  let active_triplets = f32(atomicLoad(&report[params.report + ACTIVE]))
    + 4294967296.0 * f32(atomicLoad(&report[params.report + ACTIVE + 1u]));
  let divisor = select(active_triplets, params.divisor, params.divisor > 0.0) * row_norms[row];
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let i = row * params.stride + k;
    let own = gradient[i] - select(vec4f(), mean[k], centered);
    let tangent = own - unit_rows[i] * left;
    gradient[i] = select(vec4f(), tangent / divisor, divisor > 0.0);
  }
  if lane == 0u && params.scale != 0.0 {
    let place = params.report + TOTALS + row;
    let term = fma(params.scale, along, bitcast<f32>(atomicLoad(&report[place])));
    atomicStore(&report[place], bitcast<u32>(term));
  }
}

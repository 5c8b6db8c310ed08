// The first numbers of rows of unit length, brought to unit length anew, and gradients from there back to the whole rows.
//
//   truncated = v / max(|v|, 1e-12)          v = the first `dim` numbers of a row; a zero row stays zero
//   whole     = factor * gradient + what is there, or 0      of those numbers; beyond them 0 is added
//
// truncate   one workgroup a row       truncated[row], and if `measured` its length before, norms[row]
// widen      one invocation a vec4     whole[row]

override WORKGROUP_SIZE: u32;

struct Params {
  rows: u32,
  stride: u32,     // vec4s of a whole row
  narrow: u32,     // vec4s of a truncated row
  dim: u32,        // numbers of a truncated row
  measured: u32,   // in truncate: whether the lengths are written
  onto: u32,       // in widen: whether it is added to what is there
  factor: f32,     // in widen
}

@group(0) @binding(0) var<uniform> params: Params;

// In truncate.
@group(0) @binding(1) var<storage, read> rows: array<Stored>;
@group(0) @binding(2) var<storage, read_write> truncated: array<Stored>;
@group(0) @binding(3) var<storage, read_write> norms: array<f32>;

// In widen.
@group(0) @binding(1) var<storage, read> gradient: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> whole: array<vec4f>;

var<workgroup> partial: array<f32, WORKGROUP_SIZE>;  // 256 bytes

/// The k-th vec4 of a row, without the numbers from `dim` on.
fn first_of(row: u32, k: u32) -> vec4f {
  let column = 4u * k + vec4u(0u, 1u, 2u, 3u);
  return select(vec4f(), floats(rows[row * params.stride + k]), column < vec4u(params.dim));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn truncate(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  var squares = 0.0;
  for (var k = lane; k < params.narrow; k += WORKGROUP_SIZE) {
    let v = first_of(row, k);
    squares = fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, fma(v.x, v.x, squares))));
  }
  partial[lane] = squares;
  workgroupBarrier();  // all parts are there before they are added
  // Eight at a time, in their order: a long sum rounds less like this.
  var total = 0.0;
  for (var start = 0u; start < WORKGROUP_SIZE; start += 8u) {
    var eight = 0.0;
    for (var i = start; i < start + 8u; i++) {
      eight += partial[i];
    }
    total += eight;
  }
  let norm = sqrt(total);
  for (var k = lane; k < params.narrow; k += WORKGROUP_SIZE) {
    truncated[row * params.narrow + k] = stored(first_of(row, k) / max(norm, 1e-12));
  }
  if lane == 0u && params.measured != 0u {
    norms[row] = norm;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn widen(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  let row = i / params.stride;
  let k = i % params.stride;
  if row >= params.rows {
    return;
  }
  var value = vec4f();
  if params.onto != 0u {
    value = whole[i];
  }
  if k < params.narrow {
    value = fma(vec4f(params.factor), gradient[row * params.narrow + k], value);
  }
  whole[i] = value;
}

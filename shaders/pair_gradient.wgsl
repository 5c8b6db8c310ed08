// Gradient of the rows that were compared, from the weights of their similarities.
//
//   anchors      gradient[row] = sum over references of weight * reference    in windows: each adds to the one before
//   references   gradient[reference] = sum over rows of weight * row          if references learn: in blocks, each adds to the one before
//
// anchors         one invocation per vec4 of a row                    its vec4 of the gradient
// anchors_apart   one workgroup per `columns` vec4s, of any rows      the same: an invocation a segment, then the segments in order
// references      one invocation per vec4 of a reference              its vec4 of the gradient
//
// Sums go in segments of SEGMENT, one owner each, ascending. A weight of zero adds nothing, and is passed over.

override WORKGROUP_SIZE: u32;
const SEGMENT = 256u;

struct Params {
  stride: u32,      // vec4s of a row of anchors or references
  first_row: u32,   // where the rows begin, in the anchors and gradients
  rows: u32,
  references: u32,
  width: u32,       // floats of a row of weights
  first: u32,       // anchors: of the references
  end: u32,
  onto: u32,        // whether the gradient is added to
  columns: u32,     // anchors_apart: vec4s of a workgroup; a power of two
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> rows: array<Stored>;    // the references in anchors, the anchors in references
@group(0) @binding(2) var<storage, read> weights: array<f32>;    // [rows, width]
@group(0) @binding(3) var<storage, read_write> gradient: array<vec4f>;

var<workgroup> sums: array<vec4f, WORKGROUP_SIZE>;  // in anchors_apart: of each segment, 4 KiB

fn invocation(group: vec3u, groups: vec3u, lane: u32) -> u32 {
  return (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
}

/// A vec4 of a row's sum over the references of the segment that begins at `start`.
fn of_segment(row: u32, k: u32, start: u32, end: u32) -> vec4f {
  var sum = vec4f();
  for (var r = start; r < min(start + SEGMENT, end); r++) {
    let weight = weights[row * params.width + r];
    if weight != 0.0 {
      sum = fma(vec4f(weight), floats(rows[r * params.stride + k]), sum);
    }
  }
  return sum;
}

/// Writes a vec4 of a row's gradient, or adds it.
fn put(row: u32, k: u32, sum: vec4f) {
  let at = (params.first_row + row) * params.stride + k;
  if params.onto != 0u {
    gradient[at] = sum + gradient[at];
  } else {
    gradient[at] = sum;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn anchors(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  let row = i / params.stride;
  if row >= params.rows {
    return;
  }
  let k = i % params.stride;
  let end = min(params.end, params.references);
  var total = vec4f();
  for (var start = params.first; start < end; start += SEGMENT) {
    total += of_segment(row, k, start, end);
  }
  put(row, k, total);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn anchors_apart(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * params.columns + lane % params.columns;
  let row = i / params.stride;
  let k = i % params.stride;
  let own = lane / params.columns * SEGMENT;
  let round = WORKGROUP_SIZE / params.columns * SEGMENT;
  let end = select(0u, min(params.end, params.references), row < params.rows);
  var total = vec4f();
  for (var start = params.first; start < params.end; start += round) {
    sums[lane] = of_segment(row, k, start + own, end);
    workgroupBarrier();  // the segments are summed before they are added, in their order
    if lane < params.columns {
      for (var at = lane; at < WORKGROUP_SIZE; at += params.columns) {
        total += sums[at];
      }
    }
    workgroupBarrier();  // and added before the next take their place
  }
  if lane < params.columns && row < params.rows {
    put(row, k, total);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn references(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  let reference = i / params.stride;
  let k = i % params.stride;
  if reference >= params.references {
    return;
  }
  var total = vec4f();
  for (var start = 0u; start < params.rows; start += SEGMENT) {
    var sum = vec4f();
    for (var row = start; row < min(start + SEGMENT, params.rows); row++) {
      let weight = weights[row * params.width + reference];
      if weight != 0.0 {
        sum = fma(vec4f(weight), floats(rows[(params.first_row + row) * params.stride + k]), sum);
      }
    }
    total += sum;
  }
  let at = reference * params.stride + k;
  if params.onto != 0u {
    total += gradient[at];
  }
  gradient[at] = total;
}

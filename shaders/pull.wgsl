// Gradient of the rows that were compared, from the weights of their similarities.
//
//   pull    gradient[row] = sum over references of weight * reference      in windows: each adds to the one before
//   share   gradient[reference] = sum over rows of weight * row            if references learn: in blocks, each adds to the one before
//
// pull    one invocation per vec4 of a row          its vec4 of the gradient
// share   one invocation per vec4 of a reference    its vec4 of the gradient
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
  first: u32,       // pull: of the references
  end: u32,
  onto: u32,        // whether the gradient is added to
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4f>;     // the references in pull, the anchors in share
@group(0) @binding(2) var<storage, read> weights: array<f32>;    // [rows, width]
@group(0) @binding(3) var<storage, read_write> gradient: array<vec4f>;

fn invocation(group: vec3u, groups: vec3u, lane: u32) -> u32 {
  return (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn pull(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  let row = i / params.stride;
  let k = i % params.stride;
  if row >= params.rows {
    return;
  }
  var total = vec4f();
  for (var start = params.first; start < min(params.end, params.references); start += SEGMENT) {
    var sum = vec4f();
    for (var r = start; r < min(start + SEGMENT, params.references); r++) {
      let weight = weights[row * params.width + r];
      if weight != 0.0 {
        sum = fma(vec4f(weight), rows[r * params.stride + k], sum);
      }
    }
    total += sum;
  }
  let at = (params.first_row + row) * params.stride + k;
  if params.onto != 0u {
    total += gradient[at];
  }
  gradient[at] = total;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn share(
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
        sum = fma(vec4f(weight), rows[(params.first_row + row) * params.stride + k], sum);
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

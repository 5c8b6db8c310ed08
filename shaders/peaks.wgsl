// Peak rates of a device, measured in the language of the kernels: the denominators of every share.
//
// multiply_add   each invocation   STEPS fused multiply-adds on each of 8 independent vec4 chains
// fill           each invocation   one vec4
// copy           each invocation   one vec4

override WORKGROUP_SIZE: u32;
const STEPS = 256u;

struct Params {
  count: u32,   // vec4s
  value: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> output: array<vec4f>;
@group(0) @binding(2) var<storage, read> source: array<vec4f>;

fn invocation(group: vec3u, groups: vec3u, lane: u32) -> u32 {
  return (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn multiply_add(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  let a = vec4f(params.value);
  let b = vec4f(f32(i) * 1e-9);
  var x0 = b;
  var x1 = b + 1.0;
  var x2 = b + 2.0;
  var x3 = b + 3.0;
  var x4 = b + 4.0;
  var x5 = b + 5.0;
  var x6 = b + 6.0;
  var x7 = b + 7.0;
  for (var step = 0u; step < STEPS; step++) {
    x0 = fma(x0, a, b);
    x1 = fma(x1, a, b);
    x2 = fma(x2, a, b);
    x3 = fma(x3, a, b);
    x4 = fma(x4, a, b);
    x5 = fma(x5, a, b);
    x6 = fma(x6, a, b);
    x7 = fma(x7, a, b);
  }
  if i < params.count {
    output[i] = x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn fill(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  if i < params.count {
    output[i] = vec4f(params.value);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn copy(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  if i < params.count {
    output[i] = source[i];
  }
}

// Hidden activations of a batch in half precision, as the layers after them and the backward pass read them. Follows stored_f16.wgsl.
//
//   rows[i] = the half nearest to values[i], of two the even one
//
// to_half   one invocation per vec4   rows. A value of 65520 or more rounds to infinity: it sets the sticky word `status`, as NaN does

override WORKGROUP_SIZE: u32;
const OVERFLOW_BITS = 0x477ff000u;  // 65520

struct Params {
  count: u32,  // vec4s
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> values: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> rows: array<Stored>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn to_half(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i >= params.count {
    return;
  }
  let value = values[i];
  rows[i] = stored(value);
  if any((bitcast<vec4u>(value) & vec4u(0x7fffffffu)) >= vec4u(OVERFLOW_BITS)) {
    atomicOr(&status[0], 1u);
  }
}

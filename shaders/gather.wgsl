// Rows of a matrix, copied from or to places given by number.
//
//   batch[i] = features[rows[first + i]]
//   batch[rows[first + i]] = features[i]
//
// `features` are stored as stored_f32.wgsl or stored_f16.wgsl says, which comes first.
//
// gather    one invocation per 4 floats   batch
// scatter   one invocation per 4 floats   batch

override WORKGROUP_SIZE: u32;

struct Params {
  count: u32,   // rows to copy
  stride: u32,  // vec4s of a row
  first: u32,   // where in `rows` they begin
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> features: array<Stored>;
@group(0) @binding(2) var<storage, read> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> batch: array<vec4f>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn gather(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i >= params.count * params.stride {
    return;
  }
  let row = rows[params.first + i / params.stride];
  batch[i] = floats(features[row * params.stride + i % params.stride]);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn scatter(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i >= params.count * params.stride {
    return;
  }
  let row = rows[params.first + i / params.stride];
  batch[row * params.stride + i % params.stride] = floats(features[i]);
}

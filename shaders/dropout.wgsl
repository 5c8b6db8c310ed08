// Dropout: a part of a layer's outputs, drawn anew each step, is set to 0.
//
//   value = 0 if draw(place) < threshold, else scale value           threshold = rate 2^32, scale = 1 / (1 - rate)
//   draw(place) = mix(mix(place ^ key.x) ^ key.y)                    place: row of the batch * columns + column,
//                                                                    padding included
//
// drop   one invocation per vec4   values, in place: outputs in the forward pass, their gradient in the backward pass

override WORKGROUP_SIZE: u32;

struct Params {
  count: u32,      // vec4s
  threshold: u32,
  scale: f32,
  key_x: u32,      // tells layers, steps and seeds apart
  key_y: u32,
  first: u32,      // vec4s of the batch's rows before
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> values: array<vec4f>;

/// Hash in which each bit of the result depends on each of `x`: `lowbias32` of Wellons' hash prospector.
fn mix_bits(bits: vec4u) -> vec4u {
  var x = bits;
  x ^= x >> vec4u(16u);
  x *= 0x7feb352du;
  x ^= x >> vec4u(15u);
  x *= 0x846ca68bu;
  return x ^ (x >> vec4u(16u));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn drop(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i >= params.count {
    return;
  }
  let place = 4u * (params.first + i) + vec4u(0u, 1u, 2u, 3u);
  let draw = mix_bits(mix_bits(place ^ vec4u(params.key_x)) ^ vec4u(params.key_y));
  values[i] = select(params.scale * values[i], vec4f(), draw < vec4u(params.threshold));
}

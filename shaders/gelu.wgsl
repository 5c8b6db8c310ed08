// GELU, and the gradient through it: torch's `nn.GELU()`, by the error function.
//
//   y = x P(x)                    P: distribution of the standard normal, p: its density
//   dx = dy (P(x) + x p(x))
//
// P(-|x|) = erfc(|x| / sqrt 2) / 2 by a polynomial of Abramowitz and Stegun (7.1.26), within 2e-7: WGSL has no error function.
//
// x is stored as stored_f32.wgsl or stored_f16.wgsl says, which comes first.
//
// forward    one invocation per vec4    y
// backward   one invocation per vec4    gradient, in place: dy before, dx after

override WORKGROUP_SIZE: u32;

struct Params {
  count: u32,       // vec4s
  // In norm.wgsl, which follows this text:
  rows: u32,
  stride: u32,      // vec4s of a row
  width: u32,       // columns of a row, without padding
  gain: u32,        // where the gains begin in the parameters and gradients, in vec4s; the shifts follow them
  moments: u32,     // where the means begin in their vector, in vec4s; the variances follow them
  activation: u32,  // whether it is GELU, not ReLU
  onto: u32,        // whether gradients are added to those that are there
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Stored>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> gradient: array<vec4f>;

/// exp(-x^2 / 2); far out, where it is 0, at the same place.
fn bell(x: vec4f) -> vec4f {
  let near = min(abs(x), vec4f(16.0));
  return exp(-0.5 * near * near);
}

/// P(x) of x and `bell(x)`.
fn below(x: vec4f, bell: vec4f) -> vec4f {
  let t = 1.0 / (1.0 + 0.23164189 * abs(x));
  let tail = 0.5 * bell * t
    * (0.2548296 + t * (-0.28449672 + t * (1.4214138 + t * (-1.4531521 + t * 1.0614054))));
  return select(1.0 - tail, tail, x < vec4f());
}

fn gelu(x: vec4f) -> vec4f {
  return x * below(x, bell(x));
}

/// d gelu(x) / dx
fn slope_of_gelu(x: vec4f) -> vec4f {
  let b = bell(x);
  return below(x, b) + x * (0.3989423 * b);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn forward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i < params.count {
    y[i] = gelu(floats(x[i]));
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn backward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i < params.count {
    gradient[i] = gradient[i] * slope_of_gelu(floats(x[i]));
  }
}

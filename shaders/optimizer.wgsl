// Adam over all parameters at once, as torch.optim.Adam computes it.
//
//   g += weight_decay p     m = beta1 m + (1 - beta1) g     v = beta2 v + (1 - beta2) g^2
//   p -= step_size m / (sqrt(v) / sqrt_correction2 + eps)   step_size = lr / (1 - beta1^t), sqrt_correction2^2 = 1 - beta2^t
//
// adam   one invocation per 4 parameters   parameters, first and second moments; unchanged once `status` is set.
//                                          The first one copies `status` into the step's report
// squares  PARTS invocations               each the sum of the squares of every PARTS-th vec4 of the gradients

override WORKGROUP_SIZE: u32;
const STATUS = 15u;  // its word in a step's report

struct Params {
  count: u32,  // vec4s
  report: u32, // where this step's report begins
  step_size: f32,
  sqrt_correction2: f32,
  beta1: f32,
  gain1: f32,  // 1 - beta1
  beta2: f32,
  gain2: f32,  // 1 - beta2
  eps: f32,
  weight_decay: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gradients: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> parameters: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> first_moment: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> second_moment: array<vec4f>;
@group(0) @binding(5) var<storage, read> status: array<u32>;
@group(0) @binding(6) var<storage, read_write> report: array<u32>;

// In squares only.
@group(0) @binding(2) var<storage, read_write> sums: array<f32>;  // [PARTS]
const PARTS = 1024u;

@compute @workgroup_size(WORKGROUP_SIZE)
fn squares(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let part = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  var sum = 0.0;
  for (var i = part; i < params.count; i += PARTS) {
    sum += dot(gradients[i], gradients[i]);
  }
  sums[part] = sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn adam(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i == 0u {
    report[params.report + STATUS] = status[0];
  }
  if i >= params.count || status[0] != 0u {
    return;
  }
  let p = parameters[i];
  let g = gradients[i] + params.weight_decay * p;
  let m = params.beta1 * first_moment[i] + params.gain1 * g;
  let v = params.beta2 * second_moment[i] + params.gain2 * g * g;
  first_moment[i] = m;
  second_moment[i] = v;
  parameters[i] = p - params.step_size * m / (sqrt(v) / params.sqrt_correction2 + params.eps);
}

// SGD and Adam over all parameters at once, as torch.optim computes them.
//
//   g *= clip factor        g += weight_decay p
//   sgd       p -= step_size g
//   momentum  b = beta1 b + g                p -= step_size b, or with Nesterov's step_size (g + beta1 b)
//   adam      m = beta1 m + (1 - beta1) g    v = beta2 v + (1 - beta2) g^2
//             p = shrink p - step_size m / (sqrt(v) / sqrt_correction2 + eps)
//             step_size = lr / (1 - beta1^t), sqrt_correction2^2 = 1 - beta2^t, AdamW: shrink = 1 - lr weight_decay and no L2 penalty
//   clip factor = min(1, max_norm / (|all gradients| + 1e-6))
//
// sgd, momentum, adam   one invocation per 4 parameters   parameters and moments; unchanged once `status` is set.
//                                                         The first one copies `status` into the step's report
// squares    PARTS invocations          each the sum of the squares of every PARTS-th vec4 of the gradients
// segments   one invocation a segment   the sum of the squares of its SEGMENT vec4s, in their order
// clip       one workgroup              the factor, in front of the sums of all segments: each lane adds every 64th, the first
//                                       one adds the lanes

override WORKGROUP_SIZE: u32;
const STATUS = 15u;  // its word in a step's report

struct Params {
  count: u32,  // vec4s; in clip, segments
  report: u32, // where this step's report begins; in segments, where the sums begin
  clips: u32,  // whether to multiply by the clip factor
  max_norm: f32,
  step_size: f32,
  sqrt_correction2: f32,
  beta1: f32,
  gain1: f32,  // 1 - beta1
  beta2: f32,
  gain2: f32,  // 1 - beta2
  eps: f32,
  weight_decay: f32,
  shrink: f32,
  nesterov: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gradients: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> parameters: array<vec4f>;
@group(0) @binding(3) var<storage, read> status: array<u32>;
@group(0) @binding(4) var<storage, read_write> report: array<u32>;
@group(0) @binding(5) var<storage, read> factor: array<f32>;              // [1]: the clip factor; not read if params.clips is 0
@group(0) @binding(6) var<storage, read_write> first_moment: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> second_moment: array<vec4f>;

// In squares and segments only.
@group(0) @binding(2) var<storage, read_write> sums: array<f32>;  // [PARTS], or the factor and then one a segment
const PARTS = 1024u;
const SEGMENT = 64u;  // vec4s

// In clip only.
@group(0) @binding(1) var<storage, read_write> norm: array<f32>;  // the factor, then the sums
var<workgroup> lanes: array<f32, WORKGROUP_SIZE>;                 // 256 bytes

fn place(group: vec3u, groups: vec3u, lane: u32) -> u32 {
  return (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn squares(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let part = place(group, groups, lane);
  var sum = 0.0;
  for (var i = part; i < params.count; i += PARTS) {
    sum += dot(gradients[i], gradients[i]);
  }
  sums[part] = sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn segments(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let segment = place(group, groups, lane);
  let first = segment * SEGMENT;
  if first >= params.count {
    return;
  }
  var sum = 0.0;
  for (var i = first; i < min(first + SEGMENT, params.count); i++) {
    let g = gradients[i];
    sum += g.x * g.x;
    sum += g.y * g.y;
    sum += g.z * g.z;
    sum += g.w * g.w;
  }
  sums[params.report + segment] = sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn clip(@builtin(local_invocation_index) lane: u32) {
  var sum = 0.0;
  for (var i = lane; i < params.count; i += WORKGROUP_SIZE) {
    sum += norm[1u + i];
  }
  lanes[lane] = sum;
  workgroupBarrier();  // the sums of all lanes are there
  if lane == 0u {
    var square = 0.0;
    for (var i = 0u; i < WORKGROUP_SIZE; i++) {
      square += lanes[i];
    }
    norm[0] = min(params.max_norm / (sqrt(square) + 1e-6), 1.0);
  }
}

/// Tells if these parameters move; the first invocation reports the status.
fn moves(i: u32) -> bool {
  if i == 0u {
    report[params.report + STATUS] = status[0];
  }
  return i < params.count && status[0] == 0u;
}

/// The gradient of these parameters, clipped, with the L2 penalty.
fn gradient(i: u32) -> vec4f {
  var g = gradients[i];
  if params.clips != 0u {
    g *= factor[0];
  }
  return g + params.weight_decay * parameters[i];
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn sgd(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = place(group, groups, lane);
  if !moves(i) {
    return;
  }
  parameters[i] = parameters[i] - params.step_size * gradient(i);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn momentum(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = place(group, groups, lane);
  if !moves(i) {
    return;
  }
  let g = gradient(i);
  let b = params.beta1 * first_moment[i] + g;
  first_moment[i] = b;
  var ahead = b;
  if params.nesterov != 0u {
    ahead = g + params.beta1 * b;
  }
  parameters[i] = parameters[i] - params.step_size * ahead;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn adam(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = place(group, groups, lane);
  if !moves(i) {
    return;
  }
  let g = gradient(i);
  let m = params.beta1 * first_moment[i] + params.gain1 * g;
  let v = params.beta2 * second_moment[i] + params.gain2 * g * g;
  first_moment[i] = m;
  second_moment[i] = v;
  parameters[i] = params.shrink * parameters[i] - params.step_size * m / (sqrt(v) / params.sqrt_correction2 + params.eps);
}

// Layer norm and batch norm of a hidden layer's linear outputs x, with the activation after it, and the gradients through both.
// Follows gelu.wgsl.
//
//   h = (x - mean) / sqrt(variance + 1e-5)      y = relu(n) or gelu(n), n = gain h + shift
//   d shift = sum of dn over rows               d gain = sum of dn h over rows       dn = dy times the slope of GELU; of ReLU it is dy,
//                                                                                    which is 0 where y is
//   dx = (g - mean(g) - h mean(g h)) / sqrt(variance + 1e-5), g = gain dn
//
// Layer norm takes means over a row, batch norm over a column. Sums over rows go over segments of 256, ascending.
//
// layer_norm         one workgroup a row         y, and the row's mean and variance
// batch_moments      one workgroup a vec4 column mean and variance of the batch
// batch_norm         one invocation per vec4     y, by those moments or by running ones
// layer_parameters   one workgroup a vec4 column d gain and d shift, added to what is there if `onto`
// batch_parameters   one workgroup a vec4 column the same
// layer_inputs       one workgroup a row         gradient, in place: dy before, dx after
// batch_inputs       one invocation per vec4     the same, after batch_parameters
// follow             one invocation per vec4 column   running moments: 0.9 of what is there and 0.1 of the batch's; the variance
//                                                is that of rows - 1; nothing once the sticky word is set

const SEGMENT = 256u;
const EPSILON = 1e-5;
const MOMENTUM = 0.1;
const HUGE_BITS = 0x5d5e0b6bu;  // 1e18: its square is finite still, as the optimizer needs it

@group(0) @binding(3) var<storage, read> parameters: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> row_moments: array<vec2f>;    // in layer_norm: mean and variance of a row
@group(0) @binding(4) var<storage, read> moments_of_rows: array<vec2f>;      // the same, in the gradients
@group(0) @binding(4) var<storage, read> moments: array<vec4f>;              // in batch norm: means, then variances
@group(0) @binding(2) var<storage, read_write> column_moments: array<vec4f>; // the same, in batch_moments
@group(0) @binding(5) var<storage, read_write> gradients: array<vec4f>;      // in layer_parameters and batch_parameters
@group(0) @binding(5) var<storage, read> sums: array<vec4f>;                 // the same, in batch_inputs
@group(0) @binding(6) var<storage, read_write> status: array<atomic<u32>>;

// In follow.
@group(0) @binding(1) var<storage, read> of_batch: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> running: array<vec4f>;
@group(0) @binding(3) var<storage, read> sticky: array<u32>;

var<workgroup> partial: array<vec4f, WORKGROUP_SIZE>;  // 1 KiB

/// The sum of every invocation's `part`, eight at a time, in their order; called in uniform control flow.
fn sum(part: vec4f, lane: u32) -> vec4f {
  partial[lane] = part;
  workgroupBarrier();  // all parts are there before they are added
  var total = vec4f();
  for (var start = 0u; start < WORKGROUP_SIZE; start += 8u) {
    var eight = vec4f();
    for (var i = start; i < start + 8u; i++) {
      eight += partial[i];
    }
    total += eight;
  }
  workgroupBarrier();  // all have read them before the next sum
  return total;
}

/// The sum of the components, in their order, of a sum over a row.
fn sum_of_row(part: vec4f, lane: u32) -> f32 {
  let total = sum(part, lane);
  return total.x + total.y + total.z + total.w;
}

/// `value` in the columns that a row has, 0 in its padding.
fn within(value: vec4f, column: u32) -> vec4f {
  let place = 4u * column + vec4u(0u, 1u, 2u, 3u);
  return select(vec4f(), value, place < vec4u(params.width));
}

/// h of the i-th vec4.
fn normal(i: u32, mean: vec4f, variance: vec4f) -> vec4f {
  return (floats(x[i]) - mean) / sqrt(variance + EPSILON);
}

/// n of h.
fn scaled(h: vec4f, column: u32) -> vec4f {
  return parameters[params.gain + column] * h + parameters[params.gain + params.stride + column];
}

fn activated(n: vec4f) -> vec4f {
  if params.activation != 0u {
    return gelu(n);
  }
  return max(n, vec4f());
}

/// dn of the i-th vec4, by its h.
fn through(i: u32, column: u32, h: vec4f) -> vec4f {
  if params.activation != 0u {
    return gradient[i] * slope_of_gelu(scaled(h, column));
  }
  return gradient[i];
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn layer_norm(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let start = row * params.stride;
  var part = vec4f();
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    part += floats(x[start + k]);
  }
  let mean = sum_of_row(part, lane) / f32(params.width);
  part = vec4f();
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let off = within(floats(x[start + k]) - mean, k);
    part += off * off;
  }
  let variance = sum_of_row(part, lane) / f32(params.width);
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    y[start + k] = activated(scaled(normal(start + k, vec4f(mean), vec4f(variance)), k));
  }
  if lane == 0u {
    row_moments[row] = vec2f(mean, variance);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn batch_moments(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let column = group.x + group.y * groups.x;
  if column >= params.stride {
    return;
  }
  var total = vec4f();
  for (var first = 0u; first < params.rows; first += SEGMENT) {
    var part = vec4f();
    for (var i = 0u; i < SEGMENT; i += WORKGROUP_SIZE) {
      let row = first + i + lane;
      if row < params.rows {
        part += floats(x[row * params.stride + column]);
      }
    }
    total += sum(part, lane);
  }
  let mean = total / f32(params.rows);
  total = vec4f();
  for (var first = 0u; first < params.rows; first += SEGMENT) {
    var part = vec4f();
    for (var i = 0u; i < SEGMENT; i += WORKGROUP_SIZE) {
      let row = first + i + lane;
      if row < params.rows {
        let off = floats(x[row * params.stride + column]) - mean;
        part += off * off;
      }
    }
    total += sum(part, lane);
  }
  if lane == 0u {
    column_moments[column] = mean;
    column_moments[params.stride + column] = total / f32(params.rows);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn batch_norm(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i >= params.count {
    return;
  }
  let column = i % params.stride;
  let at = params.moments + column;
  y[i] = activated(scaled(normal(i, moments[at], moments[at + params.stride]), column));
}

fn check(gradient: vec4f) {
  if any((bitcast<vec4u>(gradient) & vec4u(0x7fffffffu)) >= vec4u(HUGE_BITS)) {
    atomicOr(&status[0], 1u);
  }
}

/// Writes the gradients of a column's gains and shifts; `onto` those that are there.
fn note_gradients(column: u32, gain: vec4f, shift: vec4f) {
  check(gain);
  check(shift);
  gradients[params.gain + column] = gain;
  gradients[params.gain + params.stride + column] = shift;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn layer_parameters(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let column = group.x + group.y * groups.x;
  if column >= params.stride {
    return;
  }
  var gain = vec4f();
  var shift = vec4f();
  if params.onto != 0u {
    gain = gradients[params.gain + column];
    shift = gradients[params.gain + params.stride + column];
  }
  for (var first = 0u; first < params.rows; first += SEGMENT) {
    var of_gain = vec4f();
    var of_shift = vec4f();
    for (var i = 0u; i < SEGMENT; i += WORKGROUP_SIZE) {
      let row = first + i + lane;
      if row < params.rows {
        let at = row * params.stride + column;
        let own = moments_of_rows[row];
        let h = normal(at, vec4f(own.x), vec4f(own.y));
        let dn = through(at, column, h);
        of_gain += dn * h;
        of_shift += dn;
      }
    }
    gain += sum(of_gain, lane);
    shift += sum(of_shift, lane);
  }
  if lane == 0u {
    note_gradients(column, gain, shift);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn batch_parameters(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let column = group.x + group.y * groups.x;
  if column >= params.stride {
    return;
  }
  let mean = moments[column];
  let variance = moments[params.stride + column];
  var gain = vec4f();
  var shift = vec4f();
  for (var first = 0u; first < params.rows; first += SEGMENT) {
    var of_gain = vec4f();
    var of_shift = vec4f();
    for (var i = 0u; i < SEGMENT; i += WORKGROUP_SIZE) {
      let row = first + i + lane;
      if row < params.rows {
        let at = row * params.stride + column;
        let h = normal(at, mean, variance);
        let dn = through(at, column, h);
        of_gain += dn * h;
        of_shift += dn;
      }
    }
    gain += sum(of_gain, lane);
    shift += sum(of_shift, lane);
  }
  if lane == 0u {
    note_gradients(column, gain, shift);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn layer_inputs(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let start = row * params.stride;
  let own = moments_of_rows[row];
  let mean = vec4f(own.x);
  let variance = vec4f(own.y);
  var plain = vec4f();
  var along = vec4f();
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let h = normal(start + k, mean, variance);
    let g = parameters[params.gain + k] * through(start + k, k, h);
    plain += g;
    along += g * h;
  }
  let mean_plain = sum_of_row(plain, lane) / f32(params.width);
  let mean_along = sum_of_row(along, lane) / f32(params.width);
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let h = normal(start + k, mean, variance);
    let g = parameters[params.gain + k] * through(start + k, k, h);
    gradient[start + k] = within((g - mean_plain - h * mean_along) / sqrt(variance + EPSILON), k);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn batch_inputs(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i >= params.count {
    return;
  }
  let column = i % params.stride;
  let variance = moments[params.stride + column];
  let h = normal(i, moments[column], variance);
  let rows = f32(params.rows);
  let along = sums[params.gain + column] / rows;
  let plain = sums[params.gain + params.stride + column] / rows;
  let dh = through(i, column, h) - plain - h * along;
  gradient[i] = parameters[params.gain + column] * dh / sqrt(variance + EPSILON);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn follow(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let column = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if column >= params.stride || sticky[0] != 0u {
    return;
  }
  let mean = params.moments + column;
  let variance = mean + params.stride;
  let rows = f32(params.rows);
  let unbiased = of_batch[params.stride + column] * (rows / (rows - 1.0));
  running[mean] = (1.0 - MOMENTUM) * running[mean] + MOMENTUM * of_batch[column];
  running[variance] = (1.0 - MOMENTUM) * running[variance] + MOMENTUM * unbiased;
}

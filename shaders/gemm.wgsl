// The three matrix products of a linear layer. All matrices are row-major with rows padded to 4 floats by zeros, the
// weights [outputs, inputs] to 4 rows as well. One invocation makes a 4 x 4 block of results; no barriers.
//
//   forward           y = x W^T + b, at least 0 if `relu`        one accumulator per result, k ascending
//   input_gradient    dx = dy W, 0 where x is not positive       one accumulator per result, k ascending
//   weight_gradient   dW = dy^T x, db = sum of dy                rows in segments of 256, ascending
//
// forward, input_gradient   one invocation per block of y, dx, which it writes
// weight_gradient           one invocation per block of dW; those of the first column also write db. A gradient that
//                           is 1e18 or more, infinite or NaN sets the sticky word `status`

override WORKGROUP_SIZE: u32;
const SEGMENT = 256u;
const HUGE_BITS = 0x5d5e0b6bu;  // 1e18: its square is finite still, as the optimizer needs it

struct Params {
  rows: u32,     // of x and y
  inputs: u32,   // vec4s of a row of x and of W
  outputs: u32,  // vec4s of a row of y
  weights: u32,  // where W begins in the parameters and gradients, in vec4s; b follows it
  relu: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> left: array<vec4f>;   // x; dy in input_gradient
@group(0) @binding(2) var<storage, read> right: array<vec4f>;  // the parameters; dy in weight_gradient
@group(0) @binding(3) var<storage, read_write> result: array<vec4f>;
@group(0) @binding(4) var<storage, read> activations: array<vec4f>;         // x, in input_gradient
@group(0) @binding(4) var<storage, read_write> status: array<atomic<u32>>;  // in weight_gradient

/// Four results of each of four rows.
struct Block { r0: vec4f, r1: vec4f, r2: vec4f, r3: vec4f }

fn invocation(group: vec3u, groups: vec3u, lane: u32) -> u32 {
  return (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
}

/// Where four rows from `row` on begin; rows past the end repeat the last one, and are not stored.
fn row_starts(row: u32, stride: u32) -> vec4u {
  return min(vec4u(row, row + 1u, row + 2u, row + 3u), vec4u(params.rows - 1u)) * stride;
}

/// acc + a[0] b[0] + a[1] b[1] + a[2] b[2] + a[3] b[3], in this order.
fn chain(a: vec4f, b: mat4x4f, acc: vec4f) -> vec4f {
  return fma(a.wwww, b[3], fma(a.zzzz, b[2], fma(a.yyyy, b[1], fma(a.xxxx, b[0], acc))));
}

fn store(block: Block, row: u32, column: u32, stride: u32) {
  let at = row * stride + column;
  result[at] = block.r0;
  if row + 1u < params.rows { result[at + stride] = block.r1; }
  if row + 2u < params.rows { result[at + 2u * stride] = block.r2; }
  if row + 3u < params.rows { result[at + 3u * stride] = block.r3; }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn forward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  let row = i / params.outputs * 4u;
  let column = i % params.outputs;
  if row >= params.rows {
    return;
  }
  let stride = params.inputs;
  let x = row_starts(row, stride);
  let w = params.weights + column * 4u * stride;
  var y = Block();
  for (var k = 0u; k < stride; k++) {
    let b = transpose(mat4x4f(
      right[w + k], right[w + stride + k], right[w + 2u * stride + k], right[w + 3u * stride + k]));
    y.r0 = chain(left[x.x + k], b, y.r0);
    y.r1 = chain(left[x.y + k], b, y.r1);
    y.r2 = chain(left[x.z + k], b, y.r2);
    y.r3 = chain(left[x.w + k], b, y.r3);
  }
  let bias = right[params.weights + params.outputs * 4u * stride + column];
  y = Block(y.r0 + bias, y.r1 + bias, y.r2 + bias, y.r3 + bias);
  if params.relu != 0u {
    let zero = vec4f();
    y = Block(max(y.r0, zero), max(y.r1, zero), max(y.r2, zero), max(y.r3, zero));
  }
  store(y, row, column, params.outputs);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn input_gradient(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  let row = i / params.inputs * 4u;
  let column = i % params.inputs;
  if row >= params.rows {
    return;
  }
  let stride = params.inputs;
  let dy = row_starts(row, params.outputs);
  var dx = Block();
  for (var k = 0u; k < params.outputs; k++) {
    let w = params.weights + k * 4u * stride + column;
    let b = mat4x4f(right[w], right[w + stride], right[w + 2u * stride], right[w + 3u * stride]);
    dx.r0 = chain(left[dy.x + k], b, dx.r0);
    dx.r1 = chain(left[dy.y + k], b, dx.r1);
    dx.r2 = chain(left[dy.z + k], b, dx.r2);
    dx.r3 = chain(left[dy.w + k], b, dx.r3);
  }
  let zero = vec4f();
  let x = row_starts(row, stride) + column;
  dx.r0 = select(zero, dx.r0, activations[x.x] > zero);
  dx.r1 = select(zero, dx.r1, activations[x.y] > zero);
  dx.r2 = select(zero, dx.r2, activations[x.z] > zero);
  dx.r3 = select(zero, dx.r3, activations[x.w] > zero);
  store(dx, row, column, stride);
}

fn check(gradient: vec4f) {
  if any((bitcast<vec4u>(gradient) & vec4u(0x7fffffffu)) >= vec4u(HUGE_BITS)) {
    atomicOr(&status[0], 1u);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn weight_gradient(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = invocation(group, groups, lane);
  let output = i / params.inputs;
  let column = i % params.inputs;
  if output >= params.outputs {
    return;
  }
  var dw = Block();
  var db = vec4f();
  for (var first = 0u; first < params.rows; first += SEGMENT) {
    var part = Block();
    var bias = vec4f();
    for (var row = first; row < min(first + SEGMENT, params.rows); row++) {
      let dy = right[row * params.outputs + output];
      let x = left[row * params.inputs + column];
      part.r0 = fma(dy.xxxx, x, part.r0);
      part.r1 = fma(dy.yyyy, x, part.r1);
      part.r2 = fma(dy.zzzz, x, part.r2);
      part.r3 = fma(dy.wwww, x, part.r3);
      bias += dy;
    }
    dw = Block(dw.r0 + part.r0, dw.r1 + part.r1, dw.r2 + part.r2, dw.r3 + part.r3);
    db += bias;
  }
  check(dw.r0);
  check(dw.r1);
  check(dw.r2);
  check(dw.r3);
  let w = params.weights + output * 4u * params.inputs + column;
  result[w] = dw.r0;
  result[w + params.inputs] = dw.r1;
  result[w + 2u * params.inputs] = dw.r2;
  result[w + 3u * params.inputs] = dw.r3;
  if column == 0u {
    check(db);
    result[params.weights + params.outputs * 4u * params.inputs + output] = db;
  }
}

// The three matrix products of a linear layer. All matrices are row-major with rows padded to 4 floats by zeros, the
// weights [outputs, inputs] to 4 rows as well. The rows of x are the first ones, or those whose numbers are given; they are stored as
// stored_f32.wgsl or stored_f16.wgsl says, which comes first.
//
//   forward           y = x W^T + b, at least 0 if `relu`        one accumulator per result, k ascending
//   input gradient    dx = dy W; if `relu` 0 where x is 0          one accumulator per result, k ascending
//   weight gradient   dW = dy^T x, db = sum of dy                rows in segments of 256, ascending; added to what is there if `onto`
//
// forward           y
// weight_gradient   dW; those of the first column also db. A gradient that is 1e18 or more, infinite or NaN sets the sticky
//                   word `status`
// backward          the first `weight_groups` workgroups as weight_gradient, the others dx
//
// Each in two ways, of equal bits:
//
// forward, ..        4 x 4 results an invocation, no barrier       for adapters with slow barriers
// forward_tile, ..   1 or 2 results an invocation, through workgroup memory: the results of a batch are few, and each of them a
//                    long chain, so that as many invocations as there can be each have a short way to what they add

override WORKGROUP_SIZE: u32;
const SEGMENT = 256u;
const HUGE_BITS = 0x5d5e0b6bu;  // 1e18: its square is finite still, as the optimizer needs it

struct Params {
  rows: u32,     // of x and y
  inputs: u32,   // vec4s of a row of x and of W
  outputs: u32,  // vec4s of a row of y
  weights: u32,  // where W begins in the parameters and gradients, in vec4s; b follows it
  relu: u32,     // whether y is at least 0; in backward: whether x comes from a ReLU
  chosen: u32,   // whether the rows of x are those that `numbers` say
  first: u32,    // from where on; in embed.wgsl: where the batch begins
  weight_groups: u32,  // workgroups of backward for dW
  // In embed.wgsl, which follows this text:
  cursor: u32,    // the memory's next slot
  capacity: u32,  // the memory's slots
  first_id: u32,  // the id of the batch's first row
  before: u32,    // rows of the batch before these
  // In the gradients:
  dy: u32,        // where dy begins, in vec4s
  onto: u32,      // whether dW and db are added to those that are there
  adds: u32,      // whether y is added to what is there, in place of b, which there is not
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> left: array<Stored>;  // x
@group(0) @binding(2) var<storage, read> numbers: array<u32>;
@group(0) @binding(3) var<storage, read> right: array<vec4f>;  // the parameters; dy in the gradients
@group(0) @binding(4) var<storage, read_write> result: array<vec4f>;        // y; the gradients
@group(0) @binding(4) var<storage, read_write> result_floats: array<f32>;   // the same, where results come one by one
@group(0) @binding(5) var<storage, read_write> status: array<atomic<u32>>;  // in the gradients
@group(0) @binding(6) var<storage, read> parameters: array<vec4f>;          // in backward
@group(0) @binding(7) var<storage, read_write> input_result: array<vec4f>;  // dx, in backward
@group(0) @binding(7) var<storage, read_write> input_pairs: array<vec2f>;   // the same, in backward_tile

const SIDE = 16u;   // rows and outputs of a workgroup of forward_tile
const DEPTH = 16u;  // vec4s of each that are there at once
const CHUNK = 32u;  // terms of a gradient that are there at once

// One more than a row needs, so that the places that 16 invocations write at once lie apart.
var<workgroup> tile_x: array<array<vec4f, SIDE + 1u>, DEPTH>;       // forward_tile: 4,352 bytes
var<workgroup> tile_w: array<array<vec4f, SIDE + 1u>, DEPTH>;       // the same
var<workgroup> tile_left: array<array<f32, SIDE + 1u>, CHUNK>;      // in gradients: 2,176 bytes
var<workgroup> tile_right: array<array<vec2f, SIDE>, CHUNK>;        // in gradients: 4,096 bytes

/// Four results of each of four rows.
struct Block { r0: vec4f, r1: vec4f, r2: vec4f, r3: vec4f }

/// The row of `left` that is the i-th of x; those past the end repeat the last one.
fn row_of_x(i: u32) -> u32 {
  let row = min(i, params.rows - 1u);
  if params.chosen != 0u {
    return numbers[params.first + row];
  }
  return row;
}

/// Starts of four rows of dy from `row` on; rows past the end repeat the last one, and are not stored.
fn row_starts(row: u32, stride: u32) -> vec4u {
  return min(vec4u(row, row + 1u, row + 2u, row + 3u), vec4u(params.rows - 1u)) * stride;
}

/// acc + a[0] b[0] + a[1] b[1] + a[2] b[2] + a[3] b[3], in this order.
fn chain(a: vec4f, b: mat4x4f, acc: vec4f) -> vec4f {
  return fma(a.wwww, b[3], fma(a.zzzz, b[2], fma(a.yyyy, b[1], fma(a.xxxx, b[0], acc))));
}

/// The sum of four products and acc for one result.
fn chain_of_one(a: vec4f, b: vec4f, acc: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, acc))));
}

/// Four rows of x with four of W: the sums without the bias. `x` and `w` are their starts.
fn product(x: vec4u, w: u32) -> Block {
  let stride = params.inputs;
  var y = Block();
  for (var k = 0u; k < stride; k++) {
    let b = transpose(mat4x4f(
      right[w + k], right[w + stride + k], right[w + 2u * stride + k], right[w + 3u * stride + k]));
    y.r0 = chain(floats(left[x.x + k]), b, y.r0);
    y.r1 = chain(floats(left[x.y + k]), b, y.r1);
    y.r2 = chain(floats(left[x.z + k]), b, y.r2);
    y.r3 = chain(floats(left[x.w + k]), b, y.r3);
  }
  return y;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn forward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  let row = i / params.outputs * 4u;
  let column = i % params.outputs;
  if row >= params.rows {
    return;
  }
  let stride = params.inputs;
  let x = vec4u(row_of_x(row), row_of_x(row + 1u), row_of_x(row + 2u), row_of_x(row + 3u)) * stride;
  var y = product(x, params.weights + column * 4u * stride);
  let at = row * params.outputs + column;
  if params.adds != 0u {
    let before = at + min(vec4u(0u, 1u, 2u, 3u), vec4u(params.rows - 1u - row)) * params.outputs;
    y = Block(y.r0 + result[before.x], y.r1 + result[before.y], y.r2 + result[before.z], y.r3 + result[before.w]);
  } else {
    let bias = right[params.weights + params.outputs * 4u * stride + column];
    y = Block(y.r0 + bias, y.r1 + bias, y.r2 + bias, y.r3 + bias);
  }
  if params.relu != 0u {
    let zero = vec4f();
    y = Block(max(y.r0, zero), max(y.r1, zero), max(y.r2, zero), max(y.r3, zero));
  }
  result[at] = y.r0;
  if row + 1u < params.rows { result[at + params.outputs] = y.r1; }
  if row + 2u < params.rows { result[at + 2u * params.outputs] = y.r2; }
  if row + 3u < params.rows { result[at + 3u * params.outputs] = y.r3; }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn forward_tile(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let outputs = 4u * params.outputs;
  let wide = (outputs + SIDE - 1u) / SIDE;
  let first_row = g / wide * SIDE;
  let first = g % wide * SIDE;
  if first_row >= params.rows {
    return;
  }
  // Brings in the x-th vec4 of DEPTH of the y-th row and output; its result is the y-th row's and the x-th output's.
  let x = lane % SIDE;
  let y = lane / SIDE;
  let stride = params.inputs;
  let from_x = row_of_x(first_row + y) * stride;
  let from_w = params.weights + min(first + y, outputs - 1u) * stride;
  var next_x = floats(left[from_x + min(x, stride - 1u)]);
  var next_w = right[from_w + min(x, stride - 1u)];
  var sum = 0.0;
  for (var start = 0u; start < stride; start += DEPTH) {
    tile_x[x][y] = next_x;
    tile_w[x][y] = next_w;
    workgroupBarrier();  // this step is there
    let k = min(start + DEPTH + x, stride - 1u);
    next_x = floats(left[from_x + k]);
    next_w = right[from_w + k];
    for (var h = 0u; h < DEPTH; h++) {
      if start + h < stride {
        sum = chain_of_one(tile_x[h][y], tile_w[h][x], sum);
      }
    }
    workgroupBarrier();  // all are done with it
  }
  let output = first + x;
  if first_row + y < params.rows && output < outputs {
    let at = (first_row + y) * outputs + output;
    var value = sum;
    if params.adds != 0u {
      value += result_floats[at];
    } else {
      value += right[params.weights + outputs * stride + output / 4u][output % 4u];
    }
    result_floats[at] = select(value, max(value, 0.0), params.relu != 0u);
  }
}

fn check(gradient: vec4f) {
  if any((bitcast<vec4u>(gradient) & vec4u(0x7fffffffu)) >= vec4u(HUGE_BITS)) {
    atomicOr(&status[0], 1u);
  }
}

/// The i-th block of dW.
fn weights_of(i: u32) {
  let output = i / params.inputs;
  let column = i % params.inputs;
  if output >= params.outputs {
    return;
  }
  let w = params.weights + output * 4u * params.inputs + column;
  let b = params.weights + params.outputs * 4u * params.inputs + output;
  var dw = Block();
  var db = vec4f();
  if params.onto != 0u {
    dw = Block(result[w], result[w + params.inputs], result[w + 2u * params.inputs], result[w + 3u * params.inputs]);
    if params.adds == 0u {
      db = result[b];
    }
  }
  for (var first = 0u; first < params.rows; first += SEGMENT) {
    var part = Block();
    var bias = vec4f();
    for (var row = first; row < min(first + SEGMENT, params.rows); row++) {
      let dy = right[params.dy + row * params.outputs + output];
      let x = floats(left[row_of_x(row) * params.inputs + column]);
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
  result[w] = dw.r0;
  result[w + params.inputs] = dw.r1;
  result[w + 2u * params.inputs] = dw.r2;
  result[w + 3u * params.inputs] = dw.r3;
  if column == 0u && params.adds == 0u {
    check(db);
    result[b] = db;
  }
}

/// The i-th block of dx.
fn inputs_of(i: u32) {
  let row = i / params.inputs * 4u;
  let column = i % params.inputs;
  if row >= params.rows {
    return;
  }
  let stride = params.inputs;
  let dy = params.dy + row_starts(row, params.outputs);
  var dx = Block();
  for (var k = 0u; k < params.outputs; k++) {
    let w = params.weights + k * 4u * stride + column;
    let b = mat4x4f(parameters[w], parameters[w + stride], parameters[w + 2u * stride], parameters[w + 3u * stride]);
    dx.r0 = chain(right[dy.x + k], b, dx.r0);
    dx.r1 = chain(right[dy.y + k], b, dx.r1);
    dx.r2 = chain(right[dy.z + k], b, dx.r2);
    dx.r3 = chain(right[dy.w + k], b, dx.r3);
  }
  let zero = vec4f();
  let all = vec4<bool>(params.relu == 0u);
  let x = row_starts(row, stride) + column;
  let at = row * stride + column;
  input_result[at] = select(zero, dx.r0, all | (floats(left[x.x]) > zero));
  if row + 1u < params.rows { input_result[at + stride] = select(zero, dx.r1, all | (floats(left[x.y]) > zero)); }
  if row + 2u < params.rows { input_result[at + 2u * stride] = select(zero, dx.r2, all | (floats(left[x.z]) > zero)); }
  if row + 3u < params.rows { input_result[at + 3u * stride] = select(zero, dx.r3, all | (floats(left[x.w]) > zero)); }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn weight_gradient(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  weights_of((group.x + group.y * groups.x) * WORKGROUP_SIZE + lane);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn backward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  if g < params.weight_groups {
    weights_of(g * WORKGROUP_SIZE + lane);
  } else {
    inputs_of((g - params.weight_groups) * WORKGROUP_SIZE + lane);
  }
}

/// acc + the products of the first `terms` that are in workgroup memory, one after the other.
fn chain_of_pairs(terms: u32, y: u32, x: u32, acc: vec2f) -> vec2f {
  var sum = acc;
  for (var k = 0u; k < CHUNK; k++) {
    if k < terms {
      sum = fma(vec2f(tile_left[k][y]), tile_right[k][x], sum);
    }
  }
  return sum;
}

/// Writes two pairs to the places from which SIDE invocations read theirs.
fn bring_right(term: u32, four: u32, value: vec4f) {
  tile_right[term][2u * four] = value.xy;
  tile_right[term][2u * four + 1u] = value.zw;
}

/// 16 outputs with 32 inputs of dW, by the g-th workgroup; called in uniform control flow.
fn weights_of_group(g: u32, lane: u32) {
  let wide = (params.inputs + 7u) / 8u;
  let first_output = g / wide * 4u;
  let first_column = g % wide * 8u;
  let x = lane % SIDE;
  let y = lane / SIDE;
  let result_output = 4u * first_output + y;
  let result_column = 4u * first_column + 2u * x;
  let outputs = 4u * params.outputs;
  let inputs = 4u * params.inputs;
  let w = 4u * params.weights + result_output * inputs + result_column;
  let b = 4u * params.weights + outputs * inputs + result_output;
  let is_result = result_output < outputs && result_column < inputs;
  var dw = vec2f();
  var db = 0.0;
  if params.onto != 0u && is_result {
    dw = vec2f(result_floats[w], result_floats[w + 1u]);
    if params.adds == 0u {
      db = result_floats[b];
    }
  }
  for (var first = 0u; first < params.rows; first += SEGMENT) {
    let end = min(first + SEGMENT, params.rows);
    var part = vec2f();
    var bias = 0.0;
    for (var start = first; start < end; start += CHUNK) {
      let row = start + lane / 8u;
      let column = min(first_column + lane % 8u, params.inputs - 1u);
      bring_right(lane / 8u, lane % 8u, floats(left[row_of_x(row) * params.inputs + column]));
      if lane < 4u * CHUNK {
        let row = min(start + lane / 4u, params.rows - 1u);
        let output = min(first_output + lane % 4u, params.outputs - 1u);
        let dy = right[params.dy + row * params.outputs + output];
        let at = lane % 4u * 4u;
        tile_left[lane / 4u][at] = dy.x;
        tile_left[lane / 4u][at + 1u] = dy.y;
        tile_left[lane / 4u][at + 2u] = dy.z;
        tile_left[lane / 4u][at + 3u] = dy.w;
      }
      workgroupBarrier();  // these rows are there
      let terms = min(end - start, CHUNK);
      part = chain_of_pairs(terms, y, x, part);
      for (var k = 0u; k < select(0u, terms, first_column == 0u); k++) {
        bias += tile_left[k][y];
      }
      workgroupBarrier();  // all are done with them
    }
    dw += part;
    db += bias;
  }
  if is_result {
    check(vec4f(dw, 0.0, 0.0));
    result_floats[w] = dw.x;
    result_floats[w + 1u] = dw.y;
    if result_column == 0u && params.adds == 0u {
      check(vec4f(db));
      result_floats[b] = db;
    }
  }
}

/// 16 rows with 32 inputs of dx, by the g-th workgroup; called in uniform control flow.
fn inputs_of_group(g: u32, lane: u32) {
  let wide = (params.inputs + 7u) / 8u;
  let first_row = g / wide * SIDE;
  let first_column = g % wide * 8u;
  let x = lane % SIDE;
  let y = lane / SIDE;
  let outputs = 4u * params.outputs;
  var dx = vec2f();
  for (var start = 0u; start < outputs; start += CHUNK) {
    let output = min(start + lane / 8u, outputs - 1u);
    let column = min(first_column + lane % 8u, params.inputs - 1u);
    bring_right(lane / 8u, lane % 8u, parameters[params.weights + output * params.inputs + column]);
    if lane < 8u * SIDE {
      let row = min(first_row + lane / 8u, params.rows - 1u);
      let four = lane % 8u;
      let dy = right[params.dy + row * params.outputs + min(start / 4u + four, params.outputs - 1u)];
      tile_left[4u * four][lane / 8u] = dy.x;
      tile_left[4u * four + 1u][lane / 8u] = dy.y;
      tile_left[4u * four + 2u][lane / 8u] = dy.z;
      tile_left[4u * four + 3u][lane / 8u] = dy.w;
    }
    workgroupBarrier();  // these outputs are there
    dx = chain_of_pairs(min(outputs - start, CHUNK), y, x, dx);
    workgroupBarrier();  // all are done with them
  }
  let row = first_row + y;
  let column = 2u * first_column + x;
  if row < params.rows && column < 2u * params.inputs {
    let four = floats(left[row * params.inputs + column / 2u]);
    let own = select(four.xy, four.zw, column % 2u == 1u);
    input_pairs[row * 2u * params.inputs + column] = select(vec2f(), dx, vec2<bool>(params.relu == 0u) | (own > vec2f()));
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn weight_gradient_tile(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  weights_of_group(group.x + group.y * groups.x, lane);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn backward_tile(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  if g < params.weight_groups {
    weights_of_group(g, lane);
  } else {
    inputs_of_group(g - params.weight_groups, lane);
  }
}

// The last layer of a head on a batch: embeddings over their length, and copies of them in the memory. Follows gemm.wgsl.
//
//   y = x W^T + b     unit = y / max(|y|, 1e-12)     bit for bit as gemm.wgsl and then normalize.wgsl
//
// embed_and_store        one workgroup per 4 rows, 4 x 4 results an invocation, one barrier    unit, norms, and the memory: bank, tags
// embed_and_store_tile   one workgroup per 4 rows, one result an invocation, through workgroup memory       unit, norms, and the memory
//
// A row whose squared length is not finite sets the sticky word.

@group(0) @binding(2) var<storage, read> batch: array<vec4u>;  // (label, ..) of each row
@group(0) @binding(4) var<storage, read_write> unit: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> unit_floats: array<f32>;  // the same, in embed_and_store_tile
@group(0) @binding(5) var<storage, read_write> norms: array<f32>;
@group(0) @binding(6) var<storage, read_write> bank: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> bank_floats: array<f32>;  // the same, in embed_and_store_tile
@group(0) @binding(7) var<storage, read_write> tags: array<vec2u>;       // (label, id)
@group(0) @binding(8) var<storage, read_write> sticky: array<atomic<u32>>;

const ROWS = 4u;    // of a workgroup
const PARTS = 64u;  // of a sum of squares: the invocations of a workgroup in normalize.wgsl
const WIDE = 64u;   // outputs that embed_and_store_tile makes at once
const STEP = 8u;    // vec4s of x and W that are there at once

var<workgroup> squares: array<vec4f, PARTS>;  // in embed_and_store: of the four rows, 1 KiB
// In embed_and_store_tile.
var<workgroup> step_x: array<array<vec4f, ROWS>, STEP>;       // 512 bytes
var<workgroup> step_w: array<array<vec4f, WIDE + 1u>, STEP>;  // 8,320 bytes; one more, so that writes lie apart
var<workgroup> made: array<array<f32, WIDE>, ROWS>;           // 1 KiB
var<workgroup> parts: array<array<f32, PARTS>, ROWS>;         // 1 KiB

/// Notes the length of one of these rows and its place in the memory.
fn note_row(row: u32, norm: f32) {
  let own = params.before + row;
  norms[own] = norm;
  tags[slot(row)] = vec2u(batch[params.first + own].x, params.first_id + own);
  if (bitcast<u32>(norm) & 0x7f800000u) == 0x7f800000u {
    atomicOr(&sticky[0], 1u);
  }
}

fn slot(row: u32) -> u32 {
  return (params.cursor + params.before + row) % params.capacity;
}

/// Stores four values of a row over its length.
fn store_unit(row: u32, column: u32, norm: f32) {
  if row < params.rows {
    let at = (params.before + row) * params.outputs + column;
    let value = unit[at] / max(norm, 1e-12);
    unit[at] = value;
    bank[slot(row) * params.outputs + column] = value;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn embed_and_store(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = (group.x + group.y * groups.x) * ROWS;
  if row >= params.rows {
    return;
  }
  let x = row_starts(row, params.inputs);
  let biases = params.weights + params.outputs * 4u * params.inputs;
  var squared = vec4f();
  for (var column = lane; column < params.outputs; column += WORKGROUP_SIZE) {
    let y = product(x, params.weights + column * 4u * params.inputs);
    let bias = right[biases + column];
    let y0 = y.r0 + bias;
    let y1 = y.r1 + bias;
    let y2 = y.r2 + bias;
    let y3 = y.r3 + bias;
    squared = vec4f(
      chain_of_one(y0, y0, squared.x), chain_of_one(y1, y1, squared.y),
      chain_of_one(y2, y2, squared.z), chain_of_one(y3, y3, squared.w));
    // Until their lengths are there.
    let at = (params.before + row) * params.outputs + column;
    unit[at] = y0;
    if row + 1u < params.rows { unit[at + params.outputs] = y1; }
    if row + 2u < params.rows { unit[at + 2u * params.outputs] = y2; }
    if row + 3u < params.rows { unit[at + 3u * params.outputs] = y3; }
  }
  squares[lane] = squared;
  workgroupBarrier();  // all parts are there before they are added
  var total = vec4f();
  for (var start = 0u; start < PARTS; start += 8u) {
    var eight = vec4f();
    for (var i = start; i < start + 8u; i++) {
      eight += squares[i];
    }
    total += eight;
  }
  let norm = sqrt(total);
  for (var column = lane; column < params.outputs; column += WORKGROUP_SIZE) {
    store_unit(row, column, norm.x);
    store_unit(row + 1u, column, norm.y);
    store_unit(row + 2u, column, norm.z);
    store_unit(row + 3u, column, norm.w);
  }
  if lane < ROWS && row + lane < params.rows {
    note_row(row + lane, norm[lane]);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn embed_and_store_tile(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let first_row = (group.x + group.y * groups.x) * ROWS;
  if first_row >= params.rows {
    return;
  }
  let x = lane % WIDE;
  let y = lane / WIDE;
  let row = first_row + y;
  let stride = params.inputs;
  let outputs = 4u * params.outputs;
  let deep = lane % STEP;
  let bring = lane / STEP;  // below 32
  for (var first = 0u; first < outputs; first += WIDE) {
    var sum = 0.0;
    for (var start = 0u; start < stride; start += STEP) {
      let k = min(start + deep, stride - 1u);
      if bring < ROWS {
        step_x[deep][bring] = floats(left[min(first_row + bring, params.rows - 1u) * stride + k]);
      }
      step_w[deep][bring] = right[params.weights + min(first + bring, outputs - 1u) * stride + k];
      step_w[deep][bring + 32u] = right[params.weights + min(first + bring + 32u, outputs - 1u) * stride + k];
      workgroupBarrier();  // this step is there
      for (var h = 0u; h < STEP; h++) {
        if start + h < stride {
          sum = chain_of_one(step_x[h][y], step_w[h][x], sum);
        }
      }
      workgroupBarrier();  // all are done with it
    }
    let output = first + x;
    if output < outputs {
      let value = sum + right[params.weights + outputs * stride + output / 4u][output % 4u];
      made[y][x] = value;
      // Until its length is there.
      if row < params.rows {
        unit_floats[(params.before + row) * outputs + output] = value;
      }
    }
    workgroupBarrier();  // these outputs are there
    if x < WIDE / 4u && first + 4u * x < outputs {
      let four = vec4f(made[y][4u * x], made[y][4u * x + 1u], made[y][4u * x + 2u], made[y][4u * x + 3u]);
      let part = (first / 4u + x) % PARTS;
      parts[y][part] = chain_of_one(four, four, parts[y][part]);
    }
    workgroupBarrier();  // and added before the next ones
  }
  var total = 0.0;
  for (var start = 0u; start < PARTS; start += 8u) {
    var eight = 0.0;
    for (var i = start; i < start + 8u; i++) {
      eight += parts[y][i];
    }
    total += eight;
  }
  let norm = sqrt(total);
  if row >= params.rows {
    return;
  }
  for (var output = x; output < outputs; output += WIDE) {
    let at = (params.before + row) * outputs + output;
    let value = unit_floats[at] / max(norm, 1e-12);
    unit_floats[at] = value;
    bank_floats[slot(row) * outputs + output] = value;
  }
  if x == 0u {
    note_row(row, norm);
  }
}

// The mean of a batch's gradient, which moves all of its rows in one direction, and the steadiness of that direction.
//
//   mean = sum over rows of gradient / rows
//   push = cosine of mean and its running average before this step       average = 0.9 average + 0.1 mean
//
// mean      one workgroup per COLUMNS vec4s   state: mean, an invocation a segment of rows, then the segments in order
// measure   one workgroup                     state: average, and mean unless it is there; sums: of the pushes so far, and their number
//
// The gradient of a loss of triplets is still times the active triplets.

override WORKGROUP_SIZE: u32;
const SEGMENT = 256u;  // rows that are added by themselves, ascending
const COLUMNS = 16u;   // vec4s of a workgroup, in mean
const TOGETHER = 16u;  // invocations whose products are added first, in measure

struct Params {
  rows: u32,
  stride: u32,  // vec4s of a row
  summed: u32,  // measure: whether the mean is there
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gradient: array<vec4f>;  // [rows, stride]
@group(0) @binding(2) var<storage, read_write> state: array<vec4f>;     // [2, stride]: mean, average
@group(0) @binding(3) var<storage, read_write> sums: array<f32>;        // [2]

var<workgroup> partial: array<vec4f, WORKGROUP_SIZE>;  // 4 KiB
var<workgroup> partial_groups: array<vec4f, WORKGROUP_SIZE / TOGETHER>;  // of TOGETHER invocations, 256 bytes

/// A vec4 of the sum over the rows of the segment that begins at `start`.
fn sum_of_segment(k: u32, start: u32, rows: u32) -> vec4f {
  var sum = vec4f();
  for (var row = start; row < min(start + SEGMENT, rows); row++) {
    sum += gradient[row * params.stride + k];
  }
  return sum;
}

/// A vec4 of the mean; zero without rows.
fn mean_of(k: u32, rows: u32) -> vec4f {
  var total = vec4f();
  for (var start = 0u; start < params.rows; start += SEGMENT) {
    total += sum_of_segment(k, start, rows);
  }
  return total / f32(params.rows);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn mean(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let k = (group.x + group.y * groups.x) * COLUMNS + lane % COLUMNS;
  let rows = select(0u, params.rows, k < params.stride);
  let own = lane / COLUMNS * SEGMENT;
  var total = vec4f();
  for (var start = 0u; start < params.rows; start += WORKGROUP_SIZE / COLUMNS * SEGMENT) {
    partial[lane] = sum_of_segment(k, start + own, rows);
    workgroupBarrier();  // the segments are summed before they are added, in their order
    if lane < COLUMNS {
      for (var at = lane; at < WORKGROUP_SIZE; at += COLUMNS) {
        total += partial[at];
      }
    }
    workgroupBarrier();  // and added before the next take their place
  }
  if lane < COLUMNS && k < params.stride {
    state[k] = total / f32(params.rows);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn measure(@builtin(local_invocation_index) lane: u32) {
  var products = vec4f();  // <mean, average>, <mean, mean>, <average, average>
  // All invocations take every round: if most had left, llvmpipe took 15 ms for the loop within this one.
  for (var first = 0u; first < params.stride; first += WORKGROUP_SIZE) {
    let k = first + lane;
    let is_there = k < params.stride;
    var own = mean_of(k, select(0u, params.rows, is_there && params.summed == 0u));
    if is_there {
      if params.summed != 0u {
        own = state[k];
      }
      state[k] = own;
      let average = state[params.stride + k];
      products += vec4f(dot(own, average), dot(own, own), dot(average, average), 0.0);
      state[params.stride + k] = 0.9 * average + 0.1 * own;
    }
  }
  partial[lane] = products;
  workgroupBarrier();  // all products are there before they are added
  if lane < WORKGROUP_SIZE / TOGETHER {
    var sum = vec4f();
    for (var i = 0u; i < TOGETHER; i++) {
      sum += partial[lane * TOGETHER + i];
    }
    partial_groups[lane] = sum;
  }
  workgroupBarrier();  // and so are those of every group
  if lane > 0u {
    return;
  }
  products = partial_groups[0];
  for (var i = 1u; i < WORKGROUP_SIZE / TOGETHER; i++) {
    products += partial_groups[i];
  }
  let lengths = sqrt(products.y) * sqrt(products.z);
  if lengths > 0.0 {
    sums[0] += products.x / lengths;
    sums[1] += 1.0;
  }
}

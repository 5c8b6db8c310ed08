// The part of a batch's gradient that moves all of its rows the same way, and how steadily it points.
//
//   mean = sum over rows of gradient / rows
//   push = cosine of mean and its running average before this step       average = 0.9 average + 0.1 mean
//
// measure   one workgroup   state: mean, average; sums: of the pushes so far, and how many they are

override WORKGROUP_SIZE: u32;

struct Params {
  rows: u32,
  stride: u32,  // vec4s of a row
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gradient: array<vec4f>;  // [rows, stride]
@group(0) @binding(2) var<storage, read_write> state: array<vec4f>;     // [2, stride]: mean, average
@group(0) @binding(3) var<storage, read_write> sums: array<f32>;        // [2]

var<workgroup> partial: array<vec4f, WORKGROUP_SIZE>;  // 4 KiB

@compute @workgroup_size(WORKGROUP_SIZE)
fn measure(@builtin(local_invocation_index) lane: u32) {
  var products = vec4f();  // <mean, average>, <mean, mean>, <average, average>
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    var mean = vec4f();
    for (var row = 0u; row < params.rows; row++) {
      mean += gradient[row * params.stride + k];
    }
    mean /= f32(params.rows);
    let average = state[params.stride + k];
    products += vec4f(dot(mean, average), dot(mean, mean), dot(average, average), 0.0);
    state[k] = mean;
    state[params.stride + k] = 0.9 * average + 0.1 * mean;
  }
  partial[lane] = products;
  workgroupBarrier();  // all products are there before they are added
  if lane > 0u {
    return;
  }
  for (var i = 1u; i < WORKGROUP_SIZE; i++) {
    products += partial[i];
  }
  let lengths = sqrt(products.y) * sqrt(products.z);
  if lengths > 0.0 {
    sums[0] += products.x / lengths;
    sums[1] += 1.0;
  }
}

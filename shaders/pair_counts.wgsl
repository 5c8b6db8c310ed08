// Histogram of a step's pairs by similarity: each row of a block with all references but itself.
//
// count   one workgroup a row   report: u64s as two words, low first, BINS of positives before BINS of negatives

override WORKGROUP_SIZE: u32;
const BINS = 64u;  // over [-1, 1]; the last holds 1 as well
const L2 = 1u;     // any other distance: cosine

struct Params {
  rows: u32,        // rows of the block
  batch: u32,       // where the block begins in `batch`
  references: u32,
  width: u32,       // floats of a row of values
  distance: u32,    // what the values are
  report: u32,      // where the counts begin
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> batch: array<vec4u>;    // (label, id, ..) of each row
@group(0) @binding(2) var<storage, read> tags: array<vec2u>;     // (label, id) of each reference
@group(0) @binding(3) var<storage, read> values: array<f32>;     // [rows, width]
@group(0) @binding(4) var<storage, read_write> report: array<atomic<u32>>;

var<workgroup> pairs: array<atomic<u32>, 2u * BINS>;  // the row's, 512 bytes

@compute @workgroup_size(WORKGROUP_SIZE)
fn count(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let r = group.x + group.y * groups.x;
  if r >= params.rows {
    return;
  }
  let row = batch[params.batch + r];
  let half = i32(BINS / 2u);
  for (var i = lane; i < params.references; i += WORKGROUP_SIZE) {
    let tag = tags[i];
    let v = values[r * params.width + i];
    let s = select(v, 1.0 - v * v / 2.0, params.distance == L2);
    // A power of two scales without rounding.
    let bin = u32(clamp(i32(floor(s * f32(half))) + half, 0, 2 * half - 1));
    let positive = tag.x == row.x;
    if !(positive && tag.y == row.y) {
      atomicAdd(&pairs[select(BINS, 0u, positive) + bin], 1u);
    }
  }
  workgroupBarrier();  // all pairs are counted before the counts are read
  for (var bin = lane; bin < 2u * BINS; bin += WORKGROUP_SIZE) {
    let value = atomicLoad(&pairs[bin]);
    let old = atomicAdd(&report[params.report + 2u * bin], value);
    if old + value < old {
      atomicAdd(&report[params.report + 2u * bin + 1u], 1u);
    }
  }
}

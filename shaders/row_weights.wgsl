// Weights of a batch's rows in a loss that looks at all rows: the number of times that the miner keeps each row.
//
//   found  = number of times that the miner keeps a row           weight = found / the largest found; 1 if all are 0
//
// find    one invocation per row   found: as an anchor, and as a positive or negative of others if those are rows of the batch
// scale   one workgroup            weights

override WORKGROUP_SIZE: u32;
const NONE = -3.0;  // the value of what is not kept

struct Params {
  rows: u32,     // anchors of the block
  width: u32,    // floats of a row of values
  first: u32,    // the block's first anchor in the batch
  own: u32,      // whether the references are the block's rows, and count as well
  mined: u32,    // whether triplets are kept: each of their three rows once; else pairs
  count: u32,    // rows of the batch
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> values: array<f32>;     // [rows, width]
@group(0) @binding(2) var<storage, read> places: array<u32>;     // [rows, width]: positives from the front, negatives from the back
@group(0) @binding(3) var<storage, read> counts: array<vec2u>;   // [rows]: of both
@group(0) @binding(4) var<storage, read> times: array<u32>;      // [rows, width]: triplets of a pair
@group(0) @binding(5) var<storage, read_write> found: array<u32>;  // [count]

// In scale only.
@group(0) @binding(1) var<storage, read> all_found: array<u32>;
@group(0) @binding(2) var<storage, read_write> weights: array<f32>;  // [count]

var<workgroup> largest: array<u32, WORKGROUP_SIZE>;  // 1 KiB

@compute @workgroup_size(WORKGROUP_SIZE)
fn find(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if row >= params.rows {
    return;
  }
  let at = row * params.width;
  var met = 0u;
  if params.mined == 0u {
    met = counts[row].x + counts[row].y;
  } else {
    for (var j = 0u; j < counts[row].x; j++) {
      met += times[at + places[at + j]];
    }
  }
  if params.own != 0u {
    for (var anchor = 0u; anchor < params.rows; anchor++) {
      let there = anchor * params.width + row;
      if values[there] != NONE {
        met += select(1u, times[there], params.mined != 0u);
      }
    }
  }
  found[params.first + row] = met;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn scale(@builtin(local_invocation_index) lane: u32) {
  var most = 0u;
  for (var row = lane; row < params.count; row += WORKGROUP_SIZE) {
    most = max(most, all_found[row]);
  }
  largest[lane] = most;
  workgroupBarrier();  // all are there before they are compared
  for (var i = 0u; i < WORKGROUP_SIZE; i++) {
    most = max(most, largest[i]);
  }
  for (var row = lane; row < params.count; row += WORKGROUP_SIZE) {
    weights[row] = select(1.0, f32(all_found[row]) / f32(most), most > 0u);
  }
}

// Where the positives of each row stand among all references: sorted thresholds, and how many negatives lie in each gap.
//
//   s(row, r) = <anchors[row], references[r]>     a positive has the row's label and another id, a negative another label
//   nearer    = larger similarity, then smaller id; thresholds ascend, the nearest positive comes last
//   gap g of a row with P positives = the negatives nearer than thresholds 0 .. g and not nearer than the rest
//
// sort_thresholds   one workgroup a row                 thresholds[offset ..] sorted, the row's P + 1 books cleared
// gaps              one workgroup per 8 rows, segment   books[offset + row + g], all gaps but the lowest: subtract to get that
//
// A segment is one reference for each invocation. Books are integers that only grow by commuting atomics: their order
// does not matter. kernels/triplet_margin.rs puts this text before its own.

override WORKGROUP_SIZE: u32;
const OWNERS = 8u;

struct Params {
  first_row: u32,    // the block's first row, in the anchors and gradients
  rows: u32,         // rows of the block
  batch: u32,        // where the block begins in `batch`
  references: u32,
  stride: u32,       // vec4s of a row
  segments: u32,     // ceil(references / WORKGROUP_SIZE)
  capacity: u32,     // slots of the memory; id % capacity is a reference's slot
  report: u32,       // where this step's report begins
  kind: u32,         // which triplets the miner keeps
  miner_margin: f32,
  loss_margin: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> anchors: array<vec4f>;
@group(0) @binding(2) var<storage, read> references: array<vec4f>;
@group(0) @binding(3) var<storage, read> batch: array<vec4u>;  // (label, id, offset, positives) of each row
@group(0) @binding(4) var<storage, read> tags: array<vec2u>;   // (label, id) of each reference
@group(0) @binding(5) var<storage, read_write> thresholds: array<vec2u>;  // (similarity's bits, id)
@group(0) @binding(5) var<storage, read> ordered: array<vec2u>;           // the same, once sorted
@group(0) @binding(6) var<storage, read_write> books: array<atomic<u32>>;

var<workgroup> found: atomic<u32>;  // 4 bytes

/// acc + <a, b>, component by component: every similarity of this file is this chain, k ascending.
fn chain(a: vec4f, b: vec4f, acc: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, acc))));
}

fn similarity(row: u32, reference: u32) -> f32 {
  var s = 0.0;
  for (var k = 0u; k < params.stride; k++) {
    s = chain(anchors[row * params.stride + k], references[reference * params.stride + k], s);
  }
  return s;
}

/// Whether `b` is nearer than `a`; both are (similarity's bits, id).
fn nearer(a: vec2u, b: vec2u) -> bool {
  let s_a = bitcast<f32>(a.x);
  let s_b = bitcast<f32>(b.x);
  return s_a < s_b || (s_a == s_b && a.y > b.y);
}

fn exchange(low: u32, high: u32, end: u32) {
  if high < end {
    let a = thresholds[low];
    let b = thresholds[high];
    if nearer(b, a) {
      thresholds[low] = b;
      thresholds[high] = a;
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn sort_thresholds(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group.x + group.y * groups.x;
  if i >= params.rows {
    return;
  }
  let row = batch[params.batch + i];
  let first = row.z;
  let count = row.w;
  for (var g = lane; g <= count; g += WORKGROUP_SIZE) {
    atomicStore(&books[first + i + g], 0u);
  }
  if count == 0u {
    return;
  }
  for (var r = lane; r < params.references; r += WORKGROUP_SIZE) {
    let tag = tags[r];
    if tag.x == row.x && tag.y != row.y {
      let at = atomicAdd(&found, 1u);
      thresholds[first + at] = vec2u(bitcast<u32>(similarity(params.first_row + i, r)), tag.y);
    }
  }
  storageBarrier();  // all positives are there, in any order, before they are sorted
  if count <= WORKGROUP_SIZE {
    // Each invocation counts how many are farther than its own: that is its place.
    let own = thresholds[first + min(lane, count - 1u)];
    var place = 0u;
    for (var j = 0u; j < count; j++) {
      place += u32(nearer(thresholds[first + j], own));
    }
    storageBarrier();  // all have read before any writes
    if lane < count {
      thresholds[first + place] = own;
    }
    return;
  }
  // Bitonic in place, every comparison ascending: what lies past the end counts as nearest and never moves.
  for (var size = 2u; size < 2u * count; size *= 2u) {
    for (var j = lane; j < (count + size) / 2u; j += WORKGROUP_SIZE) {
      let block = j / (size / 2u) * size;
      let offset = j % (size / 2u);
      exchange(first + block + offset, first + block + size - 1u - offset, first + count);
    }
    storageBarrier();  // a stage ends before the next begins
    for (var step = size / 4u; step > 0u; step /= 2u) {
      for (var j = lane; j < count; j += WORKGROUP_SIZE) {
        let low = j / step * step * 2u + j % step;
        exchange(first + low, first + low + step, first + count);
      }
      storageBarrier();  // likewise
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn gaps(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let first = g / params.segments * OWNERS;
  let reference = g % params.segments * WORKGROUP_SIZE + lane;
  if reference >= params.references {
    return;
  }
  let s = similarities(first, reference);
  let tag = tags[reference];
  for (var o = 0u; o < OWNERS && first + o < params.rows; o++) {
    let row = batch[params.batch + first + o];
    if tag.x == row.x {
      continue;
    }
    let gap = farther(row, vec2u(bitcast<u32>(s[o]), tag.y));
    if gap > 0u {
      atomicAdd(&books[row.z + first + o + gap], 1u);
    }
  }
}

/// The vec4 where row `o` after `first` begins; rows past the end of the block repeat the last.
fn row_start(first: u32, o: u32) -> u32 {
  return (params.first_row + min(first + o, params.rows - 1u)) * params.stride;
}

/// The similarities of OWNERS rows of the block, from `first` on, to one reference. Written out: the sums stay in registers.
fn similarities(first: u32, reference: u32) -> array<f32, OWNERS> {
  let a = vec4u(row_start(first, 0u), row_start(first, 1u), row_start(first, 2u), row_start(first, 3u));
  let b = vec4u(row_start(first, 4u), row_start(first, 5u), row_start(first, 6u), row_start(first, 7u));
  var s = vec4f();
  var t = vec4f();
  for (var k = 0u; k < params.stride; k++) {
    let r = references[reference * params.stride + k];
    s.x = chain(anchors[a.x + k], r, s.x);
    s.y = chain(anchors[a.y + k], r, s.y);
    s.z = chain(anchors[a.z + k], r, s.z);
    s.w = chain(anchors[a.w + k], r, s.w);
    t.x = chain(anchors[b.x + k], r, t.x);
    t.y = chain(anchors[b.y + k], r, t.y);
    t.z = chain(anchors[b.z + k], r, t.z);
    t.w = chain(anchors[b.w + k], r, t.w);
  }
  return array(s.x, s.y, s.z, s.w, t.x, t.y, t.z, t.w);
}

/// How many of the row's thresholds are farther than `entry`.
fn farther(row: vec4u, entry: vec2u) -> u32 {
  var low = 0u;
  var high = row.w;
  while low < high {
    let middle = (low + high) / 2u;
    if nearer(ordered[row.z + middle], entry) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}

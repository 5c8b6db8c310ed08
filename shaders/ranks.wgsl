// Ranks of each row's positives among all references: sorted thresholds, and the number of negatives in each gap.
//
//   a positive has the row's class and another id, a negative another class; neither has the row's group
//   a label   = the class, and above the bits of class_mask the group, if rows have groups
//   nearer    = larger similarity, then smaller id; thresholds ascend, the nearest positive comes last
//   gap g of a row with P positives = the negatives nearer than thresholds 0 .. g and not nearer than the rest
//
// clear             one workgroup a row              the row's P + 1 gap counts = 0
// find              one workgroup per 8 rows, span   thresholds[offset ..] of its positives, unordered; the lowest book counts them
// order             one workgroup per row and run    each run of RUN thresholds sorted; the lowest book = 0
// exchange_far      one invocation a pair            one stage of a bitonic sort across runs
// merge             one workgroup per row and run    the stages after it, within runs: exchange_far and merge make longer runs
// pack              one invocation per four counts   packed_gap_counts[i] = gap counts 4 i to 4 i + 3, 16 bits each
// sort_thresholds   one workgroup a row              clear, find and order, if one span and one run hold everything
// strip, tile       see tile.wgsl                    gap_counts[offset + g], all gaps but the lowest: subtract to get that
//
// No loop that others wait for goes round more than 1,024 times, and no invocation takes more than some ten thousand steps:
// software adapters end all loops of one after 65,536 steps together.
//
// Gap counts are integers that only grow by commuting atomics: their order does not matter. kernels/triplet_margin.rs puts this
// text and tile.wgsl before its own.

struct Params {
  stride: u32,       // vec4s of a row
  first_row: u32,    // the block's first row, in the anchors and gradients
  rows: u32,         // rows of the block
  batch: u32,        // where the block begins in `batch`
  references: u32,   // of this dispatch
  first_reference: u32,
  from_id: u32,      // find: positives of these ids
  to_id: u32,        // and below this one
  segments: u32,     // of 256 references each
  capacity: u32,     // slots of the memory; id % capacity is a reference's slot
  report: u32,       // where this step's report begins
  pairs: u32,        // where in the report pairs are counted by similarity, or NOWHERE
  kind: u32,         // which triplets the miner keeps
  miner_margin: f32,
  loss_margin: f32,
  distance: u32,     // what a similarity counts for
  groups: u32,       // order, exchange_far, merge: workgroups of a row; find: of as many rows as share one
  span: u32,         // find: references of a workgroup
  size: u32,         // exchange_far: thresholds that form one run after this and the stages that follow; pack: counts
  step: u32,         // exchange_far: how far apart two lie that are compared; 0: the first with the last, and so on inwards
  first_part: u32,      // finish: the parts of these segments
  end_part: u32,
  first_positive: u32,  // finish: then these positives
  end_positive: u32,
  class_mask: u32,   // find, strip, tile: the bits of a label that say the class
  own_below: u32,    // labels that differ by less, bit by bit, are of one group: 0 without groups
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> anchors: array<vec4f>;
@group(0) @binding(2) var<storage, read> references: array<Stored>;
@group(0) @binding(3) var<storage, read> batch: array<vec4u>;  // (label, id, offset, positives) of each row
@group(0) @binding(4) var<storage, read> tags: array<vec2u>;   // (label, id) of each reference
@group(0) @binding(5) var<storage, read_write> thresholds: array<vec2u>;  // (similarity's bits, id)
@group(0) @binding(5) var<storage, read> ordered: array<vec2u>;           // the same, once sorted
@group(0) @binding(6) var<storage, read_write> gap_counts: array<atomic<u32>>;

// In pack only.
@group(0) @binding(1) var<storage, read_write> book_words: array<u32>;
@group(0) @binding(2) var<storage, read_write> packed_gap_counts: array<vec2u>;

const SHARING = 8u;          // rows that look at the same tags together, in find
const RUN = 1024u;           // thresholds that one workgroup sorts, 4 an invocation
const NEAREST = vec2u(0x7f800000u, 0u);  // infinity: no threshold is nearer

var<workgroup> run: array<vec2u, 4u * WORKGROUP_SIZE>;  // 8 KiB at most: the thresholds of a run, before it is sorted

/// Tells if `b` is nearer than `a`; both are (similarity's bits, id).
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

fn clear_gap_counts(row: vec4u, lane: u32) {
  for (var g = lane; g <= row.w; g += WORKGROUP_SIZE) {
    atomicStore(&gap_counts[row.z + g], 0u);
  }
}

/// Tells if labels that differ by these bits are of one class.
fn is_class(difference: u32) -> bool {
  return (difference & params.class_mask) == 0u;
}

/// Tells if labels that differ by these bits are of different groups, or have none.
fn is_apart(difference: u32) -> bool {
  return difference >= params.own_below;
}

/// Adds the positives of some rows, from the i-th of the block to before the `last`, among the references of the visit from
/// `first` to `end` to the thresholds. Each reference is looked at once.
fn find_positives(i: u32, last: u32, first: u32, end: u32, lane: u32) {
  for (var at = first + lane; at < end; at += WORKGROUP_SIZE) {
    let r = place(at);
    let tag = tags[r];
    if tag.y < params.from_id || tag.y >= params.to_id {
      continue;
    }
    for (var o = i; o < last; o++) {
      let row = batch[params.batch + o];
      if is_class(tag.x ^ row.x) && tag.y != row.y && is_apart(tag.x ^ row.x) {
        let found = atomicAdd(&gap_counts[row.z], 1u);
        thresholds[row.z + found] = vec2u(bitcast<u32>(similarity(params.first_row + o, r)), tag.y);
      }
    }
  }
}

/// Sorts up to RUN thresholds: the place of one is the number of those that are farther. Called in uniform control flow.
fn order_thresholds(first: u32, count: u32, lane: u32) {
  for (var j = lane; j < (count + 3u) / 4u * 4u; j += WORKGROUP_SIZE) {
    run[j] = select(NEAREST, thresholds[first + min(j, count - 1u)], j < count);
  }
  workgroupBarrier();  // the run is there as it was found
  if count <= WORKGROUP_SIZE {
    let own = run[lane];
    var place = 0u;
    for (var j = 0u; j < count; j += 4u) {
      place += u32(nearer(run[j], own)) + u32(nearer(run[j + 1u], own));
      place += u32(nearer(run[j + 2u], own)) + u32(nearer(run[j + 3u], own));
    }
    put(first, place, own, lane < count);
    return;
  }
  let i = lane + WORKGROUP_SIZE * vec4u(0u, 1u, 2u, 3u);
  let a = run[i.x];
  let b = run[i.y];
  let c = run[i.z];
  let d = run[i.w];
  var places = vec4u();
  for (var j = 0u; j < count; j += 2u) {
    let other = run[j];
    let next = run[j + 1u];
    places += vec4u(u32(nearer(other, a)), u32(nearer(other, b)), u32(nearer(other, c)), u32(nearer(other, d)));
    places += vec4u(u32(nearer(next, a)), u32(nearer(next, b)), u32(nearer(next, c)), u32(nearer(next, d)));
  }
  put(first, places.x, a, i.x < count);
  put(first, places.y, b, i.y < count);
  put(first, places.z, c, i.z < count);
  put(first, places.w, d, i.w < count);
}

fn put(first: u32, place: u32, threshold: vec2u, is_one: bool) {
  if is_one {
    thresholds[first + place] = threshold;
  }
}

/// The stages of a bitonic sort that compare thresholds `step` and less apart; called in uniform control flow.
fn merge_thresholds(first: u32, count: u32, from_step: u32, lane: u32) {
  for (var step = from_step; step > 0u; step /= 2u) {
    for (var j = lane; j < count; j += WORKGROUP_SIZE) {
      exchange_pair(first, count, j, 2u * step, step);
    }
    storageBarrier();  // a stage ends before the next begins
  }
}

/// Puts the j-th pair of a stage in order: two that lie `step` apart, or with a step of 0 as far from both ends of `size`.
/// Both are powers of two, those in the parameters too (`stages` in kernels/ranks.rs): masks stand for quotients and remainders.
fn exchange_pair(first: u32, count: u32, j: u32, size: u32, step: u32) {
  if step == 0u {
    let low = j * 2u - (j & (size / 2u - 1u));
    exchange(first + low, first + (low ^ (size - 1u)), first + count);
  } else {
    let low = j * 2u - (j & (step - 1u));
    exchange(first + low, first + low + step, first + count);
  }
}

/// A run of a row's thresholds.
struct Run {
  first: u32,
  count: u32,
}

fn run_of(row: vec4u, run: u32) -> Run {
  let before = min(row.w, run * RUN);
  return Run(row.z + before, min(row.w - before, RUN));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn clear(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group.x + group.y * groups.x;
  if i < params.rows {
    clear_gap_counts(batch[params.batch + i], lane);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn find(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let i = g / params.groups * SHARING;
  if i < params.rows {
    let first = g % params.groups * params.span;
    find_positives(i, min(i + SHARING, params.rows), first, min(first + params.span, params.references), lane);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn order(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let i = g / params.groups;
  if i >= params.rows {
    return;
  }
  let row = batch[params.batch + i];
  if g % params.groups == 0u && lane == 0u {
    atomicStore(&gap_counts[row.z], 0u);
  }
  let run = run_of(row, g % params.groups);
  order_thresholds(run.first, run.count, lane);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn exchange_far(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let i = g / params.groups;
  if i < params.rows {
    let row = batch[params.batch + i];
    exchange_pair(row.z, row.w, g % params.groups * WORKGROUP_SIZE + lane, params.size, params.step);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn merge(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let i = g / params.groups;
  if i >= params.rows {
    return;
  }
  let run = run_of(batch[params.batch + i], g % params.groups);
  merge_thresholds(run.first, run.count, RUN / 2u, lane);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn pack(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  let first = 4u * i;
  if first < params.size {
    let last = params.size - 1u;  // past it anything does
    packed_gap_counts[i] = vec2u(
      book_words[first] | (book_words[min(first + 1u, last)] << 16u),
      book_words[min(first + 2u, last)] | (book_words[min(first + 3u, last)] << 16u),
    );
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
  clear_gap_counts(row, lane);
  storageBarrier();  // the count starts at 0
  find_positives(i, i + 1u, 0u, params.references, lane);
  storageBarrier();  // all positives are there, in any order, before they are sorted
  order_thresholds(row.z, row.w, lane);
  if lane == 0u {
    atomicStore(&gap_counts[row.z], 0u);
  }
}

fn place(i: u32) -> u32 {
  return params.first_reference + i;
}

fn take(row: u32, i: vec4u, s: vec4f) {
  if row < params.rows {
    let about = batch[params.batch + row];
    note(about, i.x, s.x);
    note(about, i.y, s.y);
    note(about, i.z, s.z);
    note(about, i.w, s.w);
  }
}

fn note(about: vec4u, i: u32, s: f32) {
  if i >= params.references {
    return;
  }
  let tag = tags[place(i)];
  let difference = tag.x ^ about.x;
  if is_class(difference) || !is_apart(difference) {
    return;
  }
  let gap = farther(about, vec2u(bitcast<u32>(s), tag.y));
  if gap > 0u {
    atomicAdd(&gap_counts[about.z + gap], 1u);
  }
}

/// Number of the row's thresholds that are farther than `entry`.
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

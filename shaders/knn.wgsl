// The k nearest references of every query of a block, exactly: no tile of similarities leaves the registers.
//
//   nearer = larger similarity, then smaller id; a query's own id is left out, and so are references not farther than `after`
//
// clear          one workgroup a query   kept[query] = k times nothing, counts[query] = 0
// strip, tile    see tile.wgsl           references nearer than the farthest kept go to survivors[query], in any order
// few            one workgroup a slice   of few queries and k: the k nearest of SLICE references go to survivors[query], in any order
// keep           one workgroup a query   kept[query] = the k nearest of kept and survivors, nearest first; counts[query] = 0
// keep_serial    one invocation a query  as keep, without a barrier, for a small k if barriers are slow
//
// A visit is one reference in `step` of the chunk, VISIT at most. A look takes `width` visits together, from `offset` on; all
// survivors of one visit have room. If more survive a look than have room, LOST is first among the query's
// neighbours from then on. The slots of survivors are left to chance, and `keep` sorts them. All survivors of `few` have
// room: a look of it takes as many slices as k goes into VISIT.

const VISIT = 1024u;
const SLICE = 1024u;    // references of a workgroup of `few`: 4 an invocation
const STRETCHES = 64u;  // of a slice; no k of `few` is larger
const NOTHING = vec2u(0xff7fffffu, 0xffffffffu);  // the lowest number, no id: farther than every reference
const LOST = vec2u(0x40400000u, 0u);              // 3.0: nearer than every reference

struct Params {
  stride: u32,      // vec4s of a row
  first_row: u32,   // the first query, in the block
  rows: u32,        // queries
  references: u32,  // of this look
  k: u32,           // 512 at most
  first_id: u32,    // the id of the chunk's first reference
  step: u32,        // visits of the chunk
  offset: u32,      // the first visit of this look
  width: u32,       // how many
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> anchors: array<vec4f>;     // unit rows of the queries
@group(0) @binding(2) var<storage, read> references: array<Stored>;  // unit rows of the chunk
@group(0) @binding(3) var<storage, read> asked: array<vec4u>;       // (own id, similarity's bits and id of `after`, 0)
@group(0) @binding(4) var<storage, read_write> kept: array<vec2u>;  // [rows, k], (similarity's bits, id)
@group(0) @binding(4) var<storage, read> kept_before: array<vec2u>;      // the same, during a look
@group(0) @binding(5) var<storage, read_write> survivors: array<vec2u>;  // [rows, VISIT]
@group(0) @binding(6) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> count: u32;                   // 4 bytes
var<workgroup> entries: array<vec2u, 1536>;  // 12 KiB: k and VISIT together

var<workgroup> bests: array<atomic<u32>, STRETCHES>;  // 256 bytes
var<workgroup> least: u32;                            // 4 bytes
var<workgroup> found: atomic<u32>;                    // 4 bytes

/// Tells if `b` is nearer than `a`; both are (similarity's bits, id).
fn nearer(a: vec2u, b: vec2u) -> bool {
  let s_a = bitcast<f32>(a.x);
  let s_b = bitcast<f32>(b.x);
  return s_a < s_b || (s_a == s_b && a.y > b.y);
}

fn place(i: u32) -> u32 {
  // i / width, which is VISIT at most, by a quotient of floats: software adapters divide integers slowly.
  var samples = u32(f32(i) / f32(params.width));
  samples -= select(0u, 1u, samples * params.width > i);
  samples += select(0u, 1u, (samples + 1u) * params.width <= i);
  return samples * params.step + params.offset + i - samples * params.width;
}

fn take(row: u32, i: vec4u, s: vec4f) {
  if row >= params.rows {
    return;
  }
  let query = params.first_row + row;
  let farthest = kept_before[(query + 1u) * params.k - 1u];
  if all(s < vec4f(bitcast<f32>(farthest.x))) {
    return;
  }
  offer(query, i.x, s.x, farthest);
  offer(query, i.y, s.y, farthest);
  offer(query, i.z, s.z, farthest);
  offer(query, i.w, s.w, farthest);
}

fn offer(query: u32, i: u32, s: f32, farthest: vec2u) {
  if s < bitcast<f32>(farthest.x) || i >= params.references {
    return;
  }
  let entry = vec2u(bitcast<u32>(s), params.first_id + place(i));
  if nearer(farthest, entry) {
    let about = asked[query];
    if entry.y != about.x && nearer(entry, about.yz) {
      let slot = atomicAdd(&counts[query], 1u);
      survivors[query * VISIT + min(slot, VISIT - 1u)] = entry;  // past the last they are lost in any case
    }
  }
}

/// The similarities of four rows of the block, from `row` on, one vector each, to the references that begin at these vec4s.
fn quad(row: u32, at: vec4u) -> mat4x4f {
  let a = vec4u(row_start(row), row_start(row + 1u), row_start(row + 2u), row_start(row + 3u));
  var s = mat4x4f();
  for (var start = 0u; start < params.stride; start += BLOCK) {
    var p0 = vec4f();
    var p1 = vec4f();
    var p2 = vec4f();
    var p3 = vec4f();
    for (var k = start; k < min(start + BLOCK, params.stride); k++) {
      let b0 = floats(references[at.x + k]);
      let b1 = floats(references[at.y + k]);
      let b2 = floats(references[at.z + k]);
      let b3 = floats(references[at.w + k]);
      let x = vec4f(b0.x, b1.x, b2.x, b3.x);
      let y = vec4f(b0.y, b1.y, b2.y, b3.y);
      let z = vec4f(b0.z, b1.z, b2.z, b3.z);
      let w = vec4f(b0.w, b1.w, b2.w, b3.w);
      p0 = chains(anchors[a.x + k], x, y, z, w, p0);
      p1 = chains(anchors[a.y + k], x, y, z, w, p1);
      p2 = chains(anchors[a.z + k], x, y, z, w, p2);
      p3 = chains(anchors[a.w + k], x, y, z, w, p3);
    }
    s += mat4x4f(p0, p1, p2, p3);
  }
  return s;
}

/// The similarity of a reference as an integer in the same order; 0, below all, for a reference that the query cannot keep.
fn rank_key(query: u32, i: u32, s: f32, farthest: vec2u) -> u32 {
  let entry = vec2u(bitcast<u32>(s), params.first_id + place(i));
  let about = asked[query];
  if i >= params.references || entry.y == about.x || !nearer(farthest, entry) || !nearer(entry, about.yz) {
    return 0u;
  }
  let bits = select(entry.x, 0u, s == 0.0);  // -0.0 is as near as 0.0
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

/// Keeps a reference that may be among the k nearest of the slice.
fn propose(i: u32, s: f32, key: u32) {
  if key >= max(least, 1u) {
    entries[atomicAdd(&found, 1u)] = vec2u(bitcast<u32>(s), params.first_id + place(i));
  }
}

/// Writes the k nearest of the workgroup's references to the survivors, four an invocation. Called in uniform control flow.
fn choose(query: u32, i: vec4u, s: vec4f, lane: u32) {
  let farthest = kept_before[(query + 1u) * params.k - 1u];
  let key = vec4u(
    rank_key(query, i.x, s.x, farthest),
    rank_key(query, i.y, s.y, farthest),
    rank_key(query, i.z, s.z, farthest),
    rank_key(query, i.w, s.w, farthest),
  );
  if lane < STRETCHES {
    atomicStore(&bests[lane], 0u);
  }
  workgroupBarrier();  // all have read how many the query before found, and no stretch has a best
  if lane == 0u {
    atomicStore(&found, 0u);
  }
  atomicMax(&bests[lane % STRETCHES], max(max(key.x, key.y), max(key.z, key.w)));
  workgroupBarrier();  // the best of every stretch is there
  if lane < STRETCHES {
    // The k-th best of these: as many references are as near at least.
    let own = atomicLoad(&bests[lane]);
    var before = 0u;
    for (var j = 0u; j < STRETCHES; j++) {
      let other = atomicLoad(&bests[j]);
      before += u32(other > own || (other == own && j < lane));
    }
    if before == params.k - 1u {
      least = own;
    }
  }
  workgroupBarrier();  // what a reference must reach is known
  propose(i.x, s.x, key.x);
  propose(i.y, s.y, key.y);
  propose(i.z, s.z, key.z);
  propose(i.w, s.w, key.w);
  workgroupBarrier();  // all that may be among the nearest are there
  let proposed = atomicLoad(&found);
  for (var j = lane; j < proposed; j += WORKGROUP_SIZE) {
    let entry = entries[j];
    var before = 0u;
    for (var other = 0u; other < proposed && before < params.k; other++) {
      before += u32(nearer(entry, entries[other]));
    }
    if before < params.k {
      survivors[query * VISIT + min(atomicAdd(&counts[query], 1u), VISIT - 1u)] = entry;
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn few(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let first = (group.x + group.y * groups.x) * SLICE;
  if first >= params.references {
    return;
  }
  let i = first + lane + WORKGROUP_SIZE * vec4u(0u, 1u, 2u, 3u);
  let at = vec4u(reference_start(i.x), reference_start(i.y), reference_start(i.z), reference_start(i.w));
  for (var row = 0u; row < params.rows; row += 4u) {
    var s = quad(row, at);
    for (var o = row; o < min(row + 4u, params.rows); o++) {
      choose(params.first_row + o, i, s[0], lane);
      s = mat4x4f(s[1], s[2], s[3], s[0]);  // no index that only the device knows
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn clear(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let query = params.first_row + group.x + group.y * groups.x;
  if query >= params.first_row + params.rows {
    return;
  }
  for (var j = lane; j < params.k; j += WORKGROUP_SIZE) {
    kept[query * params.k + j] = NOTHING;
  }
  if lane == 0u {
    atomicStore(&counts[query], 0u);
  }
}

fn exchange(low: u32, high: u32, end: u32) {
  if high < end {
    let a = entries[low];
    let b = entries[high];
    if nearer(a, b) {
      entries[low] = b;
      entries[high] = a;
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn keep(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let query = params.first_row + group.x + group.y * groups.x;
  if query >= params.first_row + params.rows {
    return;
  }
  if lane == 0u {
    count = atomicLoad(&counts[query]);
  }
  let survived = workgroupUniformLoad(&count);
  if survived == 0u {
    return;
  }
  let total = params.k + min(survived, VISIT);
  for (var j = lane; j < total; j += WORKGROUP_SIZE) {
    if j < params.k {
      entries[j] = kept[query * params.k + j];
    } else {
      entries[j] = survivors[query * VISIT + j - params.k];
    }
  }
  workgroupBarrier();  // all entries are there before they are sorted
  // Bitonic, every comparison nearest first: entries past the end count as farthest and never move.
  // `size` and `step` are powers of two: masks stand for quotients and remainders, as adapters divide integers slowly.
  for (var size = 2u; size < 2u * total; size *= 2u) {
    for (var j = lane; j < (total + size) / 2u; j += WORKGROUP_SIZE) {
      let low = j * 2u - (j & (size / 2u - 1u));
      exchange(low, low ^ (size - 1u), total);
    }
    workgroupBarrier();  // a stage ends before the next begins
    for (var step = size / 4u; step > 0u; step /= 2u) {
      for (var j = lane; j < total; j += WORKGROUP_SIZE) {
        let low = j * 2u - (j & (step - 1u));
        exchange(low, low + step, total);
      }
      workgroupBarrier();  // likewise
    }
  }
  for (var j = lane; j < params.k; j += WORKGROUP_SIZE) {
    kept[query * params.k + j] = entries[j];
  }
  if lane == 0u {
    if survived > VISIT {
      kept[query * params.k] = LOST;
    }
    atomicStore(&counts[query], 0u);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn keep_serial(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if row >= params.rows {
    return;
  }
  let query = params.first_row + row;
  let first = query * params.k;
  let survived = atomicLoad(&counts[query]);
  for (var i = 0u; i < min(survived, VISIT); i++) {
    let entry = survivors[query * VISIT + i];
    // Farther neighbours move down one place; the farthest of all falls out.
    var at = params.k;
    while at > 0u && nearer(kept[first + at - 1u], entry) {
      at -= 1u;
      if at + 1u < params.k {
        kept[first + at + 1u] = kept[first + at];
      }
    }
    if at < params.k {
      kept[first + at] = entry;
    }
  }
  if survived > VISIT {
    kept[first] = LOST;
  }
  atomicStore(&counts[query], 0u);
}

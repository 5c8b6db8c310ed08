// The k nearest references of every query of a block, exactly: no tile of similarities leaves the registers.
//
//   nearer = larger similarity, then smaller id; a query's own id is left out, and so is what is not farther than `after`
//
// clear          one workgroup a query   kept[query] = k times nothing, counts[query] = 0
// strip, tile    see tile.wgsl           what is nearer than the farthest kept goes to survivors[query], in any order
// keep           one workgroup a query   kept[query] = the k nearest of kept and survivors, nearest first; counts[query] = 0
// keep_serial    one invocation a query  the same without a barrier, for a small k where barriers are dear
//
// A visit is one reference in `step` of the chunk, VISIT at most. A look takes `width` visits together, from `offset` on; all
// that survive one visit have room. Where more survive a look than have room, LOST stands first among the query's
// neighbours from then on. What survives in which slot is left to chance, and `keep` sorts it out.

const VISIT = 1024u;
const NOTHING = vec2u(0xc0000000u, 0xffffffffu);  // -2.0, no id: farther than every reference
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
@group(0) @binding(2) var<storage, read> references: array<vec4f>;  // unit rows of the chunk
@group(0) @binding(3) var<storage, read> asked: array<vec4u>;       // (own id, similarity's bits and id of `after`, 0)
@group(0) @binding(4) var<storage, read_write> kept: array<vec2u>;  // [rows, k], (similarity's bits, id)
@group(0) @binding(4) var<storage, read> kept_before: array<vec2u>;      // the same, during a look
@group(0) @binding(5) var<storage, read_write> survivors: array<vec2u>;  // [rows, VISIT]
@group(0) @binding(6) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> count: u32;                   // 4 bytes
var<workgroup> entries: array<vec2u, 1536>;  // 12 KiB: k and VISIT together

/// Whether `b` is nearer than `a`; both are (similarity's bits, id).
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
  // Bitonic, every comparison nearest first: what lies past the end counts as farthest and never moves.
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
    // What is farther moves down one place; the farthest of all falls out.
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

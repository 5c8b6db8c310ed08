// The search of knn.wgsl in two steps: all references as f16 first, then f32 for the few that are left of them. Stands between
// knn.wgsl and tile.wgsl, in the place of references.wgsl.
//
//   packed = f16(2^15 r), two numbers in a word; 0 where 2^15 r is below the least normal f16, so that no f16 is subnormal
//   opened = 2^-15 packed; the error of a row is |r - opened|, of what was stored, however the adapter rounds
//   s^     = <anchor, opened> in f32; candidates: the nearest by s^;  s = <anchor, r>, with the bits of `similarity`
//
// pack         one workgroup a row                 packed[row]; measured = the largest (error squared, length squared) of any row
// strip, tile  as in tile.wgsl                     what is nearer by s^ than the farthest candidate goes to survivors, as in knn.wgsl
// rescore      one invocation per query and        survivors[query] = the candidates with their s, counts[query] = how many;
//              candidate                           judged[query] = (s^ of the farthest candidate, length of the anchor squared)

const SCALE = 32768.0;                   // 2^15: a unit row's numbers stay below 65,504, and those from 2^-29 on are normal
const OPEN = 0.000030517578125;          // 2^-15
const LEAST_NORMAL = 0.00006103515625;   // 2^-14

@group(0) @binding(2) var<storage, read> halves: array<vec2u>;       // [references, stride], in strip and tile
@group(0) @binding(2) var<storage, read_write> packed: array<vec2u>;  // the same, in pack
@group(0) @binding(3) var<storage, read_write> measured: array<atomic<u32>>;  // [2], bits of floats that are not negative
@group(0) @binding(3) var<storage, read> candidates: array<vec2u>;    // [rows, k], (bits of s^, id), nearest first, in rescore
@group(0) @binding(4) var<storage, read_write> judged: array<vec2u>;  // [rows], bits, in rescore

var<workgroup> partial: array<vec2f, WORKGROUP_SIZE>;  // 512 bytes, in pack

/// Four numbers. Times 2^-15 loses nothing.
fn opened(halves: vec2u) -> vec4f {
  return OPEN * vec4f(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

/// The vec4 of references that stands at this place, opened: once for all rows where it goes to workgroup memory.
fn reference_at(at: u32) -> vec4f {
  return opened(halves[at]);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn pack(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.x + group.y * groups.x;
  if row >= params.rows {
    return;
  }
  let start = (params.first_row + row) * params.stride;
  var squares = vec2f();  // of the error and of the row
  for (var k = lane; k < params.stride; k += WORKGROUP_SIZE) {
    let v = anchors[start + k];
    let scaled = v * SCALE;
    let normal = select(vec4f(), scaled, abs(scaled) >= vec4f(LEAST_NORMAL));
    let stored = vec2u(pack2x16float(normal.xy), pack2x16float(normal.zw));
    packed[start + k] = stored;
    let error = v - opened(stored);
    squares = vec2f(chain(error, error, squares.x), chain(v, v, squares.y));
  }
  partial[lane] = squares;
  workgroupBarrier();  // all parts are there before they are added
  if lane == 0u {
    var total = vec2f();
    for (var i = 0u; i < WORKGROUP_SIZE; i++) {
      total += partial[i];
    }
    atomicMax(&measured[0], bitcast<u32>(total.x));
    atomicMax(&measured[1], bitcast<u32>(total.y));
  }
}

/// The length of a query's row, squared, summed as a similarity is.
fn squares(query: u32) -> f32 {
  var sum = 0.0;
  for (var start = 0u; start < params.stride; start += BLOCK) {
    var part = 0.0;
    for (var k = start; k < min(start + BLOCK, params.stride); k++) {
      let v = anchors[query * params.stride + k];
      part = chain(v, v, part);
    }
    sum += part;
  }
  return sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn rescore(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = (group.x + group.y * groups.x) * WORKGROUP_SIZE + lane;
  if i >= params.rows * params.k {
    return;
  }
  let query = params.first_row + i / params.k;
  let place = i % params.k;
  let first = query * params.k;
  let id = candidates[first + place].y;
  var entry = NOTHING;
  if id < params.references {
    entry = vec2u(bitcast<u32>(similarity(query, id)), id);
  }
  survivors[query * VISIT + place] = entry;
  if place == 0u {
    atomicStore(&counts[query], params.k);
    // Candidates that lost some say nothing: as if all others were nearer.
    let lost = all(candidates[first] == LOST);
    judged[query] = vec2u(select(candidates[first + params.k - 1u].x, LOST.x, lost), bitcast<u32>(squares(query)));
  }
}

// The search of knn.wgsl in two steps, whose text stands before this one and tile.wgsl's: all references as f16 first, then f32 for
// the few that are left of them.
//
//   packed = f16(2^15 r), two numbers in a word; 0 where 2^15 r is below the least normal f16, so that no f16 is subnormal
//   opened = 2^-15 packed; the error of a row is |r - opened|, of what was stored, however the adapter rounds
//   s^     = <anchor, opened> in f32; candidates: the nearest by s^;  s = <anchor, r>, with the bits of `similarity`
//
// pack         one workgroup a row                 packed[row]; measured = the largest (error squared, length squared) of any row
// look_strip   as strip in tile.wgsl               what is nearer by s^ than the farthest candidate goes to survivors, as in knn.wgsl
// look_tile    as tile in tile.wgsl                the same, with the same bits
// rescore      one invocation per query and        survivors[query] = the candidates with their s, counts[query] = how many;
//              candidate                           judged[query] = (s^ of the farthest candidate, length of the anchor squared)

const SCALE = 32768.0;                   // 2^15: a unit row's numbers stay below 65,504, and those from 2^-29 on are normal
const OPEN = 0.000030517578125;          // 2^-15
const LEAST_NORMAL = 0.00006103515625;   // 2^-14

@group(0) @binding(2) var<storage, read> halves: array<vec2u>;       // [references, stride], in the looks
@group(0) @binding(2) var<storage, read_write> packed: array<vec2u>;  // the same, in pack
@group(0) @binding(3) var<storage, read_write> measured: array<atomic<u32>>;  // [2], bits of floats that are not negative
@group(0) @binding(3) var<storage, read> candidates: array<vec2u>;    // [rows, k], (bits of s^, id), nearest first, in rescore
@group(0) @binding(4) var<storage, read_write> judged: array<vec2u>;  // [rows], bits, in rescore

var<workgroup> partial: array<vec2f, WORKGROUP_SIZE>;  // 512 bytes, in pack

/// Four numbers, times 2^15.
fn unpacked(halves: vec2u) -> vec4f {
  return vec4f(unpack2x16float(halves.x), unpack2x16float(halves.y));
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
    let error = v - unpacked(stored) * OPEN;
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

@compute @workgroup_size(WORKGROUP_SIZE)
fn look_strip(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let columns = (params.references + 4u * WORKGROUP_SIZE - 1u) / (4u * WORKGROUP_SIZE);
  let row = g / columns * 8u;
  let i = (g % columns * WORKGROUP_SIZE + lane) * 4u;
  if row >= params.rows || i >= params.references {
    return;
  }
  let r0 = reference_start(i);
  let r1 = reference_start(i + 1u);
  let r2 = reference_start(i + 2u);
  let r3 = reference_start(i + 3u);
  let a0 = row_start(row);
  let a1 = row_start(row + 1u);
  let a2 = row_start(row + 2u);
  let a3 = row_start(row + 3u);
  let a4 = row_start(row + 4u);
  let a5 = row_start(row + 5u);
  let a6 = row_start(row + 6u);
  let a7 = row_start(row + 7u);
  // Written out: the sums stay in registers.
  var s0 = vec4f();
  var s1 = vec4f();
  var s2 = vec4f();
  var s3 = vec4f();
  var s4 = vec4f();
  var s5 = vec4f();
  var s6 = vec4f();
  var s7 = vec4f();
  for (var start = 0u; start < params.stride; start += BLOCK) {
    var p0 = vec4f();
    var p1 = vec4f();
    var p2 = vec4f();
    var p3 = vec4f();
    var p4 = vec4f();
    var p5 = vec4f();
    var p6 = vec4f();
    var p7 = vec4f();
    for (var k = start; k < min(start + BLOCK, params.stride); k++) {
      let b0 = unpacked(halves[r0 + k]);
      let b1 = unpacked(halves[r1 + k]);
      let b2 = unpacked(halves[r2 + k]);
      let b3 = unpacked(halves[r3 + k]);
      let x = vec4f(b0.x, b1.x, b2.x, b3.x);
      let y = vec4f(b0.y, b1.y, b2.y, b3.y);
      let z = vec4f(b0.z, b1.z, b2.z, b3.z);
      let w = vec4f(b0.w, b1.w, b2.w, b3.w);
      p0 = chains(anchors[a0 + k], x, y, z, w, p0);
      p1 = chains(anchors[a1 + k], x, y, z, w, p1);
      p2 = chains(anchors[a2 + k], x, y, z, w, p2);
      p3 = chains(anchors[a3 + k], x, y, z, w, p3);
      p4 = chains(anchors[a4 + k], x, y, z, w, p4);
      p5 = chains(anchors[a5 + k], x, y, z, w, p5);
      p6 = chains(anchors[a6 + k], x, y, z, w, p6);
      p7 = chains(anchors[a7 + k], x, y, z, w, p7);
    }
    s0 += p0;
    s1 += p1;
    s2 += p2;
    s3 += p3;
    s4 += p4;
    s5 += p5;
    s6 += p6;
    s7 += p7;
  }
  let four = i + vec4u(0u, 1u, 2u, 3u);
  take(row, four, s0 * OPEN);
  take(row + 1u, four, s1 * OPEN);
  take(row + 2u, four, s2 * OPEN);
  take(row + 3u, four, s3 * OPEN);
  take(row + 4u, four, s4 * OPEN);
  take(row + 5u, four, s5 * OPEN);
  take(row + 6u, four, s6 * OPEN);
  take(row + 7u, four, s7 * OPEN);
}

// Unpacked as they come into workgroup memory, once for all rows: there they take what f32 takes.
@compute @workgroup_size(WORKGROUP_SIZE)
fn look_tile(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let stretches = (params.rows + 63u) / 64u;
  let first_row = g % stretches * 64u;
  let first = g / stretches * 128u;
  if first >= params.references {
    return;
  }
  let to = lane % 16u;
  let deep = lane / 16u % 4u;
  let stretch = lane / 64u;
  let bring = to + 16u * stretch;
  let from_row = row_start(first_row + bring);
  let from_near = reference_start(first + bring);
  let from_far = reference_start(first + bring + 64u);
  let x = lane / 2u % 16u;
  let y = lane % 2u + lane / 32u * 2u;
  // One vec4 a reference: x, y, z, w are its four rows.
  var s0 = vec4f();
  var s1 = vec4f();
  var s2 = vec4f();
  var s3 = vec4f();
  var s4 = vec4f();
  var s5 = vec4f();
  var s6 = vec4f();
  var s7 = vec4f();
  var p0 = vec4f();
  var p1 = vec4f();
  var p2 = vec4f();
  var p3 = vec4f();
  var p4 = vec4f();
  var p5 = vec4f();
  var p6 = vec4f();
  var p7 = vec4f();
  for (var start = 0u; start < params.stride; start += DEPTH) {
    workgroupBarrier();  // all are done with the last step
    let k = start + deep;
    if k < params.stride {
      tile_rows[deep][stretch][to] = anchors[from_row + k];
      tile_references[deep][0u][stretch][to] = unpacked(halves[from_near + k]);
      tile_references[deep][1u][stretch][to] = unpacked(halves[from_far + k]);
    }
    workgroupBarrier();  // this step is there
    for (var h = 0u; h < DEPTH; h++) {
      if start + h < params.stride {  // here and not above: a loop of constant length is written out
        let a0 = tile_rows[h][0u][y];
        let a1 = tile_rows[h][1u][y];
        let a2 = tile_rows[h][2u][y];
        let a3 = tile_rows[h][3u][y];
        let xs = vec4f(a0.x, a1.x, a2.x, a3.x);
        let ys = vec4f(a0.y, a1.y, a2.y, a3.y);
        let zs = vec4f(a0.z, a1.z, a2.z, a3.z);
        let ws = vec4f(a0.w, a1.w, a2.w, a3.w);
        p0 = chains(tile_references[h][0u][0u][x], xs, ys, zs, ws, p0);
        p1 = chains(tile_references[h][0u][1u][x], xs, ys, zs, ws, p1);
        p2 = chains(tile_references[h][0u][2u][x], xs, ys, zs, ws, p2);
        p3 = chains(tile_references[h][0u][3u][x], xs, ys, zs, ws, p3);
        p4 = chains(tile_references[h][1u][0u][x], xs, ys, zs, ws, p4);
        p5 = chains(tile_references[h][1u][1u][x], xs, ys, zs, ws, p5);
        p6 = chains(tile_references[h][1u][2u][x], xs, ys, zs, ws, p6);
        p7 = chains(tile_references[h][1u][3u][x], xs, ys, zs, ws, p7);
      }
    }
    if (start + DEPTH) % BLOCK == 0u || start + DEPTH >= params.stride {
      s0 += p0;
      p0 = vec4f();
      s1 += p1;
      p1 = vec4f();
      s2 += p2;
      p2 = vec4f();
      s3 += p3;
      p3 = vec4f();
      s4 += p4;
      p4 = vec4f();
      s5 += p5;
      p5 = vec4f();
      s6 += p6;
      p6 = vec4f();
      s7 += p7;
      p7 = vec4f();
    }
  }
  let near = first + x + vec4u(0u, 16u, 32u, 48u);
  let far = near + 64u;
  let row = first_row + y;
  take(row, near, vec4f(s0.x, s1.x, s2.x, s3.x) * OPEN);
  take(row, far, vec4f(s4.x, s5.x, s6.x, s7.x) * OPEN);
  take(row + 16u, near, vec4f(s0.y, s1.y, s2.y, s3.y) * OPEN);
  take(row + 16u, far, vec4f(s4.y, s5.y, s6.y, s7.y) * OPEN);
  take(row + 32u, near, vec4f(s0.z, s1.z, s2.z, s3.z) * OPEN);
  take(row + 32u, far, vec4f(s4.z, s5.z, s6.z, s7.z) * OPEN);
  take(row + 48u, near, vec4f(s0.w, s1.w, s2.w, s3.w) * OPEN);
  take(row + 48u, far, vec4f(s4.w, s5.w, s6.w, s7.w) * OPEN);
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

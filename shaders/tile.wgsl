// Similarities of the rows of a block to references, four at a time, passed to the pass whose text precedes this one.
//
//   s(row, r) = <anchors[row], references[r]>, a partial sum for every 32 components, both ascending: a long sum rounds
//   less like this. All shapes, and `similarity`, give equal bits.
//
// strip   one invocation per 8 rows and 4 references, no barrier     for adapters with slow barriers
// tile    one workgroup per 64 rows and 128 references, 4 x 8 an invocation, through workgroup memory
// quads   the same, 8 x 8 an invocation, for adapters with many registers: rows are turned round as they are brought in, so that a
//         vec4 there has a component of four, and the next step's are on their way while this one is computed
//
// Workgroups of `tile` and of `quads` that follow each other take the same references with one stretch of rows after the other: references are
// many more than a cache holds, the rows of a block are not. Strips go the other way round: llvmpipe gains nothing by this.
//
// References are stored as stored_f32.wgsl or stored_f16.wgsl says, which comes first of all.
//
// The pass has `params` (first_row, rows, references: number of references it visits, stride), `anchors`, `references`;
// `place(i)`, the place of the i-th reference of its visit; and `take(row, i, s)`, which gets a row of the block and its
// similarities `s` to the references `i` of the visit. Rows and references past the end are its own to leave out.

override WORKGROUP_SIZE: u32;
const BLOCK = 8u;  // vec4s of a partial sum
const DEPTH = 4u;  // vec4s of every row that are in workgroup memory at once, half a block

// Indexed [h][i][y] for row y + 16 i, and [h][j][i][x] for reference x + 16 i + 64 j: i and j are constant where they are read,
// so only x and y are checked against their bounds, and h if its loop is not unrolled.
var<workgroup> tile_rows: array<array<array<vec4f, 16>, 4>, DEPTH>;                  // 4 KiB
var<workgroup> tile_references: array<array<array<array<vec4f, 16>, 4>, 2>, DEPTH>;  // 8 KiB

// In quads, [component][quad]: row and reference 4 q + o are the o-th of quad q. One quad more than there is, so that places that are
// written at once lie apart.
var<workgroup> quad_rows: array<array<vec4f, 17>, 4u * DEPTH>;        // 4,352 bytes
var<workgroup> quad_references: array<array<vec4f, 33>, 4u * DEPTH>;  // 8,448 bytes

/// acc + <a, b>, component by component.
fn chain(a: vec4f, b: vec4f, acc: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, acc))));
}

/// `chain` for four rows or references, whose components x, y, z, w hold.
fn chains(a: vec4f, x: vec4f, y: vec4f, z: vec4f, w: vec4f, acc: vec4f) -> vec4f {
  return fma(vec4f(a.w), w, fma(vec4f(a.z), z, fma(vec4f(a.y), y, fma(vec4f(a.x), x, acc))));
}

fn similarity(row: u32, reference: u32) -> f32 {
  var s = 0.0;
  for (var start = 0u; start < params.stride; start += BLOCK) {
    var part = 0.0;
    for (var k = start; k < min(start + BLOCK, params.stride); k++) {
      part = chain(anchors[row * params.stride + k], floats(references[reference * params.stride + k]), part);
    }
    s += part;
  }
  return s;
}

/// The first vec4 of a row of the block; rows past the end repeat the last.
fn row_start(row: u32) -> u32 {
  return (params.first_row + min(row, params.rows - 1u)) * params.stride;
}

/// The first vec4 of the i-th reference of the visit; those past the end repeat the last.
fn reference_start(i: u32) -> u32 {
  return place(min(i, params.references - 1u)) * params.stride;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn strip(
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
  // Unrolled: the sums stay in registers.
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
      let b0 = floats(references[r0 + k]);
      let b1 = floats(references[r1 + k]);
      let b2 = floats(references[r2 + k]);
      let b3 = floats(references[r3 + k]);
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
  take(row, four, s0);
  take(row + 1u, four, s1);
  take(row + 2u, four, s2);
  take(row + 3u, four, s3);
  take(row + 4u, four, s4);
  take(row + 5u, four, s5);
  take(row + 6u, four, s6);
  take(row + 7u, four, s7);
}

// 4 x 8 and not 8 x 8, as in quads: sums and partial sums are 64 registers, so that several workgroups share a processor.
@compute @workgroup_size(WORKGROUP_SIZE)
fn tile(
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
  // Every invocation brings in one vec4 of a row and of two references for each step of DEPTH; 16 of them fill 256 bytes on end.
  let to = lane % 16u;
  let deep = lane / 16u % 4u;
  let stretch = lane / 64u;
  let bring = to + 16u * stretch;
  let from_row = row_start(first_row + bring);
  let from_near = reference_start(first + bring);
  let from_far = reference_start(first + bring + 64u);
  // Its rows: y, y + 16, ..; its references: x, x + 16, ... At once, 16 invocations read 8 references or 2 rows: 128 bytes at most.
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
      tile_references[deep][0u][stretch][to] = floats(references[from_near + k]);
      tile_references[deep][1u][stretch][to] = floats(references[from_far + k]);
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
  take(row, near, vec4f(s0.x, s1.x, s2.x, s3.x));
  take(row, far, vec4f(s4.x, s5.x, s6.x, s7.x));
  take(row + 16u, near, vec4f(s0.y, s1.y, s2.y, s3.y));
  take(row + 16u, far, vec4f(s4.y, s5.y, s6.y, s7.y));
  take(row + 32u, near, vec4f(s0.z, s1.z, s2.z, s3.z));
  take(row + 32u, far, vec4f(s4.z, s5.z, s6.z, s7.z));
  take(row + 48u, near, vec4f(s0.w, s1.w, s2.w, s3.w));
  take(row + 48u, far, vec4f(s4.w, s5.w, s6.w, s7.w));
}

/// Four rows of the block side by side, as they lie in memory: the k-th vec4 of each.
fn rows_at(starts: vec4u, k: u32) -> mat4x4f {
  return mat4x4f(anchors[starts.x + k], anchors[starts.y + k], anchors[starts.z + k], anchors[starts.w + k]);
}

/// The same of four references.
fn references_at(starts: vec4u, k: u32) -> mat4x4f {
  return mat4x4f(
    floats(references[starts.x + k]), floats(references[starts.y + k]),
    floats(references[starts.z + k]), floats(references[starts.w + k]));
}

/// The next component's products of four rows with four references, each added to its sum: a vec4 of the sums is a row's.
fn products(row: vec4f, reference: vec4f, sums: mat4x4f) -> mat4x4f {
  return mat4x4f(
    fma(row.xxxx, reference, sums[0]), fma(row.yyyy, reference, sums[1]),
    fma(row.zzzz, reference, sums[2]), fma(row.wwww, reference, sums[3]));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn quads(
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
  // Every invocation brings in a vec4 of each of four references for each step of DEPTH, and every other one of four rows.
  // Two invocations next to each other read 32 bytes on end, and eight write to places that lie apart.
  let quad = lane / 2u % 32u;
  let deep = lane % 2u + lane / 64u * 2u;
  let brings_rows = quad < 16u;
  let four = vec4u(0u, 1u, 2u, 3u);
  let of_rows = vec4u(
    row_start(first_row + 4u * quad), row_start(first_row + 4u * quad + 1u),
    row_start(first_row + 4u * quad + 2u), row_start(first_row + 4u * quad + 3u));
  let i = first + 4u * quad + four;
  let of_references = vec4u(reference_start(i.x), reference_start(i.y), reference_start(i.z), reference_start(i.w));
  // Its rows: quads y and y + 8; its references: quads x and x + 16. At once, 32 invocations read 8 quads of references and 4 of rows.
  let x = lane % 8u + lane / 32u % 2u * 8u;
  let y = lane / 8u % 4u + lane / 64u * 4u;
  var s0 = mat4x4f();
  var s1 = mat4x4f();
  var s2 = mat4x4f();
  var s3 = mat4x4f();
  var p0 = mat4x4f();
  var p1 = mat4x4f();
  var p2 = mat4x4f();
  var p3 = mat4x4f();
  let last = params.stride - 1u;
  var next_rows = mat4x4f();
  if brings_rows {
    next_rows = rows_at(of_rows, min(deep, last));
  }
  var next_references = references_at(of_references, min(deep, last));
  for (var start = 0u; start < params.stride; start += DEPTH) {
    workgroupBarrier();  // all are done with the last step
    // Turned round: a vec4 has a component of all four.
    if brings_rows {
      let turned = transpose(next_rows);
      quad_rows[4u * deep][quad] = turned[0];
      quad_rows[4u * deep + 1u][quad] = turned[1];
      quad_rows[4u * deep + 2u][quad] = turned[2];
      quad_rows[4u * deep + 3u][quad] = turned[3];
    }
    let turned = transpose(next_references);
    quad_references[4u * deep][quad] = turned[0];
    quad_references[4u * deep + 1u][quad] = turned[1];
    quad_references[4u * deep + 2u][quad] = turned[2];
    quad_references[4u * deep + 3u][quad] = turned[3];
    workgroupBarrier();  // this step is there
    // The next one is on its way meanwhile; past the last nothing is read of it.
    let k = min(start + DEPTH + deep, last);
    if brings_rows {
      next_rows = rows_at(of_rows, k);
    }
    next_references = references_at(of_references, k);
    for (var h = 0u; h < DEPTH; h++) {
      if start + h < params.stride {
        for (var c = 4u * h; c < 4u * h + 4u; c++) {
          let a = quad_rows[c][y];
          let b = quad_rows[c][y + 8u];
          let near = quad_references[c][x];
          let far = quad_references[c][x + 16u];
          p0 = products(a, near, p0);
          p1 = products(a, far, p1);
          p2 = products(b, near, p2);
          p3 = products(b, far, p3);
        }
      }
    }
    if (start + DEPTH) % BLOCK == 0u || start + DEPTH >= params.stride {
      s0 += p0;
      s1 += p1;
      s2 += p2;
      s3 += p3;
      p0 = mat4x4f();
      p1 = mat4x4f();
      p2 = mat4x4f();
      p3 = mat4x4f();
    }
  }
  let near = first + 4u * x + four;
  let far = near + 64u;
  for (var o = 0u; o < 4u; o++) {
    let row = first_row + 4u * y + o;
    take(row, near, s0[0]);
    take(row, far, s1[0]);
    take(row + 32u, near, s2[0]);
    take(row + 32u, far, s3[0]);
    // The next row comes first: no index that only the device knows.
    s0 = mat4x4f(s0[1], s0[2], s0[3], s0[0]);
    s1 = mat4x4f(s1[1], s1[2], s1[3], s1[0]);
    s2 = mat4x4f(s2[1], s2[2], s2[3], s2[0]);
    s3 = mat4x4f(s3[1], s3[2], s3[3], s3[0]);
  }
}

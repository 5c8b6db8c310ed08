// Similarities of the rows of a block to references, four at a time, handed to the pass whose text stands before this one.
//
//   s(row, r) = <anchors[row], references[r]>, a partial sum for every 32 components, both ascending: a long sum rounds
//   less like this. Both shapes, and `similarity`, give equal bits.
//
// strip   one invocation per 8 rows and 4 references, no barrier     for adapters that pay dearly for barriers
// tile    one workgroup per 128 rows and 128 references, 8 x 8 an invocation, through workgroup memory
//
// Workgroups of `tile` that follow each other take the same references with one stretch of rows after the other: references are
// many more than a cache holds, the rows of a block are not. Strips go the other way round: llvmpipe gains nothing by this.
//
// The pass has `params` (first_row, rows, references: how many it visits, stride), `anchors`, `references`;
// `place(i)`, where the i-th reference of its visit stands; and `take(row, i, s)`, which gets a row of the block and its
// similarities `s` to the references `i` of the visit. Rows and references past the end are its own to leave out.

override WORKGROUP_SIZE: u32;
const BLOCK = 8u;  // vec4s of a partial sum
const DEPTH = 4u;  // vec4s of every row that are in workgroup memory at once, half a block

// Indexed [h][j][x] for reference x + 16 j, and [h][j][y] for row y + 16 j: j is constant where they are read, so only h, x and y are held to their bounds.
var<workgroup> tile_rows: array<array<array<vec4f, 16>, 8>, DEPTH>;        // 8 KiB
var<workgroup> tile_references: array<array<array<vec4f, 16>, 8>, DEPTH>;  // 8 KiB

/// acc + <a, b>, component by component.
fn chain(a: vec4f, b: vec4f, acc: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, acc))));
}

/// The same for four references, whose components x, y, z, w hold.
fn chains(a: vec4f, x: vec4f, y: vec4f, z: vec4f, w: vec4f, acc: vec4f) -> vec4f {
  return fma(vec4f(a.w), w, fma(vec4f(a.z), z, fma(vec4f(a.y), y, fma(vec4f(a.x), x, acc))));
}

fn similarity(row: u32, reference: u32) -> f32 {
  var s = 0.0;
  for (var start = 0u; start < params.stride; start += BLOCK) {
    var part = 0.0;
    for (var k = start; k < min(start + BLOCK, params.stride); k++) {
      part = chain(anchors[row * params.stride + k], references[reference * params.stride + k], part);
    }
    s += part;
  }
  return s;
}

/// The vec4 where a row of the block begins; rows past the end repeat the last.
fn row_start(row: u32) -> u32 {
  return (params.first_row + min(row, params.rows - 1u)) * params.stride;
}

/// The vec4 where the i-th reference of the visit begins; those past the end repeat the last.
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
      let b0 = references[r0 + k];
      let b1 = references[r1 + k];
      let b2 = references[r2 + k];
      let b3 = references[r3 + k];
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

@compute @workgroup_size(WORKGROUP_SIZE)
fn tile(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let stretches = (params.rows + 127u) / 128u;
  let first_row = g % stretches * 128u;
  let first = g / stretches * 128u;
  if first >= params.references {
    return;
  }
  // Every invocation brings in half of one row and half of one reference for each step of DEPTH.
  let bring = lane / 2u;
  let half = lane % 2u * 2u;
  let from_row = row_start(first_row + bring);
  let from_reference = reference_start(first + bring);
  let y = lane / 16u;  // its rows: y, y + 16, ..; its references: x, x + 16, ..
  let x = lane % 16u;
  var s0 = array(vec4f(), vec4f());
  var s1 = array(vec4f(), vec4f());
  var s2 = array(vec4f(), vec4f());
  var s3 = array(vec4f(), vec4f());
  var s4 = array(vec4f(), vec4f());
  var s5 = array(vec4f(), vec4f());
  var s6 = array(vec4f(), vec4f());
  var s7 = array(vec4f(), vec4f());
  var p0 = array(vec4f(), vec4f());
  var p1 = array(vec4f(), vec4f());
  var p2 = array(vec4f(), vec4f());
  var p3 = array(vec4f(), vec4f());
  var p4 = array(vec4f(), vec4f());
  var p5 = array(vec4f(), vec4f());
  var p6 = array(vec4f(), vec4f());
  var p7 = array(vec4f(), vec4f());
  for (var start = 0u; start < params.stride; start += DEPTH) {
    workgroupBarrier();  // all are done with the last step
    for (var h = half; h < half + 2u; h++) {
      let k = start + h;
      if k < params.stride {
        tile_rows[h][bring / 16u][bring % 16u] = anchors[from_row + k];
        tile_references[h][bring / 16u][bring % 16u] = references[from_reference + k];
      }
    }
    workgroupBarrier();  // this step is there
    for (var h = 0u; h < min(DEPTH, params.stride - start); h++) {
      let b0 = tile_references[h][0u][x];
      let b1 = tile_references[h][1u][x];
      let b2 = tile_references[h][2u][x];
      let b3 = tile_references[h][3u][x];
      let b4 = tile_references[h][4u][x];
      let b5 = tile_references[h][5u][x];
      let b6 = tile_references[h][6u][x];
      let b7 = tile_references[h][7u][x];
      let x0 = vec4f(b0.x, b1.x, b2.x, b3.x);
      let y0 = vec4f(b0.y, b1.y, b2.y, b3.y);
      let z0 = vec4f(b0.z, b1.z, b2.z, b3.z);
      let w0 = vec4f(b0.w, b1.w, b2.w, b3.w);
      let x1 = vec4f(b4.x, b5.x, b6.x, b7.x);
      let y1 = vec4f(b4.y, b5.y, b6.y, b7.y);
      let z1 = vec4f(b4.z, b5.z, b6.z, b7.z);
      let w1 = vec4f(b4.w, b5.w, b6.w, b7.w);
      let a0 = tile_rows[h][0u][y];
      p0 = array(chains(a0, x0, y0, z0, w0, p0[0]), chains(a0, x1, y1, z1, w1, p0[1]));
      let a1 = tile_rows[h][1u][y];
      p1 = array(chains(a1, x0, y0, z0, w0, p1[0]), chains(a1, x1, y1, z1, w1, p1[1]));
      let a2 = tile_rows[h][2u][y];
      p2 = array(chains(a2, x0, y0, z0, w0, p2[0]), chains(a2, x1, y1, z1, w1, p2[1]));
      let a3 = tile_rows[h][3u][y];
      p3 = array(chains(a3, x0, y0, z0, w0, p3[0]), chains(a3, x1, y1, z1, w1, p3[1]));
      let a4 = tile_rows[h][4u][y];
      p4 = array(chains(a4, x0, y0, z0, w0, p4[0]), chains(a4, x1, y1, z1, w1, p4[1]));
      let a5 = tile_rows[h][5u][y];
      p5 = array(chains(a5, x0, y0, z0, w0, p5[0]), chains(a5, x1, y1, z1, w1, p5[1]));
      let a6 = tile_rows[h][6u][y];
      p6 = array(chains(a6, x0, y0, z0, w0, p6[0]), chains(a6, x1, y1, z1, w1, p6[1]));
      let a7 = tile_rows[h][7u][y];
      p7 = array(chains(a7, x0, y0, z0, w0, p7[0]), chains(a7, x1, y1, z1, w1, p7[1]));
    }
    if (start + DEPTH) % BLOCK == 0u || start + DEPTH >= params.stride {
      s0 = array(s0[0] + p0[0], s0[1] + p0[1]);
      p0 = array(vec4f(), vec4f());
      s1 = array(s1[0] + p1[0], s1[1] + p1[1]);
      p1 = array(vec4f(), vec4f());
      s2 = array(s2[0] + p2[0], s2[1] + p2[1]);
      p2 = array(vec4f(), vec4f());
      s3 = array(s3[0] + p3[0], s3[1] + p3[1]);
      p3 = array(vec4f(), vec4f());
      s4 = array(s4[0] + p4[0], s4[1] + p4[1]);
      p4 = array(vec4f(), vec4f());
      s5 = array(s5[0] + p5[0], s5[1] + p5[1]);
      p5 = array(vec4f(), vec4f());
      s6 = array(s6[0] + p6[0], s6[1] + p6[1]);
      p6 = array(vec4f(), vec4f());
      s7 = array(s7[0] + p7[0], s7[1] + p7[1]);
      p7 = array(vec4f(), vec4f());
    }
  }
  let near = first + x + vec4u(0u, 16u, 32u, 48u);
  let far = near + 64u;
  let row = first_row + y;
  take(row, near, s0[0]);
  take(row, far, s0[1]);
  take(row + 16u, near, s1[0]);
  take(row + 16u, far, s1[1]);
  take(row + 32u, near, s2[0]);
  take(row + 32u, far, s2[1]);
  take(row + 48u, near, s3[0]);
  take(row + 48u, far, s3[1]);
  take(row + 64u, near, s4[0]);
  take(row + 64u, far, s4[1]);
  take(row + 80u, near, s5[0]);
  take(row + 80u, far, s5[1]);
  take(row + 96u, near, s6[0]);
  take(row + 96u, far, s6[1]);
  take(row + 112u, near, s7[0]);
  take(row + 112u, far, s7[1]);
}

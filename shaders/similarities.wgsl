// The similarities of a block of rows to all references, for passes that look at a row more than once.
//
//   s[row][i] = value(<anchors[row], references[i]>), and NONE past the references up to a whole vec4
//   value     = the similarity, or minus the distance
//
// strip, tile   see tile.wgsl

const NONE = -3.0;  // below every value
const L2 = 1u;      // any other distance: cosine

struct Params {
  stride: u32,      // vec4s of a row of anchors or references
  first_row: u32,   // the block's first row, in the anchors
  rows: u32,        // rows of the block
  references: u32,
  width: u32,       // floats of a row of similarities: the references in whole vec4s
  distance: u32,    // what a similarity counts for
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> anchors: array<vec4f>;
@group(0) @binding(2) var<storage, read> references: array<Stored>;
@group(0) @binding(3) var<storage, read_write> similarities: array<f32>;  // [rows, width]

fn place(i: u32) -> u32 {
  return i;
}

fn take(row: u32, i: vec4u, s: vec4f) {
  if row < params.rows {
    put(row, i.x, s.x);
    put(row, i.y, s.y);
    put(row, i.z, s.z);
    put(row, i.w, s.w);
  }
}

/// Value of a similarity: itself, or minus the distance.
fn value(s: f32) -> f32 {
  if params.distance == L2 {
    return -sqrt(max(0.0, 2.0 - 2.0 * s));
  }
  return s;
}

fn put(row: u32, i: u32, s: f32) {
  if i < params.width {
    similarities[row * params.width + i] = select(NONE, value(s), i < params.references);
  }
}

// The hardest triplet of each row: its farthest positive and its nearest negative. Follows ranks.wgsl and tile.wgsl.
//
//   found[chunk][row] = (s_ap, id, s_an, id), bits of the similarities; of equally far or near ones the smaller id
//
// pick   one workgroup a row and chunk of CHUNK references   found; NO_ID if the chunk has no such reference

const CHUNK = 4096u;
const NO_ID = 0xffffffffu;

@group(0) @binding(5) var<storage, read_write> found: array<vec4u>;  // [chunks, rows]

var<workgroup> picked: array<vec4u, WORKGROUP_SIZE>;  // 4 KiB

/// The candidate of the smaller `sign * similarity`, of equals that of the smaller id; both are (similarity's bits, id).
fn smaller(a: vec2u, b: vec2u, sign: f32) -> vec2u {
  if a.y == NO_ID || b.y == NO_ID {
    return select(a, b, a.y == NO_ID);
  }
  let s_a = sign * bitcast<f32>(a.x);
  let s_b = sign * bitcast<f32>(b.x);
  return select(a, b, s_b < s_a || (s_b == s_a && b.y < a.y));
}

fn harder(a: vec4u, b: vec4u) -> vec4u {
  return vec4u(smaller(a.xy, b.xy, 1.0), smaller(a.zw, b.zw, -1.0));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn pick(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let i = g % params.rows;
  let start = g / params.rows * CHUNK;
  if start >= params.references {
    return;
  }
  let row = batch[params.batch + i];
  var own = vec4u(0u, NO_ID, 0u, NO_ID);
  for (var r = start + lane; r < min(start + CHUNK, params.references); r += WORKGROUP_SIZE) {
    let tag = tags[r];
    let candidate = vec2u(bitcast<u32>(similarity(params.first_row + i, r)), tag.y);
    if tag.x != row.x {
      own = vec4u(own.xy, smaller(own.zw, candidate, -1.0));
    } else if tag.y != row.y {
      own = vec4u(smaller(own.xy, candidate, 1.0), own.zw);
    }
  }
  picked[lane] = own;
  for (var half = WORKGROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();  // what the stage before picked is there
    if lane < half {
      picked[lane] = harder(picked[lane], picked[lane + half]);
    }
  }
  if lane == 0u {
    found[g] = picked[0];
  }
}

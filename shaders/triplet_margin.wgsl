// Every triplet (anchor, positive, negative) of a batch, counted and differentiated without being stored.
// Follows ranks.wgsl, tile.wgsl and meeting.wgsl.
//
//   G_a = sum over references of weight * reference     weights as meeting.wgsl has them
//   d loss / d anchor = G_a / active
//   sum of count * v = <G_a, anchor>                    cosine
//                    = 2 <G_a, anchor> - 2 sum of weights      l2, as v = -|dv/ds|^-1 and v^2 = 2 - 2 s
//
// mine                    one workgroup per 8 rows, segment   h[lo] += 1, h[hi] -= 1; totals; the segment's part of G and weights
// finish                  one workgroup a row                 c in place of h; G = parts ascending, then segments of positives in
//                                                             their order; the row's term beside <G_a, anchor>; in windows of both
// share_with_references   one workgroup per 8 references      G of in-batch references: += sum over anchors of weight * anchor
//
// Sums over rows or references go in segments of SEGMENT, one owner each, ascending: the bits of mine and of finish do not
// depend on the workgroup's size.

const OWNERS = 8u;       // rows that one workgroup serves
const AHEAD = 8u;        // parts that are on their way at once
const FARTHEST = 1024u;  // how far from its place a threshold is looked for

@group(0) @binding(1) var<storage, read_write> terms: array<u32>;       // the report, in finish
@group(0) @binding(7) var<storage, read_write> parts: array<vec4f>;     // [segments, rows, stride + 1], in mine
@group(0) @binding(7) var<storage, read> summands: array<vec4f>;        // the same, in finish
@group(0) @binding(8) var<storage, read_write> gradient: array<vec4f>;  // in finish and references

var<workgroup> weights: array<array<f32, OWNERS>, SEGMENT>;  // 8 KiB

fn threshold(i: u32) -> vec2u {
  return ordered[i];
}

/// The similarities of OWNERS rows of the block, from `first` on, to one reference. Written out: the sums stay in registers.
fn similarities(first: u32, reference: u32) -> array<f32, OWNERS> {
  let a = vec4u(row_start(first), row_start(first + 1u), row_start(first + 2u), row_start(first + 3u));
  let b = vec4u(row_start(first + 4u), row_start(first + 5u), row_start(first + 6u), row_start(first + 7u));
  var s = vec4f();
  var t = vec4f();
  for (var start = 0u; start < params.stride; start += BLOCK) {
    var p = vec4f();
    var q = vec4f();
    for (var k = start; k < min(start + BLOCK, params.stride); k++) {
      let r = floats(references[reference * params.stride + k]);
      p.x = chain(anchors[a.x + k], r, p.x);
      p.y = chain(anchors[a.y + k], r, p.y);
      p.z = chain(anchors[a.z + k], r, p.z);
      p.w = chain(anchors[a.w + k], r, p.w);
      q.x = chain(anchors[b.x + k], r, q.x);
      q.y = chain(anchors[b.y + k], r, q.y);
      q.z = chain(anchors[b.z + k], r, q.z);
      q.w = chain(anchors[b.w + k], r, q.w);
    }
    s += p;
    t += q;
  }
  return array(s.x, s.y, s.z, s.w, t.x, t.y, t.z, t.w);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn mine(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let g = group.x + group.y * groups.x;
  let first = g / params.segments * OWNERS;
  let segment = g % params.segments;
  if first >= params.rows {
    return;
  }
  let start = segment * SEGMENT;
  var counts: array<u32, TOTALS / 2u>;  // of OWNERS rows with at most 2^24 positives each, and 8 references at most
  for (var place = 0u; place < SEGMENT; place += WORKGROUP_SIZE) {
    let slot = place + lane;
    let reference = min(start + slot, params.references - 1u);
    let s = similarities(first, reference);
    let tag = tags[reference];
    for (var o = 0u; o < OWNERS; o++) {
      var weight = 0.0;
      if first + o < params.rows && start + slot < params.references {
        let row = batch[params.batch + first + o];
        if params.pairs != NOWHERE {
          count_pair(row, tag, s[o]);
        }
        if tag.x != row.x && row.w > 0u {
          let m = meet(row, s[o]);
          if m.low < m.high {
            atomicAdd(&gap_counts[row.z + m.low], 1u);
            atomicSub(&gap_counts[row.z + m.high], 1u);
            weight = f32(m.high - m.low) * slope(s[o]);
          }
          counts[VALID / 2u] += row.w;
          counts[WITHIN / 2u] += m.within;
          counts[HARDER / 2u] += m.hard;
          counts[MINED / 2u] += m.mined.y - m.mined.x;
          counts[ACTIVE / 2u] += m.high - m.low;
        }
      }
      weights[slot][o] = weight;
    }
  }
  for (var i = 0u; i < TOTALS / 2u; i++) {
    if counts[i] > 0u {
      count(i * 2u, counts[i]);
    }
  }
  workgroupBarrier();  // weights, tally and pairs are complete before they are read
  if params.pairs != NOWHERE {
    for (var bin = lane; bin < 2u * BINS; bin += WORKGROUP_SIZE) {
      add_pairs(bin);
    }
  }
  if lane < TOTALS / 2u {
    add(lane * 2u);
  }
  let any_active = (atomicLoad(&tally[ACTIVE]) | atomicLoad(&tally[ACTIVE + 1u])) > 0u;
  let end = min(SEGMENT, params.references - start);
  let width = params.stride + 1u;
  for (var i = lane; i < OWNERS * width; i += WORKGROUP_SIZE) {
    let o = i / width;
    let k = i % width;
    var sum = vec4f();
    if any_active {
      // Four references are loaded at once; those past the last have weight 0.
      for (var r = 0u; r < end; r += 4u) {
        let at = min(vec4u(0u, 1u, 2u, 3u) + start + r, vec4u(params.references - 1u));
        let a = component(at.x, k);
        let b = component(at.y, k);
        let c = component(at.z, k);
        let d = component(at.w, k);
        sum = fma(vec4f(weights[r][o]), a, sum);
        sum = fma(vec4f(weights[r + 1u][o]), b, sum);
        sum = fma(vec4f(weights[r + 2u][o]), c, sum);
        sum = fma(vec4f(weights[r + 3u][o]), d, sum);
      }
    }
    if first + o < params.rows {
      parts[(segment * params.rows + first + o) * width + k] = sum;
    }
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn finish(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group.x + group.y * groups.x;
  if i >= params.rows {
    return;
  }
  let row = batch[params.batch + i];
  let is_first = params.first_part == 0u && params.first_positive == 0u;
  if is_first {
    sum_gap_counts(row, lane);
  }
  storageBarrier();  // every c is there before it is used
  let width = params.stride + 1u;
  let term = params.report + TERMS + params.first_row + i;
  let end = min(params.end_positive, row.w);
  for (var first_k = 0u; first_k < width; first_k += WORKGROUP_SIZE) {
    // Invocations have a component each, in as many segments of positives at once as there are invocations for.
    let components = min(width - first_k, WORKGROUP_SIZE);
    let at_once = WORKGROUP_SIZE / components;
    let segment = lane / components;
    let k = first_k + lane % components;
    var total = vec4f();
    if segment == 0u {
      if !is_first {
        // The sum so far, of the windows before. A power of two scales without rounding; for cosine the sum of weights is not kept.
        if k < params.stride {
          total = gradient[(params.first_row + i) * params.stride + k];
        } else {
          total = vec4f(-0.5 * bitcast<f32>(terms[term]));
        }
      }
      for (var part = params.first_part; part < params.end_part; part += AHEAD) {
        for (var ahead = 0u; ahead < AHEAD; ahead++) {
          let at = min(part + ahead, params.end_part - 1u);
          let next = total + summands[(at * params.rows + i) * width + k];
          total = select(total, next, part + ahead < params.end_part);
        }
      }
    }
    for (var start = params.first_positive; start < end; start += at_once * SEGMENT) {
      let sum = pull_of_positives(row, start + segment * SEGMENT, select(0u, end, segment < at_once), k);
      if start + SEGMENT >= end {
        total += sum;  // the only segment that is left: nothing to bring together
        break;
      }
      sums[lane] = sum;
      workgroupBarrier();  // the segments are summed before they are added, in their order
      if segment == 0u {
        for (var s = 0u; s < at_once && start + s * SEGMENT < end; s++) {
          total += sums[s * components + lane];
        }
      }
      workgroupBarrier();  // and added before the next take their place
    }
    if segment == 0u {
      if k < params.stride {
        gradient[(params.first_row + i) * params.stride + k] = total;
      } else {
        let beside = select(0.0, -2.0 * total.x, params.distance == L2);
        terms[term] = bitcast<u32>(beside);
      }
    }
  }
}

/// Place of the row's threshold with this id, which must be one of them: the place of its similarity, or the nearest to it with the
/// id, since a similarity that is computed again may differ in its last bits.
fn place_of(row: vec4u, s: f32, id: u32) -> u32 {
  let near = min(farther(row, vec2u(bitcast<u32>(s), id)), row.w - 1u);
  for (var away = 0u; away < min(row.w, FARTHEST); away++) {
    if near + away < row.w && ordered[row.z + near + away].y == id {
      return near + away;
    }
    if away <= near && ordered[row.z + near - away].y == id {
      return near - away;
    }
  }
  return near;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn share_with_references(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let first = (group.x + group.y * groups.x) * OWNERS;
  if first >= params.references {
    return;
  }
  for (var start = 0u; start < params.rows; start += WORKGROUP_SIZE) {
    let i = min(start + lane, params.rows - 1u);
    let row = batch[params.batch + i];
    for (var o = 0u; o < OWNERS; o++) {
      var weight = 0.0;
      if first + o < params.references && start + lane < params.rows && row.w > 0u {
        let tag = tags[first + o];
        let s = similarity(params.first_row + i, first + o);
        if tag.x != row.x {
          let m = meet(row, s);
          weight = f32(m.high - m.low) * slope(s);
        } else if tag.y != row.y {
          let at = row.z + place_of(row, s, tag.y);
          weight = -f32(atomicLoad(&gap_counts[at])) * slope(bitcast<f32>(ordered[at].x));
        }
      }
      weights[lane][o] = weight;
    }
    workgroupBarrier();  // this segment's weights are complete before they are read
    let end = min(WORKGROUP_SIZE, params.rows - start);
    for (var j = lane; j < OWNERS * params.stride; j += WORKGROUP_SIZE) {
      let o = j / params.stride;
      let k = j % params.stride;
      var sum = vec4f();
      for (var a = 0u; a < end; a++) {
        sum = fma(vec4f(weights[a][o]), anchors[(params.first_row + start + a) * params.stride + k], sum);
      }
      if first + o < params.references {
        gradient[(first + o) * params.stride + k] += sum;
      }
    }
    workgroupBarrier();  // and read before the next segment's replace them
  }
}

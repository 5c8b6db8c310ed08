// Every triplet of the rows of a block with references that are few: what ranks.sort_thresholds, triplet_margin.mine and
// triplet_margin.finish make of them, bit for bit, in one dispatch. Follows ranks.wgsl, tile.wgsl and meeting.wgsl.
//
// mine_rows   one workgroup a row   its thresholds, sorted; gap counts: c; totals and pairs of the report; G = segments of references
//                                   ascending, then segments of positives in their order; the row's term beside <G_a, anchor>
//
// A sum over a segment has one owner, as there: no bit depends on how many segments are summed at once.

@group(0) @binding(7) var<storage, read_write> gradient: array<vec4f>;  // the sums so far, too; that of weights in the term

const WINDOW = 2048u;  // references that are weighed before their sums are taken: whole segments

var<workgroup> weights: array<f32, WINDOW>;  // 8 KiB

fn threshold(i: u32) -> vec2u {
  return thresholds[i];
}

/// Finds and sorts the thresholds of the i-th row; called in uniform control flow.
fn sort_row(i: u32, lane: u32) {
  let row = batch[params.batch + i];
  clear_gap_counts(row, lane);
  storageBarrier();  // the count starts at 0
  find_positives(i, i + 1u, 0u, params.references, lane);
  storageBarrier();  // all positives are there, in any order, before they are sorted
  order_thresholds(row.z, row.w, lane);
  if lane == 0u {
    atomicStore(&gap_counts[row.z], 0u);
  }
  storageBarrier();  // all thresholds are sorted before negatives meet them
}

/// Weighs the references from `start` to `end` for the i-th row, and counts its triplets and pairs with them. Those past the last
/// reference have weight 0.
fn weigh_window(i: u32, start: u32, end: u32, lane: u32) {
  let row = batch[params.batch + i];
  var counts: array<u32, TOTALS / 2u>;
  // All invocations take every round, as they do those of `similarity`.
  for (var at = start; at < end; at += WORKGROUP_SIZE) {
    let reference = min(at + lane, params.references - 1u);
    let s = similarity(params.first_row + i, reference);
    let tag = tags[reference];
    var weight = 0.0;
    if at + lane < end {
      if params.pairs != NOWHERE {
        count_pair(row, tag, s);
      }
      if tag.x != row.x && row.w > 0u {
        let m = meet(row, s);
        if m.low < m.high {
          atomicAdd(&gap_counts[row.z + m.low], 1u);
          atomicSub(&gap_counts[row.z + m.high], 1u);
          weight = f32(m.high - m.low) * slope(s);
        }
        counts[VALID / 2u] += row.w;
        counts[WITHIN / 2u] += m.within;
        counts[HARDER / 2u] += m.hard;
        counts[MINED / 2u] += m.mined.y - m.mined.x;
        counts[ACTIVE / 2u] += m.high - m.low;
      }
    }
    weights[at - start + lane] = weight;
  }
  for (var total = 0u; total < TOTALS / 2u; total++) {
    if counts[total] > 0u {
      count(total * 2u, counts[total]);
    }
  }
}

/// The weights of four references, from the i-th of the window on.
fn four_weights(i: u32) -> vec4f {
  return vec4f(weights[i], weights[i + 1u], weights[i + 2u], weights[i + 3u]);
}

/// A component of the sum over the segment that begins at `start`, whose weights begin at the i-th of the window.
fn sum_of_segment(start: u32, end: u32, i: u32, k: u32) -> vec4f {
  var sum = vec4f();
  // Eight references are loaded at once; those past the last have weight 0.
  for (var r = 0u; r < min(SEGMENT, end - start); r += 8u) {
    let at = min(vec4u(0u, 1u, 2u, 3u) + start + r, vec4u(params.references - 1u));
    let then = min(vec4u(4u, 5u, 6u, 7u) + start + r, vec4u(params.references - 1u));
    let a = component(at.x, k);
    let b = component(at.y, k);
    let c = component(at.z, k);
    let d = component(at.w, k);
    let e = component(then.x, k);
    let f = component(then.y, k);
    let g = component(then.z, k);
    let h = component(then.w, k);
    let w = four_weights(i + r);
    let v = four_weights(i + r + 4u);
    sum = fma(w.wwww, d, fma(w.zzzz, c, fma(w.yyyy, b, fma(w.xxxx, a, sum))));
    sum = fma(v.wwww, h, fma(v.zzzz, g, fma(v.yyyy, f, fma(v.xxxx, e, sum))));
  }
  return sum;
}

/// Adds a part to a component of the row's sum: always the same invocation.
fn add_part(i: u32, k: u32, part: vec4f, is_first: bool) {
  let at = (params.first_row + i) * params.stride + k;
  let term = params.report + TERMS + params.first_row + i;
  if k < params.stride {
    gradient[at] = select(gradient[at], vec4f(), is_first) + part;
  } else {
    let sum = select(bitcast<f32>(atomicLoad(&report[term])), 0.0, is_first) + part.x;
    atomicStore(&report[term], bitcast<u32>(sum));
  }
}

/// Adds the segments of the references from `start` to `end`, which are weighed; called in uniform control flow.
fn add_window(i: u32, start: u32, end: u32, lane: u32) {
  let width = params.stride + 1u;
  let at_once = WORKGROUP_SIZE / width;
  let any_active = (atomicLoad(&tally[ACTIVE]) | atomicLoad(&tally[ACTIVE + 1u])) > 0u;
  for (var at = start; at < end; at += at_once * SEGMENT) {
    let own = at + lane / width * SEGMENT;
    sums[lane] = vec4f();
    if any_active && lane < at_once * width && own < end {
      sums[lane] = sum_of_segment(own, end, own - start, lane % width);
    }
    workgroupBarrier();  // the segments are summed before they are added, in their order
    if lane < width {
      for (var s = 0u; s < at_once && at + s * SEGMENT < end; s++) {
        add_part(i, lane, sums[s * width + lane], at + s == 0u);
      }
    }
    workgroupBarrier();  // and added before the next take their place
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn mine_rows(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group.x + group.y * groups.x;
  if i >= params.rows {
    return;
  }
  sort_row(i, lane);
  for (var start = 0u; start < params.references; start += WINDOW) {
    let end = min(start + WINDOW, params.references);
    weigh_window(i, start, end, lane);
    workgroupBarrier();  // the weights of this window are there, and the tally
    add_window(i, start, end, lane);
  }
  if params.pairs != NOWHERE {
    for (var bin = lane; bin < 2u * BINS; bin += WORKGROUP_SIZE) {
      add_pairs(bin);
    }
  }
  if lane < TOTALS / 2u {
    add(lane * 2u);
  }
  storageBarrier();  // every h is there before it is summed
  let row = batch[params.batch + i];
  sum_gap_counts(row, lane);
  storageBarrier();  // every c is there before it is used
  if lane <= params.stride {
    for (var at = 0u; at < row.w; at += SEGMENT) {
      add_part(i, lane, pull_of_positives(row, at, row.w, lane), false);
    }
  }
  if lane == params.stride {
    let term = params.report + TERMS + params.first_row + i;
    let beside = select(0.0, -2.0 * bitcast<f32>(atomicLoad(&report[term])), params.distance == L2);
    atomicStore(&report[term], bitcast<u32>(beside));
  }
}

// Lists of triplets [anchor, positive, negative], lexicographic, written in windows: every valid one, or those of a band.
//
//   kept if low < tm <= high, tm = s_ap - s_an, of similarities or of their values
//   the j-th reference outside a class is j + (number of references of the class, which ascends, before it)
//
// valid      one invocation per RUN triplets   the triplets
// count      one workgroup a cell              number of kept triplets of a pair (anchor, positive) with CELL references
// write      one workgroup a cell              the kept triplets in the window; `offsets` is the prefix sum of the counts
// facenet    one workgroup a pair              the nearest of its negatives that is farther than the positive, else the farthest
// checksum   one invocation per RUN triplets   a number that changes with each and its place, added to the total: integers commute
//
// A pair has a cell for every CELL references; cells of a pair stand together, pairs in the order of rows and positives.

override WORKGROUP_SIZE: u32;
const WORD = 32u;      // references of one invocation of write
const CELL = 2048u;    // WORD * WORKGROUP_SIZE
const RUN = 32u;       // triplets of one invocation of valid and checksum
const NOWHERE = 3.0;   // beyond every value
const NO_PLACE = 0xffffffffu;

struct Params {
  width: u32,       // floats of a row of similarities
  rows: u32,
  references: u32,
  first_pair: u32,  // of the batch, in the block
  first_cell: u32,  // of this dispatch, in the batch
  items: u32,       // cells, pairs or triplets of this dispatch
  low: f32,
  high: f32,
  begin: vec2u,     // valid: the positive and the negative with which the first row begins, by number
  first: u32,       // the first triplet's number: in the window (valid, facenet), the batch (write), the list (checksum)
  room: u32,        // triplets of the window
}

struct Row {
  anchor: u32,
  offset: u32,      // where its triplets begin in the window (valid), or its pairs in the block
  label: u32,
  first: u32,       // where its class begins among the members
  members: u32,     // references of its class
  own: u32,         // its own place among them, which is no positive, or none
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> rows: array<Row>;
@group(0) @binding(2) var<storage, read> members: array<u32>;           // references by class
@group(0) @binding(3) var<storage, read_write> listed: array<u32>;      // in valid: [room, 3]
@group(0) @binding(3) var<storage, read> labels: array<u32>;            // of the references, where there are similarities
@group(0) @binding(4) var<storage, read> similarities: array<f32>;      // [rows, width]
@group(0) @binding(5) var<storage, read_write> counts: array<u32>;      // in count: of each cell of the batch
@group(0) @binding(5) var<storage, read> offsets: array<u32>;           // in write: their prefix sum, and the sum
@group(0) @binding(6) var<storage, read_write> triplets: array<u32>;    // in write and facenet: [room, 3]
@group(0) @binding(1) var<storage, read> summands: array<u32>;          // in checksum: [room, 3]
@group(0) @binding(2) var<storage, read_write> total: atomic<u32>;      // in checksum

var<workgroup> kept: array<u32, WORKGROUP_SIZE>;     // 256 bytes: of each invocation
var<workgroup> found: array<vec4u, WORKGROUP_SIZE>;  // 1 KiB: of each invocation, the nearest beyond and the farthest

/// The last row that begins at or before `item`.
fn row_of(item: u32) -> u32 {
  var low = 0u;
  var high = params.rows;
  while low < high {
    let middle = (low + high) / 2u;
    if rows[middle].offset <= item {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low - 1u;
}

/// The row's j-th positive.
fn positive(row: Row, j: u32) -> u32 {
  return members[row.first + j + u32(j >= row.own)];
}

/// Number of references of the row's class before its j-th negative.
fn members_before(row: Row, j: u32) -> u32 {
  var low = 0u;
  var high = row.members;
  while low < high {
    let middle = (low + high) / 2u;
    if members[row.first + middle] - middle <= j {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn valid(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let item = ((group.x + group.y * groups.x) * WORKGROUP_SIZE + lane) * RUN;
  if item >= params.items {
    return;
  }
  let end = params.first + min(item + RUN, params.items);
  var t = params.first + item;
  var at = row_of(t);
  var row = rows[at];
  let begin = select(vec2u(), params.begin, at == 0u);
  let within = begin.y + t - row.offset;
  let negatives = params.references - row.members;
  var p = begin.x + within / negatives;
  var j = within % negatives;
  var before = members_before(row, j);
  for (; t < end; t++) {
    listed[3u * t] = row.anchor;
    listed[3u * t + 1u] = positive(row, p);
    listed[3u * t + 2u] = j + before;
    j++;
    if at + 1u < params.rows && rows[at + 1u].offset == t + 1u {
      at++;
      row = rows[at];
      p = 0u;
      j = 0u;
      before = members_before(row, j);
    } else if j == params.references - row.members {
      p++;
      j = 0u;
      before = members_before(row, j);
    } else if before < row.members && members[row.first + before] == j + before {
      before = members_before(row, j);
    }
  }
}

/// The triplets of a pair with the references of a cell.
struct Cell {
  row: u32,
  anchor: u32,
  label: u32,
  positive: u32,
  nearness: f32,
  first: u32,
}

fn cell_of(cell: u32) -> Cell {
  let cells = (params.references + CELL - 1u) / CELL;
  let pair = params.first_pair + cell / cells;
  let at = row_of(pair);
  let row = rows[at];
  let p = positive(row, pair - row.offset);
  let nearness = similarities[at * params.width + p];
  return Cell(at, row.anchor, row.label, p, nearness, cell % cells * CELL);
}

fn keeps(cell: Cell, reference: u32) -> bool {
  if reference >= params.references {
    return false;
  }
  let tm = cell.nearness - similarities[cell.row * params.width + reference];
  return labels[reference] != cell.label && tm > params.low && tm <= params.high;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn count(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let item = group.x + group.y * groups.x;
  if item >= params.items {
    return;
  }
  let cell = cell_of(params.first_cell + item);
  var own = 0u;
  for (var step = 0u; step < WORD; step++) {
    own += u32(keeps(cell, cell.first + step * WORKGROUP_SIZE + lane));
  }
  kept[lane] = own;
  workgroupBarrier();  // all have counted
  if lane == 0u {
    var sum = 0u;
    for (var i = 0u; i < WORKGROUP_SIZE; i++) {
      sum += kept[i];
    }
    counts[params.first_cell + item] = sum;
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn write(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let item = group.x + group.y * groups.x;
  if item >= params.items {
    return;
  }
  let at = params.first_cell + item;
  if offsets[at] == offsets[at + 1u] {
    return;
  }
  let cell = cell_of(at);
  let first = cell.first + lane * WORD;
  var bits = 0u;
  for (var i = 0u; i < WORD; i++) {
    bits |= u32(keeps(cell, first + i)) << i;
  }
  kept[lane] = countOneBits(bits);
  workgroupBarrier();  // all have counted
  // A number before the window wraps round to one past its end.
  var place = offsets[at] - params.first;
  for (var i = 0u; i < lane; i++) {
    place += kept[i];
  }
  while bits != 0u {
    let i = firstTrailingBit(bits);
    bits &= bits - 1u;
    if place < params.room {
      triplets[3u * place] = cell.anchor;
      triplets[3u * place + 1u] = cell.positive;
      triplets[3u * place + 2u] = first + i;
    }
    place++;
  }
}

/// Two references as [bits of the value, place]: the nearest beyond the positive, and the farthest. The first of equal ones.
struct Found {
  beyond: vec2u,
  farthest: vec2u,
}

/// The nearer of two entries, of equals the first; `a` may be none.
fn nearer(a: vec2u, b: vec2u) -> vec2u {
  let x = bitcast<f32>(a.x);
  let y = bitcast<f32>(b.x);
  return select(a, b, y > x || (y == x && b.y < a.y));
}

fn farther(a: vec2u, b: vec2u) -> vec2u {
  let x = bitcast<f32>(a.x);
  let y = bitcast<f32>(b.x);
  return select(a, b, y < x || (y == x && b.y < a.y));
}

/// What was found, and a reference of this class.
fn met(old: Found, own_class: u32, nearness: f32, class_met: u32, i: u32, v: f32) -> Found {
  var all = old;
  if class_met != own_class {
    let here = vec2u(bitcast<u32>(v), i);
    all.farthest = farther(all.farthest, here);
    if v < nearness {
      all.beyond = nearer(all.beyond, here);
    }
  }
  return all;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn facenet(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let item = group.x + group.y * groups.x;
  if item >= params.items {
    return;
  }
  let pair = params.first_pair + item;
  let at = row_of(pair);
  let row = rows[at];
  let p = positive(row, pair - row.offset);
  let nearness = similarities[at * params.width + p];
  var own = Found(vec2u(bitcast<u32>(-NOWHERE), NO_PLACE), vec2u(bitcast<u32>(NOWHERE), NO_PLACE));
  // Four references are loaded at once; those past the last are the last.
  for (var i = lane; i < params.references; i += 4u * WORKGROUP_SIZE) {
    let four = min(i + WORKGROUP_SIZE * vec4u(0u, 1u, 2u, 3u), vec4u(params.references - 1u));
    let classes = vec4u(labels[four.x], labels[four.y], labels[four.z], labels[four.w]);
    let first = at * params.width;
    let v = vec4f(
      similarities[first + four.x], similarities[first + four.y],
      similarities[first + four.z], similarities[first + four.w]);
    own = met(own, row.label, nearness, classes.x, four.x, v.x);
    own = met(own, row.label, nearness, classes.y, four.y, v.y);
    own = met(own, row.label, nearness, classes.z, four.z, v.z);
    own = met(own, row.label, nearness, classes.w, four.w, v.w);
  }
  found[lane] = vec4u(own.beyond, own.farthest);
  workgroupBarrier();  // all have looked
  if lane == 0u {
    for (var i = 1u; i < WORKGROUP_SIZE; i++) {
      own.beyond = nearer(own.beyond, found[i].xy);
      own.farthest = farther(own.farthest, found[i].zw);
    }
    let t = 3u * (params.first + item);
    triplets[t] = row.anchor;
    triplets[t + 1u] = p;
    triplets[t + 2u] = select(own.beyond.y, own.farthest.y, own.beyond.y == NO_PLACE);
  }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn checksum(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let item = ((group.x + group.y * groups.x) * WORKGROUP_SIZE + lane) * RUN;
  if item >= params.items {
    return;
  }
  var sum = 0u;
  for (var t = item; t < min(item + RUN, params.items); t++) {
    let triplet = summands[3u * t] * 0x9e3779b1u + summands[3u * t + 1u] * 0x85ebca77u + summands[3u * t + 2u] * 0xc2b2ae3du;
    sum += triplet * (2u * (params.first + t) + 1u);
  }
  atomicAdd(&total, sum);
}

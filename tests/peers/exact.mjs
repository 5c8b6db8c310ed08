// Whether neighbours are those of f64, and a test of that question itself.
import { QUERIES, REFERENCES, uniform } from "./rows.mjs";

/** 4 units in the last place of a similarity near 1: what f32 cannot tell apart may stand in any order. */
const CLUSTER = 4 * 2 ** -24;

/** Rows over their lengths, in f64. */
export function unit(rows, dim) {
  const out = Float64Array.from(rows);
  for (let first = 0; first < out.length; first += dim) {
    const row = out.subarray(first, first + dim);
    const norm = Math.hypot(...row);
    row.forEach((value, i) => (row[i] = value / norm));
  }
  return out;
}

/** The similarities of one query to all references. */
function similarities(query, references, out) {
  const dim = query.length;
  for (let id = 0, at = 0; id < out.length; id += 1, at += dim) {
    let sum = 0;
    for (let i = 0; i < dim; i += 1) sum += query[i] * references[at + i];
    out[id] = sum;
  }
}

/** The `k` largest values and where they are, largest first; of equal ones the first. */
function largest(values, k) {
  const [best, places] = [new Float64Array(k).fill(-Infinity), new Uint32Array(k)];
  for (let i = 0; i < values.length; i += 1) {
    if (values[i] <= best[k - 1]) continue;
    let at = k - 1;
    for (; at > 0 && best[at - 1] < values[i]; at -= 1) {
      best[at] = best[at - 1];
      places[at] = places[at - 1];
    }
    best[at] = values[i];
    places[at] = i;
  }
  return [best, places];
}

/**
 * How many queries' neighbours are not those of f64, and the largest error of a similarity. Queries and references are
 * unit rows in f64, what was found `[queries, k]`.
 *
 * A reference may stand where another is expected whose similarity f32 cannot tell from its own; none stands twice.
 */
export function compare(queries, references, dim, k, found) {
  const [count, exact] = [queries.length / dim, new Float64Array(references.length / dim)];
  if (found.ids.length !== count * k || found.similarities.length !== count * k) return { wrong: count, error: NaN };
  let [wrong, error] = [0, 0];
  for (let query = 0; query < count; query += 1) {
    similarities(queries.subarray(query * dim, (query + 1) * dim), references, exact);
    const [expected] = largest(exact, k);
    const ids = found.ids.slice(query * k, (query + 1) * k);
    let right = new Set(ids).size === k;
    for (let place = 0; place < k; place += 1) {
      // A number that no reference has gives NaN, and NaN is not near.
      const own = exact[ids[place]] ?? NaN;
      right &&= Math.abs(own - expected[place]) <= CLUSTER;
      const off = Math.abs(found.similarities[query * k + place] - own);
      error = Number.isNaN(off) ? NaN : Math.max(error, off);
    }
    wrong += right ? 0 : 1;
  }
  return { wrong, error };
}

/** Plants faults in right neighbours, one query at a time: how many were counted, and whether the right ones pass. */
export function plant() {
  const [dim, k, count] = [16, 12, 20];
  const queries = unit(uniform(QUERIES, count, dim), dim);
  const references = unit(uniform(REFERENCES, 300, dim), dim);
  const exact = new Float64Array(300);
  const nearest = Array.from({ length: count }, (_, query) => {
    similarities(queries.subarray(query * dim, (query + 1) * dim), references, exact);
    const [best, places] = largest(exact, k + 1);
    return { ids: [...places], similarities: [...best].map(Math.fround) };
  });
  const right = (of) => nearest.flatMap((row) => row[of].slice(0, k));
  const check = (ids) => compare(queries, references, dim, k, { ids, similarities: right("similarities") });
  let rejected = 0;
  for (let fault = 0; fault < count; fault += 1) {
    const [ids, at] = [right("ids"), fault * k + (fault % (k - 1))];
    const kinds = [
      () => ([ids[at], ids[at + 1]] = [ids[at + 1], ids[at]]),
      // One left out: those behind it come closer.
      () => ids.splice(at, (fault + 1) * k - at, ...nearest[fault].ids.slice((fault % (k - 1)) + 1)),
      () => (ids[at + 1] = ids[at]),
      () => (ids[at] = 300 + fault),
      // The neighbours of another query.
      () => ids.splice(fault * k, k, ...nearest[(fault + 1) % count].ids.slice(0, k)),
    ];
    kinds[fault % kinds.length]();
    rejected += check(ids).wrong === 1 ? 1 : 0;
  }
  const passed = check(right("ids"));
  return { planted: count, rejected, passes: passed.wrong === 0 && passed.error < 1e-7 };
}

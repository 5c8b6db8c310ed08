// The rows of src/speed/bench/rows.rs, bit for bit: what Nearfar makes for itself is made here for the peer and for the check.

/** The rows that ask, and the rows that are searched. */
export const [QUERIES, REFERENCES] = [1, 2];

/** The `index`-th random word of a stream. */
export function word(stream, index) {
  let word = (Math.imul(stream, 0x9e3779b9) + index) | 0;
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return (word ^ (word >>> 16)) >>> 0;
}

/** Values from -1 up to 1, `[rows, dim]`. */
export function uniform(stream, rows, dim) {
  return Float32Array.from({ length: rows * dim }, (_, i) => (word(stream, i) >>> 8) / 8388608 - 1);
}

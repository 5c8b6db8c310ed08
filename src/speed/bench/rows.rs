//! Rows of the bench, made by a few lines of integer arithmetic, so that anybody who compares results can make the same rows in
//! another language, bit for bit.

/// Stream of the queries.
pub(super) const QUERIES: u32 = 1;
/// Stream of the references.
pub(super) const REFERENCES: u32 = 2;

/// The `index`-th random word of a stream: the finalizer of `MurmurHash3` on a counter.
pub(super) fn word(stream: u32, index: u32) -> u32 {
    let mut word = stream.wrapping_mul(0x9e37_79b9).wrapping_add(index);
    word = (word ^ (word >> 16)).wrapping_mul(0x85eb_ca6b);
    word = (word ^ (word >> 13)).wrapping_mul(0xc2b2_ae35);
    word ^ (word >> 16)
}

/// Values in [-1, 1), multiples of 2^-23: value `i` follows from word `i`.
pub(super) fn uniform(stream: u32, rows: usize, dim: usize) -> Vec<f32> {
    let value = |i: usize| (word(stream, i as u32) >> 8) as f32 / (1 << 23) as f32 - 1.0;
    (0..rows * dim).map(value).collect()
}

/// Rows of signs: as many values of one size as the largest power of four that `dim` holds, the rest 0.
///
/// They are exactly unit and their inner products exact in f32, ties included, so that ranks must equal the reference's.
pub(super) fn signs(stream: u32, rows: usize, dim: usize) -> Vec<f32> {
    let count = 1 << (dim.ilog2() & !1);
    let size = 1.0 / f64::from(count as u32).sqrt() as f32;
    let mut values = vec![0.0; rows * dim];
    for (row, values) in values.chunks_mut(dim).enumerate() {
        let first = word(!stream, row as u32) as usize % dim;
        for i in 0..count {
            let negative = word(stream, (row * count + i) as u32) >> 31 == 1;
            values[(first + i) % dim] = if negative { -size } else { size };
        }
    }
    values
}

/// A class for each row.
pub(super) fn labels(stream: u32, rows: usize, classes: usize) -> Vec<u32> {
    let label = |row: usize| word(!stream ^ 1 << 31, row as u32) % classes as u32;
    (0..rows).map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_everywhere() {
        // The words that tests/peers/rows.mjs gives.
        let words = [
            word(QUERIES, 0),
            word(QUERIES, 1),
            word(REFERENCES, 640_000),
        ];
        assert_eq!(words, [2_462_723_854, 2_527_132_011, 3_562_347_875]);
        assert_eq!(uniform(QUERIES, 1, 2), [0.146_795_15, 0.176_787_5]);
    }

    #[test]
    fn uniform_rows_are_spread_and_streams_differ() {
        let values = uniform(QUERIES, 1000, 64);
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / 64_000.0;
        // Five standard errors.
        assert!(mean.abs() < 0.012, "{mean}");
        assert_ne!(values, uniform(REFERENCES, 1000, 64));
    }

    #[test]
    fn rows_of_signs_are_unit_in_any_dimension() {
        for dim in [1, 3, 4, 63, 64, 100, 128, 256] {
            for row in signs(QUERIES, 20, dim).chunks(dim) {
                assert_eq!(row.iter().map(|v| v * v).sum::<f32>(), 1.0, "{dim}");
            }
        }
    }
}

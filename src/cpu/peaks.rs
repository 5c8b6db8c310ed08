//! The arithmetic peak of all cores.

use pulp::{Arch, Simd, WithSimd};

use super::parallel::map;

/// Floats of a part: enough of them for every core.
const PART: usize = 4096;

/// 256 steps of 8 dependent multiply-adds for each float.
pub fn multiply_add(output: &mut [f32], value: f32) {
    let parts = output.chunks_mut(PART).enumerate().collect();
    map(parts, |(i, output)| {
        Arch::new().dispatch(Chains {
            first: i * PART,
            value,
            output,
        });
    });
}

struct Chains<'a> {
    first: usize,
    value: f32,
    output: &'a mut [f32],
}

impl WithSimd for Chains<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let value = simd.splat_f32s(self.value);
        for (i, output) in self.output.chunks_mut(S::F32_LANES).enumerate() {
            let first = self.first + i * S::F32_LANES;
            // Every four floats have a `b` of their own; no vector is longer than 64.
            let b: [f32; 64] = std::array::from_fn(|lane| ((first + lane) / 4) as f32 * 1e-9);
            let b = simd.partial_load_f32s(&b[..output.len()]);
            let mut chains: [S::f32s; 8] =
                std::array::from_fn(|c| simd.add_f32s(b, simd.splat_f32s(c as f32)));
            for _ in 0..256 {
                for chain in &mut chains {
                    *chain = simd.mul_add_e_f32s(*chain, value, b);
                }
            }
            let sum = chains.into_iter().reduce(|sum, x| simd.add_f32s(sum, x));
            simd.partial_store_f32s(output, sum.expect("there are eight"));
        }
    }
}

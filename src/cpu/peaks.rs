//! The arithmetic peak of one thread.

/// 256 steps of 8 dependent multiply-adds for each float.
pub(crate) fn multiply_add(output: &mut [f32], value: f32) {
    for (i, four) in output.chunks_exact_mut(4).enumerate() {
        let b = i as f32 * 1e-9;
        let mut chains = [[0.0; 4]; 8];
        for (c, chain) in chains.iter_mut().enumerate() {
            *chain = [b + c as f32; 4];
        }
        for _ in 0..256 {
            for chain in &mut chains {
                *chain = chain.map(|x| x * value + b);
            }
        }
        for (lane, out) in four.iter_mut().enumerate() {
            *out = chains.iter().map(|chain| chain[lane]).sum();
        }
    }
}

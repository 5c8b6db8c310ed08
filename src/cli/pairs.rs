//! `nearfar mine --out` of miners that keep positives and negatives of each anchor: PML's index arrays.

use std::path::Path;

use nearfar::{Miner, NpzWriter, Pairs, Result, triplets_header};

use super::files::Output;

/// Writes the pairs; of batch-hard, where they come in twos, the triplets.
pub(super) fn write(path: &Path, miner: &Miner, pairs: &Pairs) -> Result<()> {
    if let Miner::BatchHard(_) = miner {
        let triplets = pairs.a1.iter().zip(&pairs.p).zip(&pairs.n);
        let numbers: Vec<u32> = triplets.flat_map(|((a, p), n)| [*a, *p, *n]).collect();
        let mut file = Output::create(path)?;
        file.write(&triplets_header(pairs.a1.len() as u64))?;
        file.write(bytemuck::cast_slice(&numbers))?;
        return file.finish();
    }
    let mut file = NpzWriter::new(path.display().to_string(), Output::create(path)?);
    for (name, numbers) in [
        ("a1", &pairs.a1),
        ("p", &pairs.p),
        ("a2", &pairs.a2),
        ("n", &pairs.n),
    ] {
        file.array(name, &[numbers.len()], [numbers])?;
    }
    file.finish()?.finish()
}

//! `nearfar mine --out` for miners that keep positives and negatives of each anchor: PML's index arrays. They are spooled to files
//! beside the result as they come, as they may need far more than memory holds.

use std::path::Path;

use nearfar::{KeptOfAnchor, Miner, NpzWriter, Result, triplets_header};

use super::output::{Output, Spool};

/// The file in progress.
pub(super) struct File<'a> {
    path: &'a Path,
    output: Output,
    kept: Kept,
}

/// Pairs so far.
enum Kept {
    /// Triplets of batch-hard, which keeps one positive and one negative of an anchor.
    Triplets(Vec<u32>),
    /// Numbers of positives and negatives of each anchor, and the positives and negatives themselves.
    Pairs {
        counts: Vec<[u32; 2]>,
        positives: Spool,
        negatives: Spool,
    },
}

impl<'a> File<'a> {
    /// Creates the file, before anything is mined.
    pub(super) fn create(path: &'a Path, miner: &Miner, inputs: &[&str]) -> Result<Self> {
        let output = Output::create(path, inputs)?;
        let kept = match miner {
            Miner::BatchHard(_) => Kept::Triplets(Vec::new()),
            _ => Kept::Pairs {
                counts: Vec::new(),
                positives: output.spool()?,
                negatives: output.spool()?,
            },
        };
        Ok(Self { path, output, kept })
    }

    /// Adds the pairs of the next anchor.
    pub(super) fn add(&mut self, of: KeptOfAnchor<'_>) -> Result<()> {
        match &mut self.kept {
            Kept::Triplets(numbers) => {
                for (p, n) in of.positives.iter().zip(of.negatives) {
                    numbers.extend([of.anchor, *p, *n]);
                }
                Ok(())
            }
            Kept::Pairs {
                counts,
                positives,
                negatives,
            } => {
                counts.push([of.positives.len() as u32, of.negatives.len() as u32]);
                positives.write(bytemuck::cast_slice(of.positives))?;
                negatives.write(bytemuck::cast_slice(of.negatives))
            }
        }
    }

    /// Completes the file and gives it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        match self.kept {
            Kept::Triplets(numbers) => {
                let count = numbers.len() as u64 / 3;
                self.output.write(&triplets_header(count))?;
                self.output.write(bytemuck::cast_slice(&numbers))?;
                self.output.finish()
            }
            Kept::Pairs {
                counts,
                positives,
                negatives,
            } => {
                let mut file = NpzWriter::new(self.path.display().to_string(), self.output);
                let sides = [("a1", "p", positives), ("a2", "n", negatives)];
                for (side, (of_anchors, of_others, others)) in sides.into_iter().enumerate() {
                    let count: u64 = counts.iter().map(|of| u64::from(of[side])).sum();
                    let anchors = (0u32..)
                        .zip(&counts)
                        .map(|(anchor, of)| vec![anchor; of[side] as usize]);
                    file.array(of_anchors, &[count as usize], anchors)?;
                    file.array_from::<u32>(of_others, &[count], others.read()?)?;
                }
                file.finish()?.finish()
            }
        }
    }
}

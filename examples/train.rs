//! Trains a head on a sample, within 64 MiB, and says whether it was worth it: `cargo run --release --example train`.

use std::rc::Rc;

use nearfar::{Dataset, Engine, EngineChoice, Progress, Result, Run};

fn main() -> Result<()> {
    pollster::block_on(async {
        // A GPU if there is one, else the CPU; no buffer of the run goes beyond the budget.
        let engine = Engine::open(&EngineChoice::default(), 64 << 20).await?;
        let dataset = Rc::new(Dataset::sample("mirrored", 0)?);
        // The settings that suit the data, but for one.
        let config = dataset.default_config().with_set("evaluate_every=150")?;
        let mut run = Run::new(engine, dataset, config).await?;
        while !run.is_finished() {
            if let Progress::Evaluated(scores) = run.next(150).await? {
                let nearest = scores.validation.map(|scores| scores.precision_at_1);
                println!("step {}: precision@1 {nearest:.3?}", scores.step);
            }
        }
        println!("{}", run.verdict().unwrap_or_default());
        Ok(())
    })
}

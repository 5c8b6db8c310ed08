//! Counts the semi-hard triplets of labelled rows, and takes the loss of them and its gradient: `cargo run --release --example mine`.

use nearfar::{
    Dataset, Distance, Engine, EngineChoice, Loss, Miner, Result, Rows, TripletMarginLoss,
    TripletMarginMiner, TypeOfTriplets, Wanted, mine,
};

fn main() -> Result<()> {
    pollster::block_on(async {
        let engine = Engine::open(&EngineChoice::default(), 256 << 20).await?;
        let digits = Dataset::sample("digits", 0)?;
        let labels: Vec<String> = digits
            .labels
            .iter()
            .map(|label| digits.class_names[*label as usize].clone())
            .collect();
        let rows = Rows {
            rows: &digits.features,
            labels: &labels,
        };
        let miner = Miner::TripletMargin(TripletMarginMiner {
            margin: 0.1,
            type_of_triplets: TypeOfTriplets::Semihard,
        });
        let loss = Loss::TripletMargin(TripletMarginLoss::default());
        // The rows are their own references; no list of triplets is made.
        let wanted = Wanted::Gradient(&loss);
        let mined = mine(
            &engine,
            rows,
            None,
            &miner,
            Distance::Cosine,
            wanted,
            |_, _| {},
        )
        .await?;
        println!(
            "{} of {} triplets are kept, {} have a loss above 0, their mean is {:.4}; the gradient has {} numbers",
            mined.mining.mined,
            mined.mining.valid,
            mined.mining.active,
            mined.loss,
            mined.gradient.len(),
        );
        Ok(())
    })
}

//! Scores embeddings by their labels, every row a query among all others: `cargo run --release --example evaluate`.

use nearfar::{Dataset, Engine, EngineChoice, Result, Rows, evaluate};

fn main() -> Result<()> {
    pollster::block_on(async {
        let engine = Engine::open(&EngineChoice::default(), 64 << 20).await?;
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
        let found = evaluate(&engine, rows, None, &[1, 10], |_done, _all| {}).await?;
        let metrics = found.metrics;
        println!(
            "precision@1 {:.4}, R-precision {:.4}, MAP@R {:.4} over {} queries",
            metrics.precision_at_1,
            metrics.r_precision,
            metrics.mean_average_precision_at_r,
            metrics.queries,
        );
        Ok(())
    })
}

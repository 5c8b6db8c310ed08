//! Finds the three nearest of 10,000 rows for two queries, exactly: `cargo run --release --example search`.

use nearfar::{Engine, EngineChoice, KnnIndex, Result, RowSource};

/// Rows of 16 numbers that follow from their own number.
fn rows(numbers: std::ops::Range<usize>) -> RowSource {
    let value = |i: usize| {
        let mixed = (i as u32).wrapping_mul(0x9e37_79b1);
        let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca77);
        (mixed ^ (mixed >> 13)) as f32 / 2f32.powi(31) - 1.0
    };
    RowSource::Memory {
        values: numbers
            .flat_map(|row| (0..16).map(move |i| value(row * 16 + i)))
            .collect(),
        dim: 16,
    }
}

fn main() -> Result<()> {
    pollster::block_on(async {
        let engine = Engine::open(&EngineChoice::default(), 64 << 20).await?;
        let (references, queries) = (rows(0..10_000), rows(20_000..20_002));
        let mut index = KnnIndex::new(&engine, &references, Some(&queries), 3).await?;
        let found = index.search(Some(&queries), |_done, _all| {}).await?;
        for (query, ids) in found.ids.chunks(found.k).enumerate() {
            let similarities = &found.similarities[query * found.k..][..found.k];
            println!("query {query}: rows {ids:?}, cosine similarity {similarities:.4?}");
        }
        println!("{} bytes of memory at most", engine.ledger().peak_bytes());
        Ok(())
    })
}

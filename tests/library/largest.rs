//! The values that a refusal offers fit, and are the largest that do.

use nearfar::{Dataset, Error, Rate, Room, TrainConfig, Trainer};
use rand::{RngExt as _, SeedableRng as _};

fn plans(room: &Room, dataset: &Dataset, config: &TrainConfig) -> Result<u64, Error> {
    let forecast = Trainer::plan(room, dataset, config, &Rate::default())?;
    Ok(forecast.memory.total_bytes())
}

#[test]
fn a_refusal_offers_the_largest_value_of_each_setting_that_fits() {
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(8);
    let losses = ["triplet-margin", "nt-xent", "proxy-anchor", "margin"];
    let (mut refused, mut offered) = (0, [0; 3]);
    for case in 0..200 {
        let config = TrainConfig::default()
            .with_set(&format!("loss.name={}", losses[case % losses.len()]))
            .and_then(|config| {
                config.with_set(&format!("batch_size={}", 1 << rng.random_range(2..13)))
            })
            .and_then(|config| {
                config.with_set(&format!("memory_size={}", 1 << rng.random_range(12..18)))
            })
            .and_then(|config| {
                config.with_set(&format!("embedding_size={}", rng.random_range(2..600)))
            })
            .and_then(|config| {
                config.with_set(&format!("hidden_layers=[{}]", rng.random_range(1..900)))
            });
        let config = config.expect("sets");
        if config.check().is_err() {
            continue;
        }
        let budget_bytes = rng.random_range(1..40u64) << 20;
        let room = Room {
            free_bytes: budget_bytes,
            budget_bytes,
            max_buffer_bytes: 1 << 30,
        };
        let Err(error) = plans(&room, &dataset, &config) else {
            continue;
        };
        let text = error.to_string();
        // Other refusals, such as of a batch of more rows than train, have no memory to blame.
        let (Error::Refused { fits, .. } | Error::TooLarge { fits, .. }) = error else {
            continue;
        };
        refused += 1;
        for (setting, value) in fits {
            let set = |value: usize| {
                config
                    .with_set(&format!("{setting}={value}"))
                    .expect("sets")
            };
            let bytes = plans(&room, &dataset, &set(value)).expect("fits");
            assert!(bytes <= budget_bytes);
            assert!(
                plans(&room, &dataset, &set(value + 1)).is_err(),
                "{setting}={value} is not the largest"
            );
            assert!(text.contains(&format!("{setting}={value}")), "{text}");
            let at = ["memory_size", "batch_size", "embedding_size"]
                .iter()
                .position(|name| *name == setting);
            offered[at.expect("is known")] += 1;
        }
    }
    assert!(
        refused > 40 && offered.iter().all(|count| *count > 5),
        "{refused} {offered:?}"
    );
}

//! PML's memory as the plan and the page tell it, beside the peaks of PML's own steps (`tests/golden/pml_peaks.py`).

use nearfar::{Dataset, Loss, Miner, TrainConfig, Trainer};
use serde_json::{Map, Value};

/// Bytes that the plan tells for these settings, of rows in so many classes.
fn planned(dataset: &mut Dataset, settings: &Map<String, Value>) -> u64 {
    let classes = settings["classes"].as_u64().expect("a number");
    dataset.class_names = vec![String::new(); classes as usize];
    // Margins follow the distance: it comes first.
    let mut sets: Vec<(&String, &Value)> = settings
        .iter()
        .filter(|(key, _)| *key != "classes")
        .collect();
    sets.sort_by_key(|(key, _)| *key != "distance");
    let start = TrainConfig::default().with_set("embedding_size=64");
    let config = sets.iter().fold(start, |config, (key, value)| {
        let value = value.to_string();
        config?.with_set(&format!("{key}={}", value.trim_matches('"')))
    });
    Trainer::plan_pml(dataset, &config.expect("sets"))
}

#[test]
fn the_plan_tells_pmls_peak_to_within_a_tenth() {
    #[derive(serde::Deserialize)]
    struct Case {
        settings: Map<String, Value>,
        peak_bytes: f64,
    }
    let golden = include_str!("../golden/pml_peaks.json");
    let cases: Vec<Case> = serde_json::from_str(golden).expect("golden");
    let mut dataset = Dataset::sample("digits", 0).expect("is there");
    let mut wrong = Vec::new();
    for Case {
        settings,
        peak_bytes,
    } in &cases
    {
        let part = planned(&mut dataset, settings) as f64 / peak_bytes;
        println!("{part:.3} {settings:?}");
        if !(0.9..=1.1).contains(&part) {
            wrong.push(format!("{part:.3} of {peak_bytes}: {settings:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let named = |key: &str, name: &str| cases.iter().any(|case| case.settings[key] == name);
    for (name, _) in Loss::ALL {
        assert!(named("loss.name", name), "{name} was not measured");
    }
    for (name, _) in Miner::ALL {
        // PML has none of this kind.
        assert!(
            named("miner.name", name) || name == "facenet-semihard",
            "{name} was not measured"
        );
    }
}

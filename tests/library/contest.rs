//! What a comparison asks for: its entries from grids, recipes and presets, and the refusals.

use nearfar::{CompareConfig, Contest, Dataset, Preset, TrainConfig};

fn settled(asked: &CompareConfig) -> Result<Contest, String> {
    let dataset = Dataset::sample("mirrored", 0).expect("is there");
    Contest::new(&dataset, asked).map_err(|error| error.to_string())
}

fn names(asked: &CompareConfig) -> Vec<String> {
    let contest = settled(asked).expect("holds");
    contest.entries.into_iter().map(|e| e.name).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn grids(grids: &[&str]) -> CompareConfig {
    CompareConfig {
        grids: strings(grids),
        ..CompareConfig::default()
    }
}

#[test]
fn the_data_is_read_with_the_columns_that_settings_name() {
    let columns = |sets: &[&str]| {
        let asked = CompareConfig {
            sets: sets.iter().map(|set| (*set).to_owned()).collect(),
            ..CompareConfig::default()
        };
        asked.of_data().expect("sets").columns()
    };
    assert_eq!(
        columns(&["steps=3", "split=random", "group=site"]),
        ["site"]
    );
    assert_eq!(columns(&["split=column:fold"]), ["fold"]);
    let outer = ["sampler=hierarchical", "sampler.outer_label=genus"];
    assert_eq!(columns(&outer), ["genus"]);
}

#[test]
fn grids_multiply_and_a_linear_head_comes_along() {
    let asked = grids(&["memory_size=0,1024", "hidden_layers=[64,32],[256]"]);
    assert_eq!(
        names(&asked),
        [
            "memory_size=0, hidden_layers=[64,32]",
            "memory_size=0, hidden_layers=[256]",
            "memory_size=1024, hidden_layers=[64,32]",
            "memory_size=1024, hidden_layers=[256]",
            "linear head"
        ]
    );
    // A linear head that is an entry already is not added.
    assert_eq!(names(&grids(&["hidden_layers=[]"])), ["hidden_layers=[]"]);
}

#[test]
fn settings_hold_for_all_but_for_what_is_compared() {
    let suited = TrainConfig::default();
    let sets = [
        "loss.name=multi-similarity",
        "loss.alpha=3",
        "memory_size=0",
        "steps=30",
        "seed=3",
    ];
    let (config, problems) = suited.with_sets(&strings(&sets));
    assert!(problems.is_empty(), "{problems:?}");
    let taken = |asked: CompareConfig| asked.with_settings(&config, &suited).sets;
    let settings = |sets: &[String]| {
        let mut sets = sets.iter();
        sets.try_fold(suited.clone(), |config, set| config.with_set(set))
    };
    // Set one after the other they reproduce the settings: the name of the loss comes before its arguments.
    let all = taken(grids(&["batch_size=8,16"]));
    assert_eq!(settings(&all).expect("can be set"), config, "{all:?}");
    // A loss that is compared has its own arguments.
    let losses = taken(grids(&["loss.name=triplet-margin,contrastive"]));
    assert_eq!(losses, ["memory_size=0", "seed=3", "steps=30"]);
    assert_eq!(taken(CompareConfig::default()), ["seed=3", "steps=30"]);
    let memory = taken(CompareConfig {
        preset: Some(Preset::Memory),
        ..CompareConfig::default()
    });
    assert!(
        memory.contains(&"loss.alpha=3.0".to_owned())
            && !memory.contains(&"memory_size=0".to_owned()),
        "{memory:?}"
    );
    // Settings that are asked for come later, and so override.
    let asked = CompareConfig {
        sets: strings(&["steps=5"]),
        ..CompareConfig::default()
    };
    assert_eq!(taken(asked), ["seed=3", "steps=30", "steps=5"]);
}

#[test]
fn recipes_and_presets_stand_side_by_side_and_what_is_set_holds_for_all() {
    let asked = CompareConfig {
        recipes: strings(&["single-cell", "proxy-anchor"]),
        preset: Some(Preset::Memory),
        sets: strings(&["steps=10", "seed=7"]),
        ..CompareConfig::default()
    };
    let contest = settled(&asked).expect("holds");
    assert_eq!(contest.entries.len(), 6);
    assert_eq!(contest.seeds, [7, 8, 9]);
    for entry in &contest.entries {
        assert_eq!(entry.config.steps, 10, "{}", entry.name);
        assert_eq!(entry.config.data_seed, Some(7), "{}", entry.name);
        assert_eq!(entry.config.split, contest.base.split, "{}", entry.name);
    }
}

#[test]
fn every_preset_and_the_default_settle_on_every_sample() {
    for sample in ["mirrored", "many-classes", "digits", "cells"] {
        let dataset = Dataset::sample(sample, 0).expect("is there");
        for preset in Preset::ALL.map(|(.., preset)| Some(preset)).into_iter() {
            for preset in [preset, None] {
                let asked = CompareConfig {
                    preset,
                    ..CompareConfig::default()
                };
                let contest = Contest::new(&dataset, &asked);
                contest.unwrap_or_else(|error| panic!("{sample}, {preset:?}: {error}"));
            }
        }
    }
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let refused = |asked: &CompareConfig| settled(asked).expect_err("refused");
    for (asked, message) in [
        (
            grids(&["memory_size"]),
            "\"memory_size\" tries nothing: write key=value,value",
        ),
        (
            grids(&["split=random,by-class"]),
            "split is the same for all entries, so that they answer the same queries: set it for all of them",
        ),
        (
            grids(&["seed=0,1"]),
            "seed is the same for all entries, so that they answer the same queries: give the number of seeds",
        ),
        (
            grids(&["memory_size=0,0"]),
            "\"memory_size=0\" and \"memory_size=0\" are the same settings: leave one of them out",
        ),
        (
            grids(&["memory_size=8"]),
            "memory_size=8: memory_size is 8: it must be 0, or at least batch_size and at most 16777216",
        ),
        (
            CompareConfig {
                seeds: 0,
                ..CompareConfig::default()
            },
            "seeds is 0: it must be between 1 and 100",
        ),
        (
            CompareConfig {
                sets: strings(&["validation_fraction=0"]),
                ..CompareConfig::default()
            },
            "entries are ranked on the validation rows, and none of the 0 has another of its class there: raise \
             validation_fraction",
        ),
    ] {
        assert_eq!(refused(&asked), message);
    }
    let many: Vec<String> = (1..=300).map(|steps| steps.to_string()).collect();
    let many = grids(&[&format!("steps={}", many.join(","))]);
    assert_eq!(
        refused(&many),
        "300 entries are too many: compare at most 256"
    );
    let unknown = Preset::named("loss")
        .expect_err("there is none")
        .to_string();
    assert!(
        unknown.ends_with("there are memory, losses, samplers"),
        "{unknown}"
    );
}

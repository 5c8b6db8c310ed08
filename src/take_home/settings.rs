//! The settings of a run as the page's link carries them.

use crate::config::TrainConfig;

/// How a link names a sample of the library, and a file, which it cannot carry.
const SAMPLE: &str = "sample:";
const FILE: &str = "file:";

/// What stands behind `#` in the page's address: the data, and the settings that differ from those that suit it, as
/// `application/x-www-form-urlencoded`.
pub fn link(data: &str, config: &TrainConfig, defaults: &TrainConfig) -> String {
    let data = match data.strip_prefix(SAMPLE) {
        Some(sample) => sample.to_owned(),
        None => format!("{FILE}{data}"),
    };
    let mut link = form_urlencoded::Serializer::new(String::new());
    link.append_pair("data", &data);
    link.extend_pairs(config.differences(defaults));
    link.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_the_data_and_what_differs() {
        let defaults = TrainConfig::default();
        assert_eq!(link("sample:digits", &defaults, &defaults), "data=digits");
        let set = |config: TrainConfig, set: &str| config.with_set(set).expect("sets");
        let config = set(set(defaults.clone(), "steps=9"), "hidden_layers=[8,4]");
        assert_eq!(
            link("a&b #c.csv", &config, &defaults),
            "data=file%3Aa%26b+%23c.csv&hidden_layers=%5B8%2C4%5D&steps=9"
        );
    }
}

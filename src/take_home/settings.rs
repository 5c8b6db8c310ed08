//! The settings of a run as a link to the page, `#data=digits&memory_size=0`: only the differences from the data's defaults. Data
//! from a file is named, `data=file:trees.csv`: a link cannot carry it.

use crate::base::quote::quoted;
use crate::data::SAMPLES;
use crate::engine::device::EngineKind;
use crate::rules::config::TrainConfig;

/// Prefixes of a sample of the library, and of a file, which a link cannot carry.
const SAMPLE: &str = "sample:";
const FILE: &str = "file:";

/// Default sizes of imagined data: rows, features and classes. `#plan` alone asks for them.
pub const IMAGINED: &str = "600000x128x1000";

/// The part after `#` in the page's address: the data, and the settings that differ from those that suit it, as
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

/// Content of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// A forced engine, from `?engine=`.
    pub engine: Option<EngineKind>,
    /// Bytes from which on features stay in their file, from `?stream_from=`: for computers with little memory, and for tests.
    pub stream_from: Option<u64>,
    /// Name of the data: `sample:` and a sample's, or a file's.
    pub data: Option<String>,
    /// Settings, `key=value` each.
    pub sets: Vec<String>,
    /// Messages on parts that make no sense, and are left out.
    pub problems: Vec<String>,
}

impl Link {
    /// Reads the parts of an address after `?` and after `#`, with or without these marks.
    pub fn read(query: &str, settings: &str) -> Self {
        let mut link = Self::default();
        for (key, value) in link_pairs(query) {
            match (key.as_str(), value.parse(), value.parse()) {
                ("engine", Ok(engine), _) => link.engine = Some(engine),
                ("engine", Err(message), _) => link.problems.push(message),
                ("stream_from", _, Ok(bytes)) => link.stream_from = Some(bytes),
                _ => {}
            }
        }
        for (key, value) in link_pairs(settings) {
            if key == "plan" {
                link.data = Some(format!("{SAMPLE}{IMAGINED}"));
            } else if key != "data" {
                link.sets.push(format!("{key}={value}"));
            } else if let Some(file) = value.strip_prefix(FILE) {
                link.data = Some(file.to_owned());
            } else {
                let name = value.strip_prefix(SAMPLE).unwrap_or(&value);
                // Sizes alone, as in `#data=600000x128x1000`, stand for imagined data.
                if SAMPLES.contains(&name)
                    || name.split('x').all(|size| size.parse::<u64>().is_ok())
                {
                    link.data = Some(format!("{SAMPLE}{name}"));
                } else {
                    let known = SAMPLES.join(" or ");
                    link.problems
                        .push(format!("there is no sample {}, but {known}", quoted(name)));
                }
            }
        }
        link
    }
}

/// Keys and values of a part of an address, in order.
pub fn link_pairs(part: &str) -> Vec<(String, String)> {
    let pairs = form_urlencoded::parse(part.trim_start_matches(['#', '?']).as_bytes());
    pairs.into_owned().collect()
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

    #[test]
    fn a_link_asks_for_what_it_names_and_says_what_makes_no_sense() {
        let read = Link::read(
            "?engine=cpu&stream_from=9&other",
            "#data=file%3Aa%26b+%23c.csv&steps=9",
        );
        let expected = Link {
            engine: Some(EngineKind::Cpu),
            stream_from: Some(9),
            data: Some("a&b #c.csv".to_owned()),
            sets: vec!["steps=9".to_owned()],
            problems: Vec::new(),
        };
        assert_eq!(read, expected);
        let odd = Link::read("engine=abacus&stream_from=-1", "data=nothing");
        assert_eq!((odd.stream_from, odd.data, odd.engine), (None, None, None));
        assert_eq!(odd.problems.len(), 2, "{:?}", odd.problems);
        let imagined = Link::read("", "data=600x8x30").data;
        assert_eq!(imagined.as_deref(), Some("sample:600x8x30"));
        let planned = Link::read("", "#plan&steps=9");
        assert_eq!(planned.data.as_deref(), Some("sample:600000x128x1000"));
        assert_eq!(
            (planned.sets, planned.problems),
            (vec!["steps=9".to_owned()], Vec::new())
        );
    }
}

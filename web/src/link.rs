//! The settings in the page's link: `#data=digits&memory_size=0`, only what differs from the data's defaults. Data from a
//! file is named, `data=file:trees.csv`: a link cannot carry it.

use leptos::prelude::*;
use nearfar::{EngineKind, SAMPLES, TrainConfig};
use wasm_bindgen::JsValue;
use web_sys::UrlSearchParams;

const SAMPLE: &str = "sample:";
const FILE: &str = "file:";

/// What a link asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// A forced engine, from `?engine=`.
    pub(crate) engine: Option<EngineKind>,
    /// From how many bytes on features stay in their file, from `?stream_from=`: for who has little memory, and for tests.
    pub(crate) stream_from: Option<u64>,
    /// The name of the data: `sample:` and a sample's, or a file's.
    pub(crate) data: Option<String>,
    /// Settings, `key=value` each.
    pub(crate) sets: Vec<String>,
    /// What makes no sense, and is left out.
    pub(crate) problems: Vec<String>,
}

impl Link {
    /// Reads the address of the page.
    pub(crate) fn read() -> Self {
        let mut link = Self::default();
        for (key, value) in query() {
            match (key.as_str(), value.parse(), value.parse()) {
                ("engine", Ok(engine), _) => link.engine = Some(engine),
                ("engine", Err(message), _) => link.problems.push(message),
                ("stream_from", _, Ok(bytes)) => link.stream_from = Some(bytes),
                _ => {}
            }
        }
        for (key, value) in pairs(window().location().hash()) {
            if key != "data" {
                link.sets.push(format!("{key}={value}"));
            } else if let Some(file) = value.strip_prefix(FILE) {
                link.data = Some(file.to_owned());
            } else {
                let name = value.strip_prefix(SAMPLE).unwrap_or(&value);
                // Sizes alone, as in `#data=600000x128x1000`, are data that is imagined.
                if SAMPLES.contains(&name)
                    || name.split('x').all(|size| size.parse::<u64>().is_ok())
                {
                    link.data = Some(format!("{SAMPLE}{name}"));
                } else {
                    let known = SAMPLES.join(" or ");
                    link.problems
                        .push(format!("there is no sample \"{name}\", but {known}"));
                }
            }
        }
        link
    }
}

/// The pairs of the page's query, in order.
pub(crate) fn query() -> Vec<(String, String)> {
    pairs(window().location().search())
}

/// The pairs of a part of the address, in order.
fn pairs(part: Result<String, JsValue>) -> Vec<(String, String)> {
    let part = part.unwrap_or_default();
    let entries = UrlSearchParams::new_with_str(part.trim_start_matches(['#', '?']))
        .ok()
        .and_then(|query| js_sys::try_iter(&query).ok().flatten());
    let pair = |entry| {
        let pair = js_sys::Array::from(&entry);
        Some((pair.get(0).as_string()?, pair.get(1).as_string()?))
    };
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(pair)
        .collect()
}

/// Keeps the address in step with the data and the settings, without a new entry in the history.
pub(crate) fn write(data: &str, config: &TrainConfig, defaults: &TrainConfig) {
    let parts = nearfar::link(data, config, defaults);
    let location = window().location();
    let path = location.pathname().unwrap_or_default() + &location.search().unwrap_or_default();
    if let Ok(history) = window().history() {
        let url = format!("{path}#{parts}");
        history
            .replace_state_with_url(&JsValue::NULL, "", Some(&url))
            .ok();
    }
}

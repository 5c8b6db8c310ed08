//! The settings in the page's link: `#data=digits&memory_size=0`, only what differs from the data's defaults.

use leptos::prelude::*;
use nearfar::{EngineKind, TrainConfig};
use wasm_bindgen::JsValue;
use web_sys::UrlSearchParams;

/// What a link asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// A forced engine, from `?engine=`.
    pub(crate) engine: Option<EngineKind>,
    /// The sample.
    pub(crate) sample: Option<String>,
    /// Settings, `key=value` each.
    pub(crate) sets: Vec<String>,
}

impl Link {
    /// Reads the address of the page; what makes no sense is left out and said.
    pub(crate) fn read() -> (Self, Option<String>) {
        let location = window().location();
        let mut link = Self::default();
        let mut problem = None;
        let query = location
            .search()
            .ok()
            .and_then(|query| UrlSearchParams::new_with_str(&query).ok());
        match query
            .and_then(|query| query.get("engine"))
            .map(|engine| engine.parse())
        {
            Some(Ok(engine)) => link.engine = Some(engine),
            Some(Err(message)) => problem = Some(format!("The link: {message}")),
            None => {}
        }
        let hash = location.hash().unwrap_or_default();
        let hash = UrlSearchParams::new_with_str(hash.trim_start_matches('#'));
        let Ok(hash) = hash else {
            return (link, problem);
        };
        for entry in js_sys::try_iter(&hash)
            .ok()
            .flatten()
            .into_iter()
            .flatten()
            .flatten()
        {
            let pair = js_sys::Array::from(&entry);
            let (key, value) = (pair.get(0).as_string(), pair.get(1).as_string());
            match (key.as_deref(), value) {
                (Some("data"), Some(name)) => link.sample = Some(name),
                (Some(key), Some(value)) => {
                    // Checked against the defaults of any data; those of this data come with it.
                    let set = format!("{key}={value}");
                    match TrainConfig::default().with_set(&set) {
                        Ok(_) => link.sets.push(set),
                        Err(error) => problem = Some(format!("The link: {error}")),
                    }
                }
                _ => {}
            }
        }
        (link, problem)
    }
}

/// Keeps the address in step with the settings, without a new entry in the history.
pub(crate) fn write(sample: Option<&str>, config: &TrainConfig, defaults: &TrainConfig) {
    let Ok(parts) = UrlSearchParams::new() else {
        return;
    };
    if let Some(sample) = sample {
        parts.append("data", sample);
    }
    for (key, value) in config.differences(defaults) {
        parts.append(&key, &value);
    }
    let parts = parts.to_string().as_string().unwrap_or_default();
    let location = window().location();
    let path = location.pathname().unwrap_or_default() + &location.search().unwrap_or_default();
    let url = if parts.is_empty() {
        path
    } else {
        format!("{path}#{parts}")
    };
    if let Ok(history) = window().history() {
        history
            .replace_state_with_url(&JsValue::NULL, "", Some(&url))
            .ok();
    }
}

//! Messages for settings that do not read: the key, its value and what it must be, in words that do not name the program's types.

use serde_json::{Map, Value, json};

use super::TrainConfig;
use crate::base::quote::{self, cut, quoted};

/// A word that no setting takes: the parser's refusal of it lists what the setting takes.
const NO_CHOICE: &str = "?";

/// Message for settings that did not read: it names the first key, alphabetically, whose value does not read.
pub(super) fn problem(settings: &Value) -> Option<String> {
    let defaults = TrainConfig::default().to_value();
    let parts = settings.as_object()?;
    let (key, part) = parts
        .iter()
        .find(|(key, part)| read(&json!({ *key: part })).is_err())?;
    let Some(default) = defaults.get(key) else {
        return Some(unknown("", key, defaults.as_object()?));
    };
    let (Value::Object(part), Value::Object(_)) = (part, default) else {
        return Some(leaf(key, part, default, |value| json!({ key: value })));
    };
    if default.get("name").is_none() {
        let at = |inner: &str, value: Value| json!({ key: { inner: value } });
        return of_part(key, part, default, at);
    }
    // A part with a name takes the settings of the miner, loss, sampler, optimizer or schedule of that name.
    let Some(name) = part.get("name") else {
        return Some(format!("{key} has no `name`, which says which one it is"));
    };
    let Ok(named) = read(&json!({ key: { "name": name } })) else {
        let path = format!("{key}.name");
        let at = |value: Value| json!({ key: { "name": value } });
        return Some(leaf(&path, name, &default["name"], at));
    };
    let at = |inner: &str, value: Value| json!({ key: { "name": name, inner: value } });
    of_part(key, part, &named.to_value()[key], at)
}

/// Message for the first setting of a part that does not read; `at` makes settings with a value in its place.
fn of_part(
    key: &str,
    part: &Map<String, Value>,
    defaults: &Value,
    at: impl Fn(&str, Value) -> Value,
) -> Option<String> {
    let (inner, value) = part
        .iter()
        .find(|(inner, value)| read(&at(inner, (*value).clone())).is_err())?;
    let path = format!("{key}.{inner}");
    match defaults.get(inner) {
        None => Some(unknown(&format!("{key}."), inner, defaults.as_object()?)),
        Some(default) => Some(leaf(&path, value, default, |value| at(inner, value))),
    }
}

/// A value as JSON. Its `Display` is another writer, 1 kB of the page.
pub(super) fn text_of(value: &Value) -> String {
    serde_json::to_string(value).expect("a value is plain data")
}

/// Settings, or the parser's message without its place, as nobody wrote that text.
pub(super) fn read(settings: &Value) -> Result<TrainConfig, String> {
    serde_json::from_str(&text_of(settings)).map_err(|error| {
        let text = error.to_string();
        quote::said(text.split(" at line ").next().unwrap_or_default())
    })
}

/// Message for a value that must be a whole number.
pub(super) fn whole_number(path: &str, value: &Value) -> String {
    leaf(path, value, &json!(0), |value| value)
}

/// Message for an unknown key, with the known ones; `part` is put before all of them.
fn unknown(part: &str, key: &str, known: &Map<String, Value>) -> String {
    let known: Vec<String> = known.keys().map(|key| format!("`{part}{key}`")).collect();
    let path = format!("{part}{key}");
    let path = cut(&path);
    format!(
        "there is no setting `{path}`: there are {}",
        known.join(", ")
    )
}

/// Message with a value and what it must be, by the kind of the default; `at` makes the settings that hold a value at this place.
fn leaf(path: &str, value: &Value, default: &Value, at: impl Fn(Value) -> Value) -> String {
    let shown = match value {
        Value::String(text) => quoted(text),
        value => cut(&text_of(value)),
    };
    let too_large = value
        .as_f64()
        .is_some_and(|value| value.fract() == 0.0 && value >= 0.0);
    let wanted = match default {
        Value::Bool(_) => "it must be true or false".to_owned(),
        Value::Number(number) if number.is_f64() => "it must be a number".to_owned(),
        Value::Number(_) if too_large => "that is too large".to_owned(),
        Value::Number(_) => "it must be a whole number, 0 or more".to_owned(),
        Value::Array(numbers) if numbers.iter().any(Value::is_f64) => {
            format!("it must be two numbers, such as {}", text_of(default))
        }
        Value::Array(_) if path.ends_with(".weights") => {
            "it must be a list of numbers, such as [1, 0.5]".to_owned()
        }
        Value::Array(_) => "it must be a list of whole numbers, such as [256, 64]".to_owned(),
        Value::Object(default) => {
            let shown = match default.get("name") {
                Some(name) => format!("{{\"name\": {}}}", text_of(name)),
                None => text_of(&Value::Object(default.clone())),
            };
            format!("it must be a group of settings, such as {shown}")
        }
        _ => {
            let choices = read(&at(NO_CHOICE.into())).err().unwrap_or_default();
            let listed = choices.split_once("expected ");
            match listed.or_else(|| choices.split_once("must be ")) {
                Some((_, "u64")) => "it must be a whole number, 0 or more, or null".to_owned(),
                Some((_, choices)) => format!("it must be {choices}"),
                None => "it must be text".to_owned(),
            }
        }
    };
    format!("{path} is {shown}: {wanted}")
}

//! Why settings do not read: the key, what it is and what it must be, in words that know nothing of the program's types.

use serde_json::{Map, Value, json};

use super::TrainConfig;
use crate::base::quote::{self, cut, quoted};

/// A word that no setting takes, so that what it takes is listed.
const NO_CHOICE: &str = "?";

/// What is wrong with settings that did not read: the first key, alphabetically, whose value does not.
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
    // A part with a name takes the settings of what it names.
    let Some(name) = part.get("name") else {
        return Some(format!("{key} has no `name`, which says which one it is"));
    };
    let Ok(named) = read(&json!({ key: { "name": name } })) else {
        let path = format!("{key}.name");
        let at = |value: Value| json!({ key: { "name": value } });
        return Some(leaf(&path, name, &default["name"], at));
    };
    let defaults = named.to_value();
    let at = |inner: &str, value: Value| json!({ key: { "name": name, inner: value } });
    let (inner, value) = part
        .iter()
        .find(|(inner, value)| read(&at(inner, (*value).clone())).is_err())?;
    let path = format!("{key}.{inner}");
    match defaults[key].get(inner) {
        None => Some(unknown(
            &format!("{key}."),
            inner,
            defaults[key].as_object()?,
        )),
        Some(default) => Some(leaf(&path, value, default, |value| at(inner, value))),
    }
}

/// A value as JSON. Its `Display` is another writer, 1 kB of the page.
pub(super) fn text_of(value: &Value) -> String {
    serde_json::to_string(value).expect("a value is plain data")
}

/// Settings, or what the parser says of them, without the place in a text that nobody wrote.
pub(super) fn read(settings: &Value) -> Result<TrainConfig, String> {
    serde_json::from_str(&text_of(settings)).map_err(|error| {
        let text = error.to_string();
        quote::said(text.split(" at line ").next().unwrap_or_default())
    })
}

/// What is wrong with a value that must be a whole number.
pub(super) fn whole_number(path: &str, value: &Value) -> String {
    leaf(path, value, &json!(0), |value| value)
}

/// That there is no such key, and which there are; `part` stands before all of them.
fn unknown(part: &str, key: &str, known: &Map<String, Value>) -> String {
    let known: Vec<String> = known.keys().map(|key| format!("`{part}{key}`")).collect();
    let path = format!("{part}{key}");
    let path = cut(&path);
    format!(
        "there is no setting `{path}`: there are {}",
        known.join(", ")
    )
}

/// What a value is and what it must be, by what the default is; `at` puts a value in its place.
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
        Value::Array(_) => "it must be a list of whole numbers, such as [256, 64]".to_owned(),
        Value::Object(default) => format!(
            "it must be a group of settings, such as {{\"name\": {}}}",
            text_of(default.get("name").unwrap_or(&Value::Null))
        ),
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

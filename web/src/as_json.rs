//! Settings in a message, as JSON: the name of a loss says which arguments follow, and postcard cannot look ahead.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(it: &impl Serialize, to: S) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(it).map_err(S::Error::custom)?;
    to.serialize_str(&text)
}

pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    serde_json::from_str(&text).map_err(D::Error::custom)
}

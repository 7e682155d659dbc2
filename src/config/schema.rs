//! The JSON Schema (draft 2020-12) of the config, for editors: rendered from the table of keys.

use serde_json::{Map, Value, json};

use super::keys::{self, Key, Kind, State};
use crate::limits::Unit;

const DURATION: &str = "^[0-9]+(ms|s|m|h)$";
const SIZE: &str = "^[0-9]+(B|KB|KiB|MB|MiB|GB|GiB|TB|TiB)$";

/// The schema as text.
#[must_use]
pub fn schema() -> String {
    let mut root = table("");
    let mut document = Map::new();
    document.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    document.insert("title".into(), json!("ScalWS configuration"));
    if let Some(fields) = root.as_object_mut() {
        document.append(fields);
    }
    format!("{:#}\n", Value::Object(document))
}

fn table(name: &str) -> Value {
    let properties: Map<_, _> = keys::of(name).map(|key| (key.name.to_owned(), property(key))).collect();
    let mut table = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let required = keys::required(name);
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    if name == "route" {
        table["allOf"] = json!([one_of(&["exact", "path"]), one_of(&["respond", "redirect", "static"])]);
    }
    table
}

fn one_of(names: &[&str]) -> Value {
    let each: Vec<_> = names.iter().map(|name| json!({ "required": [name] })).collect();
    json!({ "oneOf": each })
}

fn property(key: &Key) -> Value {
    if key.state == State::NotBuilt {
        return json!({ "not": {}, "description": format!("Not built yet. {}", key.doc) });
    }
    let mut property = kind(key.kind);
    property["description"] = json!(key.doc);
    // The default of the table is TOML; of a plain value that is JSON as well.
    if let Ok(default) = serde_json::from_str::<Value>(&key.default) {
        property["default"] = default;
    }
    property
}

fn size(min: u64, max: u64) -> Value {
    json!({ "anyOf": [
        { "type": "string", "pattern": SIZE },
        { "type": "integer", "minimum": min, "maximum": max },
    ] })
}

fn kind(kind: Kind) -> Value {
    let word_list = |words: &[&str]| json!({ "enum": words });
    match kind {
        Kind::Table(name) => table(name),
        Kind::Tables(name) => json!({ "type": "array", "items": table(name) }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::BooleanOrTable(name) => json!({ "anyOf": [{ "type": "boolean" }, table(name)] }),
        Kind::Size(min, max) => size(min, max),
        Kind::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::WordOrInteger(word, min, max) => {
            json!({ "anyOf": [{ "const": word }, { "type": "integer", "minimum": min, "maximum": max }] })
        }
        Kind::Numbers(numbers) => json!({ "enum": numbers }),
        Kind::Duration(_) => json!({ "type": "string", "pattern": DURATION }),
        Kind::Limit(limit) => match limit.unit {
            Unit::Count => json!({ "type": "integer", "minimum": limit.min, "maximum": limit.max }),
            Unit::Milliseconds => json!({ "type": "string", "pattern": DURATION }),
            Unit::Bytes => size(limit.min, limit.max),
        },
        Kind::Text | Kind::AddressOrOff => json!({ "type": "string" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Word(words) => word_list(words),
        Kind::WordOrTable(words, name) => json!({ "anyOf": [word_list(words), table(name)] }),
        Kind::Pages => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[45]([0-9][0-9]|xx)$" },
            "additionalProperties": { "type": "string" },
        }),
        Kind::Json => json!({ "type": ["object", "array"] }),
        Kind::Fields => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every object of the schema that lists its properties.
    fn closed(value: &Value) -> usize {
        let inside = match value {
            Value::Object(fields) => fields.values().map(closed).sum(),
            Value::Array(list) => list.iter().map(closed).sum(),
            _ => 0,
        };
        let Some(properties) = value.get("properties").filter(|properties| properties.is_object()) else {
            return inside;
        };
        assert_eq!(value["additionalProperties"], json!(false), "{properties}");
        inside + 1
    }

    #[test]
    fn the_schema_is_json_and_knows_every_key() {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        assert_eq!(schema["properties"]["server"]["properties"]["workers"]["default"], json!("auto"));
        assert_eq!(schema["properties"]["limits"]["properties"]["head_size"]["default"], json!("32KiB"));
        assert_eq!(schema["properties"]["route"]["items"]["properties"]["proxy"]["not"], json!({}));
        assert_eq!(closed(&schema), keys::tables().len());
    }
}

//! As much of JSON Schema as our schemas use, for tests: what is written is described, and what is described is written.

use serde_json::Value;

/// Asserts that a value is what a schema describes.
pub(crate) fn check(root: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").expect("a reference within the schema");
        return check(root, &root["$defs"][name], value, at);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return match value {
            Value::Null => assert!(choices.iter().any(|choice| choice["type"] == "null"), "{at} may not be null"),
            _ => {
                let choice = choices.iter().find(|choice| choice["type"] != "null").expect("a choice beside null");
                check(root, choice, value, at);
            }
        };
    }
    if let Some(choices) = schema["enum"].as_array() {
        return assert!(choices.contains(value), "{at}: {value} is none of {choices:?}");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() && kinds.contains(&"integer") => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(kinds.contains(&kind), "{at}: {value} is none of {kinds:?}");
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64()) {
        assert!(number >= least, "{at}: {number}");
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| check(root, &schema["items"], item, at)),
        Value::Object(object) => {
            assert_eq!(schema["additionalProperties"], false, "{at}");
            let properties = schema["properties"].as_object().expect("properties");
            let mut required: Vec<&str> =
                schema["required"].as_array().expect("required").iter().filter_map(Value::as_str).collect();
            required.sort_unstable();
            let [mut described, mut written]: [Vec<&str>; 2] =
                [properties, object].map(|keys| keys.keys().map(String::as_str).collect());
            described.sort_unstable();
            written.sort_unstable();
            assert_eq!(described, written, "{at}");
            assert_eq!(required, written, "{at}");
            for (key, value) in object {
                check(root, &properties[key], value, &format!("{at}.{key}"));
            }
        }
        _ => {}
    }
}

//! YAML and JSON texts in and out; the only user of `serde_yaml`.

use serde::Deserialize as _;
use serde_json::{Map, Value};
use serde_yaml::Value as Yaml;

use crate::api;

/// A document that is neither YAML nor JSON.
#[derive(Debug, thiserror::Error)]
#[error("document {document}: {message}")]
pub struct SyntaxError {
    /// Which one, from 1.
    pub document: usize,
    /// What the parser says, with line and column.
    pub message: String,
}

/// The documents of a text, in order and with their numbers from 1: YAML documents, or JSON values one after another.
/// Empty documents are left out. An absent field and one that is null are the same, as for Kubernetes.
pub fn documents(text: &str) -> Result<Vec<(usize, Value)>, SyntaxError> {
    let text = text.trim_start_matches('\u{feff}');
    let yaml = || numbered(serde_yaml::Deserializer::from_str(text).map(yaml));
    let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
    if !inside.is_some_and(|inside| inside.starts_with(['"', '}'])) {
        return yaml();
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let json = numbered(values.map(|value| value.map_err(|error| error.to_string())));
    // A mapping of YAML may look like JSON at first.
    json.or_else(|error| yaml().map_err(|_| error))
}

fn numbered(values: impl Iterator<Item = Result<Value, String>>) -> Result<Vec<(usize, Value)>, SyntaxError> {
    let mut documents = Vec::new();
    // The first error ends it: behind one, a parser of YAML never does.
    for (position, value) in values.enumerate() {
        let document = position + 1;
        let value = api::without_nulls(value.map_err(|message| SyntaxError { document, message })?);
        if !value.is_null() {
            documents.push((document, value));
        }
    }
    Ok(documents)
}

fn yaml(document: serde_yaml::Deserializer<'_>) -> Result<Value, String> {
    let mut value = Yaml::deserialize(document).map_err(|error| error.to_string())?;
    value.apply_merge().map_err(|error| error.to_string())?;
    json(value)
}

/// The same in JSON, where keys are text and tags mean nothing.
fn json(value: Yaml) -> Result<Value, String> {
    Ok(match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::Number(number) => serde_json::to_value(number).map_err(|error| error.to_string())?,
        Yaml::String(text) => Value::String(text),
        Yaml::Sequence(items) => Value::Array(items.into_iter().map(json).collect::<Result<_, _>>()?),
        Yaml::Mapping(fields) => {
            let field = |(key, value)| Ok((key_text(key)?, json(value)?));
            Value::Object(fields.into_iter().map(field).collect::<Result<Map<_, _>, String>>()?)
        }
        Yaml::Tagged(tagged) => json(tagged.value)?,
    })
}

fn key_text(key: Yaml) -> Result<String, String> {
    match json(key)? {
        Value::String(text) => Ok(text),
        key @ (Value::Bool(_) | Value::Number(_)) => Ok(key.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("a key that is no text".to_owned()),
    }
}

/// Values as YAML documents.
#[must_use]
pub fn text(values: &[Value]) -> String {
    // Writing JSON values as YAML can't fail.
    let texts = values
        .iter()
        .map(|value| serde_yaml::to_string(value).unwrap_or_default());
    texts.collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_numbered_as_they_stand_and_empty_ones_left_out() {
        let read = documents("# no document yet\n---\na: 1\nb:\n---\n---\n- c\n").expect("YAML");
        assert_eq!(read, [(1, json!({"a": 1})), (3, json!(["c"]))]);
        let read = documents("{\"a\": null}\n\t{\"b\": [1]}").expect("JSON");
        assert_eq!(read, [(1, json!({})), (2, json!({"b": [1]}))]);
    }

    #[test]
    fn merges_and_keys_that_are_numbers_are_understood() {
        let read = documents("base: &base {x: 1}\nuser: {<<: *base, 8: true}\n").expect("YAML");
        assert_eq!(read[0].1["user"], json!({"x": 1, "8": true}));
    }

    #[test]
    fn an_error_names_the_document() {
        let error = documents("a: 1\n---\nb: [\n").expect_err("broken");
        assert_eq!(error.document, 2);
        assert!(error.to_string().starts_with("document 2: "), "{error}");
        assert_eq!(documents("{} {").expect_err("broken").document, 2);
        assert_eq!(documents("{a: 1}\n---\n{b: [}").expect_err("broken").document, 2);
        let error = documents("{\"a\": [1}").expect_err("broken JSON");
        assert!(error.to_string().contains("line 1 column 9"), "{error}");
    }

    #[test]
    fn yaml_may_begin_with_a_brace() {
        for (text, value) in [
            (
                "{kind: VirtualMachine, metadata: {name: db}}",
                json!({"kind": "VirtualMachine", "metadata": {"name": "db"}}),
            ),
            ("{\"a\": yes and no, 'b': ~}\n", json!({"a": "yes and no"})),
        ] {
            assert_eq!(documents(text).expect("YAML"), [(1, value.clone())], "{text}");
            let two = documents(&format!("{text}\n---\n{{a: 2}}")).expect("YAML");
            assert_eq!(two, [(1, value), (2, json!({"a": 2}))], "{text}");
        }
    }
}

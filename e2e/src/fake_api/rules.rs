//! What the API server makes of an object before it is kept, and what it refuses.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use crate::stand_in::kind::Kind;

/// A pod that has no node or has ended goes at once \[`pkg/registry/core/pod/strategy.go`: CheckGracefulDelete\].
pub fn grace(kind: Kind, object: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if kind != Kind::Pod || object["spec"]["nodeName"].as_str().is_none_or(str::is_empty) || ended {
        return 0;
    }
    let usual = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    asked.unwrap_or(usual).max(0)
}

/// \[`apimachinery/pkg/api/validation/objectmeta.go`: ValidateOwnerReferences\].
pub fn one_controller(object: &Value) -> Result<(), Failure> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let controllers = owners.filter(|owner| owner["controller"] == true).count();
    if controllers > 1 {
        let text = "metadata.ownerReferences: Invalid value: Only one reference can have Controller set to true";
        return Err(Failure::new(422, text));
    }
    Ok(())
}

pub fn defaults(kind: Kind, body: &mut Value) {
    let phase = match kind {
        Kind::Pod | Kind::Claim | Kind::Volume => "Pending",
        Kind::Namespace => "Active",
        // Of these, users set the status as they like: they are made by tests.
        Kind::Node | Kind::Quota | Kind::KubeVirt => return,
        _ if kind.has_status() => {
            set(body, "status", None);
            return;
        }
        _ => return,
    };
    body["status"] = json!({"phase": phase});
    if kind == Kind::Claim {
        body["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    }
    if kind == Kind::Pod {
        let spec = &mut body["spec"];
        for (field, value) in [
            ("terminationGracePeriodSeconds", json!(30)),
            ("schedulerName", json!("default-scheduler")),
        ] {
            if spec[field].is_null() {
                spec[field] = value;
            }
        }
    }
}

/// The first field that has another value now.
pub fn contested(wished: &Value, found: &Value) -> Option<String> {
    let fields = wished.as_object()?.iter();
    let other = |(name, value): &(&String, &Value)| !found[*name].is_null() && found[*name] != **value;
    fields.filter(other).map(|(name, _)| name.clone()).next()
}

pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(fields) = object.as_object_mut() {
        match value {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
    }
}

/// A field that is null is no field.
pub fn prune(value: &mut Value) {
    let walk = |fields: &mut Map<String, Value>| {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(prune);
    };
    match value {
        Value::Object(fields) => walk(fields),
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Has a deletion timestamp.
#[must_use]
pub fn deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// As the API writes times.
#[must_use]
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Five letters, another for each number.
pub fn suffix(mut number: u64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let letter = |_| {
        let at = usize::try_from(number % 27).unwrap_or_default();
        number /= 27;
        char::from(LETTERS[at])
    };
    (0..5).map(letter).collect()
}

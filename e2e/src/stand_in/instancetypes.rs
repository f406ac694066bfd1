//! What instancetypes and preferences make of a VM: their fields are merged into its VMI spec. KubeVirt's own rules of
//! which field goes where, and of conflicts, are left out.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use serde_json::Value;

/// Instancetypes and preferences by namespace and name.
#[derive(Debug, Default)]
pub struct Instancetypes(RwLock<HashMap<(String, String), Value>>);

impl Instancetypes {
    /// Sets the fields of a VMI spec that an instancetype or preference brings.
    pub fn set(&self, namespace: &str, name: &str, fields: Value) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert((namespace.to_owned(), name.to_owned()), fields);
    }

    /// The VM with the spec that its VMI would have. `Err` says which of the two is missing, in virt-api's words.
    pub fn expand(&self, namespace: &str, mut vm: Value) -> Result<Value, String> {
        for kind in ["preference", "instancetype"] {
            let reference = vm["spec"].as_object_mut().and_then(|spec| spec.remove(kind));
            let Some(name) = reference.as_ref().and_then(|reference| reference["name"].as_str()) else {
                continue;
            };
            let of = reference.as_ref().and_then(|reference| reference["kind"].as_str());
            let of = of.map_or_else(|| format!("virtualmachinecluster{kind}"), str::to_lowercase);
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            let missing = || format!("Internal error occurred: {of}s.instancetype.kubevirt.io \"{name}\" not found");
            let fields = known
                .get(&(namespace.to_owned(), name.to_owned()))
                .ok_or_else(missing)?;
            merge(&mut vm["spec"]["template"]["spec"], fields);
        }
        Ok(vm)
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_merged_and_the_references_are_gone() {
        let instancetypes = Instancetypes::default();
        instancetypes.set("ns", "small", json!({"domain": {"cpu": {"cores": 1}}}));
        let vm = |name: &str| {
            json!({"spec": {"instancetype": {"name": name},
            "template": {"spec": {"domain": {"memory": {}}}}}})
        };
        let expanded = instancetypes.expand("ns", vm("small")).expect("it is known");
        let expected = json!({"spec": {"template": {"spec": {"domain": {"memory": {}, "cpu": {"cores": 1}}}}}});
        assert_eq!(expanded, expected);
        let missing = instancetypes.expand("ns", vm("large"));
        let words =
            "Internal error occurred: virtualmachineclusterinstancetypes.instancetype.kubevirt.io \"large\" not found";
        assert_eq!(missing, Err(words.to_owned()));
    }
}

//! What the VM will ask the scheduler for (design section 7).
//!
//! So far the template's own wishes, verbatim. The rules by which KubeVirt adds to them come with the placement issue;
//! everything outside this module only sees [`Placement`].

mod peers;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Template;
use crate::name::hex_digest;

pub use peers::Domains;

/// The fields of a pod that decide where it may run, as they stand in a pod spec. Sub-trees stay JSON, so that fields of
/// newer Kubernetes survive.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Labels that a node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Node and pod affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// Tolerations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Value>,
    /// Spread constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Value>,
    /// The scheduler's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// The priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// What the pod asks for, by resource name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Value>,
    /// What it may use at most.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Value>,
}

/// Why there is no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The spec names an instancetype or preference, so the template alone does not say what the VM will ask for.
    #[error("the VM names an instancetype or preference, and its spec has not been expanded")]
    NotExpanded,
    /// The spec has a field that can't be read.
    #[error("{0}")]
    Unreadable(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<Value>,
    tolerations: Option<Value>,
    topology_spread_constraints: Option<Value>,
    scheduler_name: Option<String>,
    priority_class_name: Option<String>,
    domain: Domain,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Domain {
    resources: Resources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<BTreeMap<String, Value>>,
    limits: Option<BTreeMap<String, Value>>,
}

impl Placement {
    /// The placement of a VMI made from `template`.
    pub fn of(template: &Template) -> Result<Self, Refusal> {
        let text = if template.spec.json.is_empty() {
            "{}"
        } else {
            &*template.spec.json
        };
        let spec: Spec = serde_json::from_str(text).map_err(|error| Refusal::Unreadable(error.to_string()))?;
        Ok(Self {
            node_selector: spec.node_selector.unwrap_or_default(),
            affinity: spec.affinity,
            tolerations: spec.tolerations,
            topology_spread_constraints: spec.topology_spread_constraints,
            scheduler_name: spec.scheduler_name,
            priority_class_name: spec.priority_class_name,
            requests: spec.domain.resources.requests.unwrap_or_default(),
            limits: spec.domain.resources.limits.unwrap_or_default(),
        })
    }

    /// `v1:<hex>`: changes when the placement does. A pod of another hash was made for other wishes.
    #[must_use]
    pub fn hash(&self) -> String {
        // Maps serialise sorted, so equal placements have equal text. Writing a tree of JSON values can't fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{HASH_VERSION}{}", hex_digest(text.as_bytes(), 8))
    }
}

/// What a hash of ours begins with. One with another beginning is of another version, and counts as equal.
pub const HASH_VERSION: &str = "v1:";

#[cfg(test)]
mod tests {
    use super::*;

    fn template(spec: &str) -> Template {
        serde_json::from_str(&format!(r#"{{"spec":{spec}}}"#)).expect("a template")
    }

    #[test]
    fn the_hash_follows_the_placement_and_nothing_else() {
        let of = |spec: &str| Placement::of(&template(spec)).expect("readable").hash();
        let zone_a = of(r#"{"nodeSelector":{"zone":"a"},"domain":{}}"#);
        assert_eq!(
            zone_a,
            of(r#"{"terminationGracePeriodSeconds":5,"nodeSelector":{"zone":"a"}}"#)
        );
        assert_ne!(zone_a, of(r#"{"nodeSelector":{"zone":"b"}}"#));
        assert!(zone_a.starts_with(HASH_VERSION));
    }

    #[test]
    fn a_field_of_the_wrong_type_is_a_refusal_that_names_it() {
        let refused = Placement::of(&template(r#"{"nodeSelector":["a"]}"#)).expect_err("refused");
        assert!(refused.to_string().contains("invalid type"), "{refused}");
    }
}

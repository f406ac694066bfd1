//! Halted peers (design section 8): keeps a placement out of the domains that required anti-affinity forbids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Placement;
use super::affinity::REQUIRED;
use super::spec::fields;

/// Domains of topologies: values of node labels, by label.
pub type Domains = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

const TERMS: &str = "nodeSelectorTerms";

impl Placement {
    /// The same placement, but never in one of these domains: `KEY NotIn [values]` joins every required node affinity
    /// term, since one of them is enough, or becomes the only one.
    #[must_use]
    pub fn keep_out_of(mut self, domains: &Domains) -> Self {
        if domains.is_empty() {
            return self;
        }
        let forbidden = |(key, values)| json!({"key": key, "operator": "NotIn", "values": values});
        let forbidden: Vec<Value> = domains.iter().map(forbidden).collect();
        let mut affinity = fields(self.affinity.take());
        let mut node = fields(affinity.remove("nodeAffinity"));
        let mut required = fields(node.remove(REQUIRED));
        let terms = match required.remove(TERMS) {
            Some(Value::Array(terms)) if !terms.is_empty() => {
                terms.into_iter().map(|term| without(term, &forbidden)).collect()
            }
            _ => json!([{"matchExpressions": forbidden}]),
        };
        required.insert(TERMS.into(), terms);
        node.insert(REQUIRED.into(), Value::Object(required));
        affinity.insert("nodeAffinity".into(), Value::Object(node));
        self.affinity = Some(Value::Object(affinity));
        self
    }
}

/// A term that takes no node in the forbidden domains. An empty one takes no node at all and must stay so.
fn without(mut term: Value, forbidden: &[Value]) -> Value {
    let list = |field: &str| term[field].as_array().cloned().unwrap_or_default();
    let (labels, fields) = (list("matchExpressions"), list("matchFields"));
    if !labels.is_empty() || !fields.is_empty() {
        term["matchExpressions"] = labels.iter().chain(forbidden).cloned().collect();
    }
    term
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_out(affinity: Value, domains: &[(&str, &[&str])]) -> Option<Value> {
        let values = |values: &[&str]| values.iter().map(|value| Arc::from(*value)).collect();
        let domains = domains
            .iter()
            .map(|(key, list)| (Arc::from(*key), values(list)))
            .collect();
        let placement = Placement {
            affinity: (!affinity.is_null()).then_some(affinity),
            ..Placement::default()
        };
        placement.keep_out_of(&domains).affinity
    }

    #[test]
    fn nothing_forbidden_changes_nothing() {
        assert_eq!(kept_out(Value::Null, &[]), None);
    }

    #[test]
    fn a_placement_without_node_affinity_gets_one_term() {
        let preferred =
            json!({"podAffinity": {"x": 1}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}});
        let affinity = kept_out(preferred, &[("host", &["b", "a"]), ("zone", &["z"])]);
        let expected = json!({"podAffinity": {"x": 1}, "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "host", "operator": "NotIn", "values": ["a", "b"]},
                {"key": "zone", "operator": "NotIn", "values": ["z"]}]}]}}});
        assert_eq!(affinity, Some(expected));
    }

    #[test]
    fn every_term_is_narrowed_and_an_empty_one_still_takes_nothing() {
        let terms = json!([
            {"matchExpressions": [{"key": "arch", "operator": "Exists"}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
            {},
        ]);
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let affinity = kept_out(affinity, &[("host", &["a"])]).expect("an affinity");
        let terms = &affinity["nodeAffinity"][REQUIRED][TERMS];
        let forbidden = json!({"key": "host", "operator": "NotIn", "values": ["a"]});
        assert_eq!(
            terms[0]["matchExpressions"],
            json!([{"key": "arch", "operator": "Exists"}, forbidden])
        );
        assert_eq!(terms[1]["matchExpressions"], json!([forbidden]));
        assert_eq!(terms[2], json!({}));
    }
}

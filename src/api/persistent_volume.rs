//! Persistent volumes: whose they are, and from where they can be reached.

use std::sync::Arc;

use serde::Deserialize;

use super::selector::NodeSelectorTerm;
use super::{Meta, Operator, Strings, view};
use crate::name::Key;

/// A node's host name, which as a rule is its name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    claim_ref: Option<ClaimRef>,
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ClaimRef {
    namespace: Arc<str>,
    name: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

view!(PersistentVolume, "", "v1", "PersistentVolume", "persistentvolumes", namespaced: false);

impl PersistentVolume {
    /// The claim that it is for.
    #[must_use]
    pub fn claim(&self) -> Option<Key> {
        let claim = self.spec.claim_ref.as_ref()?;
        Some(Key {
            namespace: Arc::clone(&claim.namespace),
            name: Arc::clone(&claim.name),
        })
    }

    /// Whether only some nodes can reach it.
    #[must_use]
    pub fn bound_to_nodes(&self) -> bool {
        self.required().is_some()
    }

    /// Whether the node of this name and these labels can reach it.
    #[must_use]
    pub fn reachable_from(&self, node: &str, labels: &Strings) -> bool {
        self.required()
            .is_none_or(|terms| terms.iter().any(|term| term.takes(node, labels)))
    }

    /// A value that the affinity names first: the node's name or host name for local volumes, a zone for others.
    #[must_use]
    pub fn named_place(&self) -> Option<&Arc<str>> {
        let terms = self.required()?.iter();
        let mut requirements = terms.flat_map(|term| term.match_expressions.iter().chain(&term.match_fields));
        requirements.find_map(|requirement| requirement.values.first())
    }

    /// The host names that alone reach it, if that is all that the affinity asks for, as for local volumes.
    #[must_use]
    pub fn hosts(&self) -> Option<&[Arc<str>]> {
        let [term] = self.required()? else {
            return None;
        };
        match (&*term.match_expressions, &*term.match_fields) {
            ([host], []) if &*host.key == HOSTNAME && host.operator == Operator::In => Some(&host.values),
            _ => None,
        }
    }

    fn required(&self) -> Option<&[NodeSelectorTerm]> {
        let required = self.spec.node_affinity.as_ref()?.required.as_ref()?;
        Some(&required.node_selector_terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nodes_of_its_affinity_reach_a_volume() {
        let volume = |affinity: &str| -> PersistentVolume {
            let text =
                format!(r#"{{"spec":{{"claimRef":{{"namespace":"ns","name":"disk"}},"nodeAffinity":{affinity}}}}}"#);
            serde_json::from_str(&text).expect("a volume")
        };
        let local = volume(
            r#"{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},
                {"matchFields":[{"key":"metadata.name","operator":"In","values":["node-9"]}]},{}]}}"#,
        );
        let labels = |zone: &str| Strings::from([("zone".into(), zone.into())]);
        assert!(local.reachable_from("node-1", &labels("a")) && local.reachable_from("node-9", &labels("b")));
        assert!(local.bound_to_nodes() && !local.reachable_from("node-1", &labels("b")));
        assert!(!volume("null").bound_to_nodes() && volume("{}").reachable_from("node-1", &labels("b")));
        assert_eq!(local.claim(), Some(Key::new("ns", "disk")));
        assert_eq!(local.hosts(), None, "there are other terms");
        let host = |operator: &str| {
            let term =
                format!(r#"{{"matchExpressions":[{{"key":"{HOSTNAME}","operator":"{operator}","values":["a"]}}]}}"#);
            volume(&format!(r#"{{"required":{{"nodeSelectorTerms":[{term}]}}}}"#))
        };
        assert_eq!(host("In").hosts(), Some(&["a".into()][..]));
        assert_eq!(host("NotIn").hosts(), None);
    }
}

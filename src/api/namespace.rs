//! Namespaces: whether they opt in, whether they are going, and what holds them.

use serde::{Deserialize, Deserializer};

use super::{Condition, Meta, view};

/// A Namespace. Its metadata has the opt-in annotation and the deletion timestamp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Metadata.
    pub metadata: Meta,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "holding")]
    conditions: Vec<Condition>,
}

/// Why a Namespace is still there (Kubernetes `core/v1`: `NamespaceConditionType`), what says most first.
const HOLDING: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
];

/// Only what is so; a Namespace that is not being deleted has no conditions.
fn holding<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let mut conditions = Option::<Vec<Condition>>::deserialize(deserializer)?.unwrap_or_default();
    conditions.retain(|condition| &*condition.status == "True" && HOLDING.contains(&&*condition.r#type));
    Ok(conditions)
}

view!(Namespace, "", "v1", "Namespace", "namespaces", namespaced: false);

impl Namespace {
    /// What keeps it although it is being deleted, in the words of the namespace controller.
    #[must_use]
    pub fn held_by(&self) -> Option<&str> {
        let place = |condition: &&Condition| HOLDING.iter().position(|r#type| **r#type == *condition.r#type);
        let first = self.status.conditions.iter().min_by_key(place)?;
        first.message.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_it_is_told_by_the_condition_that_says_most() {
        let condition = |r#type: &str, status: &str| {
            format!(r#"{{"type":"{type}","status":"{status}","message":"{type} says so"}}"#)
        };
        let held_by = |conditions: &[String]| {
            let text = format!(r#"{{"status":{{"conditions":[{}]}}}}"#, conditions.join(","));
            let namespace: Namespace = serde_json::from_str(&text).expect("a Namespace");
            namespace.held_by().map(str::to_owned)
        };
        let content = condition("NamespaceContentRemaining", "True");
        let finalizers = condition("NamespaceFinalizersRemaining", "True");
        let discovery = condition("NamespaceDeletionDiscoveryFailure", "False");
        assert_eq!(
            held_by(&[content.clone(), finalizers, discovery.clone()]).as_deref(),
            Some("NamespaceFinalizersRemaining says so")
        );
        assert_eq!(
            held_by(&[content]).as_deref(),
            Some("NamespaceContentRemaining says so")
        );
        assert_eq!(held_by(&[discovery, condition("Other", "True")]), None);
        assert_eq!(Namespace::default().held_by(), None);
    }
}

//! Selectors of labels and nodes, and the terms of pod anti-affinity that use them.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use super::Strings;

/// A label selector. Empty, it takes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels with their values.
    pub match_labels: Strings,
    /// Further requirements.
    pub match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Whether it takes an object with these labels.
    #[must_use]
    pub fn takes<'a>(&self, label: &impl Fn(&str) -> Option<&'a str>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| label(key) == Some(&**value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.holds(label(&requirement.key)))
    }
}

/// What one label must be like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// The label, or the field in a node selector's `matchFields`.
    pub key: Arc<str>,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: Vec<Arc<str>>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or no such label.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is none.
    DoesNotExist,
    /// An integer above the value.
    Gt,
    /// An integer below the value.
    Lt,
    /// One that we do not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Requirement {
    /// Whether a label with this value, or its absence, is as required. Nothing is as an unknown operator requires.
    #[must_use]
    pub fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|known| &**known == value);
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(|text| number(text));
        let compared = value.and_then(number).zip(bound);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared.is_some_and(|(value, bound)| value > bound),
            Operator::Lt => compared.is_some_and(|(value, bound)| value < bound),
            Operator::Unknown => false,
        }
    }
}

impl Requirement {
    /// What holds where this does not; of an order or an unknown operator it is this one.
    #[must_use]
    pub fn opposite(&self) -> Self {
        let operator = match self.operator {
            Operator::In => Operator::NotIn,
            Operator::NotIn => Operator::In,
            Operator::Exists => Operator::DoesNotExist,
            Operator::DoesNotExist => Operator::Exists,
            other => other,
        };
        Self {
            operator,
            ..self.clone()
        }
    }
}

/// As kubectl takes it: `zone=b`, `zone in (a, b)`, `!zone`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = self.values.join(", ");
        match (self.operator, self.values.len()) {
            (Operator::In, 1) => write!(f, "{key}={values}"),
            (Operator::In, _) => write!(f, "{key} in ({values})"),
            (Operator::NotIn, 1) => write!(f, "{key}!={values}"),
            (Operator::NotIn, _) => write!(f, "{key} notin ({values})"),
            (Operator::Exists, _) => write!(f, "{key}"),
            (Operator::DoesNotExist, _) => write!(f, "!{key}"),
            (Operator::Gt, _) => write!(f, "{key}>{values}"),
            (Operator::Lt, _) => write!(f, "{key}<{values}"),
            (Operator::Unknown, _) => write!(f, "{key}, by an unknown operator"),
        }
    }
}

/// One of several alternatives of a node selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Labels of the node.
    pub match_expressions: Vec<Requirement>,
    /// Fields of the node; `metadata.name` is the only one that Kubernetes knows.
    pub match_fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    /// Whether it takes the node of this name and these labels. Empty, it takes none.
    #[must_use]
    pub fn takes(&self, name: &str, labels: &Strings) -> bool {
        let empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let label = |requirement: &Requirement| requirement.holds(labels.get(&requirement.key).map(AsRef::as_ref));
        !empty
            && self.match_expressions.iter().all(label)
            && self.match_fields.iter().all(|field| field.holds(Some(name)))
    }
}

/// What a pod or a VMI asks of its node: the fields of its spec that say so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeNeeds {
    /// Labels with their values.
    pub node_selector: Strings,
    /// Holds the required node affinity.
    pub(super) affinity: Affinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

impl NodeNeeds {
    /// The terms of the required node affinity, one of which is enough; `None` if there is none.
    #[must_use]
    pub fn terms(&self) -> Option<&[NodeSelectorTerm]> {
        let required = self.affinity.node_affinity.required.as_ref()?;
        Some(&required.node_selector_terms)
    }
}

/// A required term of pod anti-affinity: pods that it selects must not run in the same domain of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AntiAffinityTerm {
    /// The pods; none if it is missing.
    pub label_selector: Option<LabelSelector>,
    /// The node label whose values are the domains.
    pub topology_key: Arc<str>,
    /// The pods' namespaces, with those of the selector; if both are missing, the namespace of the term's own pod.
    pub namespaces: Vec<Arc<str>>,
    /// Further namespaces, by label.
    pub namespace_selector: Option<LabelSelector>,
    /// Labels in which the pods must be as the term's own pod.
    pub match_label_keys: Vec<Arc<str>>,
    /// Labels in which they must not.
    pub mismatch_label_keys: Vec<Arc<str>>,
}

impl AntiAffinityTerm {
    /// Whether it is about pods of `namespace`. `home` is the namespace of the term's own pod, `labels` are those of
    /// `namespace`.
    #[must_use]
    pub fn reaches<'a>(&self, home: &str, namespace: &str, labels: &impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.namespace_selector {
            None if self.namespaces.is_empty() => home == namespace,
            selector => {
                self.namespaces.iter().any(|listed| **listed == *namespace)
                    || selector.as_ref().is_some_and(|selector| selector.takes(labels))
            }
        }
    }

    /// Whether it selects a pod with the labels `theirs`; `ours` are those of the term's own pod.
    #[must_use]
    pub fn selects<'a, 'b>(
        &self,
        ours: &impl Fn(&str) -> Option<&'a str>,
        theirs: &impl Fn(&str) -> Option<&'b str>,
    ) -> bool {
        // A key that our own pod does not have is ignored.
        let same = |key: &Arc<str>| ours(key).is_none_or(|value| theirs(key) == Some(value));
        let differs = |key: &Arc<str>| ours(key).is_none_or(|value| theirs(key) != Some(value));
        self.label_selector
            .as_ref()
            .is_some_and(|selector| selector.takes(theirs))
            && self.match_label_keys.iter().all(same)
            && self.mismatch_label_keys.iter().all(differs)
    }

    /// A label and its possible values, one of which a pod must have to be selected. `None` if the term asks for no
    /// label in particular.
    #[must_use]
    pub fn anchor(&self) -> Option<(&Arc<str>, Vec<&Arc<str>>)> {
        let selector = self.label_selector.as_ref()?;
        let equal = selector.match_labels.iter().map(|(key, value)| (key, vec![value]));
        let listed = selector
            .match_expressions
            .iter()
            .filter(|requirement| requirement.operator == Operator::In)
            .map(|requirement| (&requirement.key, requirement.values.iter().collect()));
        equal.chain(listed).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Strings {
        serde_json::from_str(text).expect("labels")
    }

    fn takes(selector: &str, with: &str) -> bool {
        let (selector, labels): (LabelSelector, _) =
            (serde_json::from_str(selector).expect("a selector"), labels(with));
        selector.takes(&|key| labels.get(key).map(AsRef::as_ref))
    }

    #[test]
    fn every_operator_is_understood() {
        for (operator, yes, no) in [
            (r#""In","values":["a","b"]"#, r#"{"k":"b"}"#, r#"{"k":"c"}"#),
            (r#""NotIn","values":["a","b"]"#, "{}", r#"{"k":"b"}"#),
            (r#""Exists""#, r#"{"k":""}"#, "{}"),
            (r#""DoesNotExist""#, r#"{"j":"a"}"#, r#"{"k":"a"}"#),
            (r#""Gt","values":["4"]"#, r#"{"k":"5"}"#, r#"{"k":"4"}"#),
            (r#""Lt","values":["4"]"#, r#"{"k":"3"}"#, r#"{"k":"x"}"#),
        ] {
            let selector = format!(r#"{{"matchExpressions":[{{"key":"k","operator":{operator}}}]}}"#);
            assert!(takes(&selector, yes) && !takes(&selector, no), "{selector}");
        }
        assert!(takes("{}", "{}"), "an empty selector takes everything");
        assert!(!takes(r#"{"matchExpressions":[{"key":"k","operator":"Like"}]}"#, "{}"));
        assert!(!takes(r#"{"matchLabels":{"k":"a"}}"#, r#"{"k":"b"}"#));
    }

    #[test]
    fn a_term_reaches_the_namespaces_that_it_names_or_selects_or_its_own() {
        let reaches = |term: &str, namespace: &str| {
            let term: AntiAffinityTerm = serde_json::from_str(term).expect("a term");
            let labels = |key: &str| (key == "team" && namespace == "far").then_some("a");
            term.reaches("home", namespace, &labels)
        };
        assert!(reaches("{}", "home") && !reaches("{}", "far"));
        let named = r#"{"namespaces":["far"]}"#;
        assert!(reaches(named, "far") && !reaches(named, "home"));
        let selected = r#"{"namespaceSelector":{"matchLabels":{"team":"a"}}}"#;
        assert!(reaches(selected, "far") && !reaches(selected, "home"));
        assert!(
            reaches(r#"{"namespaceSelector":{}}"#, "home"),
            "an empty selector takes all"
        );
    }

    #[test]
    fn label_keys_compare_with_the_terms_own_pod() {
        let selects = |term: &str, ours: &str, theirs: &str| {
            let term: AntiAffinityTerm = serde_json::from_str(term).expect("a term");
            let (ours, theirs) = (labels(ours), labels(theirs));
            term.selects(&|key| ours.get(key).map(AsRef::as_ref), &|key| {
                theirs.get(key).map(AsRef::as_ref)
            })
        };
        let same = r#"{"labelSelector":{},"matchLabelKeys":["v"]}"#;
        assert!(selects(same, r#"{"v":"1"}"#, r#"{"v":"1"}"#) && !selects(same, r#"{"v":"1"}"#, r#"{"v":"2"}"#));
        assert!(
            selects(same, "{}", r#"{"v":"2"}"#),
            "a key that the own pod lacks is ignored"
        );
        let other = r#"{"labelSelector":{},"mismatchLabelKeys":["v"]}"#;
        assert!(selects(other, r#"{"v":"1"}"#, r#"{"v":"2"}"#) && !selects(other, r#"{"v":"1"}"#, r#"{"v":"1"}"#));
        assert!(!selects("{}", "{}", "{}"), "without a selector it selects nothing");
    }
}

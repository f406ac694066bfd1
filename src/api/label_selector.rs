//! Label selectors, as Kubernetes has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::Strings;

/// A selector: all labels and all expressions have to match, so an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    match_labels: BTreeMap<Arc<str>, Arc<str>>,
    match_expressions: Vec<Expression>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Expression {
    key: Arc<str>,
    operator: Arc<str>,
    values: Vec<Arc<str>>,
}

impl LabelSelector {
    /// Whether it selects something with these labels. `None` if it has an operator that does not exist.
    #[must_use]
    pub fn matches(&self, labels: &Strings) -> Option<bool> {
        let mut all = self
            .match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value));
        for expression in &self.match_expressions {
            all &= expression.matches(labels)?;
        }
        Some(all)
    }
}

impl Expression {
    fn matches(&self, labels: &Strings) -> Option<bool> {
        let label = labels.get(&self.key);
        let among = label.is_some_and(|label| self.values.contains(label));
        match &*self.operator {
            "In" => Some(among),
            "NotIn" => Some(!among),
            "Exists" => Some(label.is_some()),
            "DoesNotExist" => Some(label.is_none()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_expressions_all_have_to_match() {
        let matches = |selector: &str, labels: &str| {
            let selector: LabelSelector = serde_json::from_str(selector).expect("a selector");
            selector.matches(&serde_json::from_str(labels).expect("labels"))
        };
        let expression = |operator: &str| {
            format!(
                r#"{{"matchLabels":{{"a":"1"}},"matchExpressions":[{{"key":"b","operator":"{operator}","values":["2"]}}]}}"#
            )
        };
        assert_eq!(matches("{}", "{}"), Some(true));
        for (operator, with, without) in [
            ("In", true, false),
            ("NotIn", false, true),
            ("Exists", true, false),
            ("DoesNotExist", false, true),
        ] {
            let selector = expression(operator);
            assert_eq!(matches(&selector, r#"{"a":"1","b":"2"}"#), Some(with), "{operator}");
            assert_eq!(matches(&selector, r#"{"a":"1"}"#), Some(without), "{operator}");
            assert_eq!(matches(&selector, r#"{"a":"2","b":"2"}"#), Some(false), "{operator}");
        }
        assert_eq!(matches(&expression("Like"), r#"{"a":"1"}"#), None);
    }
}

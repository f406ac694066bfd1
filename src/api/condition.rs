//! Conditions in a `status`, as far as a diagnosis reads them.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// One condition. Heartbeats are left out: they would make equal objects differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about, such as `PodScheduled` or `Bound`.
    pub r#type: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// Why, in one word.
    pub reason: Option<Arc<str>>,
    /// Why, for a person.
    pub message: Option<Arc<str>>,
    /// Since when it has this status.
    pub last_transition_time: Option<Timestamp>,
}

impl Condition {
    /// All that it says, such as `Running=False Error: Unable to connect`.
    #[must_use]
    pub fn words(&self) -> String {
        let reason = self.reason.iter().filter(|reason| !reason.is_empty());
        let message = self.message.iter().filter(|message| !message.is_empty());
        let reason = reason.map(|reason| format!(" {reason}"));
        let message = message.map(|message| format!(": {message}"));
        let said: String = reason.chain(message).collect();
        format!("{}={}{said}", self.r#type, self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_says_what_it_has() {
        let words = |text: &str| {
            let condition: Condition = serde_json::from_str(text).expect("a condition");
            condition.words()
        };
        let whole = r#"{"type":"Running","status":"False","reason":"Error","message":"got 404"}"#;
        assert_eq!(words(whole), "Running=False Error: got 404");
        assert_eq!(
            words(r#"{"type":"Running","status":"False","message":""}"#),
            "Running=False"
        );
    }
}

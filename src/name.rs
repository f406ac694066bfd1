//! Names: the key of a namespaced object, the UID of one life of it, and the name of a subject's pod.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The prefix of every label and annotation that is ours.
pub const DOMAIN: &str = "first-consumer.kubevirt.io";

/// Namespace and name of an object; for a subject, those of its VM or VMI. Cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// The key of `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of another object in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self {
            namespace: Arc::clone(&self.namespace),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// `metadata.uid`: tells two lives of one name apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub Arc<str>);

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of the subject's pod: `first-consumer-<name, first 40 characters>-<8 hex digits>`. It is fixed for the
/// subject, so a second create fails instead of making a second pod.
#[must_use]
pub fn pod_name(subject: &Key) -> String {
    // Cut at 40, a name may end in a dot or dash, which must not stand before the dash of the hash.
    let shown: String = subject.name.chars().take(40).collect();
    let shown = shown.trim_end_matches(['.', '-']);
    format!(
        "first-consumer-{shown}-{}",
        hex_digest(subject.to_string().as_bytes(), 4)
    )
}

/// The first `bytes` bytes of the SHA-256 of `data`, in lower-case hex.
#[must_use]
pub fn hex_digest(data: &[u8], bytes: usize) -> String {
    Sha256::digest(data)
        .iter()
        .take(bytes)
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// The first names for a person, and how many there are beside them; `None` if there are none.
#[must_use]
pub fn a_few<T: Display>(names: &BTreeSet<T>, most: usize) -> Option<String> {
    let shown: Vec<String> = names.iter().take(most).map(ToString::to_string).collect();
    let shown = Some(shown.join(", ")).filter(|_| !names.is_empty())?;
    Some(match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_name_is_fixed_for_the_subject_and_differs_between_namespaces() {
        let name = pod_name(&Key::new("prod", "db"));
        assert_eq!(name, pod_name(&Key::new("prod", "db")));
        assert_ne!(name, pod_name(&Key::new("test", "db")));
        assert!(name.starts_with("first-consumer-db-"), "{name}");
        assert_eq!(name.len(), "first-consumer-db-".len() + 8);
    }

    #[test]
    fn a_long_or_dotted_name_still_makes_a_valid_pod_name() {
        let long = format!("{}.{}", "a".repeat(39), "b".repeat(60));
        let name = pod_name(&Key::new("ns", &long));
        assert!(name.len() <= 63, "{name}");
        assert!(!name.contains(".-") && !name.contains("--"), "{name}");
    }

    #[test]
    fn a_few_names_are_said_and_how_many_there_are_beside_them() {
        let names = |count: u8| (0..count).collect::<BTreeSet<_>>();
        assert_eq!(a_few(&names(0), 2), None);
        assert_eq!(a_few(&names(2), 2).as_deref(), Some("0, 1"));
        assert_eq!(a_few(&names(5), 2).as_deref(), Some("0, 1 and 3 more"));
    }
}

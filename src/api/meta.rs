//! `metadata`, without what no rule reads: managed fields and foreign annotations are skipped while decoding.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::name::{Key, Uid};

/// Text to text, as labels and annotations are.
pub type Strings = BTreeMap<Arc<str>, Arc<str>>;

/// Annotations outside these domains are dropped: a VM's `last-applied-configuration` alone can be larger than the rest.
const KEPT_DOMAINS: [&str; 8] = [
    "first-consumer.kubevirt.io/",
    "cdi.kubevirt.io/",
    "kubevirt.io/",
    "hooks.kubevirt.io/",
    "volume.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "alpha.kubevirt.io/",
    "k8s.v1.cni.cncf.io/",
];

/// On every Node, and new every minute.
const HEARTBEAT: &str = "kubevirt.io/heartbeat";

/// What is read of an object's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The object's name.
    pub name: Arc<str>,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Its UID.
    pub uid: Uid,
    /// Its version, for the watch.
    pub resource_version: Option<Box<str>>,
    /// Counts the changes of its spec; only of kinds that keep it ([`super::View::KEEPS_GENERATION`]).
    pub generation: Option<i64>,
    /// When it was created.
    pub creation_timestamp: Option<Timestamp>,
    /// Set while it is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// Its owners.
    pub owner_references: Vec<Owner>,
    /// All labels.
    pub labels: Strings,
    /// The annotations of [`KEPT_DOMAINS`].
    #[serde(deserialize_with = "kept_annotations")]
    pub annotations: Strings,
}

/// One owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Group and version of the owner.
    pub api_version: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Uid,
    /// Whether it is the managing controller.
    pub controller: Option<bool>,
}

impl Meta {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
        }
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that is its controller.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(AsRef::as_ref)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(AsRef::as_ref)
    }
}

fn kept_annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Strings, D::Error> {
    struct Kept;

    impl<'de> Visitor<'de> for Kept {
        type Value = Strings;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings")
        }

        fn visit_unit<E>(self) -> Result<Strings, E> {
            Ok(Strings::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strings, A::Error> {
            let mut kept = Strings::new();
            while let Some(key) = map.next_key::<Arc<str>>()? {
                if KEPT_DOMAINS.iter().any(|domain| key.starts_with(domain)) && &*key != HEARTBEAT {
                    kept.insert(key, map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(kept)
        }
    }

    deserializer.deserialize_any(Kept)
}

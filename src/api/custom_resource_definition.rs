//! CustomResourceDefinitions, whose names say which kinds a cluster has.

use serde::Deserialize;

use super::{Meta, view};

/// A CustomResourceDefinition. Its name is `PLURAL.GROUP` of the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinition {
    /// Metadata.
    pub metadata: Meta,
}

view!(CustomResourceDefinition, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
    namespaced: false);

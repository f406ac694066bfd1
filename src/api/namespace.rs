//! Namespaces: whether they opt in, and whether they are going.

use serde::Deserialize;

use super::{Meta, view};

/// A Namespace. Its metadata says all: the opt-in annotation and the deletion timestamp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Metadata.
    pub metadata: Meta,
}

view!(Namespace, "", "v1", "Namespace", "namespaces", namespaced: false);

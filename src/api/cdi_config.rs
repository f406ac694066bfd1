//! CDI's configuration, which `explain` reads and the controller does not.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// The feature gate by which late disks wait for a first consumer.
pub const HONOURS: &str = "HonorWaitForFirstConsumer";

/// The CDIConfig; the one that counts is called `config`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CdiConfig {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    feature_gates: Vec<Arc<str>>,
}

view!(CdiConfig, "cdi.kubevirt.io", "v1beta1", "CDIConfig", "cdiconfigs", namespaced: false);

impl CdiConfig {
    /// Whether late disks wait for a first consumer (CDI `feature-gates/feature-gates.go`: absent is off).
    #[must_use]
    pub fn honours_wait_for_first_consumer(&self) -> bool {
        self.feature_gates().iter().any(|gate| &**gate == HONOURS)
    }

    /// All that are on.
    #[must_use]
    pub fn feature_gates(&self) -> &[Arc<str>] {
        &self.spec.feature_gates
    }
}

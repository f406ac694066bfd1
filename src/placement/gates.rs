//! Feature gates: which are on, by the version of KubeVirt that runs.
//!
//! | KubeVirt | Beta gates | what changed for the pod |
//! |---|---|---|
//! | 1.5 | off | - |
//! | 1.6 | off | ImageVolume, GPUsWithDRA, HostDevicesWithDRA exist (alpha) |
//! | 1.7 | off | ImageVolume is beta |
//! | 1.8 | off | ExternalNetResourceInjection exists (beta); gates can be switched off |
//! | 1.9 | on | GPUsWithDRA, HostDevicesWithDRA are beta; NetworkDevicesWithDRA exists (alpha) |
//! | 1.10 | on | - |
//!
//! A version that is unknown, or not told, counts as the newest; one that is older than the table as the oldest.

use crate::api::{KubeVirt, Minor};

/// The KubeVirt minors whose gates are known, oldest first.
pub const KNOWN_MINORS: [Minor; 6] = [
    Minor(1, 5),
    Minor(1, 6),
    Minor(1, 7),
    Minor(1, 8),
    Minor(1, 9),
    Minor(1, 10),
];

/// Since then a beta gate is on unless it is switched off.
const BETA_ON_SINCE: Minor = Minor(1, 9);

/// The gates that change what a pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    AlignCpus,
    ConfigurableHypervisor,
    ContainerPathVolumes,
    CrossArchitectureVirtualization,
    ExternalNetResourceInjection,
    GpusWithDra,
    HostDevicesWithDra,
    HypervStrictCheck,
    ImageVolume,
    Iommufd,
}

impl Gate {
    /// Its name in the configuration, and since which minor it has been beta.
    ///
    /// Mirrors: pkg/virt-config/featuregate/feature-gates.go::RegisterFeatureGate
    fn registered(self) -> (&'static str, Option<Minor>) {
        match self {
            Self::AlignCpus => ("AlignCPUs", None),
            Self::ConfigurableHypervisor => ("ConfigurableHypervisor", None),
            Self::ContainerPathVolumes => ("ContainerPathVolumes", None),
            Self::CrossArchitectureVirtualization => ("CrossArchitectureVirtualization", None),
            Self::ExternalNetResourceInjection => ("ExternalNetResourceInjection", Some(Minor(1, 8))),
            Self::GpusWithDra => ("GPUsWithDRA", Some(Minor(1, 9))),
            Self::HostDevicesWithDra => ("HostDevicesWithDRA", Some(Minor(1, 9))),
            Self::HypervStrictCheck => ("HypervStrictCheck", None),
            Self::ImageVolume => ("ImageVolume", Some(Minor(1, 7))),
            Self::Iommufd => ("IOMMUFD", None),
        }
    }
}

/// Whether a gate is on.
///
/// Mirrors: pkg/virt-config/featuregate/feature-gates.go::GateEnabled
pub(super) fn on(kubevirt: Option<&KubeVirt>, gate: Gate) -> bool {
    let (name, beta_since) = gate.registered();
    let developer = kubevirt.map(|kubevirt| &kubevirt.configuration().developer_configuration);
    let listed = |gates: &[std::sync::Arc<str>]| gates.iter().any(|gate| &**gate == name);
    if developer.is_some_and(|developer| listed(&developer.feature_gates)) {
        return true;
    }
    let minor = kubevirt.and_then(minor).unwrap_or(NEWEST);
    beta_since.is_some_and(|since| minor >= since.max(BETA_ON_SINCE))
        && !developer.is_some_and(|developer| listed(&developer.disabled_feature_gates))
}

const NEWEST: Minor = KNOWN_MINORS[KNOWN_MINORS.len() - 1];

/// Of `status.observedKubeVirtVersion`.
fn minor(kubevirt: &KubeVirt) -> Option<Minor> {
    Minor::read(kubevirt.status.observed_kube_virt_version.as_deref()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubevirt(version: &str, on: &str, off: &str) -> KubeVirt {
        let text = format!(
            r#"{{"spec":{{"configuration":{{"developerConfiguration":{{"featureGates":[{on}],"disabledFeatureGates":[{off}]}}}}}},
            "status":{{"observedKubeVirtVersion":"{version}"}}}}"#
        );
        serde_json::from_str(&text).expect("a KubeVirt")
    }

    #[test]
    fn a_beta_gate_is_on_since_1_9_unless_it_is_switched_off() {
        let image_volume =
            |version, enabled, disabled| on(Some(&kubevirt(version, enabled, disabled)), Gate::ImageVolume);
        for (version, default) in [
            ("v1.5.3", false),
            ("v1.7.0", false),
            ("v1.8.4", false),
            ("v1.9.0-rc.1", true),
            ("v1.10.0", true),
        ] {
            assert_eq!(image_volume(version, "", ""), default, "{version}");
            assert!(image_volume(version, r#""ImageVolume""#, ""), "{version}");
            assert!(!image_volume(version, "", r#""ImageVolume""#), "{version}");
        }
        for newest in ["", "v2.0.0", "devel"] {
            assert!(image_volume(newest, "", ""), "{newest}");
        }
        assert!(on(None, Gate::ImageVolume));
    }

    #[test]
    fn an_alpha_gate_has_to_be_switched_on() {
        assert!(!on(Some(&kubevirt("v1.9.0", "", "")), Gate::HypervStrictCheck));
        assert!(on(
            Some(&kubevirt("v1.9.0", r#""HypervStrictCheck""#, "")),
            Gate::HypervStrictCheck
        ));
    }
}

//! The labels that a node must have.

use std::collections::BTreeMap;

use super::gates::Gate;
use super::spec::{each, filled};
use super::{Vmi, hyperv, launch_security, tsc};

const ARCHITECTURE: &str = "kubernetes.io/arch";

/// KubeVirt's own labels, the cluster's, the VM's, then those that its hardware needs; what comes later wins.
///
/// Mirrors: pkg/virt-controller/services/nodeselectorrenderer.go::Render
pub(super) fn node_selector(vmi: &Vmi<'_>) -> BTreeMap<String, String> {
    let architecture = vmi.architecture();
    let mut selector = BTreeMap::from([("kubevirt.io/schedulable".to_owned(), "true".to_owned())]);
    if !architecture.is_empty() {
        selector.insert(ARCHITECTURE.to_owned(), architecture.to_lowercase());
    }
    selector.extend(
        vmi.config
            .node_selectors()
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    selector.extend(
        vmi.spec
            .node_selector
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    let crosses = !architecture.is_empty() && vmi.config.gate(Gate::CrossArchitectureVirtualization);
    if crosses {
        selector.remove(ARCHITECTURE);
    }
    if vmi.config.gate(Gate::HypervStrictCheck) {
        hyperv::select(vmi, &mut selector);
    }
    let mut need = |label: String| selector.insert(label, "true".to_owned());
    if vmi.dedicated_cpus() {
        need("kubevirt.io/cpumanager".to_owned());
    }
    for label in cpu_labels(vmi) {
        need(label);
    }
    if let Some(machine) = machine(vmi) {
        need(format!("machine-type.node.kubevirt.io/{machine}"));
    }
    if let Some(frequency) = tsc::frequency(vmi) {
        need(format!("scheduling.node.kubevirt.io/tsc-frequency-{frequency}"));
    }
    if vmi.domain.cpu.as_ref().is_some_and(|cpu| cpu.realtime.is_some()) {
        need("kubevirt.io/realtime".to_owned());
    }
    for label in launch_security::labels(vmi) {
        need(label.to_owned());
    }
    if crosses {
        need(format!("kubevirt.io/vm-arch-{architecture}"));
    }
    selector
}

/// A model that nodes announce, and the features that have to be there. Features count only beside a model.
///
/// Mirrors: pkg/virt-controller/services/nodeselectorrenderer.go::CPUFeatureLabelsFromCPUFeatures
pub(super) fn cpu_labels(vmi: &Vmi<'_>) -> Vec<String> {
    let Some((cpu, model)) = vmi
        .domain
        .cpu
        .as_ref()
        .and_then(|cpu| Some((cpu, filled(cpu.model.as_ref())?)))
    else {
        return Vec::new();
    };
    let announced = !matches!(model, "host-model" | "host-passthrough");
    let model = announced.then(|| format!("cpu-model.node.kubevirt.io/{model}"));
    let required = each(cpu.features.as_ref())
        .iter()
        .filter(|feature| matches!(filled(feature.policy.as_ref()), None | Some("require")))
        .map(|feature| {
            format!(
                "cpu-feature.node.kubevirt.io/{}",
                feature.name.as_deref().unwrap_or_default()
            )
        });
    model.into_iter().chain(required).collect()
}

/// The machine type that the VMI runs with, else the one that it shall have.
fn machine<'a>(vmi: &'a Vmi<'_>) -> Option<&'a str> {
    let wanted = || filled(vmi.domain.machine.as_ref()?.r#type.as_ref());
    vmi.inputs.machine.or_else(wanted)
}

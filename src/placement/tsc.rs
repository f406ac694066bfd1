//! The TSC frequency that a VM is pinned to.

use super::Vmi;
use super::spec::{FeatureState, each};
use crate::api::Node;

/// The frequency in Hz that the node must offer, if the VM needs a fixed one and one is known. A VMI has it in its status;
/// for a VM that has none yet it is what virt-controller would choose.
///
/// Mirrors: pkg/virt-controller/watch/topology/hinter.go::TopologyHintsForVMI
pub(super) fn frequency(vmi: &Vmi<'_>) -> Option<i64> {
    if !required(vmi) {
        return None;
    }
    let chosen = || {
        let chooses = vmi.architecture() == "amd64";
        let lowest = || vmi.inputs.nodes.iter().filter_map(|node| of_node(node)).min();
        chooses.then(|| vmi.config.tsc_frequency().or_else(lowest)).flatten()
    };
    vmi.inputs
        .tsc_frequency
        .or_else(chosen)
        .filter(|frequency| *frequency > 0)
}

/// Whether the VM needs a fixed frequency: by the CPU feature invtsc, or by Hyper-V's reenlightenment.
///
/// Mirrors: pkg/virt-controller/watch/topology/tsc.go::GetTscFrequencyRequirement
pub(super) fn required(vmi: &Vmi<'_>) -> bool {
    let features = vmi.domain.cpu.as_ref().and_then(|cpu| cpu.features.as_ref());
    let invariant = each(features).iter().any(|feature| {
        feature.name.as_deref() == Some("invtsc") && matches!(feature.policy.as_deref(), Some("require" | "force"))
    });
    let hyperv = vmi
        .domain
        .features
        .as_ref()
        .and_then(|features| features.hyperv.as_ref());
    invariant || hyperv.is_some_and(|hyperv| hyperv.reenlightenment.as_ref().is_some_and(FeatureState::on))
}

/// The frequency of a node that takes VMs.
///
/// Mirrors: pkg/virt-controller/watch/topology/tsc.go::TSCFrequencyFromNode
pub(super) fn of_node(node: &Node) -> Option<i64> {
    let frequency = node.metadata.label("cpu-timer.node.kubevirt.io/tsc-frequency")?;
    let frequency: i64 = frequency.parse().ok()?;
    (frequency > 0 && node.takes_vms()).then_some(frequency)
}

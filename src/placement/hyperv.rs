//! Hyper-V enlightenments: what they need, and the node labels they select.

use std::collections::BTreeMap;

use super::Vmi;
use super::spec::{CpuFeature, FeatureState, Hyperv};

/// Switches on what the enlightenments need; the first need that was switched off ends it. eVMCS needs the CPU feature
/// vmx.
///
/// Mirrors: pkg/defaults/base/hyperv.go::SetHypervFeatureDependencies
pub(super) fn dependencies(vmi: &mut Vmi<'_>) {
    let Some(hyperv) = vmi
        .domain
        .features
        .as_mut()
        .and_then(|features| features.hyperv.as_mut())
    else {
        return;
    };
    if need_each_other(hyperv).is_none() || !on(hyperv.evmcs.as_ref()) {
        return;
    }
    let cpu = vmi.domain.cpu.get_or_insert_default();
    let features = cpu.features.get_or_insert_default();
    let vmx = features
        .iter_mut()
        .find(|feature| feature.name.as_deref() == Some("vmx"));
    match vmx {
        Some(vmx) => vmx.policy = Some("require".to_owned()),
        None => features.push(CpuFeature {
            name: Some("vmx".to_owned()),
            policy: Some("require".to_owned()),
        }),
    }
}

fn on(state: Option<&FeatureState>) -> bool {
    state.is_some_and(FeatureState::on)
}

fn need_each_other(hyperv: &mut Hyperv) -> Option<()> {
    need(on(hyperv.evmcs.as_ref()), &mut hyperv.vapic)?;
    need(on(hyperv.ipi.as_ref()), &mut hyperv.vpindex)?;
    need(on(hyperv.tlbflush.as_ref()), &mut hyperv.vpindex)?;
    need(on(hyperv.synictimer.as_ref()), &mut hyperv.synic)?;
    need(on(hyperv.synic.as_ref()), &mut hyperv.vpindex)
}

/// `None` if what is needed was switched off.
fn need(needed: bool, state: &mut Option<FeatureState>) -> Option<()> {
    (!needed || state.get_or_insert_default().on()).then_some(())
}

/// Labels of nodes that can do what is switched on.
///
/// Mirrors: pkg/virt-controller/services/nodeselectorrenderer.go::hypervNodeSelectors
pub(super) fn select(vmi: &Vmi<'_>, selector: &mut BTreeMap<String, String>) {
    let Some(hyperv) = vmi
        .domain
        .features
        .as_ref()
        .and_then(|features| features.hyperv.as_ref())
    else {
        return;
    };
    for (state, label) in [
        (&hyperv.vpindex, "vpindex"),
        (&hyperv.runtime, "runtime"),
        (&hyperv.reset, "reset"),
        (&hyperv.synic, "synic"),
        (&hyperv.synictimer, "synictimer"),
        (&hyperv.frequencies, "frequencies"),
        (&hyperv.reenlightenment, "reenlightenment"),
        (&hyperv.tlbflush, "tlbflush"),
        (&hyperv.ipi, "ipi"),
    ] {
        if on(state.as_ref()) {
            selector.insert(format!("hyperv.node.kubevirt.io/{label}"), "true".to_owned());
        }
    }
    if on(hyperv.evmcs.as_ref()) {
        selector.insert("cpu-vendor.node.kubevirt.io/Intel".to_owned(), "true".to_owned());
    }
}

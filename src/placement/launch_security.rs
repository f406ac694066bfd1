//! Confidential computing: SEV, SEV-ES, SEV-SNP, TDX, Secure Execution.

use super::Vmi;
use super::resources::Compute;
use crate::quantity::Quantity;

/// Labels of nodes that can do it.
///
/// Mirrors: pkg/virt-controller/services/template.go::newNodeSelectorRenderer
pub(super) fn labels(vmi: &Vmi<'_>) -> impl Iterator<Item = &'static str> {
    let security = vmi.domain.launch_security.as_ref();
    let encrypts_state = security
        .and_then(|security| security.sev.as_ref()?.policy.as_ref()?.encrypted_state)
        .unwrap_or_default();
    [
        (sev(vmi), "kubevirt.io/sev"),
        (encrypts_state, "kubevirt.io/sev-es"),
        (
            security.is_some_and(|security| security.snp.is_some()),
            "kubevirt.io/sev-snp",
        ),
        (
            security.is_some() && vmi.architecture() == "s390x",
            "kubevirt.io/s390-pv",
        ),
        (tdx(vmi), "kubevirt.io/tdx"),
    ]
    .into_iter()
    .filter_map(|(needed, label)| needed.then_some(label))
}

/// Whether AMD encrypts the guest, in any generation.
///
/// Mirrors: pkg/util/util.go::IsSEVVMI
pub(super) fn sev(vmi: &Vmi<'_>) -> bool {
    let security = vmi.domain.launch_security.as_ref();
    security.is_some_and(|security| security.sev.is_some() || security.snp.is_some())
}

/// Whether Intel encrypts the guest.
///
/// Mirrors: pkg/util/util.go::IsTDXVMI
pub(super) fn tdx(vmi: &Vmi<'_>) -> bool {
    vmi.domain
        .launch_security
        .as_ref()
        .is_some_and(|security| security.tdx.is_some())
}

/// The device that opens the guest.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithSEV
pub(super) fn devices(vmi: &Vmi<'_>, compute: &mut Compute) {
    if sev(vmi) {
        compute.take_one("devices.kubevirt.io/sev");
    }
    if tdx(vmi) {
        compute.take_one("devices.kubevirt.io/tdx");
    }
}

/// What AMD's encryption costs the launcher: 256Mi, once. Intel's costs nothing.
///
/// Mirrors: pkg/hypervisor/kvm/hypervisorbackend.go::GetMemoryOverhead
pub(super) fn overhead(vmi: &Vmi<'_>) -> Quantity {
    if sev(vmi) { Quantity::mebi(256) } else { Quantity::ZERO }
}

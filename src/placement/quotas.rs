//! Limits that a launcher gets because its Namespace has a quota on limits.

use super::Vmi;
use super::resources::Compute;
use crate::quantity::Quantity;

/// Whether the launcher gets a CPU limit: the VM gives none, and a quota or the cluster's Namespace selector asks for it.
///
/// Mirrors: pkg/virt-controller/services/template.go::doesVMIRequireAutoCPULimits
pub(super) fn limits_cpu(vmi: &Vmi<'_>) -> bool {
    let quotas = || vmi.inputs.quotas.iter().any(|quota| quota.limits("limits.cpu"));
    let selected = || vmi.config.limits_cpu_in(vmi.inputs.namespace_labels);
    !vmi.limits.contains_key("cpu") && (quotas() || selected())
}

/// A memory limit for a launcher whose VM gives none, where a quota asks for one: the request (overhead and all) times
/// the Namespace's ratio, in whole bytes.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithAutoMemoryLimits
pub(super) fn memory_limit(vmi: &Vmi<'_>, compute: &mut Compute) {
    let quotas = || vmi.inputs.quotas.iter().any(|quota| quota.limits("limits.memory"));
    if vmi.limits.contains_key("memory") || !quotas() {
        return;
    }
    let request = compute.user_requests.get("memory").copied().unwrap_or_default();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "KubeVirt multiplies 64-bit floats and cuts the result"
    )]
    let limit = (request.value() as f64 * ratio(vmi)) as i64;
    let limit = Quantity::units(limit).in_notation_of(request);
    compute.calculated_limits.insert("memory".to_owned(), limit);
}

/// The ratio of the Namespace's label; 2 without one that makes sense.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::getMemoryLimitsRatio
pub(super) fn ratio(vmi: &Vmi<'_>) -> f64 {
    let labels = vmi.inputs.namespace_labels;
    let label = labels.and_then(|labels| labels.get("alpha.kubevirt.io/auto-memory-limits-ratio"));
    let ratio = label.and_then(|label| label.parse().ok());
    ratio.filter(|ratio: &f64| *ratio >= 1.0).unwrap_or(2.0)
}

//! Memory and ephemeral storage of the compute container.

use super::Vmi;
use super::resources::Compute;
use crate::quantity::Quantity;

/// What KubeVirt's own files on the node cost.
const EPHEMERAL_STORAGE: Quantity = Quantity::units(50_000_000);

/// Ephemeral storage: KubeVirt's own on top of the user's request, and of a limit if there is one.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithEphemeralStorageRequest
pub(super) fn ephemeral_storage(compute: &mut Compute) {
    let request = compute.user_requests.entry("ephemeral-storage".to_owned()).or_default();
    *request = request.plus(EPHEMERAL_STORAGE);
    if let Some(limit) = compute.user_limits.get_mut("ephemeral-storage") {
        *limit = limit.plus(EPHEMERAL_STORAGE);
    }
}

/// A memory request where none is given: the limit, else the guest's memory (or one huge page) by the cluster's
/// overcommit.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithMemoryRequests
pub(super) fn request(vmi: &Vmi<'_>, compute: &mut Compute) {
    let request = compute.user_requests.get("memory").copied();
    if request.is_some_and(|request| !request.is_zero()) {
        return;
    }
    let limit = compute.user_limits.get("memory").copied().unwrap_or_default();
    let guest = || guest(vmi).filter(|memory| request.is_none() && memory.value() > 0);
    if !limit.is_zero() {
        compute.user_requests.insert("memory".to_owned(), limit);
    } else if let Some(memory) = guest() {
        let memory = overcommitted(memory, vmi.config.memory_overcommit());
        compute.user_requests.insert("memory".to_owned(), memory);
    }
}

/// The guest's memory, else the size of one huge page.
fn guest(vmi: &Vmi<'_>) -> Option<Quantity> {
    let memory = vmi.domain.memory.as_ref()?;
    memory.guest.or_else(|| memory.page_size())
}

/// The memory divided by the percentage, in whole bytes. 100 percent changes nothing.
fn overcommitted(memory: Quantity, percent: i64) -> Quantity {
    if percent == 100 {
        return memory;
    }
    let bytes = i128::from(memory.value()) * 100 / i128::from(percent);
    Quantity::units(i64::try_from(bytes).unwrap_or(i64::MAX)).in_notation_of(memory)
}

/// The overhead on top of request (unless the VM overcommits it) and limit.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithMemoryOverhead
pub(super) fn with_overhead(vmi: &Vmi<'_>, compute: &mut Compute, overhead: Quantity) {
    let request = compute.user_requests.entry("memory".to_owned()).or_default();
    if !vmi.overcommits_overhead {
        *request = request.plus(overhead);
    }
    if let Some(limit) = compute.user_limits.get_mut("memory") {
        *limit = limit.plus(overhead);
    }
}

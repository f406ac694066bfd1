//! Huge pages: the guest's memory is asked for as such, the rest as memory.

use super::Vmi;
use super::resources::Compute;
use super::spec::Hugepages;
use crate::quantity::Quantity;

/// Huge pages for the smaller of request and guest memory; memory for what the request (and a limit) has beyond the
/// guest, and for the overhead.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithHugePages
pub(super) fn pages(vmi: &Vmi<'_>, pages: &Hugepages, compute: &mut Compute, overhead: Quantity) {
    let guest = vmi.domain.memory.as_ref().and_then(|memory| memory.guest);
    let request = compute.user_requests.get("memory").copied().unwrap_or_default();
    let beyond_guest = |amount: Quantity| match guest {
        Some(guest) if amount.value() > guest.value() => amount.minus(guest),
        _ => Quantity::ZERO,
    };
    let amount = guest.filter(|guest| request.value() > guest.value()).unwrap_or(request);
    let resource = format!("hugepages-{}", pages.page_size.as_deref().unwrap_or_default());
    compute.calculated_requests.insert(resource.clone(), amount);
    compute.calculated_limits.insert(resource, amount);
    compute
        .user_requests
        .insert("memory".to_owned(), beyond_guest(request).plus(overhead));
    if let Some(limit) = compute.user_limits.get_mut("memory") {
        *limit = beyond_guest(*limit).plus(overhead);
    }
}

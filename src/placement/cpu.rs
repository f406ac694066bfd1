//! CPU: shared by a ratio, or dedicated.

use super::spec::Cpu;
use super::{Vmi, quotas};
use crate::placement::resources::Compute;
use crate::quantity::Quantity;

/// On a VMI (and on the KubeVirt object, for all): round the emulator thread up to an even number of CPUs.
pub(super) const EVEN_PARITY: &str = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity";

/// Virtual CPUs: the product of what is given of cores, sockets and threads; 0 if nothing is.
///
/// Mirrors: pkg/util/hardware/hw_utils.go::GetNumberOfVCPUs
pub(super) fn vcpus(cpu: &Cpu) -> i64 {
    let given = [cpu.cores, cpu.sockets, cpu.threads]
        .into_iter()
        .flatten()
        .filter(|count| *count != 0);
    // KubeVirt's product is one of signed 64-bit numbers too.
    given.map(i64::from).reduce(i64::saturating_mul).unwrap_or(0)
}

/// CPUs of the supplemental pool of IO threads, whatever the policy says.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::getIOThreadsCount
pub(super) fn io_threads(vmi: &Vmi<'_>) -> i64 {
    let pool = vmi
        .domain
        .io_threads
        .as_ref()
        .and_then(|io| io.supplemental_pool_thread_count);
    i64::from(pool.unwrap_or(0))
}

/// Shared CPUs: a request by the cluster's ratio, and a limit only where one is asked for. What the user gives wins.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithoutDedicatedCPU
pub(super) fn shared(vmi: &Vmi<'_>, compute: &mut Compute) {
    let cpus = vmi.domain.cpu.as_ref().map_or(1, vcpus).saturating_add(io_threads(vmi));
    let ratio = vmi.config.cpu_allocation_ratio();
    if cpus == 0 || ratio <= 0 {
        return;
    }
    compute
        .calculated_requests
        .insert("cpu".to_owned(), ratio_of(cpus, ratio));
    if quotas::limits_cpu(vmi) {
        compute
            .calculated_limits
            .insert("cpu".to_owned(), Quantity::units(cpus));
    }
}

/// The quotient as the text that KubeVirt makes of it, which decides how it is rounded: a 64-bit float, in milli below
/// one, and that text's own digits up to a nano unit.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithoutDedicatedCPU
pub(super) fn ratio_of(cpus: i64, ratio: i64) -> Quantity {
    #[expect(clippy::cast_precision_loss, reason = "KubeVirt divides 64-bit floats")]
    let quotient = cpus as f64 / ratio as f64;
    let text = if quotient < 1.0 {
        format!("{}m", quotient * 1000.0)
    } else {
        quotient.to_string()
    };
    // A finite positive number and a suffix are a quantity.
    text.parse().unwrap_or_default()
}

/// Dedicated CPUs: request and limit are the virtual CPUs with IO threads, and one or two for an isolated emulator
/// thread. Memory gets its request as limit.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithCPUPinning
pub(super) fn dedicated(vmi: &Vmi<'_>, compute: &mut Compute) {
    let io = Quantity::units(io_threads(vmi));
    let vcpus = vmi.domain.cpu.as_ref().map_or(0, vcpus);
    for list in [&mut compute.user_limits, &mut compute.user_requests] {
        if vcpus != 0 {
            list.insert("cpu".to_owned(), Quantity::units(vcpus).plus(io));
        } else if let Some(cpu) = list.get_mut("cpu") {
            *cpu = cpu.plus(io);
        }
    }
    if vmi.isolates_emulator_thread() {
        let limit = compute.user_limits.entry("cpu".to_owned()).or_default();
        let even = limit.value().saturating_add(pool_by_policy(vmi)) % 2 == 0;
        let more = Quantity::units(if vmi.even_parity && even { 2 } else { 1 });
        *limit = limit.plus(more);
        if let Some(request) = compute.user_requests.get_mut("cpu") {
            *request = request.plus(more);
        }
    }
    if let Some(memory) = compute.user_requests.get("memory").copied() {
        compute.user_limits.insert("memory".to_owned(), memory);
    }
}

/// IO threads that count for even parity: only those that the policy asks for, though they are in the limit already.
///
/// Mirrors: pkg/virt-controller/services/template.go::VMIResourcePredicates
pub(super) fn pool_by_policy(vmi: &Vmi<'_>) -> i64 {
    if vmi.domain.io_threads_policy.as_deref() == Some("supplementalPool") {
        io_threads(vmi)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_is_rounded_where_kubevirts_text_of_it_ends() {
        for (cpus, ratio, request) in [
            (1, 10, "100m"),
            (1, 3, "333333334n"),
            (4, 3, "1333333334n"),
            (2, 1, "2"),
            (7, 4, "1750m"),
        ] {
            assert_eq!(ratio_of(cpus, ratio).to_string(), request, "{cpus}/{ratio}");
        }
    }
}

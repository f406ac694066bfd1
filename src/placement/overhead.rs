//! Memory that the launcher needs beside the guest's.

use super::spec::each;
use super::{Vmi, cpu, launch_security, networks};
use crate::quantity::Quantity;

/// virt-launcher-monitor, virt-launcher, virtlogd, virtqemud, and QEMU without guest and page tables.
const PROCESSES: Quantity = Quantity::mebi(25 + 100 + 25 + 40 + 50);
const VIRTUAL_CPU: i64 = 8;
const IO_THREAD: Quantity = Quantity::mebi(8);
const GRAPHICS: Quantity = Quantity::mebi(32);
const ARM_FIRMWARE: Quantity = Quantity::mebi(128);
const VFIO: Quantity = Quantity::mebi(1024);
const DOWNWARD_METRICS: Quantity = Quantity::mebi(1);
const EXEC_PROBE: Quantity = Quantity::mebi(10);
const EXEC_PROBES: Quantity = Quantity::mebi(100);
const TPM: Quantity = Quantity::mebi(53);
const GUARANTEED: Quantity = Quantity::mebi(100);

/// All of it, in bytes. The cluster's ratio multiplies everything but what networks cost.
///
/// Mirrors: pkg/virt-controller/services/template.go::CalculateMemoryOverhead
pub(super) fn overhead(vmi: &Vmi<'_>) -> Quantity {
    let own = own(vmi);
    let own = vmi.config.overhead_ratio().map_or(own, |ratio| multiplied(own, ratio));
    own.plus(networks::overhead(vmi))
}

/// What the hypervisor needs.
///
/// Mirrors: pkg/hypervisor/kvm/hypervisorbackend.go::GetMemoryOverhead
pub(super) fn own(vmi: &Vmi<'_>) -> Quantity {
    let devices = &vmi.devices;
    let vfio = !each(devices.gpus.as_ref()).is_empty()
        || !each(devices.host_devices.as_ref()).is_empty()
        || each(devices.interfaces.as_ref())
            .iter()
            .any(|interface| interface.sriov.is_some());
    let metrics = each(vmi.spec.volumes.as_ref())
        .iter()
        .any(|volume| volume.downward_metrics.is_some());
    let reserved = vmi
        .domain
        .memory
        .as_ref()
        .and_then(|memory| memory.reserved_overhead.as_ref()?.added_overhead);
    let parts = [
        (true, PROCESSES),
        (true, virtual_cpus(vmi)),
        (true, IO_THREAD),
        (devices.autoattach_graphics_device != Some(false), GRAPHICS),
        (vmi.architecture() == "arm64", ARM_FIRMWARE),
        (vfio, VFIO),
        (metrics, DOWNWARD_METRICS),
        (true, probes(vmi)),
        (true, launch_security::overhead(vmi)),
        (devices.tpm.as_ref().is_some_and(|tpm| tpm.enabled != Some(false)), TPM),
        (vmi.dedicated_cpus() || vmi.guaranteed(), GUARANTEED),
        (true, reserved.unwrap_or_default()),
    ];
    let needed = parts.into_iter().filter(|(needed, _)| *needed);
    needed.fold(page_tables(vmi), |sum, (_, part)| sum.plus(part))
}

/// One bit for 512 of what is requested in so many words: guest memory alone does not count.
fn page_tables(vmi: &Vmi<'_>) -> Quantity {
    let requested = vmi.requests.get("memory").copied().unwrap_or_default();
    Quantity::units(requested.kilo_value().saturating_mul(1000) / 512)
}

fn virtual_cpus(vmi: &Vmi<'_>) -> Quantity {
    let by_resources = || {
        vmi.limits
            .get("cpu")
            .or_else(|| vmi.requests.get("cpu"))
            .map_or(0, |cpu| cpu.value())
    };
    let count = vmi.domain.cpu.as_ref().map_or_else(by_resources, cpu::vcpus).max(1);
    Quantity::units(count.saturating_mul(VIRTUAL_CPU << 20)).in_notation_of(PROCESSES)
}

fn probes(vmi: &Vmi<'_>) -> Quantity {
    let probes = [&vmi.spec.liveness_probe, &vmi.spec.readiness_probe];
    let exec = probes.into_iter().flatten().filter(|probe| probe.exec.is_some());
    let sum = exec.fold(Quantity::ZERO, |sum, _| sum.plus(EXEC_PROBE));
    if sum.is_zero() { sum } else { sum.plus(EXEC_PROBES) }
}

/// The amount times the ratio; what comes on top is in whole thousands of bytes.
///
/// Mirrors: pkg/hypervisor/kvm/hypervisorbackend.go::MultiplyMemory
pub(super) fn multiplied(amount: Quantity, ratio: f64) -> Quantity {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "KubeVirt multiplies 64-bit floats and cuts the result"
    )]
    let more = (amount.kilo_value() as f64 * (ratio - 1.0)) as i64;
    amount.plus(Quantity::units(more.saturating_mul(1000)))
}

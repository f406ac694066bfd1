//! The defaults that virt-controller and virt-api's webhook give a VMI that is made from a VM's template.

use super::spec::filled;
use super::{Refusal, Vmi, hyperv, networks};

/// Fills in what the template leaves open, in KubeVirt's order.
///
/// Mirrors: pkg/defaults/base/base_defaults.go::SetDefaultVirtualMachineInstance
pub(super) fn apply(vmi: &mut Vmi<'_>) -> Result<(), Refusal> {
    architecture(vmi);
    machine(vmi);
    cpu_request(vmi);
    guest_memory(vmi);
    cpu_topology(vmi);
    networks::default_interface(vmi)?;
    hyperv::dependencies(vmi);
    cpu_model(vmi);
    if vmi.isolates_emulator_thread() && vmi.config.even_parity() {
        vmi.even_parity = true;
    }
    Ok(())
}

/// The cluster's architecture.
///
/// Mirrors: pkg/defaults/base/base_defaults.go::setDefaultArchitecture
pub(super) fn architecture(vmi: &mut Vmi<'_>) {
    if vmi.architecture().is_empty() {
        vmi.spec.architecture = vmi.config.default_architecture().map(str::to_owned);
    }
}

/// The cluster's machine type for the architecture.
///
/// Mirrors: pkg/defaults/base/base_defaults.go::setDefaultMachineType
pub(super) fn machine(vmi: &mut Vmi<'_>) {
    let machine = vmi.domain.machine.get_or_insert_default();
    if filled(machine.r#type.as_ref()).is_none() {
        let architecture = vmi.spec.architecture.as_deref().unwrap_or_default();
        machine.r#type = Some(vmi.config.machine_type(architecture).to_owned());
    }
}

/// The CPU limit as request; else the cluster's request, but not for dedicated CPUs.
///
/// Mirrors: pkg/defaults/base/base_defaults.go::setDefaultResourceRequests
pub(super) fn cpu_request(vmi: &mut Vmi<'_>) {
    let limit = vmi.limits.get("cpu").copied().filter(|limit| !limit.is_zero());
    let requested = vmi.requests.get("cpu").copied();
    if let (Some(limit), true) = (limit, requested.unwrap_or_default().is_zero()) {
        vmi.requests.insert("cpu".to_owned(), limit);
    } else if let (Some(request), None, false) = (vmi.config.cpu_request(), requested, vmi.dedicated_cpus()) {
        vmi.requests.insert("cpu".to_owned(), request);
    }
}

/// The memory request, else the limit, else one huge page.
///
/// Mirrors: pkg/defaults/base/base_defaults.go::setGuestMemory
pub(super) fn guest_memory(vmi: &mut Vmi<'_>) {
    let given = |list: &super::resources::List| list.get("memory").copied().filter(|amount| !amount.is_zero());
    let (request, limit) = (given(&vmi.requests), given(&vmi.limits));
    let memory = vmi.domain.memory.get_or_insert_default();
    if memory.guest.is_none() {
        memory.guest = request.or(limit).or_else(|| memory.page_size());
    }
}

/// Without cores, sockets and threads: as many sockets as CPUs by limit or request, else one.
///
/// Mirrors: pkg/defaults/base/base_defaults.go::SetDefaultGuestCPUTopology
pub(super) fn cpu_topology(vmi: &mut Vmi<'_>) {
    let cpu = vmi.domain.cpu.get_or_insert_default();
    if [cpu.cores, cpu.sockets, cpu.threads]
        .into_iter()
        .flatten()
        .all(|count| count == 0)
    {
        let cpus = vmi.limits.get("cpu").or_else(|| vmi.requests.get("cpu"));
        cpu.sockets = Some(cpus.map_or(1, |cpus| u32::try_from(cpus.value()).unwrap_or(u32::MAX)));
        cpu.cores = Some(1);
        cpu.threads = Some(1);
    }
}

/// The cluster's CPU model, else the host's. Arm machines pass theirs through.
///
/// Mirrors: pkg/defaults/arch/base.go::SetDefaultCPUModel
pub(super) fn cpu_model(vmi: &mut Vmi<'_>) {
    let passes_through = vmi.architecture() == "arm64";
    let cpu = vmi.domain.cpu.get_or_insert_default();
    if filled(cpu.model.as_ref()).is_none() {
        let model = if passes_through {
            "host-passthrough"
        } else {
            vmi.config.cpu_model().unwrap_or("host-model")
        };
        cpu.model = Some(model.to_owned());
    }
}

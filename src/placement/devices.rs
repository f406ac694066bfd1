//! Devices: those that every VM needs, GPUs and host devices, disk reservations.

use super::gates::Gate;
use super::resources::Compute;
use super::spec::{Device, each, filled};
use super::{Refusal, Vmi, networks, volumes};
use crate::quantity::Quantity;

/// The node's devices that a VM runs on, as limits only: the API server makes requests of them.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::getRequiredResources
pub(super) fn base(vmi: &Vmi<'_>, compute: &mut Compute) {
    let emulates = vmi.config.emulates();
    for (needed, device) in [
        (networks::needs_tun(vmi), "devices.kubevirt.io/tun"),
        (networks::has_virtio(vmi) && !emulates, "devices.kubevirt.io/vhost-net"),
        (!emulates, vmi.config.hypervisor_device()),
        (
            vmi.devices.autoattach_vsock == Some(true),
            "devices.kubevirt.io/vhost-vsock",
        ),
    ] {
        if needed {
            compute.user_limits.insert(device.to_owned(), Quantity::units(1));
        }
    }
}

/// One of each GPU and host device that a device plugin hands out.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithGPUsDevicePlugins
pub(super) fn plugged(vmi: &Vmi<'_>, compute: &mut Compute) {
    let devices = [vmi.devices.gpus.as_ref(), vmi.devices.host_devices.as_ref()];
    for device in devices.into_iter().flat_map(each) {
        if let (Some(name), false) = (filled(device.device_name.as_ref()), claimed(device)) {
            compute.take_one(name);
        }
    }
}

/// The helper for SCSI reservations, and IOMMUFD where the cluster has it.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::WithPersistentReservation
pub(super) fn helpers(vmi: &Vmi<'_>, compute: &mut Compute) {
    if volumes::reserves(vmi) {
        compute.take_one("devices.kubevirt.io/pr-helper");
    }
    if vmi.config.gate(Gate::Iommufd) {
        compute.take_one("devices.kubevirt.io/iommufd");
    }
}

/// Refuses GPUs and host devices that the cluster does not permit, if it permits any by name.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::validatePermittedHostDevices
pub(super) fn check_permitted(vmi: &Vmi<'_>) -> Result<(), Refusal> {
    let Some(permitted) = vmi.config.permitted_devices() else {
        return Ok(());
    };
    for (devices, gate) in [
        (vmi.devices.gpus.as_ref(), Gate::GpusWithDra),
        (vmi.devices.host_devices.as_ref(), Gate::HostDevicesWithDra),
    ] {
        let by_claim = vmi.config.gate(gate);
        for device in each(devices).iter().filter(|device| !(by_claim && claimed(device))) {
            let name = device.device_name.as_deref().unwrap_or_default();
            if !permitted.contains(&name) {
                return Err(Refusal::DeviceNotPermitted(name.to_owned()));
            }
        }
    }
    Ok(())
}

/// Whether a resource claim brings it.
fn claimed(device: &Device) -> bool {
    device.claim_name.is_some() || device.request_name.is_some()
}

//! The launcher's other containers: console log, container disks, shared folders, hooks.

use serde::Deserialize;

use super::gates::Gate;
use super::resources::{Container, List, Role};
use super::spec::each;
use super::{Refusal, Vmi, networks};
use crate::quantity::Quantity;

/// The containers beside compute, in pod order.
///
/// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
pub(super) fn containers(vmi: &Vmi<'_>) -> Result<Vec<Container>, Refusal> {
    let mut containers = Vec::new();
    containers.extend(shared_folders(vmi));
    containers.extend(hook_containers(vmi)?);
    containers.extend(console_log(vmi));
    containers.extend(container_disks(vmi));
    Ok(containers)
}

/// What a container of `kind` asks for: the defaults, unless the cluster sets something else for that kind.
fn support(vmi: &Vmi<'_>, kind: &str, role: Role, cpu: [i64; 2], memory: [i64; 2]) -> Container {
    let mut container = Container {
        role,
        ..Container::default()
    };
    for (resource, [request, limit]) in [
        ("cpu", cpu.map(Quantity::milli)),
        ("memory", memory.map(|megabytes| Quantity::units(megabytes * 1_000_000))),
    ] {
        let (set_request, set_limit) = vmi.config.support_container(kind, resource);
        container
            .requests
            .insert(resource.to_owned(), set_request.unwrap_or(request));
        container.limits.insert(resource.to_owned(), set_limit.unwrap_or(limit));
    }
    container
}

/// What is limited is requested too, so that the pod stays Guaranteed.
fn guarantee(container: &mut Container) {
    let limits = container.limits.iter().map(|(name, amount)| (name.clone(), *amount));
    container.requests.extend(limits);
}

/// The container that prints the guest's console.
///
/// Mirrors: pkg/virt-controller/services/serialconsolelog.go::generateSerialConsoleLogContainer
pub(super) fn console_log(vmi: &Vmi<'_>) -> Option<Container> {
    let logs = vmi
        .devices
        .log_serial_console
        .unwrap_or(!vmi.config.console_log_disabled());
    if vmi.devices.autoattach_serial_console == Some(false) || !logs {
        return None;
    }
    let mut container = support(vmi, "guest-console-log", Role::Sidecar, [5, 15], [35, 60]);
    if vmi.dedicated_cpus() || vmi.guaranteed() {
        guarantee(&mut container);
    }
    Some(container)
}

/// Container disks and a kernel from an image. As image volumes each costs an init container that resolves its digest;
/// before that, a container beside compute, one before it, and one that copies the binary for them.
///
/// Mirrors: pkg/container-disk/container-disk.go::GenerateContainers
pub(super) fn container_disks(vmi: &Vmi<'_>) -> Vec<Container> {
    let firmware = vmi.domain.firmware.as_ref();
    let kernel = firmware.and_then(|firmware| firmware.kernel_boot.as_ref()?.container.as_ref());
    let volumes = each(vmi.spec.volumes.as_ref()).iter();
    let disks = volumes.filter(|volume| volume.container_disk.is_some()).count();
    let images = disks + usize::from(kernel.is_some());
    let of_image = |role| {
        let mut container = support(vmi, "container-disk", role, [1, 10], [1, 40]);
        if vmi.dedicated_cpus() || vmi.guaranteed() {
            guarantee(&mut container);
        }
        let storage = Quantity::units(50_000_000);
        container.requests.insert("ephemeral-storage".to_owned(), storage);
        container
    };
    if vmi.config.gate(Gate::ImageVolume) {
        let resolved = vmi.annotation("kubevirt.io/image-volume-skip-digest-resolution") == Some("true");
        let images = if resolved { 0 } else { images };
        return std::iter::repeat_with(|| of_image(Role::Init)).take(images).collect();
    }
    if images == 0 {
        return Vec::new();
    }
    let mut binary = support(vmi, "container-disk", Role::Init, [10, 100], [1, 40]);
    if vmi.dedicated_cpus() || vmi.guaranteed() {
        let set = |resource| vmi.config.support_container("container-disk", resource).1;
        let alike = List::from([
            ("cpu".to_owned(), set("cpu").unwrap_or(Quantity::milli(10))),
            (
                "memory".to_owned(),
                set("memory").unwrap_or(Quantity::units(40_000_000)),
            ),
        ]);
        (binary.requests, binary.limits) = (alike.clone(), alike);
    }
    let disks = [Role::Main, Role::Init]
        .into_iter()
        .flat_map(|role| std::iter::repeat_n(role, images));
    std::iter::once(binary).chain(disks.map(of_image)).collect()
}

/// A container for each volume that is shared with the guest as a folder.
///
/// Mirrors: pkg/virt-controller/services/virtiofs.go::generateVirtioFSContainers
pub(super) fn shared_folders(vmi: &Vmi<'_>) -> impl Iterator<Item = Container> {
    let folders = each(vmi.devices.filesystems.as_ref());
    let shared = |volume: &&super::spec::Volume| {
        volume.container_path.is_none() && folders.iter().any(|folder| folder.name == volume.name)
    };
    each(vmi.spec.volumes.as_ref()).iter().filter(shared).map(|_| {
        let mut container = support(vmi, "virtiofs", Role::Main, [10, 100], [1, 80]);
        if vmi.dedicated_cpus() || vmi.guaranteed() {
            guarantee(&mut container);
        }
        container
    })
}

/// A hook sidecar of the annotation.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Hook {
    pvc: Option<HookClaim>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HookClaim {
    name: String,
}

impl Hook {
    /// The claim that it mounts.
    ///
    /// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
    pub(super) fn claim(&self) -> Option<&str> {
        self.pvc.as_ref().map(|claim| claim.name.as_str())
    }
}

/// The hook sidecars that the VM asks for.
///
/// Mirrors: pkg/hooks/hooks.go::UnmarshalHookSidecarList
pub(super) fn hooks(vmi: &Vmi<'_>) -> Result<Vec<Hook>, Refusal> {
    let Some(annotation) = vmi.annotation("hooks.kubevirt.io/hookSidecars") else {
        return Ok(Vec::new());
    };
    let hooks: Option<Vec<Hook>> =
        serde_json::from_str(annotation).map_err(|error| Refusal::Hooks(error.to_string()))?;
    Ok(hooks.unwrap_or_default())
}

/// A container for each hook and each network plugin with an image: without resources of its own, unless the pod is
/// Guaranteed or the cluster sets some.
///
/// Mirrors: pkg/virt-controller/services/renderresources.go::sidecarResources
pub(super) fn hook_containers(vmi: &Vmi<'_>) -> Result<Vec<Container>, Refusal> {
    let plugins = networks::plugins(vmi)?;
    let with_image = plugins
        .iter()
        .filter(|plugin| plugin.sidecar_image.as_ref().is_some_and(|image| !image.is_empty()));
    let count = hooks(vmi)?.len() + with_image.count();
    let mut container = Container::default();
    let guaranteed = vmi.dedicated_cpus() || vmi.guaranteed();
    for (resource, default) in [("cpu", Quantity::milli(200)), ("memory", Quantity::units(64_000_000))] {
        let (request, limit) = vmi.config.support_container("sidecar", resource);
        let limit = limit.or(guaranteed.then_some(default));
        let request = if guaranteed { limit } else { request };
        container
            .requests
            .extend(request.map(|amount| (resource.to_owned(), amount)));
        container
            .limits
            .extend(limit.map(|amount| (resource.to_owned(), amount)));
    }
    Ok(vec![container; count])
}

//! Networks: their devices, plugins, and what they cost.

use std::collections::BTreeSet;

use super::gates::Gate;
use super::resources::Compute;
use super::spec::{Interface, Network, each, filled};
use super::{Refusal, Vmi};
use crate::api::BindingPlugin;
use crate::quantity::Quantity;

/// What the built-in passt binding costs.
const PASST: Quantity = Quantity::mebi(250);

/// The pod network for a VM that names no network and no interface, unless it wants none.
///
/// Mirrors: pkg/network/vmispec/defaults.go::SetDefaultNetworkInterface
pub(super) fn default_interface(vmi: &mut Vmi<'_>) -> Result<(), Refusal> {
    let interfaces = &mut vmi.devices.interfaces;
    let none = each(interfaces.as_ref()).is_empty() && each(vmi.spec.networks.as_ref()).is_empty();
    if !none || vmi.devices.autoattach_pod_interface == Some(false) {
        return Ok(());
    }
    match vmi.config.default_interface() {
        ("bridge", false) => Err(Refusal::NoBridge),
        ("slirp", _) => Err(Refusal::Slirp),
        ("bridge" | "masquerade", _) => {
            let name = Some("default".to_owned());
            *interfaces = Some(vec![Interface {
                name: name.clone(),
                ..Interface::default()
            }]);
            vmi.spec.networks = Some(vec![Network { name, multus: None }]);
            Ok(())
        }
        // KubeVirt adds the network, which alone costs nothing.
        _ => Ok(()),
    }
}

/// Whether the VM needs a TAP device.
///
/// Mirrors: pkg/network/vmispec/devices.go::RequiresTunDevice
pub(super) fn needs_tun(vmi: &Vmi<'_>) -> bool {
    !each(vmi.devices.interfaces.as_ref()).is_empty() || vmi.devices.autoattach_pod_interface != Some(false)
}

/// Whether a network card is virtio, the default.
///
/// Mirrors: pkg/network/vmispec/devices.go::RequiresVirtioNetDevice
pub(super) fn has_virtio(vmi: &Vmi<'_>) -> bool {
    let mut cards = each(vmi.devices.interfaces.as_ref()).iter();
    cards.any(|card| matches!(filled(card.model.as_ref()), None | Some("virtio")))
}

/// One of the resource that each secondary network's definition names. Newer KubeVirt leaves that to an injector, which
/// sees only launchers.
///
/// Mirrors: pkg/network/multus/nad.go::NetworkToResource
pub(super) fn devices(vmi: &Vmi<'_>, compute: &mut Compute) -> Result<(), Refusal> {
    if vmi.config.gate(Gate::ExternalNetResourceInjection) {
        return Ok(());
    }
    for network in each(vmi.spec.networks.as_ref()) {
        let Some(name) = network
            .multus
            .as_ref()
            .map(|multus| multus.network_name.as_deref().unwrap_or_default())
        else {
            continue;
        };
        let (namespace, name) = name.split_once('/').unwrap_or((vmi.inputs.namespace, name));
        let definition = (vmi.inputs.network)(namespace, name)
            .ok_or_else(|| Refusal::NetworkMissing(format!("{namespace}/{name}")))?;
        if let Some(resource) = definition.resource() {
            compute.take_one(resource);
        }
    }
    Ok(())
}

/// What binding plugins and passt cost, each once.
///
/// Mirrors: pkg/network/resources/memory.go::Calculate
pub(super) fn overhead(vmi: &Vmi<'_>) -> Quantity {
    let mut cards = each(vmi.devices.interfaces.as_ref()).iter();
    let passt = if cards.any(|card| card.passt_binding.is_some()) {
        PASST
    } else {
        Quantity::ZERO
    };
    let plugins = binding_names(vmi)
        .into_iter()
        .filter_map(|name| vmi.config.binding(name));
    let costs = plugins.filter_map(|plugin| plugin.compute_resource_overhead.requests.get("memory"));
    costs.fold(passt, |sum, cost| sum.plus(*cost))
}

/// The plugins in use, each once.
///
/// Mirrors: pkg/network/netbinding/netbinding.go::NetBindingPluginSidecarList
pub(super) fn plugins<'a>(vmi: &Vmi<'a>) -> Result<Vec<&'a BindingPlugin>, Refusal> {
    let registered = |name: &str| {
        vmi.config
            .binding(name)
            .ok_or_else(|| Refusal::BindingMissing(name.to_owned()))
    };
    binding_names(vmi).into_iter().map(registered).collect()
}

fn binding_names<'a>(vmi: &'a Vmi<'_>) -> BTreeSet<&'a str> {
    let cards = each(vmi.devices.interfaces.as_ref()).iter();
    cards
        .filter_map(|card| Some(card.binding.as_ref()?.name.as_deref().unwrap_or_default()))
        .collect()
}

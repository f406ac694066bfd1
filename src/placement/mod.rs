//! What the VM will ask the scheduler for (design section 7): a VMI spec and what surrounds it in, a [`Placement`] out.
//!
//! One file a concern. Each function names the function of KubeVirt whose outcome it mirrors; the rules are described in
//! our own words, and the vectors in `e2e/render-vectors` hold what KubeVirt itself makes of them.

mod affinity;
mod config;
mod cpu;
mod defaults;
mod devices;
mod gates;
mod hugepages;
mod hyperv;
mod launch_security;
mod memory;
mod networks;
mod node_selector;
mod overhead;
mod quotas;
mod resources;
mod sidecars;
mod spec;
mod tsc;
mod verbatim;
mod volumes;

mod peers;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::api::{
    KubeVirt, NetworkAttachmentDefinition, Node, PersistentVolumeClaim, ResourceQuota, Strings, Template, without_nulls,
};
use crate::quantity::Quantity;
use config::Config;
pub use gates::KNOWN_MINORS;
use resources::{Compute, List};
use spec::{Devices, Domain, Resources, Spec};

pub use peers::Domains;

/// What a hash of ours begins with. One with another beginning is of another version, and counts as equal.
pub const HASH_VERSION: &str = "v1:";

/// The fields of a pod that decide where it may run. Sub-trees stay JSON, so that fields of newer Kubernetes survive.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Labels that a node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Node and pod affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// Tolerations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Value>,
    /// Spread constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Value>,
    /// The scheduler's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// The priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The runtime class, which may cost something too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// Resource claims of the pod (dynamic resource allocation).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claims: Option<Value>,
    /// What the scheduler counts for the whole launcher, by resource name.
    #[serde(skip)]
    pub requests: BTreeMap<String, Quantity>,
    /// What quotas count as its limits. May be below the requests: not every container of the launcher has a limit.
    #[serde(skip)]
    pub limits: BTreeMap<String, Quantity>,
    /// The claims that the launcher lists, one entry a volume, sorted by name.
    #[serde(skip)]
    pub claims: Vec<PlacedClaim>,
}

/// A claim that the launcher lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedClaim {
    /// Its name.
    pub claim_name: Arc<str>,
    /// Whether the launcher gets it as a device.
    pub block: bool,
    /// Whether the launcher may only read it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl PlacedClaim {
    fn new(name: &str, block: bool) -> Self {
        Self {
            claim_name: name.into(),
            block,
            read_only: false,
        }
    }
}

/// Why there is no placement: what KubeVirt would not render, we do not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The spec names an instancetype or preference, so the template alone does not say what the VM will ask for.
    #[error(
        "the VM names an instancetype or preference, and its spec has not been expanded: what they add is missing, and only virt-api of a cluster can tell it"
    )]
    NotExpanded,
    /// The spec has a field that can't be read.
    #[error("{path}: {message}")]
    Unreadable {
        /// The field, such as `domain.cpu.cores`.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// A claim that the VM boots from does not exist.
    #[error("the claim {0} does not exist")]
    ClaimMissing(String),
    /// A network attachment definition, `namespace/name`.
    #[error("the network attachment definition {0} does not exist")]
    NetworkMissing(String),
    /// A network binding plugin.
    #[error("the network binding plugin {0} is not registered in the KubeVirt object")]
    BindingMissing(String),
    /// A GPU or host device.
    #[error("the device {0:?} is not among the KubeVirt object's permittedHostDevices")]
    DeviceNotPermitted(String),
    /// The default interface is a bridge.
    #[error(
        "the cluster's default interface is a bridge, which the KubeVirt object does not permit on the pod network"
    )]
    NoBridge,
    /// The default interface is slirp.
    #[error("the cluster's default interface is slirp, which KubeVirt no longer has")]
    Slirp,
    /// The annotation of hook sidecars.
    #[error("the annotation hooks.kubevirt.io/hookSidecars cannot be read: {0}")]
    Hooks(String),
    /// A containerPath volume is shared with the guest.
    #[error("a containerPath volume is shared as a filesystem, and the feature gate ContainerPathVolumes is off")]
    ContainerPath,
    /// A sysprep volume without a source.
    #[error("the sysprep volume {0} has neither a secret nor a configMap")]
    Sysprep(String),
    /// The label that sets the launcher's verbosity.
    #[error("the label logVerbosity is no number: {0}")]
    LogVerbosity(String),
}

/// All that a placement depends on.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Labels, annotations and spec of the VMI.
    pub template: &'a Template,
    /// Whether the spec comes from a VMI that the API server holds, which has its defaults already.
    pub defaulted: bool,
    /// The machine type that the VMI was started with.
    pub machine: Option<&'a str>,
    /// The TSC frequency in Hz that virt-controller chose for the VMI.
    pub tsc_frequency: Option<i64>,
    /// The Namespace.
    pub namespace: &'a str,
    /// Its labels, if it is known.
    pub namespace_labels: Option<&'a Strings>,
    /// The KubeVirt object; without one, KubeVirt's defaults count.
    pub kubevirt: Option<&'a KubeVirt>,
    /// A claim of the Namespace by name.
    pub claim: &'a dyn Fn(&str) -> Option<&'a PersistentVolumeClaim>,
    /// The claim that keeps TPM and EFI state, if they are kept and it exists.
    pub state_claim: Option<&'a str>,
    /// The Namespace's quotas.
    pub quotas: &'a [&'a ResourceQuota],
    /// A network attachment definition by Namespace and name.
    pub network: &'a dyn Fn(&str, &str) -> Option<&'a NetworkAttachmentDefinition>,
    /// The Nodes.
    pub nodes: &'a [&'a Node],
}

/// A VMI while it is placed: its spec taken apart, with the defaults that it gets.
struct Vmi<'a> {
    inputs: &'a Inputs<'a>,
    config: Config<'a>,
    spec: Spec,
    domain: Domain,
    devices: Devices,
    /// `domain.resources`.
    requests: List,
    limits: List,
    overcommits_overhead: bool,
    /// Whether an isolated emulator thread is rounded up to an even number of CPUs.
    even_parity: bool,
}

impl<'a> Vmi<'a> {
    fn new(inputs: &'a Inputs<'a>) -> Result<Self, Refusal> {
        let mut spec = read(&inputs.template.spec.json)?;
        let mut domain = spec.domain.take().unwrap_or_default();
        let devices = domain.devices.take().unwrap_or_default();
        let Resources {
            requests,
            limits,
            overcommit_guest_overhead,
        } = domain.resources.take().unwrap_or_default();
        Ok(Self {
            config: Config(inputs.kubevirt),
            spec,
            domain,
            devices,
            requests: requests.unwrap_or_default(),
            limits: limits.unwrap_or_default(),
            overcommits_overhead: overcommit_guest_overhead == Some(true),
            even_parity: inputs.template.metadata.annotations.contains_key(cpu::EVEN_PARITY),
            inputs,
        })
    }

    fn architecture(&self) -> &str {
        self.spec.architecture.as_deref().unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.inputs.template.metadata.annotations.get(key).map(AsRef::as_ref)
    }

    fn dedicated_cpus(&self) -> bool {
        let cpu = self.domain.cpu.as_ref();
        cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement == Some(true))
    }

    fn isolates_emulator_thread(&self) -> bool {
        let cpu = self.domain.cpu.as_ref();
        cpu.is_some_and(|cpu| cpu.isolate_emulator_thread == Some(true))
    }

    /// Whether requests and limits say that the VM wants the QoS class Guaranteed: memory is limited to what is
    /// requested, or only limited; CPU is limited to what is requested.
    fn guaranteed(&self) -> bool {
        let amount = |list: &List, resource: &str| list.get(resource).copied().unwrap_or_default();
        let (request, limit) = (amount(&self.requests, "memory"), amount(&self.limits, "memory"));
        let memory = (!request.is_zero() && request == limit) || (request.is_zero() && !limit.is_zero());
        let cpu = amount(&self.requests, "cpu");
        memory && !cpu.is_zero() && cpu == amount(&self.limits, "cpu")
    }
}

/// Reads a VMI spec; a field that can't be read is named.
fn read(json: &str) -> Result<Spec, Refusal> {
    if json.is_empty() || json == "null" {
        return Ok(Spec::default());
    }
    serde_json::from_str(json).or_else(|_| {
        // Once more, which only broken specs pay for, to learn where it fails.
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(json)).map_err(|error| {
            Refusal::Unreadable {
                path: error.path().to_string(),
                message: error.into_inner().to_string(),
            }
        })
    })
}

/// Whether a VMI spec (JSON text) can be read, without placing it.
///
/// Mirrors: pkg/util/webhooks/webhooks.go::ValidateSchema
pub fn check(spec: &str) -> Result<(), Refusal> {
    read(spec).map(drop)
}

impl Placement {
    /// The placement of the launcher of a VMI.
    ///
    /// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
    pub fn of<'a>(inputs: &'a Inputs<'a>) -> Result<Self, Refusal> {
        let mut vmi = Vmi::new(inputs)?;
        if !inputs.defaulted {
            defaults::apply(&mut vmi)?;
        }
        verbatim::check(&vmi)?;
        devices::check_permitted(&vmi)?;
        volumes::check(&vmi)?;
        let mut claims = volumes::claims(&vmi)?;
        claims.sort_unstable();
        let mut containers = vec![compute(&vmi)?.finished()];
        containers.extend(sidecars::containers(&vmi)?);
        let (requests, limits) = resources::effective(&containers);
        let plain = |tree: Option<Value>| tree.map(without_nulls);
        Ok(Self {
            node_selector: node_selector::node_selector(&vmi),
            affinity: plain(affinity::affinity(&vmi)),
            tolerations: plain(verbatim::tolerations(&vmi)),
            topology_spread_constraints: plain(verbatim::topology_spread_constraints(&vmi)),
            scheduler_name: verbatim::scheduler_name(&vmi),
            priority_class_name: verbatim::priority_class_name(&vmi),
            runtime_class_name: verbatim::runtime_class_name(&vmi),
            resource_claims: plain(verbatim::resource_claims(&vmi)),
            requests,
            limits,
            claims,
        })
    }
}

/// The compute container's resources: rule by rule in KubeVirt's order, since later ones read what earlier ones wrote.
fn compute(vmi: &Vmi<'_>) -> Result<Compute, Refusal> {
    let overhead = overhead::overhead(vmi);
    let mut compute = Compute {
        user_requests: vmi.requests.clone(),
        user_limits: vmi.limits.clone(),
        ..Compute::default()
    };
    memory::ephemeral_storage(&mut compute);
    devices::base(vmi, &mut compute);
    memory::request(vmi, &mut compute);
    if vmi.dedicated_cpus() {
        cpu::dedicated(vmi, &mut compute);
    } else {
        cpu::shared(vmi, &mut compute);
    }
    match vmi.domain.memory.as_ref().and_then(|memory| memory.hugepages.as_ref()) {
        Some(pages) => hugepages::pages(vmi, pages, &mut compute, overhead),
        None => memory::with_overhead(vmi, &mut compute, overhead),
    }
    quotas::memory_limit(vmi, &mut compute);
    networks::devices(vmi, &mut compute)?;
    devices::plugged(vmi, &mut compute);
    launch_security::devices(vmi, &mut compute);
    devices::helpers(vmi, &mut compute);
    Ok(compute)
}

#[cfg(test)]
mod tests;

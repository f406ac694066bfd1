//! The KubeVirt object: the configuration that changes what a launcher asks for.

#![expect(clippy::struct_field_names, reason = "the names are the API's")]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{LabelSelector, Meta, view};
use crate::quantity::Quantity;

/// A KubeVirt. A cluster has one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct KubeVirt {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
    /// What virt-operator says of it.
    pub status: Status,
}

view!(KubeVirt, "kubevirt.io", "v1", "KubeVirt", "kubevirts", namespaced: true);

impl KubeVirt {
    /// The configuration, as it was given.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        &self.spec.configuration
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    configuration: Configuration,
}

/// What is read of `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The version that runs, such as `v1.8.2`.
    pub observed_kube_virt_version: Option<Arc<str>>,
    /// The architecture of VMs that name none.
    pub default_architecture: Option<Arc<str>>,
}

/// What is read of `spec.configuration`; an absent field has KubeVirt's own default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Configuration {
    /// Factor on the memory overhead, as text.
    pub additional_guest_memory_overhead_ratio: Option<Arc<str>>,
    /// Machine types by architecture.
    pub architecture_configuration: Architectures,
    /// Namespaces whose VMs get a CPU limit.
    #[serde(rename = "autoCPULimitNamespaceLabelSelector")]
    pub auto_cpu_limit_namespace_label_selector: Option<LabelSelector>,
    /// CPU model of VMs that name none.
    pub cpu_model: Option<Arc<str>>,
    /// CPU request of VMs that name none.
    pub cpu_request: Option<Quantity>,
    /// Runtime class of launchers.
    pub default_runtime_class: Option<Arc<str>>,
    /// For developers, but not only.
    pub developer_configuration: DeveloperConfiguration,
    /// The hypervisor; only the first counts.
    pub hypervisors: Vec<Hypervisor>,
    /// Machine type of VMs that name none, of any architecture.
    pub machine_type: Option<Arc<str>>,
    /// Networks.
    pub network: Network,
    /// Devices that VMs may use; absent: all.
    pub permitted_host_devices: Option<PermittedHostDevices>,
    /// Resources of the launcher's other containers.
    pub support_container_resources: Vec<SupportContainerResources>,
    /// Switches for all VMs.
    pub virtual_machine_options: VirtualMachineOptions,
}

/// `architectureConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Architectures {
    /// For amd64, and for architectures that are unknown.
    pub amd64: Architecture,
    /// For arm64.
    pub arm64: Architecture,
    /// For ppc64le.
    pub ppc64le: Architecture,
}

/// Settings of one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Architecture {
    /// Machine type of VMs that name none.
    pub machine_type: Option<Arc<str>>,
}

/// `developerConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeveloperConfiguration {
    /// Feature gates that are switched on.
    pub feature_gates: Vec<Arc<str>>,
    /// Feature gates that are switched off.
    pub disabled_feature_gates: Vec<Arc<str>>,
    /// Virtual CPUs per requested CPU.
    pub cpu_allocation_ratio: Option<i64>,
    /// Guest memory per requested memory, in percent.
    pub memory_overcommit: Option<i64>,
    /// Hz; what VMs with a fixed TSC frequency get.
    #[serde(rename = "minimumClusterTSCFrequency")]
    pub minimum_cluster_tsc_frequency: Option<i64>,
    /// Node labels that every launcher selects.
    pub node_selectors: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether VMs run without KVM.
    pub use_emulation: bool,
}

/// One of `hypervisors`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hypervisor {
    /// `kvm` or `hyperv-direct`.
    pub name: Arc<str>,
}

/// `network`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Binding plugins by name.
    pub binding: BTreeMap<Arc<str>, BindingPlugin>,
    /// `bridge`, `masquerade` or `slirp`.
    pub default_network_interface: Option<Arc<str>>,
    /// Whether the pod network may be bridged.
    pub permit_bridge_interface_on_pod_network: Option<bool>,
}

/// A network binding plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingPlugin {
    /// Image of its sidecar, if it has one.
    pub sidecar_image: Option<Arc<str>>,
    /// What it costs the compute container.
    pub compute_resource_overhead: Resources,
}

/// Requests and limits by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Requests.
    pub requests: BTreeMap<Arc<str>, Quantity>,
    /// Limits.
    pub limits: BTreeMap<Arc<str>, Quantity>,
}

/// `permittedHostDevices`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PermittedHostDevices {
    /// PCI devices.
    pub pci_host_devices: Vec<PermittedDevice>,
    /// Mediated devices.
    pub mediated_devices: Vec<PermittedDevice>,
    /// USB devices.
    pub usb: Vec<PermittedDevice>,
}

/// A device that VMs may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PermittedDevice {
    /// The name that VMs ask for.
    pub resource_name: Arc<str>,
}

/// Resources of one type of the launcher's other containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SupportContainerResources {
    /// `container-disk`, `virtiofs`, `sidecar`, `guest-console-log` and so on.
    pub r#type: Arc<str>,
    /// What it asks for instead of KubeVirt's default.
    pub resources: Resources,
}

/// `virtualMachineOptions`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineOptions {
    /// Present if guests' consoles are not logged.
    pub disable_serial_console_log: Option<IgnoredAny>,
}

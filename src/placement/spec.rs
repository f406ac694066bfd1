//! The parts of a VMI spec that placement reads. Everything is optional; unknown fields are ignored.

#![expect(clippy::struct_field_names, reason = "the names are the API's")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::resources::List;
use crate::quantity::Quantity;

/// A VMI spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub affinity: Option<Value>,
    pub architecture: Option<String>,
    pub domain: Option<Domain>,
    pub liveness_probe: Option<Probe>,
    pub networks: Option<Vec<Network>>,
    pub node_selector: Option<BTreeMap<String, String>>,
    pub priority_class_name: Option<String>,
    pub readiness_probe: Option<Probe>,
    pub resource_claims: Option<Value>,
    pub scheduler_name: Option<String>,
    pub tolerations: Option<Value>,
    pub topology_spread_constraints: Option<Value>,
    pub volumes: Option<Vec<Volume>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Probe {
    pub exec: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Network {
    pub name: Option<String>,
    pub multus: Option<Multus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Multus {
    pub network_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Volume {
    pub name: Option<String>,
    pub container_disk: Option<IgnoredAny>,
    pub container_path: Option<IgnoredAny>,
    pub data_volume: Option<Source>,
    pub downward_metrics: Option<IgnoredAny>,
    pub ephemeral: Option<Ephemeral>,
    pub persistent_volume_claim: Option<Source>,
    pub sysprep: Option<Sysprep>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Sysprep {
    pub secret: Option<IgnoredAny>,
    pub config_map: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ephemeral {
    pub persistent_volume_claim: Option<Source>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Source {
    pub name: Option<String>,
    pub claim_name: Option<String>,
    pub hotpluggable: Option<bool>,
    pub read_only: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Domain {
    pub cpu: Option<Cpu>,
    pub devices: Option<Devices>,
    pub features: Option<Features>,
    pub firmware: Option<Firmware>,
    pub io_threads: Option<IoThreads>,
    pub io_threads_policy: Option<String>,
    pub launch_security: Option<LaunchSecurity>,
    pub machine: Option<Machine>,
    pub memory: Option<Memory>,
    pub resources: Option<Resources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Cpu {
    pub cores: Option<u32>,
    pub sockets: Option<u32>,
    pub threads: Option<u32>,
    pub model: Option<String>,
    pub features: Option<Vec<CpuFeature>>,
    pub dedicated_cpu_placement: Option<bool>,
    pub isolate_emulator_thread: Option<bool>,
    pub realtime: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CpuFeature {
    pub name: Option<String>,
    pub policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Devices {
    pub autoattach_graphics_device: Option<bool>,
    pub autoattach_pod_interface: Option<bool>,
    pub autoattach_serial_console: Option<bool>,
    #[serde(rename = "autoattachVSOCK")]
    pub autoattach_vsock: Option<bool>,
    pub disks: Option<Vec<Disk>>,
    pub filesystems: Option<Vec<Filesystem>>,
    pub gpus: Option<Vec<Device>>,
    pub host_devices: Option<Vec<Device>>,
    pub interfaces: Option<Vec<Interface>>,
    pub log_serial_console: Option<bool>,
    pub tpm: Option<Tpm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Disk {
    pub name: Option<String>,
    pub lun: Option<Lun>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lun {
    pub reservation: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Filesystem {
    pub name: Option<String>,
}

/// A GPU or another host device: of a device plugin, or of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Device {
    pub device_name: Option<String>,
    pub claim_name: Option<String>,
    pub request_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Interface {
    pub name: Option<String>,
    pub model: Option<String>,
    pub binding: Option<Binding>,
    #[serde(rename = "passtBinding")]
    pub passt_binding: Option<IgnoredAny>,
    pub sriov: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Binding {
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tpm {
    pub enabled: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Features {
    pub hyperv: Option<Hyperv>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Hyperv {
    pub evmcs: Option<FeatureState>,
    pub frequencies: Option<FeatureState>,
    pub ipi: Option<FeatureState>,
    pub reenlightenment: Option<FeatureState>,
    pub reset: Option<FeatureState>,
    pub runtime: Option<FeatureState>,
    pub synic: Option<FeatureState>,
    pub synictimer: Option<FeatureState>,
    pub tlbflush: Option<FeatureState>,
    pub vapic: Option<FeatureState>,
    pub vpindex: Option<FeatureState>,
}

/// A feature that is there is on, unless it says otherwise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FeatureState {
    pub enabled: Option<bool>,
}

impl FeatureState {
    pub(super) fn on(&self) -> bool {
        self.enabled != Some(false)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Firmware {
    pub kernel_boot: Option<KernelBoot>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KernelBoot {
    pub container: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct IoThreads {
    pub supplemental_pool_thread_count: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LaunchSecurity {
    pub sev: Option<Sev>,
    pub snp: Option<IgnoredAny>,
    pub tdx: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sev {
    pub policy: Option<SevPolicy>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SevPolicy {
    pub encrypted_state: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Machine {
    pub r#type: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Memory {
    pub guest: Option<Quantity>,
    pub hugepages: Option<Hugepages>,
    pub reserved_overhead: Option<ReservedOverhead>,
}

impl Memory {
    /// The size of one of its huge pages; what is no quantity counts as none.
    pub(super) fn page_size(&self) -> Option<Quantity> {
        self.hugepages.as_ref()?.page_size.as_ref()?.parse().ok()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Hugepages {
    pub page_size: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReservedOverhead {
    pub added_overhead: Option<Quantity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Resources {
    pub requests: Option<List>,
    pub limits: Option<List>,
    pub overcommit_guest_overhead: Option<bool>,
}

/// Whether a text is there and not empty; Go makes no difference between the two.
pub(super) fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// The items of a list that may be absent.
pub(super) fn each<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}

/// The fields of an object; none of anything else.
pub(super) fn fields(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

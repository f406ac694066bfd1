//! The configuration of the KubeVirt object, with KubeVirt's defaults for what it leaves out.

use std::sync::Arc;

use super::gates::{self, Gate};
use crate::api::{BindingPlugin, Configuration, DeveloperConfiguration, KubeVirt, Strings};
use crate::quantity::Quantity;

/// A CPU request that means: none. KubeVirt's default.
const NO_CPU_REQUEST: Quantity = Quantity::milli(100);

/// The effective configuration.
#[derive(Clone, Copy)]
pub(super) struct Config<'a>(pub Option<&'a KubeVirt>);

fn filled(text: Option<&Arc<str>>) -> Option<&str> {
    text.map(AsRef::as_ref).filter(|text| !text.is_empty())
}

impl<'a> Config<'a> {
    fn given(self) -> Option<&'a Configuration> {
        self.0.map(KubeVirt::configuration)
    }

    fn developer(self) -> Option<&'a DeveloperConfiguration> {
        self.given().map(|given| &given.developer_configuration)
    }

    /// Whether a feature gate is on.
    ///
    /// Mirrors: pkg/virt-config/feature-gates.go::isFeatureGateEnabled
    pub fn gate(self, gate: Gate) -> bool {
        gates::on(self.0, gate)
    }

    /// The architecture of VMs that name none; virt-operator knows it, and what the spec says does not count.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetDefaultArchitecture
    pub fn default_architecture(self) -> Option<&'a str> {
        filled(self.0?.status.default_architecture.as_ref())
    }

    /// The machine type of VMs that name none.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetMachineType
    pub fn machine_type(self, architecture: &str) -> &'a str {
        let given = self.given();
        if let Some(machine) = given.and_then(|given| filled(given.machine_type.as_ref())) {
            return machine;
        }
        let architectures = given.map(|given| &given.architecture_configuration);
        let (settings, default) = match architecture {
            "arm64" => (architectures.map(|all| &all.arm64), "virt"),
            "ppc64le" => (architectures.map(|all| &all.ppc64le), "pseries"),
            "s390x" => (None, "s390-ccw-virtio"),
            _ => (architectures.map(|all| &all.amd64), "q35"),
        };
        settings
            .and_then(|settings| filled(settings.machine_type.as_ref()))
            .unwrap_or(default)
    }

    /// The CPU model of VMs that name none, if the cluster has one.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetCPUModel
    pub fn cpu_model(self) -> Option<&'a str> {
        filled(self.given()?.cpu_model.as_ref())
    }

    /// The CPU request of VMs that give none, if the cluster has one.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetCPURequest
    pub fn cpu_request(self) -> Option<Quantity> {
        self.given()?.cpu_request.filter(|request| *request != NO_CPU_REQUEST)
    }

    /// Virtual CPUs per requested CPU.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetCPUAllocationRatio
    pub fn cpu_allocation_ratio(self) -> i64 {
        let ratio = self.developer().and_then(|developer| developer.cpu_allocation_ratio);
        ratio.filter(|ratio| *ratio != 0).unwrap_or(10)
    }

    /// Guest memory per requested memory, in percent.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetMemoryOvercommit
    pub fn memory_overcommit(self) -> i64 {
        let percent = self.developer().and_then(|developer| developer.memory_overcommit);
        percent.filter(|percent| *percent != 0).unwrap_or(100)
    }

    /// Node labels that every launcher selects.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetNodeSelectors
    pub fn node_selectors(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let selectors = self.developer().map(|developer| &developer.node_selectors);
        selectors.into_iter().flatten().map(|(key, value)| (&**key, &**value))
    }

    /// Whether VMs run without KVM.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::AllowEmulation
    pub fn emulates(self) -> bool {
        self.developer().is_some_and(|developer| developer.use_emulation)
    }

    /// The TSC frequency in Hz that the cluster is configured to.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetMinimumClusterTSCFrequency
    pub fn tsc_frequency(self) -> Option<i64> {
        self.developer()?.minimum_cluster_tsc_frequency
    }

    /// The runtime class of launchers.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetDefaultRuntimeClass
    pub fn runtime_class(self) -> Option<&'a str> {
        filled(self.given()?.default_runtime_class.as_ref())
    }

    /// The device that runs VMs.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetHypervisor
    pub fn hypervisor_device(self) -> &'static str {
        let first = self.given().and_then(|given| given.hypervisors.first());
        match first {
            Some(hypervisor) if self.gate(Gate::ConfigurableHypervisor) && &*hypervisor.name == "hyperv-direct" => {
                "devices.kubevirt.io/mshv"
            }
            _ => "devices.kubevirt.io/kvm",
        }
    }

    /// What all overhead is multiplied by.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetConfig
    pub fn overhead_ratio(self) -> Option<f64> {
        filled(self.given()?.additional_guest_memory_overhead_ratio.as_ref())?
            .parse()
            .ok()
    }

    /// Whether guests' consoles are not logged unless a VM asks for it.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::IsSerialConsoleLogDisabled
    pub fn console_log_disabled(self) -> bool {
        let options = self.given().map(|given| &given.virtual_machine_options);
        options.is_some_and(|options| options.disable_serial_console_log.is_some())
    }

    /// What the cluster sets for a type of the launcher's other containers: request and limit of a resource. Nothing
    /// counts as not set.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetSupportContainerRequest
    pub fn support_container(self, container: &str, resource: &str) -> (Option<Quantity>, Option<Quantity>) {
        let all = self.given().map(|given| given.support_container_resources.as_slice());
        let of_type = || all.into_iter().flatten().filter(|of| &*of.r#type == container);
        let set = |amount: Option<&Quantity>| amount.copied().filter(|amount| !amount.is_zero());
        (
            of_type().find_map(|of| set(of.resources.requests.get(resource))),
            of_type().find_map(|of| set(of.resources.limits.get(resource))),
        )
    }

    /// The device names that VMs may use; `None`: all.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetPermittedHostDevices
    pub fn permitted_devices(self) -> Option<Vec<&'a str>> {
        let permitted = self.given()?.permitted_host_devices.as_ref()?;
        let all = [&permitted.pci_host_devices, &permitted.mediated_devices, &permitted.usb];
        Some(all.into_iter().flatten().map(|device| &*device.resource_name).collect())
    }

    /// A registered network binding plugin.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetNetworkBindings
    pub fn binding(self, name: &str) -> Option<&'a BindingPlugin> {
        self.given()?.network.binding.get(name)
    }

    /// How VMs without networks reach the pod network: `bridge`, `masquerade` or `slirp`; and whether a bridge is
    /// permitted there.
    ///
    /// Mirrors: pkg/virt-config/virt-config.go::GetDefaultNetworkInterface
    pub fn default_interface(self) -> (&'a str, bool) {
        let network = self.given().map(|given| &given.network);
        let kind = network.and_then(|network| filled(network.default_network_interface.as_ref()));
        let bridge = network.and_then(|network| network.permit_bridge_interface_on_pod_network);
        (kind.unwrap_or("bridge"), bridge != Some(false))
    }

    /// Whether VMs of a Namespace get a CPU limit. A selector that makes no sense selects nothing.
    ///
    /// Mirrors: pkg/virt-controller/services/template.go::doesVMIRequireAutoCPULimits
    pub fn limits_cpu_in(self, namespace_labels: Option<&Strings>) -> bool {
        let selector = self
            .given()
            .and_then(|given| given.auto_cpu_limit_namespace_label_selector.as_ref());
        match (selector, namespace_labels) {
            (Some(selector), Some(labels)) => selector.takes(&|key| labels.get(key).map(AsRef::as_ref)),
            _ => false,
        }
    }

    /// Whether emulator threads are rounded up to an even number of CPUs in this cluster.
    ///
    /// Mirrors: pkg/virt-api/webhooks/mutating-webhook/mutators/vmi-mutator.go::ApplyNewVMIMutations
    pub fn even_parity(self) -> bool {
        let asked = self
            .0
            .and_then(|kubevirt| kubevirt.metadata.annotation(super::cpu::EVEN_PARITY));
        asked.is_some() && self.gate(Gate::AlignCpus)
    }
}

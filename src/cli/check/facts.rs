//! What `check` knows of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::rights::Right;
use crate::api::{
    Cdi, CdiConfig, CsiDriver, DataVolume, Deployment, KubeVirt, Lease, Namespace, StorageClass, View, VirtualMachine,
    VirtualMachineInstance,
};

/// What could be learnt, or why it could not.
pub(super) type Read<T> = Result<T, String>;

/// Everything that is judged.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Whether first-consumer is still to be installed.
    pub pre: bool,
    /// The controller's Namespace.
    pub controllers: String,
    /// The API server's version.
    pub kubernetes: String,
    /// The served versions of API groups.
    pub versions: BTreeMap<String, Vec<String>>,
    /// The resources of the versions that are needed.
    pub resources: BTreeMap<String, Read<BTreeSet<String>>>,
    /// KubeVirt objects.
    pub kubevirts: Read<Vec<KubeVirt>>,
    /// CDI objects.
    pub cdis: Read<Vec<Cdi>>,
    /// CDI's configuration.
    pub cdi_configs: Read<Vec<CdiConfig>>,
    /// What is needed, and whether it is allowed: to the controller, before an installation to whoever asks.
    pub rights: Vec<(Right, Read<bool>)>,
    /// Storage classes.
    pub classes: Read<Vec<StorageClass>>,
    /// CSI drivers.
    pub drivers: Read<Vec<CsiDriver>>,
    /// Namespaces.
    pub namespaces: Read<Vec<Namespace>>,
    /// VMs.
    pub vms: Read<Vec<VirtualMachine>>,
    /// VMIs.
    pub vmis: Read<Vec<VirtualMachineInstance>>,
    /// Deployments that run first-consumer.
    pub deployments: Read<Vec<Deployment>>,
    /// Leases with the name of ours.
    pub leases: Read<Vec<Lease>>,
    /// The time, by this machine's clock.
    pub now: Timestamp,
}

/// A version of an API group, of whom it is, and which of its resources are needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    /// Whose it is.
    pub owner: &'static str,
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The resources.
    pub resources: &'static [&'static str],
    /// How to install it.
    pub hint: &'static str,
}

/// What has to be served beside Kubernetes' own.
pub(super) const NEEDED: [Needed; 2] = [
    Needed {
        owner: "KubeVirt",
        group: KubeVirt::GROUP,
        version: KubeVirt::VERSION,
        resources: &[VirtualMachine::PLURAL, VirtualMachineInstance::PLURAL, KubeVirt::PLURAL],
        hint: "install KubeVirt: https://kubevirt.io/user-guide/cluster_admin/installation",
    },
    Needed {
        owner: "CDI",
        group: DataVolume::GROUP,
        version: DataVolume::VERSION,
        resources: &[DataVolume::PLURAL],
        hint: "install CDI: https://kubevirt.io/user-guide/storage/containerized_data_importer",
    },
];

impl Needed {
    /// Group and version, as in manifests.
    pub fn group_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

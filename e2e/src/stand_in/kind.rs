//! The kinds that stand-ins read and write, and that the fake API server keeps.

use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
};

/// A kind of API object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `cdi.kubevirt.io/v1beta1`, status subresource.
    DataVolume,
    /// `cdi.kubevirt.io/v1beta1`: what a `sourceRef` names.
    DataSource,
    /// `snapshot.storage.k8s.io/v1`.
    Snapshot,
    /// PersistentVolumeClaim.
    Claim,
    /// Pod.
    Pod,
    /// PersistentVolume.
    Volume,
    /// StorageClass.
    StorageClass,
    /// CSIDriver.
    CsiDriver,
    /// Core event.
    Event,
    /// `kubevirt.io/v1`, status subresource.
    VirtualMachine,
    /// `kubevirt.io/v1`, **no** status subresource.
    VirtualMachineInstance,
    /// Namespace.
    Namespace,
    /// Node.
    Node,
    /// ResourceQuota.
    Quota,
    /// `kubevirt.io/v1`, status subresource.
    KubeVirt,
    /// NetworkAttachmentDefinition.
    Network,
    /// Lease.
    Lease,
    /// PriorityClass.
    PriorityClass,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 18] = [
        Self::DataVolume,
        Self::DataSource,
        Self::Snapshot,
        Self::Claim,
        Self::Pod,
        Self::Volume,
        Self::StorageClass,
        Self::CsiDriver,
        Self::Event,
        Self::VirtualMachine,
        Self::VirtualMachineInstance,
        Self::Namespace,
        Self::Node,
        Self::Quota,
        Self::KubeVirt,
        Self::Network,
        Self::Lease,
        Self::PriorityClass,
    ];

    fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::DataVolume => ("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes"),
            Self::DataSource => ("cdi.kubevirt.io", "v1beta1", "DataSource", "datasources"),
            Self::Snapshot => ("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots"),
            Self::Claim => ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Self::Pod => ("", "v1", "Pod", "pods"),
            Self::Volume => ("", "v1", "PersistentVolume", "persistentvolumes"),
            Self::StorageClass => ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
            Self::CsiDriver => ("storage.k8s.io", "v1", "CSIDriver", "csidrivers"),
            Self::Event => ("", "v1", "Event", "events"),
            Self::VirtualMachine => ("kubevirt.io", "v1", "VirtualMachine", "virtualmachines"),
            Self::VirtualMachineInstance => ("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances"),
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::Node => ("", "v1", "Node", "nodes"),
            Self::Quota => ("", "v1", "ResourceQuota", "resourcequotas"),
            Self::KubeVirt => ("kubevirt.io", "v1", "KubeVirt", "kubevirts"),
            Self::Network => (
                "k8s.cni.cncf.io",
                "v1",
                "NetworkAttachmentDefinition",
                "network-attachment-definitions",
            ),
            Self::Lease => ("coordination.k8s.io", "v1", "Lease", "leases"),
            Self::PriorityClass => ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
        }
    }

    /// The API's name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.names().2
    }

    /// Group, version, kind, plural.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = self.names();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }

    /// `apiVersion` and `kind`.
    #[must_use]
    pub fn types(self) -> TypeMeta {
        let resource = self.resource();
        TypeMeta {
            api_version: resource.api_version,
            kind: resource.kind,
        }
    }

    /// The kind of this group, version and plural.
    #[must_use]
    pub fn of_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| {
            let names = kind.names();
            (names.0, names.1, names.3) == (group, version, plural)
        })
    }

    /// The kind of this `apiVersion` and `kind`.
    #[must_use]
    pub fn of_types(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::ALL.into_iter().find(|found| {
            let names = found.names();
            (names.0, names.1, names.2) == (group, version, kind)
        })
    }

    /// Whether its objects are in Namespaces.
    #[must_use]
    pub fn in_namespaces(self) -> bool {
        !matches!(
            self,
            Self::Volume | Self::StorageClass | Self::CsiDriver | Self::Namespace | Self::Node | Self::PriorityClass
        )
    }

    /// Whether its status is written by itself.
    #[must_use]
    pub fn has_status(self) -> bool {
        matches!(
            self,
            Self::DataVolume
                | Self::Claim
                | Self::Pod
                | Self::Volume
                | Self::VirtualMachine
                | Self::Namespace
                | Self::Node
                | Self::Quota
                | Self::KubeVirt
        )
    }

    /// The API for objects of one namespace; `namespace` is ignored for cluster-wide kinds.
    #[must_use]
    pub fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.in_namespaces() {
            Api::namespaced_with(client.clone(), namespace, &self.resource())
        } else {
            self.everywhere(client)
        }
    }

    /// The API for all objects.
    #[must_use]
    pub fn everywhere(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }
}

//! The kinds that stand-ins read and write.

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
}

impl Kind {
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

    fn in_namespaces(self) -> bool {
        !matches!(self, Self::Volume | Self::StorageClass | Self::CsiDriver)
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

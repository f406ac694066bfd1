//! What is read from the cluster, one file a kind: slim views that can only be decoded.
//!
//! Every field has a default and unknown fields and enum values are accepted, so that no object that the API server
//! holds can stop a watch.

mod cdi;
mod cdi_config;
mod condition;
mod csi_driver;
mod custom_resource_definition;
mod data_volume;
mod deployment;
mod event;
mod kube_virt;
mod lease;
mod meta;
mod minor;
mod namespace;
mod network_attachment_definition;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod resource_quota;
mod selector;
mod storage_class;
mod template;
mod virtual_machine;

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use cdi::Cdi;
pub use cdi_config::{CdiConfig, HONOURS};
pub use condition::Condition;
pub use csi_driver::CsiDriver;
pub use custom_resource_definition::CustomResourceDefinition;
pub use data_volume::{DataVolume, DataVolumePhase};
pub use deployment::{Deployment, OUR_LABEL};
pub use event::Event;
pub use kube_virt::{
    Architectures, BindingPlugin, Configuration, DeveloperConfiguration, KubeVirt, PermittedHostDevices, Resources,
};
pub use lease::Lease;
pub use meta::{Meta, Owner, Strings};
pub use minor::Minor;
pub use namespace::Namespace;
pub use network_attachment_definition::NetworkAttachmentDefinition;
pub use node::Node;
pub use persistent_volume::{HOSTNAME, PersistentVolume};
pub use persistent_volume_claim::{ClaimPhase, DataSource, IMMEDIATE_BINDING, PersistentVolumeClaim};
pub use pod::{BY_NODE, BY_TAINT, Container, Pod, PodPhase, Scheduled};
pub use resource_quota::ResourceQuota;
pub use selector::{AntiAffinityTerm, LabelSelector, NodeNeeds, NodeSelectorTerm, Operator, Requirement};
pub use storage_class::StorageClass;
pub use template::{InstanceSpec, Template, TemplateMeta, Volume, VolumeKind};
pub use virtual_machine::{RunStrategy, VirtualMachine, VirtualMachineInstance, VmiPhase};

/// The value with nothing in it that is null: an absent field and one that is null are the same, as for Kubernetes.
#[must_use]
pub fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            let plain = |value: &mut Value| *value = without_nulls(value.take());
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_nulls(item.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// What `explain` reads beside what is watched.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Events, of the last hour as a rule; none if they may not be read, or a file has none.
    pub events: Option<Vec<Event>>,
    /// CDI's configuration; none if it may not be read, or a file has none.
    pub cdi_configs: Option<Vec<CdiConfig>>,
    /// Leases, ours among them; none if they may not be read.
    pub leases: Option<Vec<Lease>>,
    /// The kinds that the cluster has, if a file says so; a cluster is asked for each.
    pub definitions: Vec<CustomResourceDefinition>,
}

/// A kind that is read: where the API serves it, and how its metadata is reached.
pub trait View: DeserializeOwned + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// API group; empty for the core group.
    const GROUP: &'static str;
    /// API version.
    const VERSION: &'static str;
    /// Kind, as in manifests.
    const KIND: &'static str;
    /// Plural resource name, as in URLs.
    const PLURAL: &'static str;
    /// Whether its objects live in namespaces.
    const NAMESPACED: bool;

    /// Whether a rule reads its generation. Of some kinds it changes with what nobody reads.
    const KEEPS_GENERATION: bool;

    /// The object's metadata.
    fn meta(&self) -> &Meta;

    /// Takes the resource version out, which only the watch needs, and drops a generation that no rule reads: without
    /// them equal views are unchanged objects.
    fn take_version(&mut self) -> Option<Box<str>>;
}

/// Implements [`View`] for a struct with a `metadata` field.
macro_rules! view {
    (
        $type:ty, $group:literal, $version:literal, $kind:literal, $plural:literal, namespaced: $namespaced:literal
        $(, keeps_generation: $keeps:literal)?
    ) => {
        impl $crate::api::View for $type {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $namespaced;
            const KEEPS_GENERATION: bool = false $(|| $keeps)?;

            fn meta(&self) -> &$crate::api::Meta {
                &self.metadata
            }

            fn take_version(&mut self) -> Option<Box<str>> {
                self.metadata.generation = self.metadata.generation.filter(|_| Self::KEEPS_GENERATION);
                self.metadata.resource_version.take()
            }
        }
    };
}
use view;

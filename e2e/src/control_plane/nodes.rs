//! Nodes: objects of the real API, kept alive by kwok.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, NodeSpec as KubeNodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};

use super::wait::wait_for;

/// A node as the scheduler will see it.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Also the label `kubernetes.io/hostname`.
    pub name: String,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: String,
    /// Capacity and allocatable, for example `8`.
    pub cpu: String,
    /// Capacity and allocatable, for example `32Gi`.
    pub memory: String,
    /// How many pods fit.
    pub pods: u32,
    /// Capacity and allocatable, for example `100Gi`; launchers ask for some.
    pub ephemeral_storage: String,
    /// How many of each of `devices.kubevirt.io/kvm`, `tun` and `vhost-net` there are; 0: none of these resources.
    pub devices: u32,
    /// Further resources, for example `hugepages-1Gi`, and how much there is of each.
    pub resources: BTreeMap<String, String>,
    /// Cordoned (`spec.unschedulable`).
    pub unschedulable: bool,
    /// Added to the usual labels, or instead of them.
    pub labels: BTreeMap<String, String>,
    /// Taints that stay.
    pub taints: Vec<Taint>,
}

impl NodeSpec {
    /// A roomy node that can run virtual machines.
    #[must_use]
    pub fn new(name: impl Into<String>, zone: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            zone: zone.into(),
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
            pods: 500,
            ephemeral_storage: "500Gi".to_owned(),
            devices: 1000,
            resources: BTreeMap::new(),
            unschedulable: false,
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// Six nodes `node-1` to `node-6`, two in each of `zone-a`, `zone-b` and `zone-c`.
    #[must_use]
    pub fn six() -> Vec<Self> {
        let zones = ["zone-a", "zone-a", "zone-b", "zone-b", "zone-c", "zone-c"];
        (1..)
            .zip(zones)
            .map(|(number, zone)| Self::new(format!("node-{number}"), zone))
            .collect()
    }

    /// The Node.
    #[must_use]
    pub fn node(&self) -> Node {
        let mut labels: BTreeMap<String, String> = [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("topology.kubernetes.io/zone", &self.zone),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubevirt.io/schedulable", "true"),
            ("machine-type.node.kubevirt.io/q35", "true"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        labels.extend(self.labels.clone());
        let mut room: BTreeMap<String, Quantity> = [
            ("cpu", self.cpu.clone()),
            ("memory", self.memory.clone()),
            ("pods", self.pods.to_string()),
            ("ephemeral-storage", self.ephemeral_storage.clone()),
        ]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
        .into();
        if self.devices > 0 {
            for device in ["kvm", "tun", "vhost-net"] {
                room.insert(
                    format!("devices.kubevirt.io/{device}"),
                    Quantity(self.devices.to_string()),
                );
            }
        }
        let further = self.resources.iter();
        room.extend(further.map(|(name, amount)| (name.clone(), Quantity(amount.clone()))));
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: Some(KubeNodeSpec {
                unschedulable: self.unschedulable.then_some(true),
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..KubeNodeSpec::default()
            }),
            status: Some(NodeStatus {
                allocatable: Some(room.clone()),
                capacity: Some(room),
                ..NodeStatus::default()
            }),
        }
    }
}

/// Creates nodes and waits until each is Ready and has no taint but its own (and the cordon's).
pub(super) async fn add(client: &Client, specs: &[NodeSpec]) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    for spec in specs {
        api.create(&PostParams::default(), &spec.node()).await?;
    }
    let what = format!("{} nodes Ready and without taints", specs.len());
    wait_for(&what, async || {
        let nodes = api.list(&ListParams::default()).await?;
        let usable = |spec: &NodeSpec| {
            nodes
                .iter()
                .any(|node| node.name_any() == spec.name && is_usable(node, spec))
        };
        Ok(specs.iter().all(usable).then_some(()))
    })
    .await
}

fn is_usable(node: &Node, spec: &NodeSpec) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let ready = conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let own = |taint: &Taint| {
        spec.taints
            .iter()
            .any(|own| own.key == taint.key && own.effect == taint.effect)
    };
    let cordon = |taint: &Taint| spec.unschedulable && taint.key == "node.kubernetes.io/unschedulable";
    ready && taints.iter().all(|taint| own(taint) || cordon(taint))
}

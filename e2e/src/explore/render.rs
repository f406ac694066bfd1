//! What is seen, as the API objects that the product reads.

use super::canon::Outline;
use super::models::Model;
use super::objects::{Body, Id, Kind, Pod, Role, Size, Vm, Vmi};
use super::seen::{Seen, SeenClaim, SeenPod};
use super::state::time;
use crate::world::objects::{ClaimPhase, DvPhase, Source};
use first_consumer::api::{
    DataVolume, Namespace, Node, PersistentVolumeClaim, Pod as PodView, StorageClass, Template, View as _,
    VirtualMachine, VirtualMachineInstance,
};
use first_consumer::index::{Changed, Index};
use first_consumer::name::{Key, pod_name};
use serde_json::{Value, json};

/// The one namespace.
pub const NAMESPACE: &str = "prod";

/// The topology of VMs that are kept apart.
pub const HOST: &str = "kubernetes.io/hostname";

/// An object as the product's view of it.
#[derive(Clone, Debug)]
pub enum View {
    Vm(VirtualMachine),
    Vmi(VirtualMachineInstance),
    Dv(DataVolume),
    Claim(PersistentVolumeClaim),
    Pod(PodView),
}

impl View {
    pub fn apply(self, index: &mut Index) -> Changed {
        match self {
            Self::Vm(view) => index.apply(view),
            Self::Vmi(view) => index.apply(view),
            Self::Dv(view) => index.apply(view),
            Self::Claim(view) => index.apply(view),
            Self::Pod(view) => index.apply(view),
        }
    }

    pub fn delete(&self, index: &mut Index) -> Changed {
        let key = self.key();
        match self {
            Self::Vm(_) => index.delete::<VirtualMachine>(&key),
            Self::Vmi(_) => index.delete::<VirtualMachineInstance>(&key),
            Self::Dv(_) => index.delete::<DataVolume>(&key),
            Self::Claim(_) => index.delete::<PersistentVolumeClaim>(&key),
            Self::Pod(_) => index.delete::<PodView>(&key),
        }
    }

    pub fn key(&self) -> Key {
        match self {
            Self::Vm(view) => view.meta().key(),
            Self::Vmi(view) => view.meta().key(),
            Self::Dv(view) => view.meta().key(),
            Self::Claim(view) => view.meta().key(),
            Self::Pod(view) => view.meta().key(),
        }
    }
}

/// A subject's key.
pub fn subject(vm: usize) -> Key {
    Key::new(NAMESPACE, &vm_name(vm))
}

pub fn vm_name(vm: usize) -> String {
    ["db", "web", "mail", "log"][vm].to_owned()
}

pub fn disk_name(disk: usize) -> String {
    ["root", "data", "more", "last"][disk].to_owned()
}

pub fn claim_name(id: Id, owner: Id) -> String {
    if id.slot.is_multiple_of(2) {
        disk_name(id.index() / 2)
    } else {
        format!("prime-{}", owner.uid())
    }
}

pub fn node_name(node: u8) -> String {
    format!("node-{node}")
}

/// A pod's name.
pub fn name_of_pod(pod: &Pod) -> String {
    if let Some(body) = &pod.body {
        return body.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    }
    match pod.role {
        Role::Own { vm, .. } | Role::Lookalike { vm } => pod_name(&subject(usize::from(vm))),
        Role::Launcher { vmi, .. } => format!("virt-launcher-{}-{}", vm_name(vmi.index()), pod.id.life),
        Role::Worker { claim } => format!("cdi-worker-{}", claim.slot),
    }
}

/// What never changes.
pub fn fixture(model: &Model) -> Index {
    let mut index = Index::default();
    let class = json!({"metadata": {"name": "late"}, "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer"});
    if let (Some(class), Some(namespace)) = (
        parse::<StorageClass>(&class),
        parse::<Namespace>(&json!({"metadata": {"name": NAMESPACE, "uid": "namespace"}})),
    ) {
        index.apply(class);
        index.apply(namespace);
    }
    for node in 0..model.nodes {
        let name = node_name(node);
        let node = json!({"metadata": {"name": name, "labels": {HOST: name}}});
        if let Some(node) = parse::<Node>(&node) {
            index.apply(node);
        }
    }
    index
}

/// From text, as the watch does: a view may keep raw text.
pub fn parse<V: serde::de::DeserializeOwned>(value: &Value) -> Option<V> {
    serde_json::from_str(&value.to_string()).ok()
}

/// The product's view of what is seen.
pub fn view(model: &Model, seen: &Seen) -> Option<View> {
    match seen {
        Seen::Vm(vm) => parse(&vm_object(model, *vm)).map(View::Vm),
        Seen::Vmi(vmi) => parse(&vmi_object(model, vmi)).map(View::Vmi),
        Seen::Dv(id, phase) => parse(&dv_object(*id, *phase)).map(View::Dv),
        Seen::Claim(claim) => parse(&claim_object(model, claim)).map(View::Claim),
        Seen::Pod(SeenPod(pod)) => parse(&pod_object(pod)).map(View::Pod),
    }
}

fn meta(name: &str, id: Id, deleting: bool) -> Value {
    let mut meta = json!({"name": name, "namespace": NAMESPACE, "uid": id.uid(), "annotations": {}});
    if deleting {
        // Whether, not when, is read.
        meta["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    }
    meta
}

/// What anti-affinity selects by.
fn labels() -> Value {
    json!({"app": "db"})
}

/// What a template says, with an instancetype's part if that is in it.
fn spec(model: &Model, vm: usize, edited: bool, size: Option<Size>) -> Value {
    let volumes = model.vms[vm].iter().map(|disk| {
        let name = disk_name(*disk);
        json!({"name": name, "dataVolume": {"name": name}})
    });
    let mut spec =
        json!({"nodeSelector": {"zone": if edited { "b" } else { "a" }}, "volumes": volumes.collect::<Vec<_>>()});
    if let Some(size) = size {
        spec["domain"]["memory"]["guest"] = json!(match size {
            Size::Small => "1Gi",
            Size::Large => "2Gi",
        });
    }
    if model.apart {
        let terms = json!([{"topologyKey": HOST, "labelSelector": {"matchLabels": labels()}}]);
        spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
    }
    spec
}

fn vm_object(model: &Model, vm: Vm) -> Value {
    let mut meta = meta(&vm_name(vm.id.index()), vm.id, vm.deleting);
    if let Some(asks) = vm.asks {
        meta["annotations"]["first-consumer.kubevirt.io/provision"] = json!(asks.to_string());
    }
    let mut object = json!({
        "metadata": meta,
        "spec": {"runStrategy": vm.strategy.as_str(), "template": {
            "metadata": {"labels": labels()},
            "spec": spec(model, vm.id.index(), vm.edited, None),
        }},
        // Halted and Always are acted on whatever was acted on before.
        "status": {"runStrategy": vm.strategy.as_str()},
    });
    if model.instancetype {
        object["spec"]["instancetype"] = json!({"name": "sized"});
    }
    if let Some(size) = vm.revision {
        object["status"]["instancetypeRef"] = json!({"controllerRevisionRef": {"name": format!("sized-{size:?}")}});
    }
    object
}

/// What virt-api makes of a VM's template.
pub fn expansion(model: &Model, vm: Vm, size: Size) -> Option<Template> {
    let size = vm.revision.unwrap_or(size);
    parse(&json!({
        "metadata": {"labels": labels()},
        "spec": spec(model, vm.id.index(), vm.edited, Some(size)),
    }))
}

fn vmi_object(model: &Model, vmi: &Vmi) -> Value {
    let mut meta = meta(&vm_name(vmi.id.index()), vmi.id, vmi.deleting);
    meta["creationTimestamp"] = json!(time(vmi.born).to_string());
    meta["labels"] = labels();
    meta["ownerReferences"] = owner(
        "kubevirt.io/v1",
        "VirtualMachine",
        &vm_name(vmi.owner.index()),
        vmi.owner,
    );
    json!({
        "metadata": meta,
        "spec": spec(model, vmi.id.index(), vmi.edited, vmi.size),
        "status": {"phase": vmi.phase.as_str()},
    })
}

fn owner(version: &str, kind: &str, name: &str, id: Id) -> Value {
    json!([{"apiVersion": version, "kind": kind, "name": name, "uid": id.uid(), "controller": true}])
}

fn dv_object(id: Id, phase: DvPhase) -> Value {
    json!({"metadata": meta(&disk_name(id.index()), id, false), "status": {"phase": phase.as_str()}})
}

fn claim_object(model: &Model, claim: &SeenClaim) -> Value {
    let mut meta = meta(&claim_name(claim.id, claim.owner), claim.id, claim.deleting);
    let (version, kind) = match claim.owner.kind {
        Kind::Claim => ("v1", "PersistentVolumeClaim"),
        _ => ("cdi.kubevirt.io/v1beta1", "DataVolume"),
    };
    let disk = claim.id.index() / 2;
    meta["ownerReferences"] = owner(version, kind, &disk_name(disk), claim.owner);
    if let Some(node) = claim.node {
        meta["annotations"]["volume.kubernetes.io/selected-node"] = json!(format!("node-{node}"));
    }
    if claim.asked {
        meta["annotations"]["volume.kubernetes.io/storage-provisioner"] = json!("csi.example.com");
    }
    let mut spec = json!({"storageClassName": "late", "accessModes": ["ReadWriteOnce"]});
    if claim.populator {
        let upload = model.disks[disk].source == Source::Upload;
        spec["dataSourceRef"] = json!({"kind": if upload { "VolumeUploadSource" } else { "VolumeImportSource" }});
    }
    if claim.phase != ClaimPhase::Pending {
        spec["volumeName"] = json!("pv");
    }
    json!({"metadata": meta, "spec": spec, "status": {"phase": claim.phase.as_str()}})
}

/// A pod that is to be made for a subject.
pub fn body(subject: &Key, pod: &Value) -> Option<Body> {
    let meta = &pod["metadata"];
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    let disks = names.filter_map(|name| (0..4).find(|disk| disk_name(*disk) == name));
    Some(Body {
        outline: Outline::of_text(&pod.to_string()),
        owner: meta["ownerReferences"][0]["uid"].as_str().and_then(Id::of)?,
        claims: disks.fold(0, |bits, disk| bits | 1 << (2 * disk)),
        twin: meta["name"].as_str() != Some(&pod_name(subject)),
        value: pod.clone(),
    })
}

/// A pod as the API server has it.
pub fn pod_object(pod: &Pod) -> Value {
    let mut object = pod
        .body
        .as_ref()
        .map_or_else(|| foreign_pod(pod), |body| body.value.clone());
    object["metadata"]["uid"] = json!(pod.id.uid());
    if pod.deleting {
        object["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    }
    if let Some(node) = pod.node {
        object["spec"]["nodeName"] = json!(format!("node-{node}"));
    }
    let condition = match (pod.node, pod.unschedulable) {
        (Some(_), _) => json!([{"type": "PodScheduled", "status": "True"}]),
        (None, true) => json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]),
        (None, false) => json!([]),
    };
    object["status"] = json!({"phase": pod.phase.as_str(), "conditions": condition});
    object
}

fn foreign_pod(pod: &Pod) -> Value {
    let mut meta = meta(&name_of_pod(pod), pod.id, false);
    match pod.role {
        Role::Launcher { vmi, .. } => {
            meta["labels"] = json!({"kubevirt.io": "virt-launcher"});
            let name = vm_name(vmi.index());
            meta["ownerReferences"] = owner("kubevirt.io/v1", "VirtualMachineInstance", &name, vmi);
        }
        Role::Worker { claim } => {
            meta["ownerReferences"] = owner("v1", "PersistentVolumeClaim", "claim", claim);
        }
        Role::Own { .. } | Role::Lookalike { .. } => {}
    }
    let claims = (0..8_usize).filter(|slot| pod.claims >> slot & 1 == 1 && slot % 2 == 0);
    let volumes: Vec<Value> = claims
        .map(|slot| json!({"name": "disk", "persistentVolumeClaim": {"claimName": disk_name(slot / 2)}}))
        .collect();
    json!({"metadata": meta, "spec": {"volumes": volumes}})
}

//! From API objects to the models' compact state.

use super::{
    kind::Kind,
    store::{Entry, Key, Store, version},
};
use crate::world::{
    cdi::{Dv, Status, scratch_name},
    objects::{
        Claim, ClaimPhase, ClonePhase, Condition, DvPhase, Note, Owner, Pod, PodPhase, Source, Strategy, Worker,
    },
    virt_controller::{Volume, vm::RunStrategy},
};
use kube::core::DynamicObject;
use serde_json::Value;

/// The node that the scheduler chose for a late claim.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// `NAMESPACE/NAME` of the claim that a claim is a host-assisted copy of.
pub const CLONE_REQUEST: &str = "k8s.io/CloneRequest";
/// The copy is complete.
pub const CLONE_OF: &str = "k8s.io/CloneOf";

/// An annotation of CDI's own domain.
#[must_use]
pub fn cdi(key: &str) -> String {
    format!("cdi.kubevirt.io/{key}")
}

/// An annotation.
#[must_use]
pub fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn cdi_annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    annotation(object, &cdi(key))
}

/// A string field, by JSON pointer.
#[must_use]
pub fn text(object: &DynamicObject, pointer: &str) -> Option<String> {
    object
        .data
        .pointer(pointer)?
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// Name of an object.
#[must_use]
pub fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// UID of an object.
#[must_use]
pub fn uid(object: &DynamicObject) -> String {
    object.metadata.uid.clone().unwrap_or_default()
}

/// The controller owner reference.
#[must_use]
pub fn owner(object: &DynamicObject) -> Option<Owner> {
    let owners = object.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(Owner {
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    })
}

/// Terminating.
#[must_use]
pub fn deleting(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value) -> u32 {
    value
        .as_u64()
        .and_then(|number| number.try_into().ok())
        .unwrap_or_default()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Claims in a pod's volumes.
#[must_use]
pub fn pod_claims(pod: &DynamicObject) -> Vec<String> {
    let volumes = list(&pod.data["spec"]["volumes"]).iter();
    volumes
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned))
        .collect()
}

/// Names of a VM's DataVolume templates.
#[must_use]
pub fn template_names(vm: &DynamicObject) -> Vec<String> {
    list(&vm.data["spec"]["dataVolumeTemplates"])
        .iter()
        .map(|template| string(&template["metadata"]["name"]))
        .collect()
}

/// What a DataVolume names to be copied: a claim, a snapshot or a DataSource.
pub fn origins(dv: &DynamicObject) -> impl Iterator<Item = Key> + use<> {
    let spec = &dv.data["spec"];
    let own = dv.metadata.namespace.clone().unwrap_or_default();
    let named = [&spec["source"]["pvc"], &spec["source"]["snapshot"], &spec["sourceRef"]].map(|origin| {
        let name = origin["name"].as_str()?;
        Some(Key::new(origin["namespace"].as_str().unwrap_or(&own), name))
    });
    named.into_iter().flatten()
}

/// Boot volumes with a claim of a VMI spec: name, claim, kind of the source.
pub fn boot_volumes(vmi_spec: &Value) -> impl Iterator<Item = (&str, &str, &'static str)> {
    const CLAIM: [(&str, &str); 3] = [
        ("dataVolume", "/name"),
        ("persistentVolumeClaim", "/claimName"),
        ("ephemeral", "/persistentVolumeClaim/claimName"),
    ];
    list(&vmi_spec["volumes"]).iter().filter_map(|volume| {
        CLAIM.into_iter().find_map(|(kind, pointer)| {
            let source = &volume[kind];
            let claim = source.pointer(pointer)?.as_str()?;
            let hotplugged = source["hotpluggable"].as_bool() == Some(true);
            (!hotplugged).then(|| (volume["name"].as_str().unwrap_or_default(), claim, kind))
        })
    })
}

/// The boot volumes that virt-controller waits for; `ephemeral` ones are not among them.
#[must_use]
pub fn volumes(vmi_spec: &Value) -> Vec<Volume> {
    let volumes = boot_volumes(vmi_spec).filter(|(_, _, kind)| *kind != "ephemeral");
    let volume = |claim: &str, kind| Volume {
        claim: claim.to_owned(),
        data_volume: kind == "dataVolume",
    };
    volumes.map(|(_, claim, kind)| volume(claim, kind)).collect()
}

/// What a VM's spec says of running.
#[must_use]
pub fn run_strategy(vm: &DynamicObject) -> RunStrategy {
    let spec = &vm.data["spec"];
    let always = if spec["running"].as_bool() == Some(true) {
        RunStrategy::Always
    } else {
        RunStrategy::Halted
    };
    spec["runStrategy"]
        .as_str()
        .and_then(RunStrategy::parse)
        .unwrap_or(always)
}

/// The class binds late; a class that does not exist counts as immediate.
#[must_use]
pub fn late(store: &Store, class: &str) -> bool {
    let class = store.get(Kind::StorageClass, &Key::new("", class));
    class.is_some_and(|class| class.data["volumeBindingMode"] == "WaitForFirstConsumer")
}

/// A pod.
#[must_use]
pub fn pod(object: &DynamicObject) -> Pod {
    let condition = |kind: &str| {
        list(&object.data["status"]["conditions"])
            .iter()
            .find(|found| found["type"] == kind)
    };
    let container = &object.data["status"]["containerStatuses"][0];
    let unschedulable = condition("PodScheduled")
        .filter(|found| found["status"] == "False" && found["reason"] == "Unschedulable")
        .map(|found| string(&found["message"]));
    Pod {
        name: name(object),
        uid: uid(object),
        phase: text(object, "/status/phase")
            .and_then(|text| PodPhase::parse(&text))
            .unwrap_or_default(),
        node: text(object, "/spec/nodeName"),
        ready: condition("Ready").is_some_and(|found| found["status"] == "True"),
        restarts: number(&container["restartCount"]),
        error: ["state", "lastState"].into_iter().find_map(|state| {
            let ended = &container[state]["terminated"];
            let wrong = ended["exitCode"].as_i64().is_some_and(|code| code != 0);
            wrong.then(|| (string(&ended["reason"]), string(&ended["message"])))
        }),
        unschedulable,
        deleting: deleting(object),
        temporary: annotation(object, "kubevirt.io/ephemeral-provisioning").is_some(),
        created: object
            .metadata
            .creation_timestamp
            .as_ref()
            .map_or(0, |time| time.0.as_second()),
    }
}

/// A DataVolume with this source.
#[must_use]
pub fn dv(object: &DynamicObject, source: Source) -> Dv {
    let condition = |kind: &str| {
        let found = list(&object.data["status"]["conditions"])
            .iter()
            .find(|found| found["type"] == kind)?;
        Some(Condition::new(
            found["status"] == "True",
            &string(&found["reason"]),
            string(&found["message"]),
        ))
    };
    let size = |spec: &str| text(object, &format!("/spec/{spec}/resources/requests/storage"));
    Dv {
        name: name(object),
        uid: uid(object),
        source,
        populator: cdi_annotation(object, "storage.usePopulator").and_then(|text| text.parse().ok()),
        adopts: cdi_annotation(object, "allowClaimAdoption") == Some("true"),
        immediate: cdi_annotation(object, "storage.bind.immediate.requested").is_some(),
        unsized_clone: source.is_clone() && size("storage").or_else(|| size("pvc")).is_none(),
        deleting: deleting(object),
        status: Status {
            phase: text(object, "/status/phase")
                .and_then(|text| DvPhase::parse(&text))
                .unwrap_or_default(),
            claim_known: text(object, "/status/claimName").is_some(),
            bound: condition("Bound"),
            running: condition("Running").unwrap_or_default(),
            restarts: number(&object.data["status"]["restartCount"]),
        },
    }
}

fn claim_phase(claim: &DynamicObject) -> ClaimPhase {
    text(claim, "/status/phase")
        .and_then(|text| ClaimPhase::parse(&text))
        .unwrap_or_default()
}

/// A claim, with the events about it.
#[must_use]
pub fn claim(store: &Store, object: &DynamicObject) -> Claim {
    let owned = |key: &str| cdi_annotation(object, key).map(str::to_owned);
    let source = match owned("storage.import.source") {
        Some(word) => Some(Source::parse(&word).unwrap_or_default()),
        None if annotation(object, CLONE_REQUEST).is_some() => Some(Source::Pvc),
        None => owned("storage.upload.target").map(|_| Source::Upload),
    };
    let scratch = Key::new(
        object.metadata.namespace.as_deref().unwrap_or_default(),
        &scratch_name(&name(object)),
    );
    let populated = cdi_annotation(object, "storage.usePopulator") == Some("true");
    let waits = cdi_annotation(object, "storage.condition.bound") == Some("false");
    Claim {
        name: name(object),
        uid: uid(object),
        owner: owner(object),
        phase: claim_phase(object),
        volume: text(object, "/spec/volumeName"),
        node: annotation(object, SELECTED_NODE)
            .filter(|node| !node.is_empty())
            .map(str::to_owned),
        late: late(
            store,
            object.data["spec"]["storageClassName"].as_str().unwrap_or_default(),
        ),
        immediate: owned("storage.bind.immediate.requested").is_some(),
        populator: populated && object.data["spec"]["dataSourceRef"].is_object(),
        deleting: deleting(object),
        source,
        prime: owned("storage.populator.kind").is_some(),
        worker_named: owned("storage.import.importPodName")
            .or_else(|| owned("storage.uploadPodName"))
            .is_some(),
        reader_named: owned("storage.sourceClonePodName").is_some(),
        cloned: annotation(object, CLONE_OF) == Some("true"),
        clone_phase: owned("clonePhase").and_then(|text| ClonePhase::parse(&text)),
        strategy: owned("cloneType").and_then(|text| Strategy::parse(&text)),
        scratch: store.get(Kind::Claim, &scratch).map(|scratch| claim_phase(&scratch)),
        worker: Worker {
            phase: owned("storage.pod.phase").and_then(|text| PodPhase::parse(&text)),
            ready: owned("storage.pod.ready").and_then(|text| text.parse().ok()),
            schedulable: owned("storage.pod.schedulable").and_then(|text| text.parse().ok()),
            running: owned("storage.condition.running").map(|status| Condition {
                status: status == "true",
                reason: owned("storage.condition.running.reason").unwrap_or_default(),
                message: owned("storage.condition.running.message").unwrap_or_default(),
            }),
            restarts: owned("storage.pod.restarts")
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            fatal: owned("storage.import.fatalError").as_deref() == Some("true"),
        },
        bound_note: owned("storage.condition.bound.message").filter(|_| waits),
        knows_prime: owned("storage.populator.pvcPrime").is_some(),
        created_for: owned("createdForDataVolume"),
        populated_for: owned("storage.populatedFor"),
        events: events(store, &uid(object)),
    }
}

/// Events about an object, oldest first by their last change.
fn events(store: &Store, uid: &str) -> Vec<Note> {
    let mut events = store.find(Kind::Event, &Entry::About(uid.to_owned()));
    events.sort_by_key(|event| version(event));
    events
        .iter()
        .map(|event| Note {
            warning: event.data["type"] == "Warning",
            reason: string(&event.data["reason"]),
            message: string(&event.data["message"]),
        })
        .collect()
}

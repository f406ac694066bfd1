//! virt-controller's VMI controller.

use super::{bodies, disks};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::{Hand, now, refusal},
        kind::Kind,
        read,
        store::{Entry, Key, Object},
    },
    world::{
        objects::Note,
        virt_controller::{
            Vmi, VmiPhase, VmiStatus,
            vmi::{self, View, Write},
        },
    },
};
use anyhow::Result;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// Drives [`vmi`]. Keys are VMIs.
pub struct Vmis {
    /// Client and store.
    pub hand: Arc<Hand>,
}

const COMPONENT: &str = "virtualmachine-controller";

impl Controller for Vmis {
    fn name(&self) -> &'static str {
        "virtualmachineinstance-controller"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        match change.kind {
            Kind::VirtualMachineInstance => vec![key],
            Kind::DataVolume | Kind::Claim => {
                let vmis = self.hand.store.find(Kind::VirtualMachineInstance, &Entry::Names(key));
                vmis.iter().map(|vmi| Key::of(vmi)).collect()
            }
            Kind::Pod if is_seen(&change.object) => {
                let owner = read::owner(&change.object).filter(|owner| owner.kind == "VirtualMachineInstance");
                owner
                    .map(|owner| Key::new(&key.namespace, &owner.name))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(object) = self.hand.store.get(Kind::VirtualMachineInstance, key) else {
            return Ok(Outcome::Done);
        };
        for write in vmi::next(&self.view(&object, key)) {
            match write {
                Write::CreateLauncher { temporary } => {
                    let body = bodies::launcher(&object, temporary);
                    let made = self.hand.create(Kind::Pod, &key.namespace, body).await;
                    if let Some(text) = made.as_ref().err().and_then(refusal) {
                        let note = Note::warning("FailedCreate", format!("Error creating pod: {text}"));
                        self.hand.tell(COMPONENT, &object, &note);
                    }
                    let pod = made?;
                    let text = format!("Created virtual machine pod {}", read::name(&pod));
                    self.hand
                        .tell(COMPONENT, &object, &Note::normal("SuccessfulCreate", text));
                }
                Write::DeletePod { name, uid } => {
                    self.hand
                        .delete(Kind::Pod, &Key::new(&key.namespace, &name), &uid, Some(0))
                        .await?;
                }
                Write::SetStatus(status) => {
                    let change = |vmi: &mut DynamicObject| set_status(vmi, &status, &now(&self.hand.clock));
                    self.hand.update(Kind::VirtualMachineInstance, key, change).await?;
                }
                Write::Event(note) => self.hand.tell(COMPONENT, &object, &note),
            }
        }
        Ok(Outcome::Done)
    }
}

/// virt-controller's pod informer holds pods with this label key only.
fn is_seen(pod: &DynamicObject) -> bool {
    pod.metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key("kubevirt.io"))
}

impl Vmis {
    fn view(&self, object: &Object, key: &Key) -> View {
        let vmi = read_vmi(object);
        let names = vmi.volumes.iter().map(|volume| volume.claim.clone());
        let pods = self.hand.store.find(Kind::Pod, &Entry::ControlledBy(vmi.uid.clone()));
        View {
            disks: disks(&self.hand.store, &key.namespace, names),
            pods: pods
                .iter()
                .filter(|pod| is_seen(pod))
                .map(|pod| read::pod(pod))
                .collect(),
            vmi,
        }
    }
}

/// A VMI.
pub fn read_vmi(object: &DynamicObject) -> Vmi {
    let status = &object.data["status"];
    let condition = |kind: &str, value: &str, reason: Option<&str>| {
        let found = status["conditions"].as_array().into_iter().flatten();
        found.into_iter().find(|found| {
            found["type"] == kind && found["status"] == value && reason.is_none_or(|reason| found["reason"] == reason)
        })
    };
    let active = status["activePods"].as_object().into_iter().flatten();
    Vmi {
        name: read::name(object),
        uid: read::uid(object),
        owner: read::owner(object),
        volumes: read::volumes(&object.data["spec"]),
        deleting: read::deleting(object),
        status: VmiStatus {
            phase: VmiPhase::parse(status["phase"].as_str().unwrap_or_default()),
            node: read::text(object, "/status/nodeName"),
            active: active
                .map(|(uid, node)| (uid.clone(), node.as_str().unwrap_or_default().to_owned()))
                .collect(),
            provisioning: condition("Provisioning", "True", None).is_some(),
            unschedulable: condition("PodScheduled", "False", Some("Unschedulable"))
                .map(|found| found["message"].as_str().unwrap_or_default().to_owned()),
            claim_missing: condition("Synchronized", "False", Some("FailedPvcNotFound")).is_some(),
        },
    }
}

fn set_status(vmi: &mut DynamicObject, status: &VmiStatus, now: &str) {
    let mut conditions = Vec::new();
    let mut add = |kind: &str, value: &str, reason: &str, message: &str| {
        conditions.push(json!({
            "type": kind, "status": value, "reason": reason, "message": message,
            "lastProbeTime": null, "lastTransitionTime": now,
        }));
    };
    match status.phase {
        VmiPhase::Running => add("Ready", "True", "", ""),
        VmiPhase::Scheduling | VmiPhase::Scheduled => {
            add(
                "Ready",
                "False",
                "GuestNotRunning",
                "Guest VM is not reported as running",
            );
        }
        _ => add(
            "Ready",
            "False",
            "PodNotExists",
            "virt-launcher pod has not yet been scheduled",
        ),
    }
    if status.provisioning {
        add("Provisioning", "True", "", "");
    }
    if let Some(message) = &status.unschedulable {
        add("PodScheduled", "False", "Unschedulable", message);
    }
    if status.claim_missing {
        add(
            "Synchronized",
            "False",
            "FailedPvcNotFound",
            "a claim of the VMI does not exist",
        );
    }
    if !vmi.data["status"].is_object() {
        vmi.data["status"] = json!({});
    }
    let changed = vmi.data["status"]["phase"] != status.phase.as_str();
    let body = &mut vmi.data["status"];
    body["phase"] = json!(status.phase.as_str());
    body["nodeName"] = status.node.as_ref().map_or(Value::Null, |node| json!(node));
    body["activePods"] = json!(status.active);
    body["conditions"] = Value::Array(conditions);
    if changed {
        let step = json!({ "phase": status.phase.as_str(), "phaseTransitionTimestamp": now });
        match body["phaseTransitionTimestamps"].as_array_mut() {
            Some(steps) => steps.push(step),
            None => body["phaseTransitionTimestamps"] = json!([step]),
        }
    }
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    if let Some(node) = &status.node {
        vmi.metadata
            .labels
            .get_or_insert_default()
            .insert("kubevirt.io/nodeName".to_owned(), node.clone());
    }
}

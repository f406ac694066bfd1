//! virt-controller's VM controller.

use super::{bodies, disks};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::Hand,
        instancetypes::Instancetypes,
        kind::Kind,
        read,
        store::{Entry, Key, Object},
    },
    world::{
        Millis,
        virt_controller::vm::{self, RunStrategy, View, Vm, VmStatus, Write},
    },
};
use anyhow::Result;
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Drives [`vm`]. Keys are VMs.
pub struct Vms {
    /// Client and store.
    pub hand: Arc<Hand>,
    /// What the VMs name.
    pub instancetypes: Arc<Instancetypes>,
}

const COMPONENT: &str = "virtualmachine-controller";

impl Controller for Vms {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        match change.kind {
            // A VMI has its VM's name.
            Kind::VirtualMachine | Kind::VirtualMachineInstance => vec![key],
            Kind::DataVolume | Kind::Claim => {
                let vms = self.hand.store.find(Kind::VirtualMachine, &Entry::Names(key));
                vms.iter().map(|vm| Key::of(vm)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(object) = self.hand.store.get(Kind::VirtualMachine, key) else {
            return Ok(Outcome::Done);
        };
        let view = self.view(&object, key);
        let now = millis(self.hand.clock.now());
        for write in vm::next(&view, now) {
            match write {
                Write::CreateDataVolume { name } => {
                    if let Some(body) = bodies::data_volume(&object, &name) {
                        self.hand.create(Kind::DataVolume, &key.namespace, body).await?;
                    }
                }
                Write::CreateVmi => {
                    let kind = Kind::VirtualMachineInstance;
                    let expanded = self.instancetypes.expand(&key.namespace, object.data.clone());
                    let data = expanded.map_err(anyhow::Error::msg)?;
                    let expanded = Arc::new(DynamicObject {
                        data,
                        ..(*object).clone()
                    });
                    self.hand.create(kind, &key.namespace, bodies::vmi(&expanded)).await?;
                }
                Write::DeleteVmi { uid } => {
                    self.hand.delete(Kind::VirtualMachineInstance, key, &uid, None).await?;
                }
                Write::SetStatus(status) => {
                    self.hand
                        .patch_status(Kind::VirtualMachine, key, status_body(&status))
                        .await?;
                }
                Write::Event(note) => self.hand.tell(COMPONENT, &object, &note),
            }
        }
        let wake = vm::wake_at(&view, now);
        Ok(wake.map_or(Outcome::Done, |at| Outcome::Later(Duration::from_millis(at - now))))
    }
}

impl Vms {
    fn view(&self, object: &Object, key: &Key) -> View {
        let status = &object.data["status"];
        let volumes = read::volumes(&object.data["spec"]["template"]["spec"]);
        let templates = read::template_names(object);
        let uid = read::uid(object);
        let names = volumes
            .iter()
            .map(|volume| volume.claim.clone())
            .chain(templates.iter().cloned());
        let disks = disks(&self.hand.store, &key.namespace, names);
        let vmi = self.hand.store.get(Kind::VirtualMachineInstance, key);
        let vmi = vmi.filter(|vmi| read::owner(vmi).is_some_and(|owner| owner.uid == uid));
        let asked = status["stateChangeRequests"].as_array().into_iter().flatten();
        let failure = &status["startFailure"];
        let retry: Option<Timestamp> = failure["retryAfterTimestamp"]
            .as_str()
            .and_then(|text| text.parse().ok());
        let disks_at_start = read::annotation(object, "kubevirt.io/immediate-data-volume-creation") == Some("false");
        let vm = Vm {
            name: key.name.clone(),
            uid,
            strategy: read::run_strategy(object),
            templates,
            disks_at_start,
            volumes,
            start_asked: asked.into_iter().any(|request| request["action"] == "Start"),
            deleting: read::deleting(object),
            status: VmStatus {
                printable: read::text(object, "/status/printableStatus").unwrap_or_default(),
                created: status["created"].as_bool().unwrap_or_default(),
                ready: status["ready"].as_bool().unwrap_or_default(),
                strategy: status["runStrategy"].as_str().and_then(RunStrategy::parse),
                failures: failure["consecutiveFailCount"]
                    .as_u64()
                    .and_then(|n| n.try_into().ok())
                    .unwrap_or_default(),
                retry_at: retry.and_then(|time| time.as_millisecond().try_into().ok()),
            },
        };
        View {
            vm,
            vmi: vmi.map(|vmi| super::vmi::read_vmi(&vmi)),
            disks,
        }
    }
}

/// Milliseconds since 1970.
fn millis(time: Timestamp) -> Millis {
    time.as_millisecond().try_into().unwrap_or_default()
}

fn status_body(status: &VmStatus) -> Value {
    let retry = status
        .retry_at
        .and_then(|at| Timestamp::from_millisecond(at.try_into().ok()?).ok());
    let failure = (status.failures > 0).then(|| {
        json!({
            "consecutiveFailCount": status.failures,
            // Whole seconds, as the API has them, and never too early.
            "retryAfterTimestamp": retry.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        })
    });
    let ready = json!([{
        "type": "Ready", "status": if status.ready { "True" } else { "False" },
        "reason": if status.ready { Value::Null } else if status.created { json!("GuestNotRunning") } else { json!("VMINotExists") },
        "lastProbeTime": null, "lastTransitionTime": null,
    }]);
    json!({
        "printableStatus": status.printable, "created": status.created, "ready": status.ready, "conditions": ready,
        "runStrategy": status.strategy.map(RunStrategy::as_str), "startFailure": failure, "stateChangeRequests": null,
    })
}

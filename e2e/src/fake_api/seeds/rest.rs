//! What must be true when nothing more happens.

use std::sync::Arc;

use serde_json::Value;

use super::acts::{ASKS, MANAGED};
use crate::fake_api::Store;
use crate::fake_api::rules::deleting;
use crate::fake_api::store::uid;
use crate::stand_in::kind::Kind;

/// What is wrong, if the world is at rest.
pub fn wrong(store: &Store) -> Option<String> {
    let pods: Vec<&Arc<Value>> = store.list(Kind::Pod, "ns", None).map(|(_, pod)| pod).collect();
    for pod in pods.iter().filter(|pod| is_own(pod)) {
        let vm = subject(pod).and_then(|name| store.get(Kind::VirtualMachine, "ns", name));
        let kept = vm.is_some_and(|vm| asks(vm) != Some("false") && waits(store, vm).is_some());
        if !kept {
            let name = &pod["metadata"]["name"];
            return Some(format!("no pod is left when nothing waits: {name} stays"));
        }
    }
    for (id, vm) in store.list(Kind::VirtualMachine, "ns", None) {
        let Some(claim) = waits(store, vm).filter(|_| served(store, &id.name, vm)) else {
            continue;
        };
        // Whoever uses it has heard from the scheduler that no node fits.
        let hopeless = |pod: &&Arc<Value>| lists(pod, &claim) && unschedulable(pod);
        if !pods.iter().any(hopeless) {
            let name = &id.name;
            return Some(format!(
                "every waiting claim is placed in the end: {claim} of VM {name} waits"
            ));
        }
    }
    None
}

/// Whether a pod is one of ours.
pub fn is_own(pod: &Value) -> bool {
    !pod["metadata"]["labels"][MANAGED].is_null()
}

/// The name of the VM that one of our pods is for.
pub fn subject(pod: &Value) -> Option<&str> {
    let subject = pod["metadata"]["annotations"]["first-consumer.kubevirt.io/subject"].as_str()?;
    Some(subject.rsplit_once('/').map_or(subject, |(_, name)| name))
}

/// The claims of a VM's volumes.
pub fn claims(vm: &Value) -> impl Iterator<Item = &str> {
    let volumes = vm["spec"]["template"]["spec"]["volumes"].as_array();
    volumes.into_iter().flatten().filter_map(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        volume["dataVolume"]["name"].as_str().or(claim)
    })
}

fn asks(vm: &Value) -> Option<&str> {
    vm["metadata"]["annotations"][ASKS].as_str()
}

fn lists(pod: &Value, claim: &str) -> bool {
    let volumes = pod["spec"]["volumes"].as_array();
    volumes
        .into_iter()
        .flatten()
        .any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

fn unschedulable(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
}

/// Whether we, or for a started VM virt-controller, ought to serve it (design section 4).
fn served(store: &Store, name: &str, vm: &Value) -> bool {
    let halted = vm["spec"]["runStrategy"] == "Halted";
    let wanted = if halted {
        asks(vm) == Some("true")
    } else {
        asks(vm) != Some("false")
    };
    let vmi = store.get(Kind::VirtualMachineInstance, "ns", name);
    let begins =
        |vmi: &Arc<Value>| !deleting(vmi) && matches!(vmi["status"]["phase"].as_str(), None | Some("" | "Pending"));
    wanted && !deleting(vm) && vmi.is_none_or(begins)
}

/// A claim of it that waits for a consumer, while none is missing, and none can never be filled (row 6).
fn waits(store: &Store, vm: &Value) -> Option<String> {
    let phase = |name: &str| {
        let made = store.get(Kind::DataVolume, "ns", name)?;
        made["status"]["phase"].as_str()
    };
    if claims(vm).any(|name| phase(name) == Some("Failed")) {
        return None;
    }
    let claim = |name: &str| store.get(Kind::Claim, "ns", name);
    let whole = |found: &Arc<Value>| !deleting(found) && found["status"]["phase"] != "Lost";
    if !claims(vm).all(|name| claim(name).is_some_and(whole)) {
        return None;
    }
    let waiting = |name: &&str| {
        claim(name).is_some_and(|found| {
            let prime = format!("prime-{}", uid(found));
            found["status"]["phase"] == "Pending"
                && found["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_null()
                && claim(&prime).is_none()
                && matches!(phase(name), Some("WaitForFirstConsumer" | "PendingPopulation"))
        })
    };
    claims(vm).find(waiting).map(str::to_owned)
}

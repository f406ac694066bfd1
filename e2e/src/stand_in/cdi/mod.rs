//! Drives [`crate::world::cdi`]: five controllers, each with its own keys and wake-ups.

mod bodies;
mod clone_populator;
mod copies;
mod data_volume;
mod origin;
mod pods;
mod populator;
mod reader;
mod worker;

pub use clone_populator::ClonePopulators;
pub use data_volume::DataVolumes;
pub use pods::{CRASHES, FAILS, RUNS_FOR, WAITS_FOR_DATA};
pub use populator::Populators;
pub use reader::Readers;
pub use worker::Workers;

use super::{
    hand::Hand,
    kind::Kind,
    read,
    store::{Key, Object, Store},
    switch::Switch,
};
use crate::world::{
    cdi::{Disk, Settings, Write, bound_reason, prime_name, tmp_name},
    objects::{Note, Source, Worker},
};
use anyhow::{Context as _, Result};
use serde_json::json;

/// Kinds that CDI's controllers watch.
pub const KINDS: [Kind; 9] = [
    Kind::DataVolume,
    Kind::DataSource,
    Kind::Snapshot,
    Kind::Claim,
    Kind::Pod,
    Kind::Volume,
    Kind::StorageClass,
    Kind::CsiDriver,
    Kind::Event,
];

/// What is configured, as an object's namespace has it.
fn settings(gate: &Switch, key: &Key) -> Settings {
    Settings {
        honor_late_binding: gate.is_on(&key.namespace),
    }
}

/// Everything about one DataVolume; `None` if its source is not known (yet).
fn disk(store: &Store, dv: &Object) -> Option<Disk> {
    let key = Key::of(dv);
    let (source, origin) = origin::of(store, dv)?;
    let claim = store.get(Kind::Claim, &key);
    let prime = claim
        .as_ref()
        .and_then(|claim| store.get(Kind::Claim, &Key::new(&key.namespace, &prime_name(&read::uid(claim)))));
    let tmp = claim.as_ref().zip(origin.as_ref()).and_then(|(claim, origin)| {
        let name = tmp_name(&read::uid(claim));
        store.get(Kind::Claim, &Key::new(&origin.namespace, &name))
    });
    let volume = prime
        .as_ref()
        .or(tmp.as_ref())
        .and_then(|helper| store.get(Kind::Volume, &Key::new("", &read::text(helper, "/spec/volumeName")?)));
    let owner = volume.and_then(|volume| read::text(&volume, "/spec/claimRef/uid"));
    let class = bodies::class(store, dv).unwrap_or_default();
    let provisioner = store
        .get(Kind::StorageClass, &Key::new("", &class))
        .map(|class| class.data["provisioner"].clone());
    let driver = provisioner
        .as_ref()
        .and_then(|name| store.get(Kind::CsiDriver, &Key::new("", name.as_str()?)));
    Some(Disk {
        dv: read::dv(dv, source),
        csi: driver.is_some(),
        late: read::late(store, &class),
        rebound: owner.is_some() && owner == claim.as_ref().map(|claim| read::uid(claim)),
        claim: claim.map(|claim| read::claim(store, &claim)),
        prime: prime.map(|prime| read::claim(store, &prime)),
        tmp: tmp.map(|tmp| read::claim(store, &tmp)),
        strategy: origin
            .as_ref()
            .map(|origin| origin::strategy(store, source, origin, &class))
            .unwrap_or_default(),
        origin,
        namespace: key.namespace,
    })
}

/// Which of two components of the same shape speaks: host-assisted clones are uploads.
fn by_source(source: Source, import: &'static str, upload: &'static str) -> &'static str {
    if source.is_import() { import } else { upload }
}

/// Gives a volume to a target \[`common/util.go`: Rebind\].
async fn rebind(hand: &Hand, volume: &str, target: &Key) -> Result<()> {
    let target: Object = hand.store.get(Kind::Claim, target).context("the target is gone")?;
    let meta = &target.metadata;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name,
        "uid": meta.uid, "resourceVersion": meta.resource_version,
    });
    let volume = Key::new("", volume);
    hand.update(Kind::Volume, &volume, |volume| volume.data["spec"]["claimRef"] = claim)
        .await
}

/// Annotations about the bound condition (10.2 L3, L5).
fn bound_annotations(message: Option<String>) -> Vec<(String, Option<String>)> {
    let there = message.is_some();
    let value = |text: &str| there.then(|| text.to_owned());
    let reason = message.as_deref().map(|message| bound_reason(message).to_owned());
    vec![
        (read::cdi("storage.condition.bound"), value("false")),
        (read::cdi("storage.condition.bound.reason"), reason),
        (read::cdi("storage.condition.bound.message"), message),
    ]
}

/// Annotations about the worker (3.4); what is not known is removed.
fn worker_annotations(worker: &Worker) -> Vec<(String, Option<String>)> {
    let running = worker.running.as_ref();
    [
        ("storage.pod.phase", worker.phase.map(|phase| phase.as_str().to_owned())),
        ("storage.pod.ready", worker.ready.map(|ready| ready.to_string())),
        (
            "storage.pod.schedulable",
            worker.schedulable.map(|schedulable| schedulable.to_string()),
        ),
        (
            "storage.condition.running",
            running.map(|running| running.status.to_string()),
        ),
        (
            "storage.condition.running.reason",
            running.map(|running| running.reason.clone()),
        ),
        (
            "storage.condition.running.message",
            running.map(|running| running.message.clone()),
        ),
        ("storage.pod.restarts", Some(worker.restarts.to_string())),
        ("storage.import.fatalError", worker.fatal.then(|| "true".to_owned())),
    ]
    .into_iter()
    .map(|(key, value)| (read::cdi(key), value))
    .collect()
}

/// An event about an object of the store; nothing if it is gone.
fn tell(hand: &Hand, component: &'static str, kind: Kind, key: &Key, note: &Note) {
    if let Some(object) = hand.store.get(kind, key) {
        hand.tell(component, &object, note);
    }
}

/// A write that a controller's model never makes.
fn foreign(write: &Write) -> Result<()> {
    anyhow::bail!("not a write of this controller: {write:?}")
}

//! Drives [`crate::world::provisioner`]: the CSI-like provisioner of the populator path.

use super::{
    engine::{Change, Controller, Outcome},
    hand::Hand,
    kind::Kind,
    read,
    store::{Key, Object},
};
use crate::world::provisioner::{Fault, View, Write, next, volume_name};
use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Kinds that the provisioner watches.
pub const KINDS: [Kind; 3] = [Kind::Claim, Kind::Volume, Kind::StorageClass];

/// The API group of the data sources that somebody else's populator fills claims from.
pub const FOREIGN_POPULATOR: &str = "populator.example";

/// Faults by claim; a prime has its target's.
#[derive(Debug, Default)]
pub struct Faults {
    by_claim: Mutex<HashMap<Key, Fault>>,
}

impl Faults {
    /// Switches a fault on (or off with `None`) for a claim and for its prime.
    pub fn set(&self, namespace: &str, claim: &str, fault: Option<Fault>) {
        let mut faults = self.by_claim.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Key::new(namespace, claim);
        match fault {
            Some(fault) => faults.insert(key, fault),
            None => faults.remove(&key),
        };
    }

    fn of(&self, claim: &Object) -> Option<Fault> {
        let key = Key::of(claim);
        let target = read::owner(claim).filter(|owner| owner.kind == "PersistentVolumeClaim");
        let key = target.map_or(key.clone(), |target| Key::new(&key.namespace, &target.name));
        self.by_claim
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .copied()
    }
}

/// Makes volumes. Keys are claims.
pub struct Provisioner {
    /// Client and store.
    pub hand: Arc<Hand>,
    /// Its name: that of the StorageClass's provisioner and of the CSIDriver object.
    pub driver: &'static str,
    /// The node label that tells from where its volumes can be reached.
    pub topology: &'static str,
    /// How long the driver works on a volume.
    pub takes: Duration,
    /// What goes wrong.
    pub faults: Arc<Faults>,
    begun: Mutex<HashMap<String, Instant>>,
}

impl Provisioner {
    /// A provisioner.
    #[must_use]
    pub fn new(
        hand: Arc<Hand>,
        (driver, topology): (&'static str, &'static str),
        takes: Duration,
        faults: Arc<Faults>,
    ) -> Self {
        Self {
            hand,
            driver,
            topology,
            takes,
            faults,
            begun: Mutex::default(),
        }
    }

    fn view(&self, claim: &Object, begun: Option<Instant>) -> View {
        let key = Key::of(claim);
        let class = claim.data["spec"]["storageClassName"].as_str().unwrap_or_default();
        let asked = [
            "volume.kubernetes.io/storage-provisioner",
            "volume.beta.kubernetes.io/storage-provisioner",
        ];
        let source = &claim.data["spec"]["dataSourceRef"];
        let ours = source["apiGroup"] == FOREIGN_POPULATOR;
        let source = source["kind"].as_str().filter(|_| !ours);
        View {
            uid: read::uid(claim),
            asked: asked
                .iter()
                .any(|name| read::annotation(claim, name) == Some(self.driver)),
            late: read::late(&self.hand.store, class),
            node: read::annotation(claim, read::SELECTED_NODE).map(str::to_owned),
            bound: read::text(claim, "/spec/volumeName").is_some(),
            foreign_source: source.is_some_and(|kind| kind != "PersistentVolumeClaim" && kind != "VolumeSnapshot"),
            deleting: read::deleting(claim),
            volume: self
                .hand
                .store
                .get(Kind::Volume, &Key::new("", &volume_name(&read::uid(claim))))
                .is_some(),
            begun: begun.is_some_and(|begun| begun.elapsed() >= self.takes),
            fault: self.faults.of(claim),
            namespace: key.namespace,
            name: key.name,
        }
    }

    fn begun(&self, uid: &str) -> Option<Instant> {
        self.begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(uid)
            .copied()
    }

    fn forget(&self, uid: &str) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// From where a volume made for a node can be reached.
    async fn affinity(&self, node: &str) -> Result<Value> {
        let node = Api::<Node>::all(self.hand.client().clone()).get(node).await?;
        let place = node.labels().get(self.topology);
        let term = json!({ "key": self.topology, "operator": "In", "values": [place] });
        Ok(json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [term] }] } }))
    }

    async fn create(&self, claim: &Object, node: Option<String>) -> Result<()> {
        let (meta, spec) = (&claim.metadata, &claim.data["spec"]);
        let affinity = match node {
            Some(node) => Some(self.affinity(&node).await?),
            None => None,
        };
        let name = volume_name(&read::uid(claim));
        let body = json!({
            "metadata": {
                "name": name, "annotations": { "pv.kubernetes.io/provisioned-by": self.driver },
            },
            "spec": {
                "capacity": { "storage": spec["resources"]["requests"]["storage"] },
                "accessModes": spec["accessModes"], "volumeMode": spec["volumeMode"],
                "storageClassName": spec["storageClassName"], "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace,
                    "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version,
                },
                "csi": { "driver": self.driver, "volumeHandle": name },
                "nodeAffinity": affinity,
            },
        });
        self.hand.create(Kind::Volume, "", body).await?;
        Ok(())
    }
}

impl Controller for Provisioner {
    fn name(&self) -> &'static str {
        "csi-provisioner"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        if change.kind == Kind::Claim {
            vec![Key::of(&change.object)]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(claim) = self.hand.store.get(Kind::Claim, key) else {
            return Ok(Outcome::Done);
        };
        let uid = read::uid(&claim);
        let begun = self.begun(&uid);
        if let Some(rest) = begun
            .and_then(|begun| self.takes.checked_sub(begun.elapsed()))
            .filter(|rest| !rest.is_zero())
        {
            return Ok(Outcome::Later(rest));
        }
        let mut outcome = Outcome::Done;
        for write in next(&self.view(&claim, begun)) {
            match write {
                Write::Event(note) => self.hand.tell(self.driver, &claim, &note),
                Write::Begin => {
                    let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
                    begun.insert(uid.clone(), Instant::now());
                    outcome = Outcome::Later(self.takes);
                }
                Write::CreateVolume { node } => {
                    self.create(&claim, node).await?;
                    self.forget(&uid);
                }
                Write::RemoveNode => {
                    let removal = (read::SELECTED_NODE.to_owned(), None);
                    self.hand.annotate(Kind::Claim, key, vec![removal]).await?;
                    self.forget(&uid);
                }
                Write::RetryLater => outcome = Outcome::Limited,
            }
        }
        Ok(outcome)
    }
}

/// Deletes volumes whose claim is gone. Keys are volumes.
pub struct Reclaimer {
    /// Client and store.
    pub hand: Arc<Hand>,
    /// The provisioner's name.
    pub driver: &'static str,
}

impl Controller for Reclaimer {
    fn name(&self) -> &'static str {
        "csi-reclaimer"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        if change.kind == Kind::Volume {
            vec![Key::of(&change.object)]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(volume) = self.hand.store.get(Kind::Volume, key) else {
            return Ok(Outcome::Done);
        };
        let ours = read::annotation(&volume, "pv.kubernetes.io/provisioned-by") == Some(self.driver);
        let released = volume.data["status"]["phase"] == "Released";
        let policy = volume.data["spec"]["persistentVolumeReclaimPolicy"] == "Delete";
        if ours && released && policy && !read::deleting(&volume) {
            self.hand.delete(Kind::Volume, key, &read::uid(&volume), None).await?;
        }
        Ok(Outcome::Done)
    }
}

//! kube-controller-manager's PV controller and its protection of claims in use.

use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::Hand,
        kind::Kind,
        read,
        store::{Entry, Key, Object},
    },
    world::{
        objects::ClaimPhase,
        volumes::{View, Write, held, next},
    },
};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;

const ASKED: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];

/// The finalizer of claims.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Drives [`crate::world::volumes`]. Keys are claims.
pub struct Binder {
    /// Client and store.
    pub hand: Arc<Hand>,
}

impl Controller for Binder {
    fn name(&self) -> &'static str {
        "persistentvolume-binder"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        match change.kind {
            Kind::Claim => vec![key],
            Kind::Volume => claimant(&change.object).into_iter().collect(),
            Kind::Pod => {
                let claims = read::pod_claims(&change.object);
                claims.iter().map(|claim| Key::new(&key.namespace, claim)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(object) = self.hand.store.get(Kind::Claim, key) else {
            return Ok(Outcome::Done);
        };
        let claim = read::claim(&self.hand.store, &object);
        let class = object.data["spec"]["storageClassName"].as_str().unwrap_or_default();
        let volume = self
            .hand
            .store
            .find(Kind::Volume, &Entry::About(claim.uid.clone()))
            .pop();
        let view = View {
            phase: claim.phase,
            deleting: claim.deleting,
            late: claim.late,
            node: claim.node.is_some(),
            asked: read::annotation(&object, ASKED[0]).is_some(),
            volume: volume.is_some(),
        };
        match next(&view) {
            Some(Write::Ask) => {
                let class = self.hand.store.get(Kind::StorageClass, &Key::new("", class));
                if let Some(provisioner) = class.and_then(|class| read::text(&class, "/provisioner")) {
                    let marks = ASKED.map(|name| (name.to_owned(), Some(provisioner.clone())));
                    self.hand.annotate(Kind::Claim, key, marks.to_vec()).await?;
                }
            }
            Some(Write::Bind) => {
                if let Some(volume) = volume {
                    self.bind(key, &volume).await?;
                }
            }
            Some(Write::Lose) => {
                self.hand
                    .patch_status(Kind::Claim, key, json!({"phase": ClaimPhase::Lost.as_str()}))
                    .await?;
            }
            None => {}
        }
        if claim.deleting {
            self.release(key).await?;
        }
        Ok(Outcome::Done)
    }
}

impl Binder {
    async fn bind(&self, key: &Key, volume: &Object) -> Result<()> {
        let name = read::name(volume);
        let change = |claim: &mut kube::core::DynamicObject| {
            claim.data["spec"]["volumeName"] = json!(name);
            let annotations = claim.metadata.annotations.get_or_insert_default();
            for mark in [
                "pv.kubernetes.io/bind-completed",
                "pv.kubernetes.io/bound-by-controller",
            ] {
                annotations.insert(mark.to_owned(), "yes".to_owned());
            }
        };
        self.hand.update(Kind::Claim, key, change).await?;
        let spec = &volume.data["spec"];
        let status = json!({
            "phase": ClaimPhase::Bound.as_str(), "capacity": spec["capacity"], "accessModes": spec["accessModes"],
        });
        self.hand.patch_status(Kind::Claim, key, status).await
    }

    /// Lets a claim go that nobody uses.
    async fn release(&self, key: &Key) -> Result<()> {
        let pods = self.hand.store.find(Kind::Pod, &Entry::Names(key.clone()));
        let users = pods.iter().map(|pod| {
            let pod = read::pod(pod);
            (pod.node.is_some(), pod.phase.is_final())
        });
        let protected = self.hand.store.get(Kind::Claim, key).is_some_and(|claim| {
            let finalizers = claim.metadata.finalizers.as_ref();
            finalizers.is_some_and(|held| held.iter().any(|name| name == PROTECTION))
        });
        if !protected || held(users) {
            return Ok(());
        }
        let change = |claim: &mut kube::core::DynamicObject| {
            claim
                .metadata
                .finalizers
                .get_or_insert_default()
                .retain(|name| name != PROTECTION);
        };
        self.hand.update(Kind::Claim, key, change).await
    }
}

/// Keeps the phase of volumes. Keys are volumes.
pub struct Volumes {
    /// Client and store.
    pub hand: Arc<Hand>,
}

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        "persistentvolume-phases"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        match change.kind {
            Kind::Volume => vec![Key::of(&change.object)],
            Kind::Claim => {
                let about = Entry::About(read::uid(&change.object));
                let volumes = self.hand.store.find(Kind::Volume, &about);
                volumes.iter().map(|volume| Key::of(volume)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(volume) = self.hand.store.get(Kind::Volume, key) else {
            return Ok(Outcome::Done);
        };
        let claim = claimant(&volume).and_then(|claim| self.hand.store.get(Kind::Claim, &claim));
        let claim = claim.filter(|claim| volume.data["spec"]["claimRef"]["uid"] == read::uid(claim));
        let bound = claim
            .as_ref()
            .is_some_and(|claim| claim.data["spec"]["volumeName"] == key.name);
        let phase = match claim {
            _ if bound => "Bound",
            None => "Released",
            Some(_) => return Ok(Outcome::Done),
        };
        if volume.data["status"]["phase"] != phase {
            self.hand
                .patch_status(Kind::Volume, key, json!({"phase": phase}))
                .await?;
        }
        Ok(Outcome::Done)
    }
}

/// The claim that a volume is for.
fn claimant(volume: &Object) -> Option<Key> {
    let namespace = read::text(volume, "/spec/claimRef/namespace")?;
    Some(Key::new(&namespace, &read::text(volume, "/spec/claimRef/name")?))
}

//! CDI's import and upload controllers.

use super::{bound_annotations, by_source, copies, foreign, pods, settings, tell, worker_annotations};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::{Hand, refusal},
        kind::Kind,
        read,
        store::{Entry, Key, Object},
        switch::Switch,
    },
    world::{
        cdi::{Write, scratch_name, users, worker, worker_name},
        objects::{Claim, Pod, Source},
    },
};
use anyhow::{Context as _, Result, anyhow};
use std::{collections::VecDeque, sync::Arc};

/// Drives [`worker`]. Keys are claims, targets and primes alike. Not woken by foreign pods that use a claim.
pub struct Workers {
    /// Client and store.
    pub hand: Arc<Hand>,
    /// The gate `HonorWaitForFirstConsumer`.
    pub gate: Arc<Switch>,
}

impl Controller for Workers {
    fn name(&self) -> &'static str {
        "worker-controller"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        match change.kind {
            Kind::Claim => {
                // A scratch claim concerns the claim of its worker.
                let data = key
                    .name
                    .strip_suffix(&scratch_name(""))
                    .map(|data| Key::new(&key.namespace, data));
                data.into_iter().chain([key.clone()]).collect()
            }
            Kind::Pod => {
                let owner = read::owner(&change.object).filter(|owner| owner.kind == "PersistentVolumeClaim");
                owner
                    .map(|owner| Key::new(&key.namespace, &owner.name))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(object) = self.hand.store.get(Kind::Claim, key) else {
            return Ok(Outcome::Done);
        };
        let claim = read::claim(&self.hand.store, &object);
        let Some(source) = claim.source else {
            return Ok(Outcome::Done);
        };
        let name = worker_name(source, &key.name);
        let pod = self.worker(&claim, key, &name);
        let users = self.users(key, &name);
        let component = by_source(source, "import-controller", "upload-controller");
        let mut writes = VecDeque::from(worker::next(
            &claim,
            pod.as_ref(),
            &users,
            &key.namespace,
            settings(&self.gate, key),
        ));
        let mut outcome = Outcome::Done;
        while let Some(write) = writes.pop_front() {
            match write {
                Write::NoteBound { message, .. } => {
                    self.hand.annotate(Kind::Claim, key, bound_annotations(message)).await?;
                }
                Write::NameWorker => {
                    let mark = by_source(source, "storage.import.importPodName", "storage.uploadPodName");
                    let mark = vec![(read::cdi(mark), Some(name.clone()))];
                    self.hand.annotate(Kind::Claim, key, mark).await?;
                }
                Write::CreateWorker { node } => {
                    if let Err(error) = self.create(&object, source, node.as_deref()).await {
                        let by_quota = refusal(&error)
                            .ok_or_else(|| anyhow!("{error:#}"))?
                            .contains("exceeded quota");
                        writes = worker::refused(&claim, &name, by_quota).into();
                    }
                }
                Write::CreateScratch { node } => {
                    let worker = self.hand.store.get(Kind::Pod, &Key::new(&key.namespace, &name));
                    let body = copies::scratch(&object, &worker.context("the worker is gone")?, node);
                    self.hand.create(Kind::Claim, &key.namespace, body).await?;
                }
                Write::NoteWorker(worker) => {
                    self.hand
                        .annotate(Kind::Claim, key, worker_annotations(&worker))
                        .await?;
                }
                Write::DeleteWorker { name, uid } => {
                    let pod = Key::new(&key.namespace, &name);
                    self.hand.delete(Kind::Pod, &pod, &uid, None).await?;
                }
                Write::Event { note, .. } => tell(&self.hand, component, Kind::Claim, key, &note),
                Write::RetryLater => outcome = Outcome::Limited,
                other => foreign(&other)?,
            }
        }
        Ok(outcome)
    }
}

impl Workers {
    /// The worker that this very claim controls.
    fn worker(&self, claim: &Claim, key: &Key, name: &str) -> Option<Pod> {
        let pod = self.hand.store.get(Kind::Pod, &Key::new(&key.namespace, name))?;
        read::owner(&pod)
            .is_some_and(|owner| owner.uid == claim.uid)
            .then(|| read::pod(&pod))
    }

    fn users(&self, key: &Key, worker: &str) -> Vec<String> {
        let pods = self.hand.store.find(Kind::Pod, &Entry::Names(key.clone()));
        let pods: Vec<_> = pods.iter().map(|pod| read::pod(pod)).collect();
        users(&pods)
            .into_iter()
            .map(|pod| pod.name.clone())
            .filter(|name| name != worker)
            .collect()
    }

    async fn create(&self, claim: &Object, source: Source, node: Option<&str>) -> Result<()> {
        let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
        // The labels are the target's, also on a prime's worker.
        let owner = read::owner(claim).filter(|owner| owner.kind == "PersistentVolumeClaim");
        let target = owner.and_then(|owner| self.hand.store.get(Kind::Claim, &Key::new(namespace, &owner.name)));
        let labels = target
            .as_ref()
            .unwrap_or(claim)
            .metadata
            .labels
            .clone()
            .unwrap_or_default();
        let body = pods::worker(claim, labels, source, node);
        self.hand.create(Kind::Pod, namespace, body).await?;
        Ok(())
    }
}

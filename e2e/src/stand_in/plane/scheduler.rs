//! kube-scheduler.

use super::fit;
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::{Hand, now},
        kind::Kind,
        read,
        store::{Entry, Key, Object},
    },
    world::{
        objects::ClaimPhase,
        scheduler::{Claim, Verdict, Write, bind, look},
    },
};
use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeSpec, PodSpec};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often a pod that no node fits is looked at although nothing has changed.
const AGAIN: Duration = Duration::from_mins(5);

/// Drives [`crate::world::scheduler`]. Keys are pods.
pub struct Scheduler {
    hand: Arc<Hand>,
    /// Binding cycles by the pod's key; they go on when the pod is deleted.
    cycles: Mutex<BTreeMap<Key, Cycle>>,
}

#[derive(Clone)]
struct Cycle {
    pod: String,
    node: String,
    claims: Vec<Key>,
    /// Claims to be annotated, as they were seen.
    left: VecDeque<(Key, String)>,
}

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        match change.kind {
            Kind::Pod => vec![key],
            Kind::Claim => {
                let pods = self.hand.store.find(Kind::Pod, &Entry::Names(key.clone()));
                let mut keys: Vec<_> = pods.iter().map(|pod| Key::of(pod)).collect();
                // Of pods that are gone.
                let cycles = self.cycles.lock().unwrap_or_else(PoisonError::into_inner);
                let begun = cycles.iter().filter(|(_, cycle)| cycle.claims.contains(&key));
                keys.extend(begun.map(|(pod, _)| pod.clone()));
                keys
            }
            Kind::Node => self.hand.store.all(Kind::Pod).iter().map(|pod| Key::of(pod)).collect(),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let pod = self.hand.store.get(Kind::Pod, key);
        if let Some(cycle) = self.cycle(key) {
            return self.go_on(key, cycle, pod.as_ref()).await;
        }
        match pod.filter(|pod| read::text(pod, "/spec/nodeName").is_none() && !read::deleting(pod)) {
            Some(pod) => self.begin(key, &pod).await,
            None => Ok(Outcome::Done),
        }
    }
}

impl Scheduler {
    /// A scheduler that writes with this hand.
    #[must_use]
    pub fn new(hand: Arc<Hand>) -> Self {
        Self {
            hand,
            cycles: Mutex::default(),
        }
    }

    fn cycle(&self, key: &Key) -> Option<Cycle> {
        let cycles = self.cycles.lock().unwrap_or_else(PoisonError::into_inner);
        cycles.get(key).cloned()
    }

    fn keep(&self, key: &Key, cycle: Option<Cycle>) {
        let mut cycles = self.cycles.lock().unwrap_or_else(PoisonError::into_inner);
        match cycle {
            Some(cycle) => cycles.insert(key.clone(), cycle),
            None => cycles.remove(key),
        };
    }

    fn nodes(&self) -> Vec<Node> {
        let nodes = self.hand.store.all(Kind::Node);
        nodes.iter().filter_map(|node| typed(node)).collect()
    }

    fn claims(&self, keys: &[Key], nodes: &[Node]) -> Vec<Option<Claim>> {
        let claim = |key: &Key| {
            let object = self.hand.store.get(Kind::Claim, key)?;
            let claim = read::claim(&self.hand.store, &object);
            let chosen = claim.node.as_ref().filter(|_| claim.phase == ClaimPhase::Pending);
            // A node that is not there is none that fits.
            let index = |name: &String| {
                let found = nodes.iter().position(|node| node.metadata.name.as_ref() == Some(name));
                found.and_then(|index| u8::try_from(index).ok()).unwrap_or(u8::MAX)
            };
            Some(Claim {
                phase: claim.phase,
                deleting: claim.deleting,
                late: claim.late,
                node: chosen.map(index),
            })
        };
        keys.iter().map(claim).collect()
    }

    /// Whether the volumes of bound claims can be reached from a node.
    fn reached(&self, keys: &[Key], node: &Node) -> bool {
        let volumes = keys.iter().filter_map(|key| {
            let claim = self.hand.store.get(Kind::Claim, key)?;
            let name = read::text(&claim, "/spec/volumeName")?;
            let volume = self.hand.store.get(Kind::Volume, &Key::new("", &name))?;
            let spec: PersistentVolumeSpec = serde_json::from_value(volume.data["spec"].clone()).ok()?;
            spec.node_affinity?.required
        });
        volumes
            .into_iter()
            .all(|required| fit::reaches(&required.node_selector_terms, node))
    }

    async fn begin(&self, key: &Key, pod: &Object) -> Result<Outcome> {
        let spec: PodSpec = serde_json::from_value(pod.data["spec"].clone())?;
        let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        let others = spec
            .scheduler_name
            .as_deref()
            .is_some_and(|name| name != "default-scheduler");
        if gated || others {
            return Ok(Outcome::Done);
        }
        let nodes = self.nodes();
        let keys: Vec<_> = read::pod_claims(pod)
            .iter()
            .map(|name| Key::new(&key.namespace, name))
            .collect();
        let claims = self.claims(&keys, &nodes);
        let allowed: Vec<u8> = (0..)
            .zip(&nodes)
            .filter(|(_, node)| fit::allows(&spec, node) && self.reached(&keys, node))
            .map(|(index, _)| index)
            .collect();
        let verdicts = look(&claims, allowed.iter().copied());
        let chosen = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Node(index) => nodes.get(usize::from(*index))?.metadata.name.clone(),
            Verdict::Unschedulable => None,
        });
        // The emptiest of them.
        let Some(node) = chosen.min_by_key(|name| self.load(name)) else {
            let message = why(&keys, &claims, nodes.len(), allowed.len());
            self.tell_unschedulable(key, pod, &message).await?;
            return Ok(Outcome::Later(AGAIN));
        };
        let unplaced = |key: &Key| {
            let claim = self.hand.store.get(Kind::Claim, key)?;
            let pending =
                claim.data["spec"]["volumeName"].is_null() && read::annotation(&claim, read::SELECTED_NODE).is_none();
            pending.then(|| (key.clone(), read::uid(&claim)))
        };
        let cycle = Cycle {
            pod: read::uid(pod),
            node,
            left: keys.iter().filter_map(unplaced).collect(),
            claims: keys,
        };
        self.keep(key, Some(cycle.clone()));
        self.go_on(key, cycle, Some(pod)).await
    }

    fn load(&self, node: &str) -> usize {
        let pods = self.hand.store.all(Kind::Pod);
        pods.iter().filter(|pod| pod.data["spec"]["nodeName"] == node).count()
    }

    async fn go_on(&self, key: &Key, mut cycle: Cycle, pod: Option<&Object>) -> Result<Outcome> {
        let there = |pod: &&Object| read::uid(pod) == cycle.pod && !read::deleting(pod);
        let alive = pod.as_ref().is_some_and(there);
        loop {
            let next = cycle.left.front().map(|(claim, uid)| {
                let found = self.hand.store.get(Kind::Claim, claim);
                found.is_some_and(|found| read::uid(&found) == *uid && !read::deleting(&found))
            });
            let claims = self.claims(&cycle.claims, &self.nodes());
            match bind(next, alive, &claims) {
                Some(Write::Annotate) => {
                    let Some((claim, _)) = cycle.left.pop_front() else {
                        continue;
                    };
                    let mark = (read::SELECTED_NODE.to_owned(), Some(cycle.node.clone()));
                    if let Err(error) = self.hand.annotate(Kind::Claim, &claim, vec![mark]).await {
                        self.keep(key, None);
                        return Err(error);
                    }
                    self.keep(key, Some(cycle.clone()));
                }
                Some(Write::Bind) => {
                    let bound = self.hand.bind(key, &cycle.node).await;
                    self.keep(key, None);
                    bound?;
                    return Ok(Outcome::Done);
                }
                Some(Write::GiveUp) => {
                    self.keep(key, None);
                    return Ok(if pod.is_some() { Outcome::Limited } else { Outcome::Done });
                }
                None => return Ok(Outcome::Done),
            }
        }
    }

    async fn tell_unschedulable(&self, key: &Key, pod: &Object, message: &str) -> Result<()> {
        if read::pod(pod).unschedulable.as_deref() == Some(message) {
            return Ok(());
        }
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": now(&self.hand.clock),
        });
        let status = json!({"conditions": [condition]});
        self.hand.patch_status(Kind::Pod, key, status).await
    }
}

/// The text of the condition, in the scheduler's words.
fn why(keys: &[Key], claims: &[Option<Claim>], nodes: usize, allowed: usize) -> String {
    let missing = keys
        .iter()
        .zip(claims)
        .find(|(_, claim)| claim.is_none_or(|claim| claim.deleting));
    if let Some((key, claim)) = missing {
        let what = if claim.is_some() {
            "is being deleted"
        } else {
            "not found"
        };
        return format!(
            "0/{nodes} nodes are available: persistentvolumeclaim \"{}\" {what}.",
            key.name
        );
    }
    let immediate = claims
        .iter()
        .flatten()
        .any(|claim| claim.phase == ClaimPhase::Pending && !claim.late);
    if immediate {
        return format!("0/{nodes} nodes are available: pod has unbound immediate PersistentVolumeClaims.");
    }
    let (apart, rest) = (nodes - allowed, allowed);
    let mut reasons = Vec::new();
    if apart > 0 {
        reasons.push(format!("{apart} node(s) didn't match Pod's node affinity/selector"));
    }
    if rest > 0 {
        reasons.push(format!("{rest} node(s) had volume node affinity conflict"));
    }
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
}

fn typed(object: &DynamicObject) -> Option<Node> {
    let mut value: Value = object.data.clone();
    value["metadata"] = serde_json::to_value(&object.metadata).ok()?;
    serde_json::from_value(value).ok()
}

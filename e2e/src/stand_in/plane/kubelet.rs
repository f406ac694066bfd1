//! The kubelets of all nodes.

use crate::{
    stand_in::{
        cdi::{CRASHES, FAILS},
        engine::{Change, Controller, Outcome},
        hand::{Hand, now},
        kind::Kind,
        read,
        store::{Entry, Key, Object},
    },
    world::{
        kubelet::{Runs, next},
        objects::PodPhase,
    },
};
use anyhow::Result;
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a pod takes to start, and a worker to do its work.
const STARTS_WITHIN: Duration = Duration::from_secs(1);
const WORKS_FOR: Duration = Duration::from_secs(2);

/// Drives [`crate::world::kubelet`]. Keys are pods.
pub struct Kubelets {
    hand: Arc<Hand>,
    /// Since when a pod's next phase has been possible.
    begun: Mutex<BTreeMap<(String, PodPhase), Instant>>,
}

impl Controller for Kubelets {
    fn name(&self) -> &'static str {
        "kubelets"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        match change.kind {
            Kind::Pod => vec![key],
            Kind::Claim => {
                let pods = self.hand.store.find(Kind::Pod, &Entry::Names(key));
                pods.iter().map(|pod| Key::of(pod)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(object) = self.hand.store.get(Kind::Pod, key) else {
            return Ok(Outcome::Done);
        };
        let pod = read::pod(&object);
        if pod.node.is_none() {
            return Ok(Outcome::Done);
        }
        if pod.deleting {
            self.hand.delete(Kind::Pod, key, &pod.uid, Some(0)).await?;
            return Ok(Outcome::Done);
        }
        let bound = read::pod_claims(&object).iter().all(|claim| {
            let claim = self.hand.store.get(Kind::Claim, &Key::new(&key.namespace, claim));
            claim.is_some_and(|claim| claim.data["status"]["phase"] == "Bound")
        });
        let Some(phase) = next(pod.phase, bound, runs(&object)) else {
            return Ok(Outcome::Done);
        };
        let takes = if phase == PodPhase::Running {
            STARTS_WITHIN
        } else {
            WORKS_FOR
        };
        let left = takes.saturating_sub(self.since(&pod.uid, phase).elapsed());
        if !left.is_zero() {
            return Ok(Outcome::Later(left));
        }
        let ready = if phase == PodPhase::Running { "True" } else { "False" };
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now(&self.hand.clock)});
        let mut status = json!({
            "phase": phase.as_str(), "conditions": [condition("PodScheduled", "True"), condition("Ready", ready)],
        });
        if phase == PodPhase::Failed {
            let reason = read::annotation(&object, FAILS);
            status["containerStatuses"] = json!([{"state": {"terminated": {"exitCode": 1, "reason": reason}}}]);
        } else if read::annotation(&object, CRASHES).is_some() {
            // How often is of no use to anybody here.
            let ended = json!({"exitCode": 1, "reason": "Error"});
            status["containerStatuses"] = json!([{"restartCount": 1, "lastState": {"terminated": ended}}]);
        }
        self.hand.patch_status(Kind::Pod, key, status).await?;
        self.forget(&pod.uid);
        Ok(Outcome::Done)
    }
}

impl Kubelets {
    /// Kubelets that write with this hand.
    #[must_use]
    pub fn new(hand: Arc<Hand>) -> Self {
        Self {
            hand,
            begun: Mutex::default(),
        }
    }

    fn since(&self, uid: &str, phase: PodPhase) -> Instant {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        *begun.entry((uid.to_owned(), phase)).or_insert_with(Instant::now)
    }

    fn forget(&self, uid: &str) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.retain(|(of, _), _| of != uid);
    }
}

/// A launcher runs on, unless it is a temporary one; so does what is started again and again.
fn runs(pod: &Object) -> Runs {
    let has = |annotation| read::annotation(pod, annotation).is_some();
    let labels = pod.metadata.labels.as_ref();
    let launcher = labels
        .and_then(|labels| labels.get("kubevirt.io"))
        .is_some_and(|role| role == "virt-launcher");
    if has(FAILS) {
        Runs::Fails
    } else if has(CRASHES) || (launcher && !has("kubevirt.io/ephemeral-provisioning")) {
        Runs::Stays
    } else {
        Runs::Ends
    }
}

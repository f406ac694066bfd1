//! What can be waited for.

use std::sync::PoisonError;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::Stage;
use crate::control_plane::wait_for;

impl Stage {
    /// Waits until all these DataVolumes have a phase.
    pub async fn wait_phase(&self, data_volumes: &[String], phase: &str) -> Result<()> {
        let what = format!("{} in {phase} in {}", data_volumes.join(", "), self.namespace);
        let waited = wait_for(&what, async || {
            let phases = self.phases().await?;
            let there = |name: &String| phases.get(name).is_some_and(|found| found == phase);
            Ok(data_volumes.iter().all(there).then_some(()))
        });
        waited.await.with_context(|| self.log())
    }

    /// Waits until the worker of a DataVolume has been restarted so often.
    pub async fn wait_restarts(&self, data_volume: &str, restarts: u64) -> Result<()> {
        wait_for(&format!("{restarts} restarts for {data_volume}"), async || {
            let found = self.data_volumes().get(data_volume).await?;
            let count = found.data.pointer("/status/restartCount").and_then(Value::as_u64);
            Ok((count >= Some(restarts)).then_some(()))
        })
        .await
    }

    /// Waits until a claim has a node, and returns it.
    pub async fn wait_node(&self, claim: &str) -> Result<String> {
        wait_for(&format!("claim {claim} has a node"), async || {
            let claim = self.claim(claim).await?;
            Ok(claim.and_then(|claim| claim.annotations().get("volume.kubernetes.io/selected-node").cloned()))
        })
        .await
        .with_context(|| self.log())
    }

    /// Waits until a claim is bound, and returns the name of its volume.
    pub async fn wait_bound(&self, claim: &str) -> Result<String> {
        wait_for(&format!("claim {claim} is bound"), async || {
            Ok(self.claim(claim).await?.and_then(|claim| claim.spec?.volume_name))
        })
        .await
    }

    /// Waits until one of our pods has been seen, gone again or not, and returns the first.
    pub async fn wait_made_pod(&self) -> Result<Pod> {
        let first = async || {
            Ok(self
                .made
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .first()
                .cloned())
        };
        wait_for("a pod of ours was made", first)
            .await
            .with_context(|| self.log())
    }

    /// Waits until one of our pods is there, and returns it.
    pub async fn wait_own_pod(&self) -> Result<Pod> {
        self.wait_own_pod_that(|_| true).await
    }

    /// Waits until a pod of ours is there that is like this, and returns it.
    pub async fn wait_own_pod_that(&self, is_wanted: impl Fn(&Pod) -> bool) -> Result<Pod> {
        let found = async || Ok(self.own_pods().await?.into_iter().find(&is_wanted));
        wait_for("a pod of ours", found).await.with_context(|| self.log())
    }

    /// Waits until none of our pods is there.
    pub async fn wait_no_own_pod(&self) -> Result<()> {
        let gone = async || Ok(self.own_pods().await?.is_empty().then_some(()));
        wait_for("no pod of ours", gone).await.with_context(|| self.log())
    }

    /// Waits until a pod of virt-controller's is there, temporary or not.
    pub async fn wait_launcher(&self) -> Result<()> {
        let launchers = ListParams::default().labels("kubevirt.io=virt-launcher");
        wait_for("a launcher", async || {
            let found = self.pods().list(&launchers).await?;
            Ok((!found.items.is_empty()).then_some(()))
        })
        .await
    }

    /// Waits until the VMI has a phase.
    pub async fn wait_vmi(&self, name: &str, phase: &str) -> Result<DynamicObject> {
        let vmis = self.api("kubevirt.io/v1", "VirtualMachineInstance");
        wait_for(&format!("VMI {name} in {phase}"), async || {
            let vmi = vmis.get_opt(name).await?;
            Ok(vmi.filter(|vmi| vmi.data.pointer("/status/phase").and_then(Value::as_str) == Some(phase)))
        })
        .await
    }

    /// Waits until an Event with this reason speaks of this, and returns its message.
    pub async fn wait_event(&self, reason: &str, of: &str) -> Result<String> {
        let mut last = Vec::new();
        let what = format!("an Event {reason} about {of:?}");
        let waited = wait_for(&what, async || {
            last = self.events(reason).await?;
            Ok(last.iter().find(|text| text.contains(of)).cloned())
        });
        waited.await.with_context(|| format!("{last:?}\n{}", self.log()))
    }

    /// Waits until a claim is bound, and returns the zone that its volume can be reached from.
    pub async fn volume_zone(&self, claim: &str) -> Result<String> {
        self.volume_label(claim, "topology.kubernetes.io/zone").await
    }

    /// Waits until a claim is bound, and returns the node that its volume can be reached from.
    pub async fn volume_node(&self, claim: &str) -> Result<String> {
        self.volume_label(claim, "kubernetes.io/hostname").await
    }

    /// The values of a node label that the claim's volume asks for.
    async fn volume_label(&self, claim: &str, key: &str) -> Result<String> {
        let name = self.wait_bound(claim).await?;
        let volume = Api::<PersistentVolume>::all(self.client()).get(&name).await?;
        let required = volume
            .spec
            .and_then(|spec| spec.node_affinity?.required)
            .context("no affinity")?;
        let terms = required.node_selector_terms.into_iter();
        let mut labels = terms.flat_map(|term| term.match_expressions.unwrap_or_default());
        let label = labels
            .find(|label| label.key == key)
            .with_context(|| format!("no {key}"))?;
        Ok(label.values.unwrap_or_default().join(","))
    }

    /// Waits until a pod of this name would be refused with this text.
    pub async fn wait_refused(&self, name: &str, text: &str) -> Result<()> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "main", "image": "pause", "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
            },
        }))?;
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        wait_for("pods are refused", async || {
            let answer = self.pods().create(&dry, &pod).await;
            Ok(answer
                .is_err_and(|error| error.to_string().contains(text))
                .then_some(()))
        })
        .await
    }
}

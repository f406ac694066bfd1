//! Public cases: what people report about VM disks that wait for their first consumer, by their numbers in the
//! project's collection. Each test asserts what the case expects of us; where we do otherwise, it says so. Those that take
//! minutes, or states that nobody can bring about, are played on a fake API server with paused time.

pub mod admission;
mod by_hand;
pub mod nodes;
pub mod not_running;
pub mod placement;
pub mod pod_life;
pub mod schedulers;
pub mod special_volumes;
pub mod telling;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::objects::Vm;
use first_consumer_e2e::scene::Scene;
use first_consumer_e2e::stage::Stage;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// Waits until the VM's disks are filled and our pod is gone.
async fn served(scene: &Scene, vm: &Vm) -> Result<()> {
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await
}

/// The claims that a pod lists.
fn listed(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
    claims.collect()
}

/// A field of a pod, by JSON pointer.
fn field(pod: &Pod, pointer: &str) -> Result<Value> {
    let pod = serde_json::to_value(pod)?;
    pod.pointer(pointer).cloned().with_context(|| format!("no {pointer}"))
}

/// Fails unless these seconds begin with 10 and double up to 5 minutes, each with up to a fifth of jitter.
fn doubling(gaps: &[i64]) -> Result<()> {
    let expected = [10, 20, 40, 80, 160].into_iter().chain(std::iter::repeat(300));
    let near = |(gap, expected): (&i64, i64)| (expected..=expected * 6 / 5 + 2).contains(gap);
    ensure!(gaps.len() > 5 && gaps.iter().zip(expected).all(near), "{gaps:?}");
    Ok(())
}

/// Fails unless none of these claims has a node.
async fn no_node(scene: &Stage, claims: &[String]) -> Result<()> {
    for name in claims {
        let claim = scene.claim(name).await?.context("no claim")?;
        let annotations = claim.metadata.annotations.unwrap_or_default();
        let node = annotations.get("volume.kubernetes.io/selected-node");
        ensure!(node.is_none(), "{name} is on {node:?}");
    }
    Ok(())
}

//! Admission: quota, limits, security.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::CSI_CLASS;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::served;

/// Who may not have a pod hears the API server's words once, and gets it as soon as the quota allows.
pub async fn c36_a_quota_refuses_it(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c36").await?;
    let quota = |memory: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
            "spec": {"hard": {"requests.memory": memory}}})
    };
    scene.create(quota("1Gi")).await?;
    let vm = Vm::halted("db")
        .two_disks(CSI_CLASS)
        .provision("true")
        .guest_memory("4Gi");
    scene.create(vm.object()).await?;
    let refused = scene.wait_event("FirstConsumerRefused").await?;
    ensure!(refused.contains("exceeded quota: small"), "{refused}");
    scene.wait_reason("CreateRefused").await?;
    scene.nothing_happens().await;
    ensure!(scene.own_pods().await?.is_empty());
    ensure!(scene.events("FirstConsumerRefused").await?.len() == 1);
    scene.apply(&quota("64Gi")).await?;
    served(&scene, &vm).await
}

/// It passes the restricted profile; who is refused all the same hears why.
pub async fn c37_pod_security(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c37").await?;
    let enforce = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(scene.client())
        .patch("c37", &PatchParams::default(), &Patch::Merge(&enforce))
        .await?;
    // A setting that the profile forbids is the launcher's business and left out.
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.one_node(&vm.claims()).await?;
    scene.wait_no_own_pod().await?;
    ensure!(scene.events("FirstConsumerRefused").await?.is_empty());

    let policy = |kind: &str, spec: serde_json::Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "c37"}, "spec": spec});
    let refuse = policy(
        "ValidatingAdmissionPolicy",
        json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
            "validations": [{"expression": "!object.metadata.name.startsWith('first-consumer-')", "message": "not on a Sunday"}],
        }),
    );
    let bind = policy(
        "ValidatingAdmissionPolicyBinding",
        json!({
            "policyName": "c37", "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "c37"}}},
        }),
    );
    for object in [&refuse, &bind] {
        scene.create_anywhere(object).await?;
    }
    scene.wait_refused("first-consumer-probe", "not on a Sunday").await?;
    let refused = Vm::halted("refused").two_disks(LOCAL_PATH).provision("true");
    scene.create(refused.object()).await?;
    let event = scene.wait_event("FirstConsumerRefused").await?;
    ensure!(event.contains("not on a Sunday"), "{event}");
    scene.wait_reason("CreateRefused").await
}

/// A quota for storage counts the disk twice while it is filled: our pod goes when it has its node, whatever CDI may do.
pub async fn c39_storage_quota(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c39").await?;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "disk"},
        "spec": {"hard": {"persistentvolumeclaims": "1"}}});
    scene.create(quota).await?;
    let vm = Vm::halted("db").disk("db-root", CSI_CLASS).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_node("db-root").await?;
    scene.wait_no_own_pod().await?;
    let stuck = scene.wait_event("DiskStuck").await?;
    ensure!(stuck.contains("exceeded quota: disk"), "{stuck}");
    scene.nothing_happens().await;
    scene.expect(SERVED_ONCE).await
}

//! What people have written, and what they may not read.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::ControlPlane;
use first_consumer_e2e::objects::Vm;
use first_consumer_e2e::scene::Scene;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{apply, check, expect, finding, follow, gone, repair};
use crate::explain::words;

const PROVISION: &str = "first-consumer.kubevirt.io/provision";

/// Opt-ins that cannot be read, a controller without Deployment, and a second installation.
pub async fn what_people_wrote(cluster: Arc<Cluster>) -> Result<()> {
    const NAMESPACE: &str = "check-people";
    let scene = Scene::without_controller(cluster, NAMESPACE).await?;
    let plane = &scene.cluster.plane;
    scene.create(Vm::halted("db").provision("no").object()).await?;
    repair(plane, &[], '×', "vm/db -n check-people says").await?;
    let path = format!("jsonpath={{.metadata.annotations.{}}}", PROVISION.replace('.', "\\."));
    let meant = plane.kubectl(&["get", "vm/db", "-n", NAMESPACE, "-o", &path]).await?;
    ensure!(meant == "false", "{meant}");
    let instance = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "bare",
        "annotations": {PROVISION: "maybe"}}, "spec": {"domain": {"devices": {}}}});
    scene.create(instance).await?;
    repair(plane, &[], '×', "vmi/bare -n check-people says").await?;
    let odd = format!("{PROVISION}=True");
    plane.kubectl(&["annotate", "namespace", NAMESPACE, &odd]).await?;
    repair(plane, &[], '×', "namespace/check-people says").await?;

    let lease = |holder: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "first-consumer", "namespace": NAMESPACE},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("{:.6}", Timestamp::now())}})
    };
    apply(plane, lease("somebody")).await?;
    let stranger = "somebody holds the Lease of a controller in check-people";
    follow(plane, &[], '‼', stranger).await?;
    // Who is stopped gives it back.
    apply(plane, lease("")).await?;
    gone(plane, &[], stranger).await?;

    let shipped = ["get", "deployment/first-consumer", "-n", "first-consumer", "-o", "json"];
    let mut deployment: Value = serde_json::from_str(&plane.kubectl(&shipped).await?)?;
    let labels = deployment["metadata"]["labels"].clone();
    deployment["metadata"] = json!({"name": "other", "namespace": NAMESPACE, "labels": labels});
    deployment["spec"]["replicas"] = json!(0);
    apply(plane, deployment).await?;
    repair(plane, &[], '×', "2 installations serve the same VMs").await
}

/// Whoever may read nothing learns that, and what to do about it.
pub async fn what_cannot_be_read(cluster: Arc<Cluster>) -> Result<()> {
    const READER: &[&str] = &["--as", "check-reader"];
    const RIGHTS: &str = "what the controller may do cannot be checked";
    let plane = &cluster.plane;
    let hidden = async |expected: &[&str]| -> Result<()> {
        let (text, _) = check(plane, READER).await?;
        let told = words(&text);
        for what in expected {
            let found = finding(&text, what).is_some_and(|(mark, _)| mark == '‼');
            ensure!(found, "{what} is not in: {text}");
        }
        let count = told.matches("cannot be checked: ").count();
        ensure!(count == expected.len(), "{text}");
        let hints = told.matches("Next: ask somebody who may ").count();
        ensure!(
            hints == count && told.matches("or name another account with --as").count() == count,
            "{text}"
        );
        Ok(())
    };
    let read = async |name: &str, rules: Value| -> Result<()> {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules});
        apply(plane, role).await?;
        let user = "--user=check-reader";
        let role = format!("--clusterrole={name}");
        plane
            .kubectl(&["create", "clusterrolebinding", name, &role, user])
            .await
            .map(drop)
    };
    hidden(&[
        "the version of KubeVirt cannot be checked",
        "the version of CDI cannot be checked",
        "CDI's feature gates cannot be checked",
        "storage classes cannot be checked",
        RIGHTS,
        "the installation cannot be checked",
        "Namespaces cannot be checked",
        "VMs cannot be checked",
        "VMIs cannot be checked",
    ])
    .await?;
    let list = |group: &str, kinds: &[&str]| json!({"apiGroups": [group], "resources": kinds, "verbs": ["list"]});
    let some = json!([
        list(
            "kubevirt.io",
            &["kubevirts", "virtualmachines", "virtualmachineinstances"]
        ),
        list("cdi.kubevirt.io", &["cdis", "cdiconfigs"]),
        list("storage.k8s.io", &["storageclasses"]),
        list("apps", &["deployments"]),
        list("", &["namespaces"]),
    ]);
    read("check-reader-some", some).await?;
    gone(plane, READER, "storage classes cannot be checked").await?;
    // What is read only behind what could not be read.
    hidden(&[
        "the path of CDI's imports cannot be checked",
        RIGHTS,
        "Leases cannot be checked",
    ])
    .await?;
    let review =
        json!({"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]});
    let rest = json!([
        list("storage.k8s.io", &["csidrivers"]),
        list("coordination.k8s.io", &["leases"]),
        review
    ]);
    read("check-reader-rest", rest).await?;
    gone(plane, READER, "cannot be checked").await?;
    expect(plane, READER, '√', "the controller may do all").await.map(drop)
}

/// A level as in an old or mistyped manifest, in a cluster that does not check them.
pub async fn no_level_of_pod_security(plane: &ControlPlane) -> Result<()> {
    let level = "pod-security.kubernetes.io/enforce=relaxed";
    plane.kubectl(&["label", "namespace/second", level]).await?;
    let asks = format!("{PROVISION}=true");
    plane.kubectl(&["annotate", "namespace/second", &asks]).await?;
    repair(plane, &[], '‼', "namespace/second enforces \"relaxed\"").await?;
    let fine = "Pod Security lets our pods into every opted-in Namespace";
    expect(plane, &[], '√', fine).await.map(drop)
}

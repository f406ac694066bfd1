//! What keeps us from making a pod, or our pod from getting a node.

use std::process::Output;
use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::wait_for;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, claim, data_volume, pod, policy_against_us};
use first_consumer_e2e::scene::Scene;
use first_consumer_e2e::stand_in::CSI_CLASS;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{by_name, capture, expect, explain, in_table, words};

pub async fn no_node_matches(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-no-node-matches").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene
        .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
        .await?;
    let lacks = "nodes: lacks what the pod asks for";
    expect(&scene, "vm/db", "Unschedulable", &[lacks, "kubectl edit vm/db"]).await
}

/// Who may look into no more than the VM's Namespace hears the same cause, and what he could not see.
pub async fn one_namespace_is_enough(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-one-namespace").await?;
    let rules = json!([
        {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachines", "virtualmachineinstances"], "verbs": ["list"]},
        {"apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes"], "verbs": ["list"]},
        {"apiGroups": [""], "verbs": ["list"],
            "resources": ["persistentvolumeclaims", "pods", "events", "resourcequotas"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "look"},
        "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "look"}, "subjects": [{"kind": "User", "name": "alice"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"}});
    for object in [role, binding] {
        scene.create(object).await?;
    }
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene
        .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
        .await?;
    scene.wait_reason("Unschedulable").await?;
    let plane = &scene.cluster.plane;
    let look = async |who: &[&str]| explain(plane, &scene.namespace, &[&["vm/db"], who].concat()).await;
    // Other scenes change nodes; seconds pass. Who sees no nodes counts none.
    let told = |output: &Output| {
        let text = words(&String::from_utf8_lossy(&output.stdout));
        let text = text.replace(|c: char| c.is_ascii_digit(), "");
        text.replace(" of  nodes lack no=node", "the VM asks for no=node")
    };
    let (whole, seen) = wait_for("a moment without change", async || {
        let (before, seen, after) = (look(&[]).await?, look(&["--as", "alice"]).await?, look(&[]).await?);
        Ok((told(&before) == told(&after)).then_some((after, seen)))
    })
    .await?;
    // The controller of a scene takes no part in an election.
    let remarks = String::from_utf8_lossy(&whole.stderr);
    let only_that = remarks.contains("no Lease of the controller") && remarks.lines().count() == 1;
    ensure!(whole.status.code() == Some(1) && only_that, "{whole:?}");
    let same = told(&seen) == told(&whole);
    ensure!(seen.status.code() == Some(1) && same, "{seen:?}\n{whole:?}");
    let told = String::from_utf8_lossy(&seen.stderr);
    for hidden in [
        "nodes, persistentvolumes, storageclasses",
        "the Lease of the controller in first-consumer cannot be read",
    ] {
        ensure!(told.contains(hidden), "{told}");
    }
    let stranger = explain(plane, &scene.namespace, &["vm/db", "--as", "bob"]).await?;
    ensure!(stranger.status.code() == Some(3), "{stranger:?}");
    Ok(())
}

pub async fn no_room(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-no-room").await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .guest_memory("9Ti");
    scene.create(vm.object()).await?;
    expect(&scene, "vm/db", "Unschedulable", &["nodes: too little memory is left"]).await
}

pub async fn quota_refuses_ours(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-quota-refuses-ours").await?;
    scene
        .create(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
            "spec": {"hard": {"requests.memory": "1Gi"}}}),
        )
        .await?;
    scene.wait_refused("probe", "failed quota: small").await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .guest_memory("4Gi");
    scene.create(vm.object()).await?;
    expect(
        &scene,
        "vm/db",
        "CreateRefused",
        &["exceeded quota: small", "resourcequota/small"],
    )
    .await
}

pub async fn opt_in_unreadable(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-opt-in-unreadable").await?;
    scene
        .create(Vm::halted("db").two_disks(LOCAL_PATH).provision("yes").object())
        .await?;
    expect(&scene, "vm/db", "NotAskedFor", &["\"yes\"", "--overwrite"]).await
}

pub async fn scheduler_that_nobody_serves(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-scheduler-that-nobody-serves").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.spec("schedulerName", json!("nobody")).object()).await?;
    expect(&scene, "vm/db", "SchedulerSilent", &["asks for nobody"]).await
}

pub async fn claim_missing(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-claim-missing").await?;
    let vm = Vm::halted("db")
        .disk("db-root", LOCAL_PATH)
        .plain_claim("nowhere")
        .provision("true");
    scene.create(vm.object()).await?;
    expect(
        &scene,
        "vm/db",
        "ClaimMissing",
        &["disk nowhere has no claim yet", "pvc/nowhere"],
    )
    .await
}

pub async fn two_vms_share_a_disk(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-two-vms-share-a-disk").await?;
    scene.create(data_volume("shared", LOCAL_PATH)).await?;
    for name in ["db", "web"] {
        let vm = Vm::halted(name).existing_disk("shared").provision("true");
        scene
            .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
            .await?;
    }
    let other = ["shared with explain-two-vms-share-a-disk/db", "explain vm/db"];
    expect(&scene, "vm/web", "SharedDiskServedElsewhere", &other).await
}

pub async fn instancetype_missing(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-instancetype-missing").await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .instancetype("gone");
    scene.create(vm.object()).await?;
    let (plane, namespace) = (&scene.cluster.plane, &*scene.namespace);
    let names = ["create virtualmachineinstancetype/gone,", "kubectl edit vm/db"];
    by_name(plane, namespace, "vm/db", "ExpansionPending", &names).await?;
    // A table does not ask virt-api about every VM: until the controller has told it, nobody has.
    in_table(plane, namespace, "vm/db", "FirstConsumerNeeded").await?;
    scene.wait_event("FirstConsumerWaiting", "\"gone\" not found").await?;
    in_table(plane, namespace, "vm/db", "ExpansionPending").await?;
    capture(plane, namespace).await?;
    let by_disk = explain(plane, namespace, &["dv/db-root", "-o", "json"]).await?;
    let account: Value = serde_json::from_slice(&by_disk.stdout)?;
    ensure!(account["reason"] == "ExpansionPending", "{account}");
    let missing = explain(&scene.cluster.plane, &scene.namespace, &["vm/other"]).await?;
    ensure!(missing.status.code() == Some(3), "{missing:?}");
    Ok(())
}

pub async fn policy_refuses_ours(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-policy-refuses-ours").await?;
    for object in policy_against_us(
        "explain-policy-refuses-ours",
        &scene.namespace,
        "ask the storage team first",
    ) {
        scene.create_anywhere(&object).await?;
    }
    scene
        .wait_refused("first-consumer-probe", "ask the storage team first")
        .await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    let names = [
        "ask the storage team first",
        "kubectl get validatingadmissionpolicy/explain-policy-refuses-ours",
    ];
    expect(&scene, "vm/db", "CreateRefused", &names).await
}

/// Virt-controller's own pod is refused as well, and so is ours when it is left to us.
pub async fn priority_class_missing(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-priority-class-missing").await?;
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    scene
        .create(vm.spec("priorityClassName", json!("gone")).object())
        .await?;
    let names = ["no PriorityClass with name gone was found", "create priorityclass/gone"];
    expect(&scene, "vm/db", "CreateRefused", &names).await
}

pub async fn device_on_no_node(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-device-on-no-node").await?;
    let gpu = json!({"devices": {"gpus": [{"name": "gpu", "deviceName": "nvidia.com/TU104GL_Tesla_T4"}]}});
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.spec("domain", gpu).object()).await?;
    let names = ["no device nvidia.com/TU104GL_Tesla_T4 is free, or there is none"];
    expect(&scene, "vm/db", "Unschedulable", &names).await
}

/// A queue holds every pod of its VMs, ours too.
pub async fn scheduling_gate(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-scheduling-gate").await?;
    let policy = |kind: &str, spec: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": scene.namespace}, "spec": spec})
    };
    let gates =
        "Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{name: 'kueue.x-k8s.io/admission'}]}}";
    let gate = policy(
        "MutatingAdmissionPolicy",
        json!({
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "objectSelector": {"matchExpressions": [{"key": "kueue.x-k8s.io/queue-name", "operator": "Exists"}]}},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gates}}],
        }),
    );
    let bind = policy(
        "MutatingAdmissionPolicyBinding",
        json!({
            "policyName": scene.namespace,
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}},
        }),
    );
    for object in [&gate, &bind] {
        scene.create_anywhere(object).await?;
    }
    let mut probe = pod("probe", "none", &json!({}));
    probe["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "team"});
    let probe = serde_json::from_value(probe)?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_for("pods are held", async || {
        let made = scene.pods().create(&dry, &probe).await?;
        Ok(made.spec.and_then(|spec| spec.scheduling_gates))
    })
    .await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene
        .create(vm.label("kueue.x-k8s.io/queue-name", "team").object())
        .await?;
    expect(&scene, "vm/db", "SchedulingGated", &["kueue.x-k8s.io/admission"]).await
}

pub async fn kubevirt_would_refuse(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-kubevirt-would-refuse").await?;
    let card = json!({"devices": {"interfaces": [{"name": "default", "binding": {"name": "vdpa"}}]}});
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    let vm = vm.spec("domain", card);
    scene
        .create(vm.spec("networks", json!([{"name": "default", "pod": {}}])).object())
        .await?;
    let names = [
        "the network binding plugin vdpa is not registered",
        "kubectl edit vm/db",
    ];
    expect(&scene, "vm/db", "CannotRender", &names).await
}

/// A backup reads a disk that only one pod at a time may use, while another disk of the VM waits.
pub async fn claim_in_use(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-claim-in-use").await?;
    let mut root = claim("db-root", CSI_CLASS);
    root["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    scene.create(root).await?;
    scene.create(pod("backup", "db-root", &json!({}))).await?;
    scene.wait_bound("db-root").await?;
    let vm = Vm::halted("db")
        .plain_claim("db-root")
        .disk("db-data", CSI_CLASS)
        .provision("true");
    scene.create(vm.object()).await?;
    let names = ["db-root by pod backup", "kubectl describe pod/backup"];
    expect(&scene, "vm/db", "ClaimInUse", &names).await
}

pub async fn claim_lost(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-claim-lost").await?;
    let vm = Vm::halted("db").disk("db-root", LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    let volume = scene.wait_bound("db-root").await?;
    let plane = &scene.cluster.plane;
    plane.kubectl(&["delete", "pv", &volume, "--wait=false"]).await?;
    let unprotected = r#"{"metadata": {"finalizers": null}}"#;
    plane
        .kubectl(&["patch", "pv", &volume, "--type=merge", "-p", unprotected])
        .await?;
    expect(&scene, "vm/db", "ClaimLost", &["db-root", "kubectl delete pvc/db-root"]).await
}

/// KubeVirt's finalizer holds the VM, and with it the Namespace, as it does where virt-controller has gone.
pub async fn namespace_terminating(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-namespace-terminating").await?;
    let mut vm = Vm::halted("db").two_disks(LOCAL_PATH).object();
    vm["metadata"]["finalizers"] = json!(["kubevirt.io/virtualMachineControllerFinalize"]);
    scene.create(vm).await?;
    let plane = &scene.cluster.plane;
    plane
        .kubectl(&["delete", "namespace", &scene.namespace, "--wait=false"])
        .await?;
    let names = [
        "finalizers remaining: kubevirt.io/virtualMachineControllerFinalize",
        "kubectl describe namespace/explain-namespace-terminating",
    ];
    expect(&scene, "vm/db", "SubjectDeleted", &names).await
}

pub async fn peers_fill_all_nodes(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-peers-fill-all-nodes").await?;
    let nodes = ["a", "b"].map(|name| scene.own_node(name, "zone-own"));
    scene.cluster.plane.add_nodes(&nodes).await?;
    for name in ["db-0", "db-1", "db-2"] {
        let vm = Vm::halted(name).disk(&format!("{name}-root"), CSI_CLASS);
        let vm = vm.provision("true").label("app", "db");
        let vm = vm.away_from("db", "kubernetes.io/hostname");
        scene.create(scene.on_own_nodes(vm).object()).await?;
        if name != "db-2" {
            scene.wait_bound(&format!("{name}-root")).await?;
        }
    }
    let names = ["explain-peers-fill-all-nodes/db-0", "must not run beside it"];
    expect(&scene, "vm/db-2", "Unschedulable", &names).await
}

//! The installation: who may make it, its rights, and whether its controller works.

use anyhow::{Result, ensure};
use first_consumer_e2e::control_plane::{
    ControlPlane, Controller, ControllerOptions, NodeSpec, build_controller, workspace,
};
use serde_json::{Value, json};

use super::{apply, check, comes, expect, follow, gone, repair};

/// A cluster that cannot be reached.
pub async fn nowhere() -> Result<()> {
    let nowhere = tempfile::NamedTempFile::new()?;
    let cluster = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "users": [{"name": "a", "user": {}}]});
    std::fs::write(nowhere.path(), cluster.to_string())?;
    let mut check = tokio::process::Command::new(build_controller(false).await?);
    check.arg("check").arg("--kubeconfig").arg(nowhere.path());
    let output = check.output().await?;
    ensure!(
        output.status.code() == Some(3) && output.stdout.is_empty(),
        "{output:?}"
    );
    Ok(())
}

/// Nothing is wrong for who may install it; somebody has installed it elsewhere; and it is found out beforehand who may
/// not install it, as `kubectl apply` finds out when it is too late.
pub async fn before(plane: &ControlPlane) -> Result<()> {
    const PRE: &[&str] = &["--pre"];
    const INSTALLER: &[&str] = &["--pre", "--as", "installer"];
    let (text, code) = check(plane, PRE).await?;
    let fine = ["√ you may do all 34 things", "√ local-csi binds late"]
        .iter()
        .all(|line| text.contains(line));
    ensure!(code == Some(0) && fine, "{text}");

    let labels = json!({"app.kubernetes.io/name": "first-consumer"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "other", "namespace": "second", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}});
    apply(plane, deployment).await?;
    repair(plane, PRE, '‼', "there is one already: deployment/other -n second").await?;

    expect(
        plane,
        INSTALLER,
        '×',
        "you may not get namespaces, create namespaces, patch namespaces",
    )
    .await?;
    may(plane, "installer", &["create"], &[]).await?;
    comes(
        plane,
        INSTALLER,
        "you may not get namespaces, patch namespaces, get serviceaccounts",
    )
    .await?;
    may(plane, "installer", &["create", "get", "patch"], &[]).await?;
    comes(
        plane,
        INSTALLER,
        "you may not escalate clusterroles.rbac.authorization.k8s.io, bind clusterroles",
    )
    .await?;
    plane.add_namespace("first-consumer").await?;
    let installs = async || {
        let folder = workspace().join("manifests/base").display().to_string();
        let apply = ["apply", "-k", &folder, "--dry-run=server", "--as=installer"];
        plane.kubectl(&apply).await
    };
    let refused = installs().await;
    let refused = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(
        refused.contains("attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );
    may(plane, "installer", &["create", "get", "patch"], &["escalate", "bind"]).await?;
    comes(plane, INSTALLER, "you may do all 34 things").await?;
    installs().await.map(drop)
}

/// Lets a user do this with all that an installation has, and this with roles.
async fn may(plane: &ControlPlane, user: &str, verbs: &[&str], of_roles: &[&str]) -> Result<()> {
    let rbac = "rbac.authorization.k8s.io";
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let with_roles = [of_roles, verbs].concat();
    let rules = json!([
        rule("", &["namespaces", "serviceaccounts"], verbs),
        rule(rbac, &["clusterrolebindings", "rolebindings"], verbs),
        rule(rbac, &["clusterroles", "roles"], &with_roles),
        rule(
            "admissionregistration.k8s.io",
            &["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            verbs
        ),
        rule("scheduling.k8s.io", &["priorityclasses"], verbs),
        rule("apps", &["deployments"], verbs),
    ]);
    apply(
        plane,
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}),
    )
    .await?;
    apply(plane, bound("ClusterRoleBinding", user, user)).await
}

/// A user has a role, there or everywhere.
fn bound(kind: &str, role: &str, user: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    let mut meta = json!({"name": format!("{user}-{role}")});
    if kind == "RoleBinding" {
        meta["namespace"] = json!("first-consumer");
    }
    let role_kind = kind.trim_end_matches("Binding");
    json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}]})
}

/// Who may not install it asks an administrator, who does. Then one who has all rights of the controller could do it, too.
pub async fn for_the_first_time(plane: &ControlPlane) -> Result<()> {
    let missing = "first-consumer is not installed";
    expect(plane, &[], '×', missing).await?;
    follow(plane, &["--pre", "--as", "nobody"], '×', "you may not get namespaces").await?;
    gone(plane, &[], missing).await?;
    gone(plane, &[], "the controller may not").await?;
    plane
        .kubectl(&["delete", "deployment/first-consumer", "-n", "first-consumer"])
        .await?;
    repair(plane, &[], '×', missing).await?;

    may(plane, "deputy", &["create", "get", "patch"], &[]).await?;
    apply(plane, bound("ClusterRoleBinding", "first-consumer", "deputy")).await?;
    let deputy = &["--pre", "--as", "deputy"];
    comes(
        plane,
        deputy,
        "you may not escalate roles.rbac.authorization.k8s.io, bind roles",
    )
    .await?;
    apply(plane, bound("RoleBinding", "first-consumer-lease", "deputy")).await?;
    comes(plane, deputy, "you may do all 34 things").await
}

/// Somebody has taken its rights away.
pub async fn without_its_rights(plane: &ControlPlane) -> Result<()> {
    let missing = "the controller may not list virtualmachines.kubevirt.io";
    plane
        .kubectl(&["delete", "clusterrolebinding", "first-consumer"])
        .await?;
    comes(plane, &[], missing).await?;
    repair(plane, &[], '×', missing).await
}

/// Replicas without a node, one that does not lead, one that has died as the leader, and none. The controller is what
/// works in the end.
pub async fn nobody_works(plane: &ControlPlane) -> Result<Controller> {
    const LEADS: &str = "no replica leads in first-consumer";
    const SILENT: &str = "leads in first-consumer and has not said so for more than a minute";
    const LOGS: &str = "kubectl logs -n first-consumer -l app.kubernetes.io/name=first-consumer --prefix";
    let waiting = "no replica of deployment/first-consumer -n first-consumer is ready";
    follow(plane, &[], '‼', waiting).await?;
    plane.add_nodes(&[NodeSpec::new("node", "zone")]).await?;
    gone(plane, &[], waiting).await?;
    // Pods that are only played have no log.
    let command = expect(plane, &[], '‼', LEADS).await?;
    ensure!(command == LOGS, "{command}");
    let first = Controller::start(plane, &ControllerOptions::default()).await?;
    gone(plane, &[], LEADS).await?;

    first.kill().await;
    let lease = ["lease/first-consumer", "-n", "first-consumer", "--type=merge", "-p"];
    let long_ago = r#"{"spec":{"renewTime":"2026-01-01T00:00:00.000000Z"}}"#;
    plane.kubectl(&[&["patch"], &lease[..], &[long_ago]].concat()).await?;
    let command = expect(plane, &[], '‼', SILENT).await?;
    ensure!(command == LOGS, "{command}");
    let second = Controller::start(plane, &ControllerOptions::default()).await?;
    gone(plane, &[], SILENT).await?;

    let scale = [
        "scale",
        "deployment/first-consumer",
        "-n",
        "first-consumer",
        "--replicas=0",
    ];
    plane.kubectl(&scale).await?;
    repair(
        plane,
        &[],
        '‼',
        "nothing runs: deployment/first-consumer -n first-consumer",
    )
    .await?;
    comes(plane, &[], "replicas that are ready: 2").await?;
    Ok(second)
}

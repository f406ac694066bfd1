//! `check` on a real control plane: whatever it finds wrong, its hint repairs, word for word as a person would copy it.

mod relay;
mod versions;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::STORAGE;
use first_consumer_e2e::control_plane::{ControlPlane, Options, build_controller, wait_for, workspace};
use first_consumer_e2e::objects::Vm;
use serde_json::{Value, json};

use crate::explain::words;
use versions::{a_neighbour_is_old, another_kubernetes};

/// What `check` prints, and its exit code.
async fn check(plane: &ControlPlane, flags: &[&str]) -> Result<(String, Option<i32>)> {
    check_with(&plane.kubeconfig()?, flags).await
}

async fn check_with(kubeconfig: &Path, flags: &[&str]) -> Result<(String, Option<i32>)> {
    let mut check = tokio::process::Command::new(build_controller(false).await?);
    check.arg("check").args(flags).arg("--kubeconfig").arg(kubeconfig);
    let output = check.output().await?;
    let text = [output.stdout, output.stderr].concat();
    Ok((String::from_utf8_lossy(&text).into_owned(), output.status.code()))
}

/// The finding that says this, with its mark, and its hint's command as a shell takes it.
fn finding(text: &str, says: &str) -> Option<(char, String)> {
    let starts = |line: &str| line.starts_with(['√', '‼', '×']);
    let lines: Vec<&str> = text.lines().collect();
    let blocks = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| starts(line))
        .map(|(first, _)| {
            let rest = &lines[first + 1..];
            let end = rest.iter().position(|line| starts(line) || line.is_empty());
            [&lines[first..=first], &rest[..end.unwrap_or(rest.len())]]
                .concat()
                .join("\n")
        });
    let mut found = blocks.filter(|block| words(block).contains(says));
    let block = found.next()?;
    let (_, hint) = block.split_once("  Next:   ").unwrap_or_default();
    let command = hint.find("kubectl ").map_or("", |start| &hint[start..]);
    Some((block.chars().next()?, command.to_owned()))
}

/// Fails unless this is found with this mark; returns the hint's command.
async fn expect(plane: &ControlPlane, flags: &[&str], mark: char, says: &str) -> Result<String> {
    let (text, code) = check(plane, flags).await?;
    let (found, command) = finding(&text, says).with_context(|| format!("{says} is not in:\n{text}"))?;
    ensure!(
        found == mark && (mark != '×' || code == Some(1)),
        "{says}: {code:?}\n{text}"
    );
    Ok(command)
}

/// Does what the hint says, and waits until the finding is gone.
async fn repair(plane: &ControlPlane, flags: &[&str], mark: char, says: &str) -> Result<()> {
    follow(plane, flags, mark, says).await?;
    gone(plane, flags, says).await
}

/// Does what the hint says, as it stands there.
async fn follow(plane: &ControlPlane, flags: &[&str], mark: char, says: &str) -> Result<()> {
    let command = expect(plane, flags, mark, says).await?;
    ensure!(!command.is_empty(), "no command repairs: {says}");
    let mut shell = tokio::process::Command::new("sh");
    let kubectl = format!("kubectl() {{ {} \"$@\"; }}\n{command}", plane.kubectl_command());
    shell.arg("-ec").arg(&kubectl).env("KUBECONFIG", plane.kubeconfig()?);
    let output = shell.current_dir(workspace()).output().await?;
    ensure!(
        output.status.success(),
        "{kubectl}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Waits until this is found: what is served, or allowed, may change a moment later than it was told to.
async fn comes(plane: &ControlPlane, flags: &[&str], says: &str) -> Result<()> {
    wait_for(says, async || {
        let (text, _) = check(plane, flags).await?;
        Ok(finding(&text, says).map(drop))
    })
    .await
}

async fn gone(plane: &ControlPlane, flags: &[&str], says: &str) -> Result<()> {
    wait_for(&format!("the end of: {says}"), async || {
        let (text, _) = check(plane, flags).await?;
        Ok(finding(&text, says).is_none().then_some(()))
    })
    .await
}

async fn apply(plane: &ControlPlane, object: Value) -> Result<()> {
    plane.apply(&object.to_string()).await
}

pub async fn each_hint_repairs_what_is_wrong() -> Result<()> {
    let bare = Options {
        nodes: vec![],
        cdi: false,
        local_path: false,
        pod_security: false,
        ..Options::default()
    };
    let plane = ControlPlane::start(bare).await?;
    plane.apply(STORAGE).await?;

    before_the_installation(&plane).await?;
    another_installation(&plane).await?;
    repair(&plane, &[], '×', "first-consumer is not installed").await?;
    gone(&plane, &[], "the controller may not").await?;

    plane
        .kubectl(&["delete", "clusterrolebinding", "first-consumer"])
        .await?;
    comes(&plane, &[], "the controller may not list virtualmachines.kubevirt.io").await?;
    repair(
        &plane,
        &[],
        '×',
        "the controller may not list virtualmachines.kubevirt.io",
    )
    .await?;

    nobody_may_ask(&plane).await?;
    a_kind_is_missing(&plane).await?;
    no_class_waits(&plane).await?;
    the_gate_is_off(&plane).await?;
    plane.add_namespace("second").await?;
    let mut vm = serde_json::to_value(Vm::halted("db").provision("yes").object())?;
    vm["metadata"]["namespace"] = json!("second");
    apply(&plane, vm).await?;
    repair(&plane, &[], '×', "vm/db -n second says").await?;
    let instance = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "bare",
        "namespace": "second", "annotations": {"first-consumer.kubevirt.io/provision": "maybe"}},
        "spec": {"domain": {"devices": {}}}});
    apply(&plane, instance).await?;
    repair(&plane, &[], '×', "vmi/bare -n second says").await?;
    let odd = [
        "annotate",
        "namespace/second",
        "first-consumer.kubevirt.io/provision=True",
    ];
    plane.kubectl(&odd).await?;
    repair(&plane, &[], '×', "namespace/second says").await?;

    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "first-consumer", "namespace": "second"}, "spec": {"holderIdentity": "somebody"}});
    apply(&plane, lease).await?;
    repair(&plane, &[], '‼', "somebody holds the Lease").await?;
    let mut deployment: Value = serde_json::from_str(
        &plane
            .kubectl(&["get", "deployment/first-consumer", "-n", "first-consumer", "-o", "json"])
            .await?,
    )?;
    let labels = deployment["metadata"]["labels"].clone();
    deployment["metadata"] = json!({"name": "other", "namespace": "second", "labels": labels});
    apply(&plane, deployment).await?;
    repair(&plane, &[], '×', "2 installations serve the same VMs").await?;

    no_level_of_pod_security(&plane).await?;
    a_neighbour_is_old(&plane).await?;
    another_kubernetes(&plane).await?;
    let (text, code) = check(&plane, &[]).await?;
    let fine = text.ends_with("\nAll is as it should be.\n");
    ensure!(code == Some(0) && fine, "{code:?}\n{text}");
    plane.stop().await
}

/// Only a class that binds at once is left, and gets its twin.
async fn no_class_waits(plane: &ControlPlane) -> Result<()> {
    plane.kubectl(&["delete", "storageclass", "--all"]).await?;
    let (text, _) = check(plane, &[]).await?;
    ensure!(text.contains("install storage whose volumes belong to nodes"), "{text}");
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "hasty"},
        "provisioner": "local.csi.example", "volumeBindingMode": "Immediate"});
    apply(plane, class).await?;
    repair(plane, &[], '×', "no StorageClass binds late").await?;
    expect(plane, &[], '√', "hasty-late binds late").await.map(drop)
}

/// Where there is no CDI object the gate is switched on in the configuration itself; where there is, CDI's operator
/// copies it, which nobody does here.
async fn the_gate_is_off(plane: &ControlPlane) -> Result<()> {
    const OFF: &str = "HonorWaitForFirstConsumer is off";
    let config = |gates: Value| {
        json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDIConfig", "metadata": {"name": "config"},
            "spec": {"featureGates": gates}})
    };
    let both = r#"["DataVolumeClaimAdoption","HonorWaitForFirstConsumer"]"#;
    let gates = async |object: &str, path: &str| {
        let path = format!("jsonpath={path}");
        plane.kubectl(&["get", object, "-o", &path]).await
    };
    expect(plane, &[], '‼', "CDI has no configuration yet").await?;
    apply(plane, config(json!(["DataVolumeClaimAdoption"]))).await?;
    gone(plane, &[], "CDI has no configuration yet").await?;
    repair(plane, &[], '×', OFF).await?;
    let on = gates("cdiconfig/config", "{.spec.featureGates}").await?;
    ensure!(on == both, "{on}");

    let cdi = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI", "metadata": {"name": "one"}, "spec": {}});
    apply(plane, cdi).await?;
    apply(plane, config(json!(["DataVolumeClaimAdoption"]))).await?;
    follow(plane, &[], '×', OFF).await?;
    let on = gates("cdi/one", "{.spec.config.featureGates}").await?;
    ensure!(on == both, "{on}");
    apply(plane, config(serde_json::from_str(&on)?)).await?;
    gone(plane, &[], OFF).await
}

/// Who may not ask what another may do learns that, and what to do about it.
async fn nobody_may_ask(plane: &ControlPlane) -> Result<()> {
    const UNKNOWN: &str = "what the controller may do cannot be checked";
    let hint = "name another account with --as";
    let (text, _) = check(plane, &["--as", "nobody"]).await?;
    let told = words(&text);
    ensure!(told.contains(UNKNOWN) && told.contains(hint), "{text}");
    gone(plane, &[], UNKNOWN).await
}

/// An installation of KubeVirt that has not come to its end, and none.
async fn a_kind_is_missing(plane: &ControlPlane) -> Result<()> {
    let [vms, instances, kubevirts] = [
        "crd/virtualmachines.kubevirt.io",
        "crd/virtualmachineinstances.kubevirt.io",
        "crd/kubevirts.kubevirt.io",
    ];
    for (crds, missing) in [
        (
            &[instances][..],
            "kubevirt.io/v1 is served without virtualmachineinstances",
        ),
        (
            &[vms, instances, kubevirts],
            "KubeVirt is not installed: kubevirt.io is not served",
        ),
    ] {
        plane.kubectl(&[&["delete"], crds].concat()).await?;
        comes(plane, &[], missing).await?;
        expect(plane, &[], '×', missing).await?;
        plane.apply_crds(true).await?;
        gone(plane, &[], missing).await?;
    }
    Ok(())
}

/// A level as in an old or mistyped manifest, in a cluster that does not check them.
async fn no_level_of_pod_security(plane: &ControlPlane) -> Result<()> {
    let level = "pod-security.kubernetes.io/enforce=relaxed";
    plane.kubectl(&["label", "namespace/second", level]).await?;
    repair(plane, &[], '‼', "namespace/second enforces \"relaxed\"").await?;
    expect(
        plane,
        &[],
        '√',
        "Pod Security lets our pods into every opted-in Namespace",
    )
    .await
    .map(drop)
}

/// Somebody has installed it elsewhere, and it is to be installed here.
async fn another_installation(plane: &ControlPlane) -> Result<()> {
    plane.add_namespace("elsewhere").await?;
    let labels = json!({"app.kubernetes.io/name": "first-consumer"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "other", "namespace": "elsewhere", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}});
    apply(plane, deployment).await?;
    repair(
        plane,
        &["--pre"],
        '‼',
        "there is one already: deployment/other -n elsewhere",
    )
    .await
}

/// A cluster without CDI, and a person who may not install anything.
async fn before_the_installation(plane: &ControlPlane) -> Result<()> {
    expect(plane, &["--pre"], '×', "CDI is not installed").await?;
    let old =
        json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let old = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "datavolumes.cdi.kubevirt.io"}, "spec": {"group": "cdi.kubevirt.io", "scope": "Namespaced",
        "names": {"plural": "datavolumes", "singular": "datavolume", "kind": "DataVolume"}, "versions": [old]}});
    apply(plane, old).await?;
    let old = "cdi.kubevirt.io/v1beta1 is not served, only v1alpha1";
    comes(plane, &["--pre"], old).await?;
    let look = expect(plane, &["--pre"], '×', old).await?;
    ensure!(look == "kubectl get crd -o name | grep cdi.kubevirt.io", "{look}");
    plane.kubectl(&["delete", "crd/datavolumes.cdi.kubevirt.io"]).await?;
    plane.apply_crds(true).await?;
    comes(plane, &["--pre"], "cdi.kubevirt.io/v1beta1 is served").await?;
    expect(plane, &["--pre"], '√', "cdi.kubevirt.io/v1beta1 is served").await?;
    expect(plane, &["--pre"], '√', "you may create all 10 kinds").await?;
    expect(plane, &["--pre"], '√', "local-csi binds late").await?;
    let (text, code) = check(plane, &["--pre"]).await?;
    ensure!(code == Some(0), "{text}");

    let nobody = ["--pre", "--as", "nobody"];
    expect(plane, &nobody, '×', "you may not create namespaces").await?;
    expect(plane, &nobody, '‼', "VMs cannot be checked").await?;

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

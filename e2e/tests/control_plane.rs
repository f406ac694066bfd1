//! The control plane itself: that it behaves like a cluster, grants no more than it should, and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use first_consumer_e2e::control_plane::{ControlPlane, NodeSpec, Options, User, programs, wait_for};
use first_consumer_e2e::suite::Suite;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Set in a copy of this program that starts a control plane, names its folder and waits for its end.
const VICTIM: &str = "FIRST_CONSUMER_E2E_VICTIM";

fn main() -> ExitCode {
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    Suite::default()
        .shared("nodes_are_ready_and_have_devices", nodes_are_ready_and_have_devices)
        .shared(
            "a_late_claim_is_bound_once_a_pod_uses_it",
            a_late_claim_is_bound_once_a_pod_uses_it,
        )
        .shared(
            "pods_run_as_long_as_their_kind_does",
            pods_run_as_long_as_their_kind_does,
        )
        .shared(
            "nobody_but_the_harness_may_do_everything",
            nobody_but_the_harness_may_do_everything,
        )
        .shared(
            "the_kinds_have_the_subresources_they_should",
            the_kinds_have_the_subresources_they_should,
        )
        .alone("a_stop_leaves_nothing_behind", a_stop_leaves_nothing_behind)
        .alone("an_interrupted_run_cleans_up", an_interrupted_run_cleans_up)
        .alone(
            "the_next_run_sweeps_what_a_killed_one_left",
            the_next_run_sweeps_what_a_killed_one_left,
        )
        .run(|| ControlPlane::start(Options::default()))
}

async fn nodes_are_ready_and_have_devices(plane: Arc<ControlPlane>) -> Result<()> {
    let mut cordoned = NodeSpec::new("cordoned", "zone-d");
    cordoned.unschedulable = true;
    plane.add_nodes(&[cordoned]).await?;
    let nodes = Api::<Node>::all(plane.client()).list(&ListParams::default()).await?;
    for spec in NodeSpec::six() {
        let node = nodes
            .iter()
            .find(|node| node.name_any() == spec.name)
            .context("a node is missing")?;
        ensure!(node.labels().get("topology.kubernetes.io/zone") == Some(&spec.zone));
        let room = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref())
            .context("no allocatable")?;
        ensure!(room["devices.kubevirt.io/kvm"].0 == "1k" || room["devices.kubevirt.io/kvm"].0 == "1000");
        ensure!(room["ephemeral-storage"].0 == "500Gi");
    }
    Ok(())
}

async fn a_late_claim_is_bound_once_a_pod_uses_it(plane: Arc<ControlPlane>) -> Result<()> {
    let namespace = "late";
    plane.add_namespace(namespace).await?;
    plane
        .apply(&(claim(namespace, "one") + &claim(namespace, "two")))
        .await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(plane.client(), namespace);
    let bound = async || -> Result<usize> {
        let claims = claims.list(&ListParams::default()).await?;
        let phase = |claim: &PersistentVolumeClaim| claim.status.as_ref()?.phase.clone();
        Ok(claims
            .iter()
            .filter(|claim| phase(claim).as_deref() == Some("Bound"))
            .count())
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(bound().await? == 0, "a claim was bound that nobody uses");

    plane.apply(&pod(namespace, "user", "", &["one", "two"])).await?;
    wait_for(
        "both claims are bound",
        async || Ok((bound().await? == 2).then_some(())),
    )
    .await?;
    phase(&plane, namespace, "user", "Running").await?;

    let calls = plane.calls()?.within(namespace);
    let creates = calls
        .by("admin")
        .filter(|call| call.verb == "patch" && call.resource == "pods");
    ensure!(
        creates.len() == 1 && creates[0].code == 201,
        "the audit log has not the creation of the pod: {creates:?}"
    );
    let chosen = calls
        .by(User::Scheduler.name())
        .filter(|call| call.selected_node().is_some() && call.is_ok());
    ensure!(
        chosen.len() == 2,
        "the audit log has not the scheduler's choices: {chosen:?}"
    );
    ensure!(
        calls
            .filter(|call| call.subresource == "binding" && call.name == "user")
            .len()
            == 1
    );
    Ok(())
}

async fn pods_run_as_long_as_their_kind_does(plane: Arc<ControlPlane>) -> Result<()> {
    let namespace = "kinds";
    plane.add_namespace(namespace).await?;
    let pods = [
        ("plain", "", "Running"),
        ("launcher", "labels: {kubevirt.io: virt-launcher}", "Running"),
        ("worker", "labels: {app: containerized-data-importer}", "Succeeded"),
        (
            "ours",
            r#"labels: {first-consumer.kubevirt.io/managed: "true"}"#,
            "Succeeded",
        ),
        (
            "temporary",
            r#"annotations: {kubevirt.io/ephemeral-provisioning: "true"}"#,
            "Succeeded",
        ),
        (
            "failing",
            r#"labels: {app: containerized-data-importer}, annotations: {e2e.first-consumer.kubevirt.io/fail: "true"}"#,
            "Failed",
        ),
    ];
    for (name, metadata, _) in pods {
        plane.apply(&pod(namespace, name, metadata, &[])).await?;
    }
    for (name, _, end) in pods {
        phase(&plane, namespace, name, end).await?;
    }
    let api: Api<Pod> = Api::namespaced(plane.client(), namespace);
    let launcher = api
        .get("launcher")
        .await?
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    ensure!(
        launcher
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    );
    api.delete("plain", &DeleteParams::default()).await?;
    wait_for("a deleted pod is gone", async || {
        Ok(api.get_opt("plain").await?.is_none().then_some(()))
    })
    .await
}

async fn nobody_but_the_harness_may_do_everything(plane: Arc<ControlPlane>) -> Result<()> {
    let users = [User::Kwok, User::Cdi, User::VirtController, User::CsiProvisioner];
    let mut clients = Vec::new();
    for user in users {
        clients.push((user.name(), plane.client_as(user).await?));
    }
    clients.push((
        "provisioner",
        plane
            .service_account_client("local-path-storage", "local-path-provisioner")
            .await?,
    ));
    for (name, client) in clients {
        let secrets = Api::<Secret>::namespaced(client.clone(), "kube-system")
            .list(&ListParams::default())
            .await;
        ensure!(
            matches!(secrets, Err(kube::Error::Api(status)) if status.code == 403),
            "{name} may read secrets"
        );
        Api::<Pod>::namespaced(client, "kube-system")
            .list(&ListParams::default())
            .await
            .ok();
    }
    let denied = plane
        .calls()?
        .filter(|call| call.code == 403 && call.is("list", "secrets"));
    ensure!(
        users.iter().all(|user| !denied.by(user.name()).is_empty()),
        "the audit log has not all refusals"
    );
    Ok(())
}

async fn the_kinds_have_the_subresources_they_should(plane: Arc<ControlPlane>) -> Result<()> {
    plane.add_namespace("subresources").await?;
    let namespace = "subresources";
    for (kind, version, resource, has_status) in [
        ("VirtualMachine", "kubevirt.io/v1", "vm", true),
        ("VirtualMachineInstance", "kubevirt.io/v1", "vmi", false),
        ("KubeVirt", "kubevirt.io/v1", "kubevirt", true),
        ("DataVolume", "cdi.kubevirt.io/v1beta1", "dv", true),
    ] {
        let spec = if kind == "DataVolume" {
            "{source: {blank: {}}, pvc: {}}"
        } else {
            "{}"
        };
        let text = format!(
            "{{apiVersion: {version}, kind: {kind}, metadata: {{name: x, namespace: {namespace}}}, spec: {spec}}}"
        );
        let applied = plane.apply(&text).await;
        if std::env::var_os("FIRST_CONSUMER_CRDS").is_some() && applied.is_err() {
            // The real schemas refuse so thin an object.
            continue;
        }
        applied?;
        let patch = [
            "patch",
            resource,
            "x",
            "-n",
            namespace,
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Pending"}}"#,
        ];
        let written = plane
            .kubectl(&[&patch[..], &["--subresource=status"][..]].concat())
            .await;
        ensure!(written.is_ok() == has_status, "{kind}: status subresource: {written:?}");
    }
    let columns = plane.kubectl(&["get", "dvs", "-n", namespace]).await?;
    ensure!(columns.starts_with("NAME") && columns.contains("PROGRESS"), "{columns}");
    Ok(())
}

async fn a_stop_leaves_nothing_behind() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let folder = plane.folder().to_owned();
    ensure!(
        processes_of(&folder).len() >= 12,
        "six parts, each with its leash: {:?}",
        processes_of(&folder)
    );
    plane.stop().await?;
    ensure!(!folder.exists(), "the run folder is still there");
    ensure!(
        processes_of(&folder).is_empty(),
        "processes are left: {:?}",
        processes_of(&folder)
    );
    Ok(())
}

async fn an_interrupted_run_cleans_up() -> Result<()> {
    let (mut child, folder) = start_victim().await?;
    let id = child.id().context("the victim has ended")?.to_string();
    Command::new("kill").args(["-INT", &id]).status().await?;
    let status = tokio::time::timeout(Duration::from_mins(1), child.wait()).await??;
    ensure!(status.code() == Some(130), "ended with {status}");
    ensure!(
        !folder.exists() && processes_of(&folder).is_empty(),
        "something is left"
    );
    Ok(())
}

async fn the_next_run_sweeps_what_a_killed_one_left() -> Result<()> {
    let (mut child, folder) = start_victim().await?;
    child.kill().await?;
    ensure!(folder.exists(), "a killed run cannot have cleaned up");
    wait_for("the killed run's processes end by themselves", async || {
        Ok(processes_of(&folder).is_empty().then_some(()))
    })
    .await?;
    let options = Options {
        nodes: Vec::new(),
        local_path: false,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await?;
    ensure!(!folder.exists(), "the folder was not swept");
    plane.stop().await
}

fn victim() -> ExitCode {
    let run = async {
        let plane = ControlPlane::start(Options::default()).await?;
        println!("{}", plane.folder().display());
        std::future::pending::<Result<()>>().await
    };
    let Ok(runtime) = tokio::runtime::Runtime::new() else {
        return ExitCode::FAILURE;
    };
    if let Err(error) = runtime.block_on(run) {
        eprintln!("{error:#}");
    }
    ExitCode::FAILURE
}

/// A process with a control plane, and that control plane's folder.
async fn start_victim() -> Result<(Child, PathBuf)> {
    programs().await?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let folder = lines.next_line().await?.context("the victim could not start")?;
    Ok((child, PathBuf::from(folder)))
}

/// The processes that name a folder on their command line.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let commands = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    commands.filter(|command| command.contains(&folder)).collect()
}

async fn phase(plane: &ControlPlane, namespace: &str, name: &str, wanted: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(plane.client(), namespace);
    wait_for(&format!("pod {name} is {wanted}"), async || {
        let phase = pods.get(name).await?.status.and_then(|status| status.phase);
        Ok((phase.as_deref() == Some(wanted)).then_some(()))
    })
    .await
}

fn claim(namespace: &str, name: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{namespace: {namespace}, name: {name}}}
spec:
  storageClassName: local-path
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 1Gi}}}}
"
    )
}

/// A pod that lists claims and mounts none; `metadata` is YAML flow text that is added to its metadata.
fn pod(namespace: &str, name: &str, metadata: &str, claims: &[&str]) -> String {
    let volumes: Vec<_> = claims
        .iter()
        .map(|claim| format!("{{name: {claim}, persistentVolumeClaim: {{claimName: {claim}}}}}"))
        .collect();
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{namespace: {namespace}, name: {name}, {metadata}}}
spec:
  restartPolicy: Never
  readinessGates: {gates}
  volumes: [{volumes}]
  containers: [{{name: c, image: pause, resources: {{requests: {{cpu: 100m}}}}}}]
",
        gates = if name == "launcher" {
            "[{conditionType: kubevirt.io/virtual-machine-unpaused}]"
        } else {
            "[]"
        },
        volumes = volumes.join(", "),
    )
}

//! The parts of a control plane and the flags that each needs. None of them is there for decoration.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use kube::Client;

use super::access::{Access, User, client};
use super::build::Programs;
use super::process::{Order, Process};
use super::run::Run;
use super::wait::wait_for;

/// The name of kube-apiserver's process.
pub(super) const APISERVER: &str = "kube-apiserver";
/// Another program may take a free port before we use it; so often we choose anew.
const PORT_ATTEMPTS: usize = 3;

/// Writes the configuration files of all parts.
pub(super) fn write_files(folder: &Path) -> Result<()> {
    let local_path = r#"{"nodePathMap":[{"node":"DEFAULT_PATH_FOR_NON_LISTED_NODES","paths":["/opt/local-path"]}]}"#;
    let files = [
        ("audit-policy.yaml", include_str!("yaml/audit-policy.yaml")),
        ("stages.yaml", include_str!("yaml/stages.yaml")),
        // local-path-provisioner looks for these two names.
        ("helperPod.yaml", include_str!("yaml/local-path-helper.yaml")),
        ("config.json", local_path),
        ("tokens.csv", &User::token_file()),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Starts etcd, waits until it serves, returns its URL.
pub(super) async fn start_etcd(run: &Run, programs: &Programs) -> Result<String> {
    for _ in 0..PORT_ATTEMPTS {
        let [port, peer_port] = [free_port()?, free_port()?];
        let [url, peer] = [port, peer_port].map(|port| format!("http://127.0.0.1:{port}"));
        let arguments = vec![
            "etcd".to_owned(),
            // The port in the name: an attempt that failed may have written something.
            format!("--data-dir={}", run.folder().join(format!("etcd-{port}")).display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync=true".to_owned(),
        ];
        let etcd = run.start(order("etcd", &programs.control_plane, arguments))?;
        // Its own word: whoever answers on the port may be another program that took it first.
        let up = wait_for("etcd serves", async || {
            check(&etcd)?;
            Ok(etcd.log().contains("serving client traffic").then_some(()))
        });
        match up.await {
            Ok(()) => return Ok(url),
            Err(error) => another_port(run, &etcd, error)?,
        }
    }
    bail!("etcd found no free port")
}

/// Starts kube-apiserver, waits until it is ready, returns how to reach it and the admin's client.
pub(super) async fn start_apiserver(
    run: &Run,
    programs: &Programs,
    etcd: &str,
    pod_security: bool,
) -> Result<(Access, Client)> {
    let folder = run.folder();
    let file = |name: &str| folder.join(name).display().to_string();
    for _ in 0..PORT_ATTEMPTS {
        let port = free_port()?;
        let access = Access {
            server: format!("https://127.0.0.1:{port}"),
            certificate_authority: folder.join("certificates/apiserver.crt"),
            service_account_key: folder.join("certificates/apiserver.key"),
            folder: folder.to_owned(),
        };
        let service_account_key = access.service_account_key.display();
        let mut arguments = vec![
            APISERVER.to_owned(),
            format!("--etcd-servers={etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // It fills this folder itself, before it reads the keys below.
            format!("--cert-dir={}", file("certificates")),
            "--authorization-mode=Node,RBAC".to_owned(),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={service_account_key}"),
            format!("--service-account-signing-key-file={service_account_key}"),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            // Otherwise it asks for an address that is not the loopback, to publish it.
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={}", file("audit-policy.yaml")),
            format!("--audit-log-path={}", file("audit.jsonl")),
            // In megabytes; the default rotates, and the calls so far would be in two files.
            "--audit-log-maxsize=10000".to_owned(),
        ];
        if !pod_security {
            arguments.push("--disable-admission-plugins=PodSecurity".to_owned());
        }
        let apiserver = run.start(order(APISERVER, &programs.control_plane, arguments))?;
        match apiserver_ready(&apiserver, &access).await {
            Ok(admin) => return Ok((access, admin)),
            Err(error) => another_port(run, &apiserver, error)?,
        }
    }
    bail!("kube-apiserver found no free port")
}

/// Waits until kube-apiserver is ready, and returns the admin's client.
pub(super) async fn apiserver_ready(apiserver: &Process, access: &Access) -> Result<Client> {
    let kubeconfig = access.user_kubeconfig(User::Admin)?;
    wait_for("kube-apiserver is ready", async || {
        check(apiserver)?;
        let Ok(admin) = client(&kubeconfig).await else {
            return Ok(None);
        };
        let request = http::Request::get("/readyz").body(Vec::new())?;
        Ok(admin.request_text(request).await.is_ok().then_some(admin))
    })
    .await
}

/// Starts kube-scheduler and kube-controller-manager, which need nothing but the API server.
pub(super) fn start_controllers(run: &Run, programs: &Programs, access: &Access) -> Result<()> {
    let common = |part: &str, user| -> Result<Vec<String>> {
        Ok(vec![
            part.to_owned(),
            format!("--kubeconfig={}", access.user_kubeconfig(user)?.display()),
            "--leader-elect=false".to_owned(),
            // Nobody asks for their metrics, and each port is one more that may be taken.
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ])
    };
    let scheduler = common("kube-scheduler", User::Scheduler)?;
    run.start(order("kube-scheduler", &programs.control_plane, scheduler))?;
    let mut manager = common("kube-controller-manager", User::ControllerManager)?;
    manager.extend([
        // Without it most controllers have no rights of their own, and nodes keep their not-ready taint.
        "--use-service-account-credentials=true".to_owned(),
        "--node-monitor-period=1s".to_owned(),
        // A write of a claim that meets a conflict is only tried again then; by default that is 15 s later.
        "--pvclaimbinder-sync-period=1s".to_owned(),
        format!("--root-ca-file={}", access.certificate_authority.display()),
        format!(
            "--service-account-private-key-file={}",
            access.service_account_key.display()
        ),
    ]);
    run.start(order("kube-controller-manager", &programs.control_plane, manager))?;
    Ok(())
}

/// Starts kwok, which plays all nodes and the kubelets on them.
pub(super) fn start_kwok(run: &Run, programs: &Programs, access: &Access) -> Result<()> {
    let arguments = vec![
        format!("--kubeconfig={}", access.user_kubeconfig(User::Kwok)?.display()),
        format!("--config={}", run.folder().join("stages.yaml").display()),
        "--manage-all-nodes=true".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    run.start(order("kwok", &programs.kwok, arguments)).map(drop)
}

/// Starts local-path-provisioner with the kubeconfig of its ServiceAccount.
pub(super) fn start_local_path(run: &Run, programs: &Programs, kubeconfig: &Path) -> Result<()> {
    let folder = run.folder();
    let arguments = vec![
        "start".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--config={}", folder.join("config.json").display()),
        format!("--helper-pod-file={}", folder.join("helperPod.yaml").display()),
        "--helper-image=busybox".to_owned(),
        "--service-account-name=local-path-provisioner".to_owned(),
    ];
    let mut order = order("local-path-provisioner", &programs.local_path_provisioner, arguments);
    order
        .environment
        .push(("CONFIG_MOUNT_PATH".to_owned(), folder.display().to_string()));
    run.start(order).map(drop)
}

/// Fails if a part has ended, with the end of its log.
pub(super) fn check(process: &Process) -> Result<()> {
    if process.has_ended() {
        bail!(
            "{} has ended; the end of its log:\n{}",
            process.name(),
            process.log_tail()
        );
    }
    Ok(())
}

/// A port of 127.0.0.1 that was free a moment ago.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Passes the error on, unless the part ended because somebody else has its port.
fn another_port(run: &Run, process: &Arc<Process>, error: anyhow::Error) -> Result<()> {
    if !process.has_ended() {
        return Err(error.context(process.log_tail()));
    }
    if !process.log_tail().contains("address already in use") {
        return Err(error);
    }
    run.forget(process);
    Ok(())
}

fn order(name: &str, program: &Path, arguments: Vec<String>) -> Order {
    let arguments = arguments.into_iter().map(OsString::from).collect();
    Order {
        name: name.to_owned(),
        program: program.to_owned(),
        arguments,
        environment: Vec::new(),
    }
}

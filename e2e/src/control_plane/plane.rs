//! Starts and stops one control plane.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::access::{Access, User, client};
use super::audit::Calls;
use super::build::{Programs, programs};
use super::nodes::{self, NodeSpec};
use super::objects;
use super::process::{Order, Process};
use super::run::{Reason, Run};
use super::wait::wait_for;

/// How long any part may take until it is usable.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// Another program may take a free port before we use it; so often we choose anew.
const PORT_ATTEMPTS: usize = 3;

/// What a control plane should be like.
#[derive(Clone, Debug)]
pub struct Options {
    /// The nodes to begin with.
    pub nodes: Vec<NodeSpec>,
    /// Whether local-path-provisioner runs. Its storage class is there in any case.
    pub local_path: bool,
    /// Whether the logs of a control plane that is dropped without `stop` stay in `target/control-plane/logs`.
    pub keep_logs_on_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: NodeSpec::six(),
            local_path: true,
            keep_logs_on_failure: true,
        }
    }
}

/// A running control plane. Stop it with `stop`; dropping it kills and removes everything too, and is taken for the
/// sign of a failure. SIGINT, SIGTERM and SIGHUP stop all control planes of this process before they end it.
pub struct ControlPlane {
    pub(super) run: Arc<Run>,
    programs: Programs,
    access: Access,
    admin: Client,
}

impl ControlPlane {
    /// Builds what is missing and starts all parts; takes a few seconds once they are built. With the environment
    /// variable `FIRST_CONSUMER_CRDS=FOLDER` the CRDs of that folder's YAML files are installed instead of the small
    /// ones. An error names the part that did not come up and shows the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        let programs = programs().await?;
        let run = Run::new(&programs.leash, options.keep_logs_on_failure)?;
        let folder = run.folder().to_owned();
        write_files(&folder)?;
        let etcd = start_etcd(&run, &programs).await?;
        let (access, admin) = start_apiserver(&run, &programs, &etcd).await?;
        let plane = Self {
            run,
            programs,
            access,
            admin,
        };
        plane.start_controllers()?;
        objects::apply(&plane.admin, include_str!("yaml/rbac.yaml")).await?;
        plane.apply_crds().await?;
        objects::apply(&plane.admin, include_str!("yaml/local-path.yaml")).await?;
        plane.start_kwok()?;
        if options.local_path {
            plane.start_local_path().await?;
        }
        // The first sign of life of the controller manager, without which no pod can be created.
        plane.wait_for_default_account("default").await?;
        plane.add_nodes(&options.nodes).await?;
        plane.check()?;
        Ok(plane)
    }

    /// Stops everything and removes the run folder. Fails if a part had ended on its own before.
    pub async fn stop(self) -> Result<()> {
        let alive = self.check();
        let run = Arc::clone(&self.run);
        tokio::task::spawn_blocking(move || run.end(Reason::Asked)).await?;
        alive
    }

    /// Whether all parts still run; else an error that names the part and shows the end of its log.
    pub fn check(&self) -> Result<()> {
        self.run.processes().iter().try_for_each(|process| check(process))
    }

    /// The folder with logs, kubeconfigs and etcd's data; gone after the stop.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.run.folder()
    }

    /// The processes that run, one per part; each is a leash that holds the program.
    #[must_use]
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.run.processes()
    }

    /// The harness's own client: cluster admin, retries off.
    #[must_use]
    pub fn client(&self) -> Client {
        self.admin.clone()
    }

    /// The harness's own kubeconfig, cluster admin.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.access.user_kubeconfig(User::Admin)
    }

    /// A client with the identity and rights of a user.
    pub async fn client_as(&self, user: User) -> Result<Client> {
        client(&self.access.user_kubeconfig(user)?).await
    }

    /// A kubeconfig that holds a fresh token of a ServiceAccount.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        self.access
            .service_account_kubeconfig(&self.admin, namespace, name)
            .await
    }

    /// A client with the identity and rights of a ServiceAccount.
    pub async fn service_account_client(&self, namespace: &str, name: &str) -> Result<Client> {
        client(&self.service_account_kubeconfig(namespace, name).await?).await
    }

    /// Creates nodes and waits until they can be scheduled to, up to their own taints and cordons.
    pub async fn add_nodes(&self, specs: &[NodeSpec]) -> Result<()> {
        nodes::add(&self.admin, specs).await
    }

    /// Creates a namespace and waits until pods can be created in it.
    pub async fn add_namespace(&self, name: &str) -> Result<()> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        Api::all(self.admin.clone())
            .create(&PostParams::default(), &namespace)
            .await?;
        self.wait_for_default_account(name).await
    }

    /// Applies the documents of a YAML text, server-side.
    pub async fn apply(&self, text: &str) -> Result<()> {
        objects::apply(&self.admin, text).await.map(drop)
    }

    /// Applies a kustomization folder with the built-in kubectl, server-side.
    pub async fn apply_kustomization(&self, folder: &Path) -> Result<()> {
        let folder = folder.to_str().context("the folder's name is not UTF-8")?;
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", folder])
            .await
            .map(drop)
    }

    /// Runs the built-in kubectl as cluster admin; returns its standard output, or fails with its standard error.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut kubectl = tokio::process::Command::new(&self.programs.control_plane);
        kubectl.arg("kubectl").arg("--kubeconfig").arg(self.kubeconfig()?);
        kubectl
            .arg("--cache-dir")
            .arg(self.folder().join("kubectl-cache"))
            .args(arguments);
        let output = kubectl.kill_on_drop(true).output().await?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The file of the built-in kubectl and the argument that makes it one, for a person to use.
    #[must_use]
    pub fn kubectl_command(&self) -> String {
        format!("{} kubectl", self.programs.control_plane.display())
    }

    /// Everything that the API server has answered so far.
    pub fn calls(&self) -> Result<Calls> {
        Calls::read(&self.folder().join("audit.jsonl"))
    }

    /// Starts a program that ends with this control plane at the latest.
    pub fn start_process(&self, order: Order<'_>) -> Result<Arc<Process>> {
        self.run.start(order)
    }

    async fn apply_crds(&self) -> Result<()> {
        if let Some(folder) = std::env::var_os("FIRST_CONSUMER_CRDS").filter(|folder| !folder.is_empty()) {
            return objects::apply_crd_folder(&self.admin, Path::new(&folder)).await;
        }
        let own = [
            include_str!("../../crds/kubevirt.yaml"),
            include_str!("../../crds/cdi.yaml"),
        ];
        objects::apply_crds(&self.admin, own).await
    }

    /// kube-scheduler and kube-controller-manager, which need nothing but the API server.
    fn start_controllers(&self) -> Result<()> {
        let certificate_authority = self.access.certificate_authority.display();
        let common = |user| -> Result<[String; 5]> {
            Ok([
                format!("--kubeconfig={}", self.access.user_kubeconfig(user)?.display()),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                "--kube-api-qps=500".to_owned(),
                "--kube-api-burst=1000".to_owned(),
            ])
        };
        let mut manager = common(User::ControllerManager)?.to_vec();
        manager.extend([
            // Without it most controllers have no rights of their own, and nodes keep their not-ready taint.
            "--use-service-account-credentials=true".to_owned(),
            "--node-monitor-period=1s".to_owned(),
            format!("--root-ca-file={certificate_authority}"),
            format!(
                "--service-account-private-key-file={}",
                self.folder().join("certificates/apiserver.key").display()
            ),
        ]);
        let program = &self.programs.control_plane;
        start(&self.run, program, "kube-scheduler", common(User::Scheduler)?.to_vec())?;
        start(&self.run, program, "kube-controller-manager", manager)?;
        Ok(())
    }

    fn start_kwok(&self) -> Result<()> {
        let arguments = vec![
            format!("--kubeconfig={}", self.access.user_kubeconfig(User::Kwok)?.display()),
            format!("--config={}", self.folder().join("stages.yaml").display()),
            "--manage-all-nodes=true".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
        ];
        self.start_process(order("kwok", &self.programs.kwok, arguments))
            .map(drop)
    }

    async fn start_local_path(&self) -> Result<()> {
        let kubeconfig = self
            .service_account_kubeconfig("local-path-storage", "local-path-provisioner")
            .await?;
        let folder = self.folder();
        let mut arguments = vec!["start".to_owned()];
        arguments.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={}", folder.join("config.json").display()),
            format!("--helper-pod-file={}", folder.join("helper-pod.yaml").display()),
            "--helper-image=busybox".to_owned(),
            "--service-account-name=local-path-provisioner".to_owned(),
        ]);
        let mut order = order(
            "local-path-provisioner",
            &self.programs.local_path_provisioner,
            arguments,
        );
        order
            .environment
            .push(("CONFIG_MOUNT_PATH".to_owned(), folder.display().to_string()));
        self.start_process(order).map(drop)
    }

    async fn wait_for_default_account(&self, namespace: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        wait_for(
            UP_WITHIN,
            "kube-controller-manager makes the ServiceAccount default",
            async || {
                self.check()?;
                Ok(accounts.get_opt("default").await?.map(drop))
            },
        )
        .await
    }
}

fn write_files(folder: &Path) -> Result<()> {
    let local_path = r#"{"nodePathMap":[{"node":"DEFAULT_PATH_FOR_NON_LISTED_NODES","paths":["/opt/local-path"]}]}"#;
    let files = [
        ("audit-policy.yaml", include_str!("yaml/audit-policy.yaml")),
        ("stages.yaml", include_str!("yaml/stages.yaml")),
        ("helper-pod.yaml", include_str!("yaml/local-path-helper.yaml")),
        ("config.json", local_path),
        ("tokens.csv", &User::token_file()),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Returns the URL of etcd.
async fn start_etcd(run: &Run, programs: &Programs) -> Result<String> {
    for _ in 0..PORT_ATTEMPTS {
        let [client, peer] = [free_port()?, free_port()?].map(|port| format!("http://127.0.0.1:{port}"));
        let arguments = vec![
            format!("--data-dir={}", run.folder().join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync=true".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let etcd = start(run, &programs.control_plane, "etcd", arguments)?;
        let address = client.trim_start_matches("http://");
        let up = wait_for(UP_WITHIN, "etcd listens", async || {
            check(&etcd)?;
            Ok(tokio::net::TcpStream::connect(address).await.ok())
        });
        match up.await {
            Ok(_) => return Ok(client),
            Err(error) => another_port(run, &etcd, error)?,
        }
    }
    bail!("etcd found no free port")
}

/// Returns how to reach the API server, and the admin's client.
async fn start_apiserver(run: &Run, programs: &Programs, etcd: &str) -> Result<(Access, Client)> {
    let folder = run.folder();
    let file = |name: &str| folder.join(name).display().to_string();
    for _ in 0..PORT_ATTEMPTS {
        let port = free_port()?;
        let access = Access {
            server: format!("https://127.0.0.1:{port}"),
            // kube-apiserver makes it, with a key that also signs ServiceAccount tokens.
            certificate_authority: folder.join("certificates/apiserver.crt"),
            folder: folder.to_owned(),
        };
        let arguments = vec![
            format!("--etcd-servers={etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", file("certificates")),
            "--authorization-mode=Node,RBAC".to_owned(),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("certificates/apiserver.key")),
            format!(
                "--service-account-signing-key-file={}",
                file("certificates/apiserver.key")
            ),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={}", file("audit-policy.yaml")),
            format!("--audit-log-path={}", file("audit.jsonl")),
            // In megabytes; the default rotates, and the calls so far would be in two files.
            "--audit-log-maxsize=10000".to_owned(),
        ];
        let apiserver = start(run, &programs.control_plane, "kube-apiserver", arguments)?;
        let kubeconfig = access.user_kubeconfig(User::Admin)?;
        let up = wait_for(UP_WITHIN, "kube-apiserver is ready", async || {
            check(&apiserver)?;
            if !access.certificate_authority.exists() {
                return Ok(None);
            }
            let Ok(admin) = client(&kubeconfig).await else {
                return Ok(None);
            };
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(admin.request_text(request).await.is_ok().then_some(admin))
        });
        match up.await {
            Ok(admin) => return Ok((access, admin)),
            Err(error) => another_port(run, &apiserver, error)?,
        }
    }
    bail!("kube-apiserver found no free port")
}

/// Passes the error on, unless the part ended because somebody else has its port.
fn another_port(run: &Run, process: &Arc<Process>, error: anyhow::Error) -> Result<()> {
    if process.has_ended() && process.log_tail().contains("address already in use") {
        run.forget(process);
        return Ok(());
    }
    if process.has_ended() {
        Err(error)
    } else {
        Err(error.context(process.log_tail()))
    }
}

fn check(process: &Process) -> Result<()> {
    if process.has_ended() {
        bail!(
            "{} has ended; the end of its log:\n{}",
            process.name(),
            process.log_tail()
        );
    }
    Ok(())
}

/// One of the parts in the control-plane program.
fn start(run: &Run, program: &Path, part: &str, arguments: Vec<String>) -> Result<Arc<Process>> {
    let mut order = order(part, program, arguments);
    order.arguments.insert(0, part.into());
    run.start(order)
}

fn order<'a>(name: &'a str, program: &'a Path, arguments: Vec<String>) -> Order<'a> {
    let arguments = arguments.into_iter().map(OsString::from).collect();
    Order {
        name,
        program,
        arguments,
        environment: Vec::new(),
    }
}

/// A port of 127.0.0.1 that was free a moment ago.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

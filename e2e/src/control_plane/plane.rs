//! Starts and stops one control plane.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};

use super::access::{Access, User, client};
use super::audit::{AuditLog, Calls};
use super::build::{Programs, programs, workspace};
use super::nodes::{self, NodeSpec};
use super::objects;
use super::parts;
use super::process::{Order, Process};
use super::run::{Reason, Run};
use super::wait::wait_for;

/// What a control plane should be like.
#[derive(Clone, Debug)]
pub struct Options {
    /// The nodes to begin with.
    pub nodes: Vec<NodeSpec>,
    /// Whether CDI's CRDs are installed; else [`ControlPlane::apply_crds`] does it later.
    pub cdi: bool,
    /// Whether local-path-provisioner runs. Its storage class is there in any case.
    pub local_path: bool,
    /// Whether the API server enforces Pod Security, and so refuses Namespaces that ask for a level it does not know.
    pub pod_security: bool,
    /// Whether the logs of a control plane that is dropped without `stop` stay in `target/control-plane/logs`.
    pub keep_logs_on_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: NodeSpec::six(),
            cdi: true,
            local_path: true,
            pod_security: true,
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
    audit: AuditLog,
}

impl ControlPlane {
    /// Builds what is missing and starts all parts; takes a few seconds once they are built. With the environment
    /// variable `FIRST_CONSUMER_CRDS=FOLDER` the CRDs of that folder's YAML files are installed instead of the small
    /// ones. An error names the part that did not come up and shows the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        let programs = programs().await?;
        let run = Run::new(&programs.leash, options.keep_logs_on_failure)?;
        parts::write_files(run.folder())?;
        let etcd = parts::start_etcd(&run, &programs).await?;
        let (access, admin) = parts::start_apiserver(&run, &programs, &etcd, options.pod_security).await?;
        parts::start_controllers(&run, &programs, &access)?;
        let plane = Self {
            audit: AuditLog::new(run.folder().join("audit.jsonl")),
            run,
            programs,
            access,
            admin,
        };
        objects::apply(&plane.admin, include_str!("yaml/rbac.yaml")).await?;
        plane.apply_crds(options.cdi).await?;
        objects::apply(&plane.admin, include_str!("yaml/local-path.yaml")).await?;
        parts::start_kwok(&plane.run, &plane.programs, &plane.access)?;
        if options.local_path {
            let kubeconfig = plane
                .service_account_kubeconfig("local-path-storage", "local-path-provisioner")
                .await?;
            parts::start_local_path(&plane.run, &plane.programs, &kubeconfig)?;
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
        self.run
            .processes()
            .iter()
            .try_for_each(|process| parts::check(process))
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

    /// The harness's own client: cluster admin.
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
        self.audit.calls()
    }

    /// Kills the API server and starts it anew on the same port, with the same data and keys: watches break, tokens
    /// stay valid. Returns when it is ready.
    pub async fn restart_apiserver(&self) -> Result<()> {
        let processes = self.run.processes();
        let old = processes.iter().find(|process| process.name() == parts::APISERVER);
        let new = self.run.restart(old.context("no API server runs")?).await?;
        parts::apiserver_ready(&new, &self.access).await.map(drop)
    }

    /// Starts a program that ends with this control plane at the latest.
    pub fn start_process(&self, order: Order) -> Result<Arc<Process>> {
        self.run.start(order)
    }

    /// Installs the CRDs, with or without CDI's, and waits until they are served.
    pub async fn apply_crds(&self, cdi: bool) -> Result<()> {
        let folder = std::env::var_os("FIRST_CONSUMER_CRDS").filter(|folder| !folder.is_empty());
        let mut crds = match folder {
            // Tests run in the folder of their crate, and whoever starts them is in the workspace's.
            Some(folder) => objects::crds_of_folder(&workspace().join(folder))?,
            None => [
                objects::documents(include_str!("../../crds/kubevirt.yaml"))?,
                objects::documents(include_str!("../../crds/cdi.yaml"))?,
            ]
            .concat(),
        };
        let snapshots = objects::documents(include_str!("../../crds/snapshots.yaml"))?;
        let known: Vec<_> = crds.iter().map(kube::ResourceExt::name_any).collect();
        crds.extend(snapshots.into_iter().filter(|crd| !known.contains(&crd.name_any())));
        let wanted = crds
            .iter()
            .filter(|crd| cdi || !crd.name_any().ends_with(".cdi.kubevirt.io"));
        objects::apply_crds(&self.admin, wanted).await
    }

    async fn wait_for_default_account(&self, namespace: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        wait_for("kube-controller-manager makes the ServiceAccount default", async || {
            self.check()?;
            Ok(accounts.get_opt("default").await?.map(drop))
        })
        .await
    }
}

//! Who may talk to the API server: token users with their own roles, kubeconfigs, ServiceAccount tokens.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

/// A user of the API server. Only `Admin` is cluster admin; the others have the roles of `yaml/rbac.yaml` or
/// Kubernetes' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The harness itself.
    Admin,
    /// kube-scheduler.
    Scheduler,
    /// kube-controller-manager; its controllers use ServiceAccounts of their own.
    ControllerManager,
    /// Plays nodes and kubelets.
    Kwok,
    /// The CDI stand-in.
    Cdi,
    /// The virt-controller stand-in.
    VirtController,
    /// The stand-in of a CSI provisioner, for the populator path.
    CsiProvisioner,
}

impl User {
    const ALL: [Self; 7] = [
        Self::Admin,
        Self::Scheduler,
        Self::ControllerManager,
        Self::Kwok,
        Self::Cdi,
        Self::VirtController,
        Self::CsiProvisioner,
    ];

    /// The name that RBAC and the audit log know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Scheduler => "system:kube-scheduler",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Kwok => "kwok",
            Self::Cdi => "cdi",
            Self::VirtController => "virt-controller",
            Self::CsiProvisioner => "csi-provisioner",
        }
    }

    /// Only this machine can reach the API server, and only while the harness runs: no secret.
    fn token(self) -> String {
        format!("token-of-{}", self.name().replace(':', "-"))
    }

    /// The text of kube-apiserver's `--token-auth-file`: token, name, UID, groups.
    pub(super) fn token_file() -> String {
        Self::ALL.into_iter().fold(String::new(), |mut text, user| {
            let groups = if user == Self::Admin { ",system:masters" } else { "" };
            let (token, name) = (user.token(), user.name());
            let _ = writeln!(text, "{token},{name},{name}{groups}");
            text
        })
    }
}

/// Where the API server is, and the folder that holds one kubeconfig per identity.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) server: String,
    pub(super) certificate_authority: PathBuf,
    /// Signs ServiceAccount tokens.
    pub(super) service_account_key: PathBuf,
    pub(super) folder: PathBuf,
}

impl Access {
    pub(super) fn user_kubeconfig(&self, user: User) -> Result<PathBuf> {
        self.kubeconfig(&user.name().replace(':', "-"), &user.token())
    }

    /// A kubeconfig with a fresh token of a ServiceAccount, good for a day.
    pub(super) async fn service_account_kubeconfig(
        &self,
        admin: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf> {
        let spec = TokenRequestSpec {
            expiration_seconds: Some(86_400),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;
        let answer = answer.with_context(|| format!("no token for ServiceAccount {namespace}/{name}"))?;
        let token = answer
            .status
            .and_then(|status| status.token)
            .context("a TokenRequest came back without token")?;
        self.kubeconfig(&format!("{namespace}.{name}"), &token)
    }

    fn kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let text = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {
                "server": self.server,
                "certificate-authority": self.certificate_authority,
            }}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}],
        });
        // In one step: another program may just be reading the one with the same identity.
        let fresh = tempfile::NamedTempFile::new_in(&self.folder)?;
        fs::write(&fresh, text.to_string())?;
        fresh
            .persist(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// A client with the identity of a kubeconfig file.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // The environment's proxy cannot reach this machine's loopback.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

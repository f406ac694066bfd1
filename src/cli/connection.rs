//! kubectl's flags that say which cluster, as whom, and which Namespace.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::Client;

use super::{Failure, duration};
use crate::cluster::client::{CALL_LIMIT, Clients, Target, config};
use crate::cluster::snapshot::{self, Snapshot};

/// Flags of the commands that look at the VMs of a Namespace.
#[derive(Clone, Debug, Args)]
pub struct Connection {
    /// Namespace; in files, of objects that name none.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The cluster.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Flags of the commands that look at a cluster.
#[derive(Clone, Debug, Args)]
pub struct Cluster {
    /// Path of the kubeconfig; without it the usual places.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Cluster of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// User of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// User to impersonate.
    #[arg(long = "as", value_name = "USER")]
    pub impersonate: Option<String>,
    /// How long one request may take, such as 5s or 1m; 0 does not limit it.
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub request_timeout: Option<Duration>,
}

impl Cluster {
    /// A client, the Namespace of the kubeconfig, and the limit for one request.
    pub async fn open(&self) -> Result<(Client, String, Duration), Failure> {
        let target = Target {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            impersonate: self.impersonate.clone(),
        };
        let unreachable = |error: anyhow::Error| Failure::cluster(format!("{error:#}"));
        let config = config(&target).await.map_err(|error| unreachable(error.into()))?;
        let namespace = config.default_namespace.clone();
        let observer: crate::cluster::client::Observer = std::sync::Arc::new(|_, _| {});
        let clients = Clients::from_config(&config, &observer).map_err(|error| unreachable(error.into()))?;
        Ok((clients.read, namespace, self.request_timeout.unwrap_or(CALL_LIMIT)))
    }
}

impl Connection {
    /// A client, the Namespace, and the limit for one request.
    pub async fn open(&self) -> Result<(Client, String, Duration), Failure> {
        let (client, usual, limit) = self.cluster.open().await?;
        Ok((client, self.namespace.clone().unwrap_or(usual), limit))
    }

    /// What concerns the VMs of a Namespace, or of all. It fails if a kind may not be read that is `needed` (asked by its
    /// plural).
    pub async fn snapshot(
        &self,
        client: &Client,
        namespace: Option<&str>,
        limit: Duration,
        needed: fn(&str) -> bool,
    ) -> Result<Snapshot, Failure> {
        let taken = snapshot::take(client, namespace, limit, needed).await;
        taken.map_err(|error| Failure::cluster(error.to_string()))
    }

    /// The Namespace of objects in files that name none.
    #[must_use]
    pub fn file_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

/// As kubectl has it: a bare number is seconds, 0 is no limit.
fn timeout(text: &str) -> Result<Duration, String> {
    let limit = text.parse().map(Duration::from_secs).or_else(|_| duration(text))?;
    Ok(if limit.is_zero() { Duration::MAX } else { limit })
}

//! A whole cluster: the control plane, the neighbours' stand-ins, and first-consumer's own manifests.

use std::sync::Arc;

use anyhow::{Result, bail};

use crate::control_plane::{ControlPlane, Options, User, wait_for, workspace};
use crate::stand_in::{self, StandIns};
use crate::suite::Shared;

/// Storage classes and CSI drivers beside the real local-path.
pub const STORAGE: &str = include_str!("../stand_in_storage.yaml");

/// The user that the product's requests come from.
pub const ACCOUNT: &str = "system:serviceaccount:first-consumer:first-consumer";

/// A running cluster, with everything installed but no controller of ours running.
pub struct Cluster {
    /// The control plane.
    pub plane: ControlPlane,
    /// CDI, KubeVirt and the CSI provisioner.
    pub stand_ins: StandIns,
}

impl Cluster {
    /// Starts a cluster and applies `manifests/`.
    pub async fn start(options: Options, neighbours: stand_in::Options) -> Result<Self> {
        Self::populate(Self::install(options).await?, neighbours).await
    }

    /// Starts a control plane with storage classes and `manifests/`, on which nobody acts yet.
    pub async fn install(options: Options) -> Result<ControlPlane> {
        let plane = ControlPlane::start(options).await?;
        plane.apply(STORAGE).await?;
        plane.apply_kustomization(&workspace().join("manifests/base")).await?;
        Ok(plane)
    }

    /// Lets the neighbours in.
    pub async fn populate(plane: ControlPlane, neighbours: stand_in::Options) -> Result<Self> {
        let mut stand_ins = StandIns::start(
            plane.client_as(User::Cdi).await?,
            plane.client_as(User::VirtController).await?,
            plane.client_as(User::CsiProvisioner).await?,
            neighbours,
        )
        .await?;
        let virt_api = stand_ins.serve_virt_api().await?;
        plane.apply(&virt_api).await?;
        // Until it has found it, the API server answers for it that nobody is there.
        wait_for("virt-api is served", async || {
            let served = plane
                .kubectl(&["get", "--raw", "/apis/subresources.kubevirt.io/v1"])
                .await;
            Ok(served.ok().map(drop))
        })
        .await?;
        Ok(Self { plane, stand_ins })
    }
}

impl Shared for Cluster {
    async fn stop(self) -> Result<()> {
        self.stand_ins.stop().await;
        self.plane.stop().await
    }
}

/// A cluster with default nodes and neighbours, to be shared by scenarios that keep to their own namespaces.
pub async fn shared() -> Result<Cluster> {
    with(Options::default()).await
}

/// A cluster with default neighbours.
pub async fn with(options: Options) -> Result<Cluster> {
    Cluster::start(options, stand_in::Options::default()).await
}

/// Plays a scenario on a cluster that it has for itself.
pub async fn alone(options: Options, play: impl AsyncFnOnce(Arc<Cluster>) -> Result<()>) -> Result<()> {
    let cluster = Arc::new(with(options).await?);
    play(Arc::clone(&cluster)).await?;
    match Arc::into_inner(cluster) {
        Some(cluster) => cluster.stop().await,
        None => bail!("the scenario has kept its cluster"),
    }
}

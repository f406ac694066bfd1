//! Leader election by a Lease, so that a standby sends no writes. Nothing depends on it for safety: pod names are
//! fixed, creates never overwrite and deletes name a UID, so two leaders cost requests and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError, LeaseParams};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use crate::api::Meta;
use crate::cluster::client::{LEASE_LIMIT, brief, timed};
use crate::name::{DOMAIN, hex_digest};

/// The name of the Lease.
pub const LEASE: &str = "first-consumer";

/// A leader that has vanished is replaced after this many seconds.
const DURATION: u64 = 15;

/// The leader renews this many seconds before that.
const GRACE: u64 = 5;

/// An election that has lasted so long has worked.
const LASTS: Duration = Duration::from_secs(DURATION);

/// How long after a failure the election begins again.
const RETRY: Duration = Duration::from_secs(1);

/// How long after a failure the flags are told again; it doubles up to a minute.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// The mark for `--watch-namespace`; empty if all are watched.
#[must_use]
pub fn watch_mark(namespace: Option<&str>) -> (String, String) {
    (
        format!("{DOMAIN}/watch-namespace"),
        namespace.unwrap_or_default().to_owned(),
    )
}

/// The only Namespace that the leader watches, as its Lease says it.
#[must_use]
pub fn watched(lease: &Meta) -> Option<&str> {
    let (mark, _) = watch_mark(None);
    lease.annotation(&mark).filter(|namespace| !namespace.is_empty())
}

/// Tells at any moment whether this process leads; cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<bool>);

impl Leadership {
    /// Without election: always.
    #[must_use]
    pub fn always() -> Self {
        Self(watch::channel(true).1)
    }

    /// Whether this process leads now. To be asked right before each write.
    #[must_use]
    pub fn leads(&self) -> bool {
        *self.0.borrow()
    }
}

/// Takes part in the election while [`Election::run`] runs.
pub struct Election {
    client: Client,
    namespace: String,
    identity: String,
    gained: Arc<dyn Fn() + Send + Sync>,
    leads: Arc<watch::Sender<bool>>,
    /// Annotations that the leader puts on the Lease.
    marks: BTreeMap<String, String>,
    /// Whether the API server has told anything since the last failure.
    answered: AtomicBool,
}

impl Election {
    /// Prepares to take part as `identity` (the pod's name) with the Lease [`LEASE`] in `namespace` (the pod's).
    /// `gained` is called whenever this process has become the leader: what it left alone until then is due.
    pub fn new(
        client: Client,
        namespace: impl Into<String>,
        identity: impl Into<String>,
        gained: impl Fn() + Send + Sync + 'static,
    ) -> (Self, Leadership) {
        let (leads, told) = watch::channel(false);
        let election = Self {
            client,
            namespace: namespace.into(),
            identity: identity.into(),
            gained: Arc::new(gained),
            leads: Arc::new(leads),
            marks: BTreeMap::new(),
            answered: AtomicBool::new(false),
        };
        (election, Leadership(told))
    }

    /// Puts these annotations on the Lease while this process leads: what `explain` has to know of the leader.
    #[must_use]
    pub fn marking(mut self, marks: impl IntoIterator<Item = (String, String)>) -> Self {
        self.marks = marks.into_iter().collect();
        self
    }

    /// Takes part until `stop`, then gives the Lease back. An API server that cannot be reached only delays it.
    pub async fn run(self, stop: CancellationToken) {
        let election = Arc::new(self);
        let mut works = true;
        while !stop.is_cancelled() {
            // A task of its own: the library panics on some answers (a conflict while it releases, for one).
            let began = Instant::now();
            let session = tokio::spawn(Arc::clone(&election).session(stop.clone()));
            let ended = AbortOnDropHandle::new(session).await;
            election.leads.send_replace(false);
            let error = match ended {
                Ok(Ok(())) => return,
                Ok(Err(LeaseManagerError::KubeError(error))) => brief(&error),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            // A standby hears nothing as long as all is well.
            works |= election.answered.swap(false, Ordering::Relaxed) || began.elapsed() >= LASTS;
            if std::mem::take(&mut works) {
                warn!(error, "the leader election was interrupted");
            } else {
                debug!(error, "the leader election is still interrupted");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Until `stop` or the first failure. After a failure the library would neither make a deleted Lease anew nor
    /// say again that we lead, so each failure ends the session.
    async fn session(self: Arc<Self>, stop: CancellationToken) -> Result<(), LeaseManagerError> {
        let manager = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            manager = self.manager() => manager?,
        };
        let mut telling = None;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                changed = manager.changed() => {
                    let leads = changed?;
                    self.answered.store(true, Ordering::Relaxed);
                    info!(identity = self.identity, leads, "leadership has changed");
                    self.leads.send_replace(leads);
                    if leads {
                        (self.gained)();
                    }
                    // Only `explain` reads them; leading does not wait for it. It ends with the leadership.
                    telling = leads.then(|| AbortOnDropHandle::new(tokio::spawn(Arc::clone(&self).mark())));
                }
            }
        }
        drop(telling);
        // Whoever writes after this has not asked.
        let led = self.leads.send_replace(false);
        if led && let Ok(released) = tokio::time::timeout(LEASE_LIMIT, manager.release()).await {
            released?;
        }
        Ok(())
    }

    async fn mark(self: Arc<Self>) {
        if self.marks.is_empty() {
            return;
        }
        let leases = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"metadata": {"annotations": self.marks}}));
        let params = PatchParams::default();
        let mut delay = TELL_AGAIN;
        while let Err(error) = timed(LEASE_LIMIT, leases.patch_metadata(LEASE, &params, &patch)).await {
            debug!(%error, "the lease does not tell the flags yet");
            tokio::time::sleep(delay).await;
            delay = (2 * delay).min(Duration::from_mins(1));
        }
    }

    async fn manager(&self) -> Result<LeaseManager, LeaseManagerError> {
        // The library takes the Lease by server-side apply: two candidates of one field manager would not conflict.
        let manager = format!("first-consumer-{}", hex_digest(self.identity.as_bytes(), 8));
        let params = LeaseParams::new(&self.identity, DURATION, GRACE).with_field_manager(manager);
        LeaseManagerBuilder::new(self.client.clone(), LEASE)
            .with_namespace(&self.namespace)
            .with_parameters(params)
            .build()
            .await
    }
}

#[cfg(test)]
mod tests;

//! Leader election by a Lease, so that a standby sends no writes. Nothing depends on it for safety: pod names are
//! fixed, creates never overwrite and deletes name a UID, so two leaders cost requests and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError, LeaseParams};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use crate::cluster::client::{LEASE_LIMIT, brief, timed};
use crate::name::hex_digest;

/// The name of the Lease.
pub const LEASE: &str = "first-consumer";

/// A leader that has vanished is replaced after this many seconds.
const DURATION: u64 = 15;

/// The leader renews this many seconds before that.
const GRACE: u64 = 5;

/// How long after a failure the election begins again.
const RETRY: Duration = Duration::from_secs(1);

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
        };
        (election, Leadership(told))
    }

    /// Puts these annotations on the Lease as soon as this process leads: what `explain` has to know of the leader.
    #[must_use]
    pub fn marking(mut self, marks: impl IntoIterator<Item = (String, String)>) -> Self {
        self.marks = marks.into_iter().collect();
        self
    }

    /// Takes part until `stop`, then gives the Lease back. An API server that cannot be reached only delays it.
    pub async fn run(self, stop: CancellationToken) {
        let election = Arc::new(self);
        while !stop.is_cancelled() {
            // A task of its own: the library panics on some answers (a conflict while it releases, for one).
            let session = tokio::spawn(Arc::clone(&election).session(stop.clone()));
            let ended = AbortOnDropHandle::new(session).await;
            election.leads.send_replace(false);
            match ended {
                Ok(Ok(())) => return,
                Ok(Err(LeaseManagerError::KubeError(error))) => {
                    warn!(error = brief(&error), "the leader election was interrupted");
                }
                Ok(Err(error)) => warn!(%error, "the leader election was interrupted"),
                Err(error) => warn!(%error, "the leader election broke down"),
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
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                changed = manager.changed() => {
                    let leads = changed?;
                    info!(identity = self.identity, leads, "leadership has changed");
                    self.leads.send_replace(leads);
                    if leads {
                        (self.gained)();
                        // Only `explain` reads them; leading does not wait for it.
                        tokio::spawn(Arc::clone(&self).mark());
                    }
                }
            }
        }
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
        if let Err(error) = timed(LEASE_LIMIT, leases.patch_metadata(LEASE, &params, &patch)).await {
            debug!(%error, "the lease does not tell the flags");
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
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper::Method;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::test_server::{Asked, TestServer, status};

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A Lease as the API server keeps it, without field managers; fails the first requests.
    fn lease(failures: usize) -> impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static {
        let kept: Mutex<Option<Value>> = Mutex::default();
        let left = AtomicUsize::new(failures);
        move |asked| {
            if left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
            {
                return status(500, "not now");
            }
            let mut kept = kept.lock().unwrap();
            match (&asked.method, &mut *kept) {
                (&Method::POST, kept) => {
                    *kept = Some(json!({"metadata": {"name": "first-consumer"}, "spec": {}}));
                }
                (_, None) => return status(404, "no such lease"),
                (&Method::PATCH, Some(lease)) => {
                    for (key, value) in asked.body["spec"].as_object().into_iter().flatten() {
                        lease["spec"][key] = value.clone();
                    }
                }
                _ => {}
            }
            (200, kept.as_ref().unwrap().to_string())
        }
    }

    struct Candidate {
        leadership: Leadership,
        gained: Arc<AtomicUsize>,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    fn candidate(server: &TestServer, identity: &str) -> Candidate {
        let client = Client::try_from(server.config()).unwrap();
        let gained = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&gained);
        let (election, leadership) = Election::new(client, "ns", identity, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let election = election.marking([("a/flag".to_owned(), "all".to_owned())]);
        let stop = CancellationToken::new();
        let task = tokio::spawn(election.run(stop.clone()));
        Candidate {
            leadership,
            gained,
            stop,
            task,
        }
    }

    impl Candidate {
        async fn wait(&self) {
            let mut leads = self.leadership.0.clone();
            tokio::time::timeout(PATIENCE, leads.wait_for(|leads| *leads))
                .await
                .unwrap()
                .unwrap();
        }

        async fn end(self) {
            self.stop.cancel();
            tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
            assert!(!self.leadership.leads());
        }
    }

    #[test]
    fn without_election_we_always_lead() {
        assert!(Leadership::always().leads());
    }

    #[tokio::test]
    async fn the_first_candidate_leads_the_second_does_not_and_the_lease_is_given_back() {
        let server = TestServer::start(lease(0)).await;
        let first = candidate(&server, "pod-a");
        first.wait().await;
        assert_eq!(first.gained.load(Ordering::Relaxed), 1);
        let second = candidate(&server, "pod-b");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!second.leadership.leads());
        second.end().await;
        let releases = || {
            let asked = server
                .requests()
                .into_iter()
                .filter(|asked| asked.method == Method::PATCH);
            asked
                .filter(|asked| asked.body["spec"].get("holderIdentity") == Some(&Value::Null))
                .count()
        };
        assert_eq!(releases(), 0, "a standby gives nothing back");
        let marks = |asked: &Asked| asked.body.pointer("/metadata/annotations/a~1flag").cloned();
        let marks: Vec<Value> = server.requests().iter().filter_map(marks).collect();
        assert_eq!(
            marks,
            ["all"],
            "the leader says with which flags it runs, a standby does not"
        );
        first.end().await;
        assert_eq!(releases(), 1);
        let third = candidate(&server, "pod-c");
        third.wait().await;
        third.end().await;
    }

    #[tokio::test]
    async fn an_api_server_that_fails_at_first_only_delays_the_election() {
        let server = TestServer::start(lease(1)).await;
        let candidate = candidate(&server, "pod-a");
        candidate.wait().await;
        candidate.end().await;
    }
}

//! A fake API server: the kinds that first-consumer and its neighbours use, kept in memory, with what a client relies on
//! (versions, watches, preconditions, finalizers, owners) and with faults that are drawn from a seed.
//!
//! ```text
//! kube::Client --> Connection (tower service) --> delay, faults --> Store --> watches of all clients
//! ```
//!
//! In one process with paused time it makes hours of a cluster's life pass in milliseconds, the same each time: see
//! [`Scene`]. [`server`] puts it on an address for other processes.
//!
//! Left out: `events.k8s.io`, quotas, foreground deletion, field managers beyond a Lease's, sets in label selectors.

mod collect;
mod connection;
mod failure;
mod faults;
mod request;
mod rules;
pub mod scene;
pub mod seeds;
pub mod server;
mod store;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use first_consumer::clock::Clock;
use first_consumer::cluster::client::{Clients, Observer};
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::ClientBuilder;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::control_plane::{Call, Calls};

pub use connection::Connection;
pub use failure::Failure;
pub use faults::{Faults, Injected, Rates};
pub use scene::{Options, Scene};
pub use store::{Change, Does, Id, Store, Witness};
pub use write::Deletion;

/// Refuses a new pod with a text, or lets it pass.
pub type Admission = Box<dyn Fn(&Value) -> Option<String> + Send + Sync>;

/// What virt-api makes of `expand-spec` of a VM (namespace, name): HTTP status and body.
pub type Expansion = Box<dyn Fn(String, String) -> BoxFuture<'static, (u16, Value)> + Send + Sync>;

/// When a user was first told of a pod, by user and UID.
pub type Told = BTreeMap<(Arc<str>, String), Timestamp>;

/// The server; clones are the same server.
#[derive(Clone)]
pub struct FakeApi(Arc<Inner>);

struct Inner {
    store: Arc<Mutex<Store>>,
    clock: Clock,
    faults: Mutex<Faults>,
    /// What went wrong so far, and how often.
    injected: Mutex<BTreeMap<Injected, usize>>,
    calls: Mutex<Vec<Call>>,
    admission: Mutex<Option<Admission>>,
    expansion: Mutex<Option<Expansion>>,
    /// When whom a pod was told of, by user and UID; only if somebody wants to know.
    told: Mutex<Option<Told>>,
    /// Kinds whose CRD is not installed.
    absent: Mutex<Vec<String>>,
    _collector: AbortOnDropHandle<()>,
}

/// Locks what no panic can leave half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeApi {
    /// Starts an empty server on this runtime.
    #[must_use]
    pub fn start(clock: Clock, faults: Faults) -> Self {
        let (store, litter) = Store::new(clock.clone());
        let store = Arc::new(Mutex::new(store));
        let collector = tokio::spawn(collect::run(Arc::clone(&store), litter));
        Self(Arc::new(Inner {
            store,
            clock,
            faults: Mutex::new(faults),
            injected: Mutex::default(),
            calls: Mutex::default(),
            admission: Mutex::default(),
            expansion: Mutex::default(),
            told: Mutex::default(),
            absent: Mutex::default(),
            _collector: AbortOnDropHandle::new(collector),
        }))
    }

    /// A client for somebody.
    #[must_use]
    pub fn client(&self, user: &str) -> Client {
        ClientBuilder::new(self.connection(user), "default").build()
    }

    /// The product's clients.
    #[must_use]
    pub fn clients(&self, user: &str, observer: &Observer) -> Clients {
        Clients::over(self.connection(user), observer)
    }

    fn connection(&self, user: &str) -> Connection {
        Connection {
            api: self.clone(),
            user: user.into(),
        }
    }

    /// The objects, to be looked at or changed at once, by nobody's request.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.0.store)
    }

    /// Its time of day.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// From now on so much goes wrong for these users.
    pub fn fail(&self, rates: Rates, users: &[&str]) {
        lock(&self.0.faults).set(rates, users);
    }

    /// Counts what goes wrong.
    fn note(&self, what: Injected) {
        *lock(&self.0.injected).entry(what).or_default() += 1;
    }

    /// What really went wrong so far because it was drawn, and how often.
    #[must_use]
    pub fn injected(&self) -> BTreeMap<Injected, usize> {
        lock(&self.0.injected).clone()
    }

    /// Sets who decides about new pods.
    pub fn admission(&self, admission: Option<Admission>) {
        *lock(&self.0.admission) = admission;
    }

    /// Sets who expands VMs; without one virt-api is away.
    pub fn expansion(&self, expansion: Option<Expansion>) {
        *lock(&self.0.expansion) = expansion;
    }

    /// Takes the CRD of a plural away, or installs it again.
    pub fn install(&self, plural: &str, there: bool) {
        let mut absent = lock(&self.0.absent);
        absent.retain(|kind| kind != plural);
        if !there {
            absent.push(plural.to_owned());
        }
    }

    /// From now on it is noted when whom a pod was told of.
    pub fn note_told(&self) {
        *lock(&self.0.told) = Some(Told::new());
    }

    /// What was noted.
    #[must_use]
    pub fn told(&self) -> Told {
        lock(&self.0.told).clone().unwrap_or_default()
    }

    /// Notes what a list or a watch tells.
    fn tell(&self, user: &Arc<str>, objects: &mut dyn Iterator<Item = &Value>) {
        if let Some(told) = &mut *lock(&self.0.told) {
            for object in objects.filter(|object| object["kind"] == "Pod") {
                let what = (Arc::clone(user), store::uid(object).to_owned());
                told.entry(what).or_insert_with(|| self.0.clock.now());
            }
        }
    }

    /// Every request so far, in the order of the answers.
    #[must_use]
    pub fn calls(&self) -> Calls {
        lock(&self.0.calls).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests;

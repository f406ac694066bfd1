//! Watches: one task a kind fills the index and tells which subjects changed. A watch never gives up; one that panics all
//! the same ends the process.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_kind};
use kube::{Api, Client, Resource as _};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::client::brief;
use super::watched::Watched;
use crate::api::{KubeVirt, Namespace, NetworkAttachmentDefinition, View};
use crate::index::{Changed, Index, Indexed, Kinds, kinds};
use crate::name::Key;

/// A page is decoded as a whole before the first object comes out; without pages the whole list would be.
pub(super) const PAGE: u32 = 250;

/// How often a kind without CRD is looked for again.
const PROBE: Duration = Duration::from_secs(30);

/// How long a watch that has to begin anew waits, so that it can't spin.
const REBUILD: Duration = Duration::from_secs(1);

/// The index, which the watches write and the workers read. Never held across an await.
pub type SharedIndex = Arc<Mutex<Index>>;

/// Locks the index. The panic of another holder does not stop who comes after it: the index is at most one object behind,
/// until the process starts again, which the end of a watch makes it do.
pub fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who hears from the watches.
pub trait Listener: Send + Sync + 'static {
    /// These subjects have to be decided again.
    fn changed(&self, subjects: Changed);

    /// The watch of a kind was interrupted by an error.
    fn interrupted(&self, kind: &'static str);

    /// An object of a kind could not be read.
    fn unreadable(&self, kind: &'static str);
}

/// What all watches share.
#[derive(Clone)]
pub struct Watches {
    /// For lists and watches.
    pub client: Client,
    /// Only this namespace, or all of them.
    pub namespace: Option<String>,
    /// What they fill.
    pub index: SharedIndex,
    /// Whom they tell.
    pub listener: Arc<dyn Listener>,
}

/// Tells when every kind has been listed once; before that, nothing may be decided.
#[derive(Clone, Debug)]
pub struct Synced(tokio::sync::watch::Receiver<BTreeSet<&'static str>>);

impl Synced {
    /// The kinds that have not been listed yet.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.borrow().iter().copied().collect()
    }

    /// Waits until nothing is missing.
    pub async fn wait(&self) {
        // An error means that the watches are gone: the process is about to end.
        let _ = self.0.clone().wait_for(BTreeSet::is_empty).await;
    }
}

/// Kinds that have not been listed yet.
type Missing = tokio::sync::watch::Sender<BTreeSet<&'static str>>;

/// Starts the watches of all kinds in `tasks`; they run until the set is dropped or aborted.
pub fn start(watches: &Watches, tasks: &mut JoinSet<()>) -> Synced {
    let (missing, synced) = tokio::sync::watch::channel(BTreeSet::new());
    let missing = Arc::new(missing);
    kinds(&mut Start {
        watches,
        missing: &missing,
        tasks,
    });
    Synced(synced)
}

struct Start<'a> {
    watches: &'a Watches,
    missing: &'a Arc<Missing>,
    tasks: &'a mut JoinSet<()>,
}

impl Kinds for Start<'_> {
    fn visit<V: Indexed>(&mut self) {
        self.missing.send_modify(|kinds| {
            kinds.insert(V::KIND);
        });
        let watch = watch::<V>(self.watches.clone(), Arc::clone(self.missing));
        self.tasks.spawn(watch);
    }
}

/// Watches one kind for ever.
async fn watch<V: Indexed>(watches: Watches, missing: Arc<Missing>) {
    let mut intake = Intake::<V>::new(watches.index, watches.listener, missing);
    loop {
        let (api, config) = scope::<V>(&watches.client, watches.namespace.as_deref());
        let stream = watch_kind(api, config).default_backoff();
        pin_mut!(stream);
        let pause = loop {
            let Some(item) = stream.next().await else {
                break REBUILD;
            };
            match intake.take(item) {
                Next::Go => {}
                Next::Rebuild(pause) => break pause,
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Where to look for a kind: everywhere, or in the watched namespace; of Namespaces, then only that one. The KubeVirt
/// object and networks may live elsewhere.
pub(super) fn scope<V: View>(client: &Client, namespace: Option<&str>) -> (Api<Watched<V>>, watcher::Config) {
    let config = watcher::Config::default().page_size(PAGE);
    match namespace {
        Some(namespace) if V::NAMESPACED && ![KubeVirt::KIND, NetworkAttachmentDefinition::KIND].contains(&V::KIND) => {
            (Api::namespaced_with(client.clone(), namespace, &()), config)
        }
        Some(namespace) if V::KIND == Namespace::KIND => {
            let name = format!("metadata.name={namespace}");
            (Api::all_with(client.clone(), &()), config.fields(&name))
        }
        _ => (Api::all_with(client.clone(), &()), config),
    }
}

/// Turns what the watcher says about one kind into changes of the index.
struct Intake<V> {
    index: SharedIndex,
    listener: Arc<dyn Listener>,
    missing: Arc<Missing>,
    /// While a list runs: the keys in it so far.
    listed: Option<HashSet<Key>>,
    /// Whether the API server has refused the version that we continued from at the previous attempt.
    expired: bool,
    /// Whether the log already says that the kind does not exist.
    absent: bool,
    /// Whether the log already says that an object can't be read.
    faulty: bool,
    /// Whether the log already says that it is interrupted.
    interrupted: bool,
    kind: std::marker::PhantomData<fn() -> V>,
}

/// How the watch goes on.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The watcher helps itself.
    Go,
    /// With a new watcher, after a pause.
    Rebuild(Duration),
}

impl<V: Indexed> Intake<V> {
    fn new(index: SharedIndex, listener: Arc<dyn Listener>, missing: Arc<Missing>) -> Self {
        Self {
            index,
            listener,
            missing,
            listed: None,
            expired: false,
            absent: false,
            faulty: false,
            interrupted: false,
            kind: std::marker::PhantomData,
        }
    }

    fn take(&mut self, item: watcher::Result<Event<Watched<V>>>) -> Next {
        match item {
            Ok(event) => {
                self.expired = false;
                self.event(event);
                Next::Go
            }
            Err(error) => {
                let next = self.error(&error);
                if !self.absent {
                    self.listener.interrupted(V::KIND);
                }
                next
            }
        }
    }

    fn event(&mut self, event: Event<Watched<V>>) {
        // A list that only begins, or breaks off, is no success.
        self.interrupted &= matches!(event, Event::Init | Event::InitApply(_));
        match event {
            Event::Init => self.listed = Some(HashSet::new()),
            Event::InitApply(object) => {
                let key = key(&object);
                self.apply(object);
                if let Some(listed) = &mut self.listed {
                    listed.insert(key);
                }
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                if self.absent {
                    info!(kind = V::KIND, "the kind exists now");
                    self.absent = false;
                    lock(&self.index).note_kind::<V>(true);
                }
                self.complete(&listed);
            }
            Event::Apply(object) => self.apply(object),
            Event::Delete(object) => {
                let changed = lock(&self.index).delete::<V>(&key(&object));
                self.tell(changed);
            }
        }
    }

    /// An object that can't be read stays what it was last: a guess could start or end a pod.
    fn apply(&mut self, object: Watched<V>) {
        let name = key(&object);
        match object.view {
            Ok(view) => {
                let changed = lock(&self.index).apply(view);
                self.tell(changed);
            }
            Err(fault) => {
                self.listener.unreadable(V::KIND);
                if !self.faulty {
                    self.faulty = true;
                    warn!(kind = V::KIND, object = %name, field = fault.path, "an object cannot be read and is left as it was; further ones of this kind are only counted");
                }
            }
        }
    }

    /// A list is complete: what it does not hold is gone.
    fn complete(&mut self, listed: &HashSet<Key>) {
        let changed = lock(&self.index).retain::<V>(listed);
        self.tell(changed);
        self.missing.send_if_modified(|kinds| kinds.remove(V::KIND));
    }

    fn error(&mut self, error: &watcher::Error) -> Next {
        use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
        match error {
            InitialListFailed(error) | WatchStartFailed(error) if code(error) == Some(404) => {
                if !self.absent {
                    self.absent = true;
                    lock(&self.index).note_kind::<V>(false);
                    info!(
                        kind = V::KIND,
                        group = V::GROUP,
                        "the kind does not exist (no CRD); it counts as empty and is looked for again"
                    );
                }
                self.listed = None;
                self.complete(&HashSet::new());
                Next::Rebuild(PROBE)
            }
            // The watcher would continue from the same version for ever; the real API server refuses it in the stream.
            WatchStartFailed(error) if code(error) == Some(410) => {
                if std::mem::replace(&mut self.expired, true) {
                    self.expired = false;
                    Next::Rebuild(REBUILD)
                } else {
                    Next::Go
                }
            }
            // The watcher skips an event that is no JSON; a new list shows what it was.
            WatchFailed(kube::Error::SerdeError(_)) => {
                self.complain("an event could not be decoded");
                Next::Rebuild(REBUILD)
            }
            InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
                self.complain(&brief(error));
                Next::Go
            }
            // The usual end of a version that was too long ago.
            WatchError(status) if status.code == 410 => Next::Go,
            WatchError(status) => {
                self.complain(&status.message);
                Next::Go
            }
            NoResourceVersion => {
                self.complain("the API server sent no resource version");
                Next::Go
            }
        }
    }

    /// Warns of an interruption; until something goes well again, the further ones are for those who want every line.
    fn complain(&mut self, error: &str) {
        if std::mem::replace(&mut self.interrupted, true) {
            debug!(kind = V::KIND, error, "the watch was interrupted, as before");
        } else {
            warn!(kind = V::KIND, error, "the watch was interrupted");
        }
    }

    fn tell(&self, changed: Changed) {
        if !changed.is_empty() {
            self.listener.changed(changed);
        }
    }
}

fn key<V: View>(object: &Watched<V>) -> Key {
    let text = |part: &Option<String>| part.as_deref().unwrap_or_default().into();
    Key {
        namespace: text(&object.meta().namespace),
        name: text(&object.meta().name),
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

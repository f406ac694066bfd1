//! The objects of a fake cluster, with their history: what etcd and the watch cache are to a real API server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use first_consumer::clock::Clock;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::failure::Failure;
use super::request::Selector;
use crate::stand_in::kind::Kind;

/// The changes that can be watched from the past.
const REMEMBERED: usize = 20_000;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its kind.
    pub kind: Kind,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a change does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It is new.
    Add,
    /// It is another.
    Modify,
    /// It is gone.
    Delete,
}

impl Does {
    /// The watch's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Add => "ADDED",
            Self::Modify => "MODIFIED",
            Self::Delete => "DELETED",
        }
    }
}

/// One change.
#[derive(Debug)]
pub struct Change {
    /// The resource version that it made.
    pub version: u64,
    /// Of what.
    pub id: Id,
    /// What it does.
    pub does: Does,
    /// The object afterwards, or its last state.
    pub object: Arc<Value>,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// Who did it.
    pub user: Arc<str>,
    line: OnceLock<Bytes>,
}

impl Change {
    /// The line of a watch that takes some objects. An object that leaves the selection is gone for it.
    #[must_use]
    pub fn line(&self, selector: &Selector) -> Option<Bytes> {
        let now = self.does != Does::Delete && selector.takes(&self.object);
        let before = self.before.as_ref().is_some_and(|before| selector.takes(before));
        let does = match (before, now) {
            (false, false) => return None,
            (false, true) => Does::Add,
            (true, true) => Does::Modify,
            (true, false) => Does::Delete,
        };
        if does == self.does {
            return Some(self.line.get_or_init(|| line(does.word(), &self.object)).clone());
        }
        Some(line(does.word(), &self.object))
    }
}

/// A line of a watch.
#[must_use]
pub fn line(word: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{word}\",\"object\":{object}}}\n"))
}

/// Work for the garbage collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Litter {
    /// The owner of this UID is gone.
    Owner(String),
    /// This Namespace goes away.
    Namespace(String),
}

/// Told of each change, under the store's lock.
pub type Witness = Box<dyn FnMut(&Store, &Change) + Send>;

/// The objects.
pub struct Store {
    pub(super) clock: Clock,
    pub(super) serial: u64,
    version: u64,
    /// Changes up to this version can't be watched any more.
    forgotten: u64,
    objects: BTreeMap<Id, Arc<Value>>,
    history: VecDeque<Arc<Change>>,
    listeners: Vec<(Kind, mpsc::UnboundedSender<Arc<Change>>)>,
    /// UIDs that are there.
    uids: BTreeSet<String>,
    /// UID of an owner to what it owns.
    owned: BTreeMap<String, BTreeSet<Id>>,
    litter: mpsc::UnboundedSender<Litter>,
    witnesses: Vec<Witness>,
}

impl Store {
    /// An empty store; what is to be collected comes out of the channel.
    #[must_use]
    pub fn new(clock: Clock) -> (Self, mpsc::UnboundedReceiver<Litter>) {
        let (litter, collected) = mpsc::unbounded_channel();
        let store = Self {
            clock,
            serial: 0,
            version: 1,
            forgotten: 0,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            listeners: Vec::new(),
            uids: BTreeSet::new(),
            owned: BTreeMap::new(),
            litter,
            witnesses: Vec::new(),
        };
        (store, collected)
    }

    /// The version of the last change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// One object.
    #[must_use]
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        let id = Id {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.objects.get(&id)
    }

    /// The objects of a kind, of one namespace or of all (`""`), after a place in their order.
    pub fn list<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
        after: Option<(&str, &str)>,
    ) -> impl Iterator<Item = (&'a Id, &'a Arc<Value>)> {
        let (from, name) = after.unwrap_or((namespace, ""));
        let first = Id {
            kind,
            namespace: from.to_owned(),
            name: name.to_owned(),
        };
        self.objects
            .range(first.clone()..)
            .skip_while(move |(id, _)| **id == first)
            .take_while(move |(id, _)| id.kind == kind && (namespace.is_empty() || id.namespace == namespace))
    }

    /// What the object of this UID owns.
    #[must_use]
    pub fn owned(&self, uid: &str) -> Vec<Id> {
        self.owned.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Whether an object with this UID is there.
    #[must_use]
    pub fn lives(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// The changes of a kind since a version, and all that come.
    pub fn follow(&mut self, kind: Kind, since: u64) -> Result<Followed, Failure> {
        if since < self.forgotten {
            return Err(Failure::too_old(since, self.forgotten));
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.retain(|(_, listener)| !listener.is_closed());
        self.listeners.push((kind, sender));
        let from = self.history.partition_point(|change| change.version <= since);
        let past = self.history.range(from..).filter(|change| change.id.kind == kind);
        Ok(Followed {
            past: past.cloned().collect(),
            changes: receiver,
        })
    }

    /// Forgets all changes so far: whoever continues from an earlier version has to list anew.
    pub fn forget(&mut self) {
        self.history.clear();
        self.forgotten = self.version;
    }

    /// Adds somebody who hears of every change.
    pub fn witness(&mut self, witness: Witness) {
        self.witnesses.push(witness);
    }

    /// What has to be collected.
    pub(super) fn litters(&self, litter: Litter) {
        // Without a collector nothing is collected.
        let _ = self.litter.send(litter);
    }

    /// Makes a change.
    pub(super) fn commit(&mut self, id: Id, does: Does, mut object: Value, user: &Arc<str>) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let before = if does == Does::Delete {
            self.objects.remove(&id)
        } else {
            self.objects.insert(id.clone(), Arc::clone(&object))
        };
        self.link(&id, before.as_deref(), (does != Does::Delete).then_some(&*object));
        let change = Arc::new(Change {
            version: self.version,
            id,
            does,
            object: Arc::clone(&object),
            before,
            user: Arc::clone(user),
            line: OnceLock::new(),
        });
        let kind = change.id.kind;
        for (_, listener) in self.listeners.iter().filter(|(of, _)| *of == kind) {
            // A watch that has ended is dropped with the next that begins.
            let _ = listener.send(Arc::clone(&change));
        }
        if self.history.len() == REMEMBERED
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.version;
        }
        self.history.push_back(Arc::clone(&change));
        let mut witnesses = std::mem::take(&mut self.witnesses);
        for witness in &mut witnesses {
            witness(self, &change);
        }
        self.witnesses = witnesses;
        object
    }

    fn link(&mut self, id: &Id, before: Option<&Value>, now: Option<&Value>) {
        for owner in before.into_iter().flat_map(owners) {
            if let Some(owned) = self.owned.get_mut(owner) {
                owned.remove(id);
                if owned.is_empty() {
                    self.owned.remove(owner);
                }
            }
        }
        for owner in now.into_iter().flat_map(owners) {
            self.owned.entry(owner.to_owned()).or_default().insert(id.clone());
            if !self.lives(owner) {
                self.litters(Litter::Owner(owner.to_owned()));
            }
        }
        match (before, now) {
            (_, Some(now)) => {
                self.uids.insert(uid(now).to_owned());
            }
            (Some(before), None) => {
                self.uids.remove(uid(before));
                if self.owned.contains_key(uid(before)) {
                    self.litters(Litter::Owner(uid(before).to_owned()));
                }
            }
            (None, None) => {}
        }
    }
}

/// A watch's changes.
pub struct Followed {
    /// Those that had been when it began.
    pub past: Vec<Arc<Change>>,
    /// Those that come.
    pub changes: mpsc::UnboundedReceiver<Arc<Change>>,
}

/// The UID of an object.
#[must_use]
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// The UIDs of its owners.
pub fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
}

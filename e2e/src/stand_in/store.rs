//! What a stand-in has seen: the objects of its watches, with an index. Its own writes go in as soon as the API server
//! has answered, so that a controller reads what it wrote (the real ones have expectations for that).

use super::{kind::Kind, read};
use kube::core::DynamicObject;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
};

/// Namespace and name; the namespace is empty for cluster-wide kinds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// A key.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The key of an object.
    #[must_use]
    pub fn of(object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        Self::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }
}

/// An object as it was seen last.
pub type Object = Arc<DynamicObject>;

/// Entries of the index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Objects controlled by the object with this UID.
    ControlledBy(String),
    /// Pods that list the claim, VMs and VMIs whose volumes or templates name it, DataVolumes that copy it.
    Names(Key),
    /// The claim with this UID.
    Is(String),
    /// Events about the object with this UID, and volumes for the claim with this UID.
    About(String),
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<(Kind, Key), Object>,
    index: HashMap<Entry, BTreeSet<(Kind, Key)>>,
    /// UIDs that are gone: the answer to a late write must not bring one back.
    gone: HashSet<String>,
}

/// The store.
#[derive(Default)]
pub struct Store {
    inner: RwLock<Inner>,
}

impl Store {
    /// Takes an object in, unless a newer version is there already.
    pub fn apply(&self, kind: Kind, object: Object) {
        let id = (kind, Key::of(&object));
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let known = inner.objects.get(&id);
        let newer_is_known = known.is_some_and(|known| version(known) > version(&object));
        if newer_is_known || inner.gone.contains(&read::uid(&object)) {
            return;
        }
        inner.forget(&id);
        for entry in entries(kind, &object) {
            inner.index.entry(entry).or_default().insert(id.clone());
        }
        inner.objects.insert(id, object);
    }

    /// Drops an object, if it is still the one with this UID.
    pub fn remove(&self, kind: Kind, key: &Key, uid: &str) {
        let id = (kind, key.clone());
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.gone.insert(uid.to_owned());
        if inner
            .objects
            .get(&id)
            .is_some_and(|known| known.metadata.uid.as_deref() == Some(uid))
        {
            inner.forget(&id);
        }
    }

    /// Drops what a new list did not hold; returns what was dropped.
    pub fn retain(&self, kind: Kind, listed: &BTreeSet<Key>) -> Vec<Object> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = inner
            .objects
            .keys()
            .filter(|(k, key)| *k == kind && !listed.contains(key))
            .cloned()
            .collect();
        gone.iter().filter_map(|id| inner.forget(id)).collect()
    }

    /// One object.
    #[must_use]
    pub fn get(&self, kind: Kind, key: &Key) -> Option<Object> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.objects.get(&(kind, key.clone())).cloned()
    }

    /// Objects of a kind under an index entry, by name.
    #[must_use]
    pub fn find(&self, kind: Kind, entry: &Entry) -> Vec<Object> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let ids = inner.index.get(entry).into_iter().flatten().filter(|(k, _)| *k == kind);
        ids.filter_map(|id| inner.objects.get(id).cloned()).collect()
    }

    /// Every object of a kind.
    #[must_use]
    pub fn all(&self, kind: Kind) -> Vec<Object> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner
            .objects
            .iter()
            .filter(|((k, _), _)| *k == kind)
            .map(|(_, object)| object.clone())
            .collect()
    }
}

impl Inner {
    fn forget(&mut self, id: &(Kind, Key)) -> Option<Object> {
        let known = self.objects.remove(id)?;
        for entry in entries(id.0, &known) {
            if let Some(ids) = self.index.get_mut(&entry) {
                ids.remove(id);
                if ids.is_empty() {
                    self.index.remove(&entry);
                }
            }
        }
        Some(known)
    }
}

/// Resource versions of one API server grow; since Kubernetes 1.35 they may be compared.
#[must_use]
pub fn version(object: &DynamicObject) -> u64 {
    object
        .metadata
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn entries(kind: Kind, object: &DynamicObject) -> Vec<Entry> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let mut entries: Vec<_> = read::owner(object)
        .map(|owner| Entry::ControlledBy(owner.uid))
        .into_iter()
        .collect();
    entries.extend((kind == Kind::Claim).then(|| Entry::Is(read::uid(object))));
    if kind == Kind::DataVolume {
        entries.extend(read::origins(object).map(Entry::Names));
    }
    let names = match kind {
        Kind::Pod => read::pod_claims(object),
        Kind::VirtualMachine => {
            let mut names = read::template_names(object);
            names.extend(
                read::volumes(&object.data["spec"]["template"]["spec"])
                    .into_iter()
                    .map(|volume| volume.claim),
            );
            names
        }
        Kind::VirtualMachineInstance => read::volumes(&object.data["spec"])
            .into_iter()
            .map(|volume| volume.claim)
            .collect(),
        _ => Vec::new(),
    };
    entries.extend(names.into_iter().map(|name| Entry::Names(Key::new(namespace, &name))));
    let about = match kind {
        Kind::Event => &object.data["involvedObject"],
        Kind::Volume => &object.data["spec"]["claimRef"],
        _ => return entries,
    };
    let uid = about["uid"].as_str().unwrap_or_default();
    entries.push(Entry::About(uid.to_owned()));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str, version: &str, claim: &str) -> Object {
        let body = json!({
            "metadata": { "namespace": "ns", "name": "db", "uid": uid, "resourceVersion": version },
            "spec": { "volumes": [{ "name": "disk", "persistentVolumeClaim": { "claimName": claim } }] },
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    fn users(store: &Store, claim: &str) -> usize {
        store.find(Kind::Pod, &Entry::Names(Key::new("ns", claim))).len()
    }

    #[test]
    fn only_the_newest_version_counts_and_the_index_follows() {
        let store = Store::default();
        store.apply(Kind::Pod, pod("a", "10", "new"));
        store.apply(Kind::Pod, pod("a", "9", "old"));
        assert_eq!((users(&store, "new"), users(&store, "old")), (1, 0));
        store.apply(Kind::Pod, pod("a", "11", "other"));
        assert_eq!((users(&store, "new"), users(&store, "other")), (0, 1));
    }

    #[test]
    fn what_is_gone_stays_gone_and_a_successor_may_come() {
        let store = Store::default();
        let key = Key::new("ns", "db");
        store.apply(Kind::Pod, pod("a", "1", "disk"));
        store.remove(Kind::Pod, &key, "a");
        store.apply(Kind::Pod, pod("a", "2", "disk"));
        assert!(store.get(Kind::Pod, &key).is_none());
        store.apply(Kind::Pod, pod("b", "3", "disk"));
        store.remove(Kind::Pod, &key, "a");
        assert_eq!(users(&store, "disk"), 1);
    }

    #[test]
    fn a_new_list_drops_what_it_does_not_hold() {
        let store = Store::default();
        store.apply(Kind::Pod, pod("a", "1", "disk"));
        assert_eq!(store.retain(Kind::Claim, &BTreeSet::new()).len(), 0);
        assert_eq!(store.retain(Kind::Pod, &BTreeSet::new()).len(), 1);
        assert!(store.all(Kind::Pod).is_empty());
    }
}
